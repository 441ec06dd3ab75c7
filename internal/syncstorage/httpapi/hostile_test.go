package httpapi_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/web"
)

func guarded(t *testing.T, s *server) (u *user, undamaged func()) {
	t.Helper()
	u = s.user(t)
	u.post("/storage/toys", bsos("a", "..", "{guid}")).is(200)
	u.put("/storage/games/a", `{"payload":"x"}`).is(200)
	all := u.everything()
	return u, func() {
		t.Helper()
		if now := u.everything(); now != all {
			t.Errorf("something changed:\n%s\n%s", all, now)
		}
	}
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	u, undamaged := guarded(t, start(t, setup{}))
	const deep = 100000
	nested := strings.Repeat("[", deep) + strings.Repeat("]", deep)
	objects := strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep)
	for name, body := range map[string]string{
		"open brackets":      strings.Repeat("[", deep),
		"open braces":        strings.Repeat("{", deep),
		"open objects":       strings.Repeat(`{"a":`, deep),
		"deep lists":         nested,
		"deep objects":       objects,
		"deep in an element": "[" + nested + "]",
		"deep in a field":    `[{"id":"a","x":` + nested + `}]`,
		"deep in modified":   `[{"id":"a","modified":` + objects + `}]`,
		"deep in a payload":  `[{"id":"a","payload":` + nested + `}]`,
		"deep in an id":      `[{"id":` + nested + `}]`,
		"commas":             "[" + strings.Repeat(",", deep) + "]",
		"quotes":             strings.Repeat(`"`, deep),
		"backslashes":        `[{"id":"` + strings.Repeat(`\`, deep+1),
		"escapes":            `[{"id":"a","payload":"` + strings.Repeat(`\ud800`, deep) + `"}]`,
		"nothing but spaces": strings.Repeat(" ", 1<<20),
		"ends of lines":      strings.Repeat("\n", deep),
		"NULs":               strings.Repeat("\x00", deep),
		"high bytes":         strings.Repeat("\xff", deep),
		"many nulls":         "[" + strings.Repeat("null,", deep) + "null]",
		"many empty objects": "[" + strings.Repeat("{},", deep) + "{}]",
		"noise":              noise(1 << 16),
		"UTF-16":             "\xff\xfe[\x00]\x00",
		"gzip":               "\x1f\x8b\x08\x00\x00\x00\x00\x00",
		"prototype":          `{"__proto__":{"id":"a"}}`,
	} {
		for _, contentType := range []string{"application/json", "application/newlines", "text/plain"} {
			for _, path := range []string{"/storage/toys", "/storage/toys?batch=true", "/storage/toys?batch=true&commit=true"} {
				if a := u.post(path, body, "Content-Type: "+contentType); a.status != 400 || a.body != "8" {
					t.Errorf("%s as %s: %d %q", name, contentType, a.status, clip(a.body))
				}
			}
		}
		if a := u.put("/storage/toys/a", body); a.status != 400 || a.body != "8" {
			t.Errorf("%s in a PUT: %d %q", name, a.status, clip(a.body))
		}
	}
	undamaged()
}

func noise(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func TestLargeRecords(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	digits := strings.Repeat("9", 1<<20)
	for _, record := range []string{
		`{"id":"a","sortindex":` + digits + `}`, `{"id":"a","ttl":-` + digits + `}`, `{"id":"a","sortindex":0.` + digits + `}`, `{"id":"a","ttl":1e` + digits + `}`,
		`{"id":"a","` + digits + `":1}`, `{"id":"` + digits + `"}`, `{"id":"a","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	} {
		if p := u.post("/storage/toys", "["+record+"]").is(200).posted(); len(p.Failed) != 1 {
			t.Errorf("%s: %+v", clip(record), p)
		}
	}
	list := make([]string, 10000)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"%d"}`, i)
	}
	if p := u.post("/storage/toys", "["+strings.Join(list, ",")+"]").is(200).posted(); len(p.Success) != 100 || len(p.Failed) != len(list)-100 {
		t.Errorf("%d succeed and %d fail", len(p.Success), len(p.Failed))
	}
	if got := u.get("/storage/toys").ids(); len(got) != 100 {
		t.Errorf("%d are stored", len(got))
	}
}

func TestTruncatedBodies(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	line := bso("new", "x") + "\n"
	for name, row := range map[string]struct{ method, path, contentType, length, sent string }{
		"lines":             {"POST", "/storage/toys", "application/newlines", "Content-Length: 100", line},
		"no lines":          {"POST", "/storage/toys", "application/newlines", "Content-Length: 1", ""},
		"list":              {"POST", "/storage/toys", "application/json", "Content-Length: 100", bsos("new")},
		"record":            {"PUT", "/storage/toys/a", "application/json", "Content-Length: 100", `{"payload":"new"}`},
		"chunk":             {"POST", "/storage/toys", "application/newlines", "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s", len(line)+9, line)},
		"chunks":            {"POST", "/storage/toys", "application/newlines", "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(line), line)},
		"batch":             {"POST", "/storage/toys?batch=true&commit=true", "application/newlines", "Content-Length: 100", line},
		"announced and cut": {"PUT", "/storage/toys/a", "application/json", "Content-Length: 2625536", "{"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, undamaged := guarded(t, s)
			w := u.dial(t)
			w.say(u.head(row.method, u.path(row.path), "Content-Type: "+row.contentType, row.length) + row.sent)
			if err := w.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			// A disconnected client may or may not get a response.
			if heard, _ := io.ReadAll(w.in); strings.Contains(string(heard), " 200 ") {
				t.Errorf("%q", heard)
			}
			undamaged()
		})
	}
}

func TestMalformedChunks(t *testing.T) {
	t.Parallel()
	u, undamaged := guarded(t, start(t, setup{}))
	line := bso("new", "x") + "\n"
	for _, rest := range []string{"xyz\r\n", "-1\r\n", "fffffffffffffffff\r\n", "5;\n\n"} {
		w := u.dial(t)
		w.say(u.head("POST", u.path("/storage/toys"), "Content-Type: application/newlines", "Transfer-Encoding: chunked"))
		w.say(fmt.Sprintf("%x\r\n%s\r\n%s", len(line), line, rest))
		w.hear("POST").is(400, "8")
	}
	undamaged()
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	u, undamaged := guarded(t, start(t, setup{pace: web.Rate{Grace: 200 * time.Millisecond, BytesPerSecond: 1 << 20}}))
	for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		w := u.dial(t)
		w.say(u.head("POST", u.path("/storage/toys"), "Content-Type: application/newlines", length))
		w.say("1\r\n{\r\n")
		w.hear("POST").is(408, "0")
	}
	undamaged()
}

func TestHostileHeads(t *testing.T) {
	t.Parallel()
	u, undamaged := guarded(t, start(t, setup{}))
	base := "http://" + u.Listener.Addr().String()
	for name, row := range map[string]struct {
		head   string
		status []int
	}{
		"absolute target":         {u.head("GET", base+u.path("/storage/toys")), []int{200}},
		"absolute, another host":  {u.head("GET", "http://example.org"+u.path("/storage/toys")), []int{401}},
		"absolute, no path":       {"GET " + base + " HTTP/1.1\r\nHost: x\r\n\r\n", []int{404}},
		"absolute, another way":   {u.head("GET", "ftp://"+u.Listener.Addr().String()+u.path("/storage/toys")), []int{200, 400}},
		"two slashes":             {u.head("GET", "/"+u.path("/storage/toys")), []int{404}},
		"only slashes":            {u.head("GET", "//"), []int{404}},
		"dots":                    {u.head("DELETE", "/x/../"+u.path("/storage/toys")[1:]), []int{404}},
		"dots to the user":        {u.head("DELETE", u.path("/storage/toys/../..")), []int{404}},
		"broken escape":           {u.head("DELETE", u.path("/storage/toys/%zz")), []int{400, 404}},
		"cut escape":              {u.head("DELETE", u.path("/storage/toys/%")), []int{400, 404}},
		"asterisk":                {u.head("OPTIONS", "*"), []int{200, 400}},
		"another asterisk":        {u.head("DELETE", "*"), []int{400}},
		"no slash":                {u.head("DELETE", "storage"), []int{400}},
		"question":                {u.head("DELETE", "?"), []int{400}},
		"space in the target":     {u.head("DELETE", u.path("/storage/toys/a b")), []int{400}},
		"control in the target":   {u.head("DELETE", u.path("/storage/toys/a\x01")), []int{400, 404}},
		"high byte in the target": {u.head("DELETE", u.path("/storage/toys/\xff")), []int{400, 404}},
		"fragment":                {u.head("DELETE", u.path("/storage/toys#")), []int{400, 401, 404}},
		"no host":                 {"DELETE " + u.path("") + " HTTP/1.0\r\n\r\n", []int{400}},
		"empty host":              {"DELETE " + u.path("") + " HTTP/1.1\r\nHost:\r\n\r\n", []int{400}},
		"malformed host":          {"DELETE " + u.path("") + " HTTP/1.1\r\nHost: a b\r\n\r\n", []int{400}},
		"host with a user":        {"DELETE " + u.path("") + " HTTP/1.1\r\nHost: u@h\r\n\r\n", []int{400}},
		"port of no port":         {"DELETE " + u.path("") + " HTTP/1.1\r\nHost: h:99999\r\n\r\n", []int{400}},
		"two hosts":               {u.head("DELETE", u.path(""), "Host: example.org"), []int{400}},
		"two lengths":             {u.head("POST", u.path("/storage/toys"), "Content-Type: application/newlines", "Content-Length: 0", "Content-Length: 5"), []int{400}},
		"negative length":         {u.head("POST", u.path("/storage/toys"), "Content-Type: application/newlines", "Content-Length: -1"), []int{400}},
		"huge length":             {u.head("POST", u.path("/storage/toys"), "Content-Type: application/newlines", "Content-Length: 9223372036854775807"), []int{413}},
		"another coding":          {u.head("POST", u.path("/storage/toys"), "Content-Type: application/newlines", "Transfer-Encoding: gzip"), []int{400, 501}},
		"two authorizations":      {u.head("DELETE", u.path(""), "Authorization: Hawk x"), []int{401}},
		"NUL in a header":         {u.head("DELETE", u.path(""), "X-If-Unmodified-Since: 1\x00"), []int{400}},
		"folded header":           {u.head("DELETE", u.path(""), "X-If-Unmodified-Since:", "  0"), []int{400, 412}},
		"another protocol":        {"DELETE " + u.path("") + " SMTP/1.1\r\n\r\n", []int{400}},
		"long uid":                {u.head("DELETE", "/1.5/"+strings.Repeat("1", 5000)), []int{404}},
		"many segments":           {u.head("DELETE", u.path(strings.Repeat("/a", 20000))), []int{404}},
		"many arguments":          {u.head("GET", u.path("/storage/toys?"+strings.Repeat("a&", 20000))), []int{400}},
	} {
		w := u.dial(t)
		w.say(row.head)
		a := w.hear(http.MethodGet)
		ok := false
		for _, status := range row.status {
			ok = ok || a.status == status
		}
		if !ok {
			t.Errorf("%s: %d %q; want %v", name, a.status, a.body, row.status)
		}
		w.Close()
	}
	undamaged()
}
