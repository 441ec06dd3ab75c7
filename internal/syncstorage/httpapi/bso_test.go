package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	put := u.put("/storage/toys/a", `{"id":"a","payload":"one\n\u00e9\ud83d\ude00\u0000","sortindex":-7,"ttl":null}`).is(200)
	stamp := "1790000000.12"
	put.is(200, stamp).has("X-Last-Modified", stamp).has("X-Weave-Timestamp", stamp).has("Content-Type", "application/json")
	u.later(time.Second)
	u.get("/storage/toys/a").
		is(200, `{"id":"a","modified":1790000000.12,"payload":"one\n`+"é😀"+`\u0000","sortindex":-7}`).
		has("X-Last-Modified", stamp).has("X-Weave-Timestamp", "1790000001.12").has("X-Weave-Records", "")
	u.put("/storage/meta/global", `{"payload":"{}"}`).is(200)
	u.get("/storage/meta/global").is(200, `{"id":"global","modified":1790000001.12,"payload":"{}"}`)
}

// TestStampsGrow includes clocks that stop or are set back. X-Weave-Timestamp never precedes a stamp.
func TestStampsGrow(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/toys/a", `{}`).is(200, "1790000000.12")
	u.put("/storage/toys/b", `{}`).is(200, "1790000000.13").has("X-Weave-Timestamp", "1790000000.13")
	u.delete("/storage/toys/b").is(200, `{"modified":1790000000.14}`).has("X-Last-Modified", "1790000000.14")
	u.later(-time.Hour)
	u.put("/storage/toys/b", `{}`).is(200, "1790000000.15").has("X-Weave-Timestamp", "1790000000.15")
	u.get("/storage/toys/b").is(200).has("X-Weave-Timestamp", "1790000000.15")
	u.get("/storage/toys/a").is(200).has("X-Last-Modified", "1790000000.12")
	u.get("/storage/toys").is(200).has("X-Last-Modified", "1790000000.15")
	u.get("/info/collections").is(200, `{"toys":1790000000.15}`).has("X-Last-Modified", "1790000000.15")
	u.later(2*time.Hour + 70*time.Millisecond)
	u.put("/storage/games/a", `{}`).is(200, "1790003600.19") // two decimals, rounded down
	u.later(410 * time.Millisecond)
	u.put("/storage/games/a", `{}`).is(200, "1790003600.60")
}

// TestPartialUpdate checks that omitted fields keep their value, or get the protocol's default.
func TestPartialUpdate(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/toys/a", `{}`).is(200)
	u.get("/storage/toys/a").is(200, `{"id":"a","modified":1790000000.12,"payload":""}`)
	u.later(time.Second)
	u.put("/storage/toys/a", `{"payload":"p"}`).is(200)
	u.later(time.Second)
	u.put("/storage/toys/a", `{"sortindex":3}`).is(200)
	u.get("/storage/toys/a").is(200, `{"id":"a","modified":1790000002.12,"payload":"p","sortindex":3}`)

	u.later(time.Second)
	u.put("/storage/toys/a", `{"ttl":10}`).is(200, "1790000003.12")
	u.get("/storage/toys/a").is(200, `{"id":"a","modified":1790000002.12,"payload":"p","sortindex":3}`).
		has("X-Last-Modified", "1790000002.12")
	u.get("/storage/toys").is(200).has("X-Last-Modified", "1790000003.12")

	u.later(5 * time.Second)
	u.put("/storage/toys/a", `{"payload":null,"sortindex":4,"ttl":null}`).is(200) // null counts as omitted
	u.later(4990 * time.Millisecond)
	u.get("/storage/toys/a").is(200)
	u.later(10 * time.Millisecond)
	u.get("/storage/toys/a").is(404, "0")
	u.put("/storage/toys/a", `{}`).is(200)
	u.get("/storage/toys/a").is(200, `{"id":"a","modified":1790000013.12,"payload":""}`)
}

func TestTimeToLive(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/tabs/gone", `{"payload":"x","ttl":0}`).is(200)
	u.get("/storage/tabs/gone").is(404, "0")
	u.put("/storage/tabs/most", `{"payload":"x","ttl":999999999}`).is(200)
	u.put("/storage/tabs/ever", `{"payload":"x"}`).is(200)
	u.later(999999999 * time.Second)
	u.id, u.secret = u.token(t, u.keys, claims(u.uid))
	u.get("/storage/tabs?sort=oldest").is(200, `["most","ever"]`)
	u.later(time.Second)
	u.get("/storage/tabs").is(200, `["ever"]`)
	u.get("/info/collection_counts").is(200, `{"tabs":1}`)
}

func TestPutRefusesBody(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for name, body := range map[string]string{
		"empty": "", "space": " ", "null": "null", "number": "1", "string": `"a"`, "list": `[]`, "list of one": `[{"payload":"x"}]`,
		"cut": `{"payload":"x"`, "cut string": `{"payload":"x`, "two": `{} {}`, "garbage after": `{}x`, "comma after": `{},`,
		"trailing comma": `{"payload":"x",}`, "single quotes": `{'payload':'x'}`, "comment": `{} // yes`, "byte order mark": "\ufeff{}",
		"raw control character": "{\"payload\":\"a\nb\"}", "bad escape": `{"payload":"\x"}`, "short escape": `{"payload":"\u12"}`,
		"invalid UTF-8": "{\"payload\":\"\xff\"}", "cut UTF-8": "{\"payload\":\"\xc3\"}", "encoded surrogate": "{\"payload\":\"\xed\xa0\x80\"}",
		"lone high surrogate": `{"payload":"\ud800"}`, "lone low surrogate": `{"payload":"\udc00"}`, "surrogates reversed": `{"payload":"\udc00\ud800"}`,
		"lone surrogate in a key": `{"\ud800":1}`,
		"unknown field":           `{"payload":"x","colour":1}`, "key in capitals": `{"Payload":"x"}`,
		"repeated payload": `{"payload":"x","payload":"y"}`, "repeated null": `{"ttl":null,"ttl":1}`, "repeated id": `{"id":"a","id":"a"}`,
		"payload number": `{"payload":42}`, "payload object": `{"payload":{}}`, "payload list": `{"payload":["x"]}`, "payload bool": `{"payload":true}`,
		"sortindex string": `{"sortindex":"3"}`, "sortindex text": `{"sortindex":"xxx"}`, "sortindex 2.6 string": `{"sortindex":"2.6"}`,
		"sortindex fraction": `{"sortindex":1.0}`, "sortindex exponent": `{"sortindex":1e2}`, "sortindex bool": `{"sortindex":true}`, "sortindex object": `{"sortindex":{}}`,
		"sortindex too big": `{"sortindex":1000000000}`, "sortindex too small": `{"sortindex":-1000000000}`,
		"sortindex huge": `{"sortindex":1000000000000000000000000000000}`, "sortindex plus": `{"sortindex":+1}`, "sortindex zero first": `{"sortindex":01}`, "sortindex NaN": `{"sortindex":NaN}`,
		"ttl negative": `{"ttl":-1}`, "ttl string": `{"ttl":"1"}`, "ttl too big": `{"ttl":1000000000}`, "ttl huge": `{"ttl":1000000000000000000000000000000}`,
		"ttl hugely negative": `{"ttl":-1000000000000000000000000000000}`, "ttl fraction": `{"ttl":1.5}`, "ttl exponent": `{"ttl":1e9}`,
		"id number": `{"id":1}`, "id object": `{"id":{}}`, "id empty": `{"id":""}`, "id long": `{"id":"` + strings.Repeat("a", 65) + `"}`, "id newline": `{"id":"a\n"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := s.user(t)
			u.put("/storage/toys/a", body).is(400, "8")
			u.put("/storage/toys/a", body, "Content-Type: text/plain").is(400, "8")
			u.get("/info/collections").is(200, "{}").has("X-Last-Modified", "0.00")
		})
	}
}

func TestPutAcceptsBody(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for name, body := range map[string]string{
		"nothing": `{}`, "space around": " \t\r\n{ \"payload\" : \"x\" } \n", "escaped key": `{"pay\u006coad":"x"}`,
		"greatest": `{"sortindex":999999999,"ttl":999999999}`, "least": `{"sortindex":-999999999,"ttl":1}`, "minus nought": `{"sortindex":-0}`,
		"all null":   `{"id":null,"payload":null,"sortindex":null,"ttl":null}`,
		"another id": `{"id":"b"}`, "ignored fields": `{"modified":"whatever","collection":[{}]}`,
		"pair of surrogates": `{"payload":"\ud83d\ude00"}`, "backslash before u": `{"payload":"\\ud800"}`, "escapes": `{"payload":"\"\\\/\b\f\n\r\t\u0000\u001f"}`,
		"ends of Unicode": "{\"payload\":\"\u007f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff\"}",
	} {
		u.put("/storage/toys/a", body).is(200)
		if got := u.get("/storage/toys/a").is(200).record(); got.ID != "a" {
			t.Errorf("%s: the record is %+v", name, got)
		}
	}
	u.get("/storage/toys").is(200, `["a"]`)
}

// TestPayloadsComeBack checks that every string is returned as sent, in both listing formats.
func TestPayloadsComeBack(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for name, payload := range map[string]string{
		"empty": `""`, "quotes": `"{\"a\":\"\\\\\"}"`, "line ends": `"a\r\nb\u2028c"`, "control": `"\u0000\u0001\u001f"`,
		"not escaped": "\"/<>&\u007f\"", "wide": "\"é\u4e16\U0001f600\"", "escaped wide": `"\u00e9\u4e16\ud83d\ude00"`,
	} {
		want := struct{ Payload string }{}
		(&answer{t: t, body: `{"payload":` + payload + `}`}).into(&want)
		u.put("/storage/toys/a", `{"payload":`+payload+`}`).is(200)
		if got := u.get("/storage/toys/a").record().Payload; got != want.Payload {
			t.Errorf("%s: %q came back as %q", name, want.Payload, got)
		}
		var list []record
		u.get("/storage/toys?full").is(200).into(&list)
		if list[0].Payload != want.Payload {
			t.Errorf("%s: %q is listed as %q", name, want.Payload, list[0].Payload)
		}
		lines := u.get("/storage/toys?full", "Accept: application/newlines").is(200)
		if strings.Count(lines.body, "\n") != 1 || !strings.HasSuffix(lines.body, "\n") {
			t.Errorf("%s: not one line: %q", name, lines.body)
		}
		if lines.record().Payload != want.Payload {
			t.Errorf("%s: %q is listed in lines as %q", name, want.Payload, lines.body)
		}
	}
}

// TestIDsInPaths checks that an ID is decoded once and may contain a slash.
func TestIDsInPaths(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for raw, id := range map[string]string{
		"a": "a", ".": ".", "..": "..", "%2e%2E": "..", "%7Bguid%7D": "{guid}", "{guid}": "{guid}", "%20": " ", "a%20b": "a b",
		"a%2Fb": "a/b", "%2F": "/", "%2F..%2F": "/../", "%25": "%", "%252F": "%2F", "+": "+", "a+b": "a+b", "a%3Fb": "a?b", "a%23b": "a#b",
		"~!@$&'()*;:=,": "~!@$&'()*;:=,", "%22%5C": `"\`, "%3Cb%3E": "<b>", "__heartbeat__": "__heartbeat__",
		strings.Repeat("a", 64): strings.Repeat("a", 64), strings.Repeat("%7e", 64): strings.Repeat("~", 64),
	} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			u := s.user(t)
			u.put("/storage/toys/"+raw, `{"payload":"x"}`).is(200)
			if got := u.get("/storage/toys/" + raw).is(200).record().ID; got != id {
				t.Errorf("the id is %q; want %q", got, id)
			}
			if got := u.get("/storage/toys").is(200).ids(); len(got) != 1 || got[0] != id {
				t.Errorf("listed as %q; want %q", got, id)
			}
			u.delete("/storage/toys/" + raw).is(200)
			u.get("/storage/toys").is(200, "[]")
		})
	}
}

func TestNoSuchPath(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	for _, path := range []string{
		"/", "/info", "/info/", "/info/collections/", "/info/unknown", "/info/collections/toys", "/INFO/collections", "/storage/", "/storage//", "/storage/toys/",
		"/storage/toys/a/", "/storage/toys/a/b", "/storage//a", "/Storage/toys", "//storage/toys", "/storage/../storage/toys/a", "/./storage/toys",
		"/storage%2Ftoys", "/storage/toys%2Fa", "/storage/to%20ys", "/storage/t%C3%B6ys", "/storage/toys%00", "/storage/" + strings.Repeat("a", 33), "/storage/to*ys",
		"/storage/toys/%00", "/storage/toys/a%0A", "/storage/toys/%0Aa", "/storage/toys/a%09", "/storage/toys/%7F", "/storage/toys/%C3%A9", "/storage/toys/%FF",
		"/storage/toys/" + strings.Repeat("a", 65), "/storage/toys/a%0D", "/__heartbeat__",
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"} {
			body := ""
			if method != http.MethodHead {
				body = "0"
			}
			u.do(method, path, "").is(404, body)
		}
	}
	for _, path := range []string{"/1.5", "/1.5/", "/1.5//info/collections", "/1.5/a/info/collections", "/1.5/-1/info/collections", "/1.5/-0/info/collections",
		"/1.5/+1/info/collections", "/1.5/1_0/info/collections", "/1.5/0x1/info/collections", "/1.5/12345678901/info/collections", "/1.5/%201/info/collections"} {
		u.send(u.request("GET", path, nil)).is(404, "0")
	}
	u.get("/storage/toys/b").is(404, "0").has("X-Last-Modified", "")
	u.delete("/storage/toys/b").is(404, "0").has("X-Last-Modified", "")
	u.get("/storage/nothing/a").is(404, "0")
	u.get("/storage/toys").is(200, `["a"]`)
}

func TestWrongMethod(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for path, allow := range map[string]string{
		"": "DELETE", "/storage": "DELETE", "/info/collections": "GET", "/info/collection_counts": "GET", "/info/collection_usage": "GET",
		"/info/quota": "GET", "/info/configuration": "GET", "/storage/toys": "DELETE, GET, POST", "/storage/toys/a": "DELETE, GET, PUT",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get"} {
			if strings.Contains(allow, method) {
				continue
			}
			a := u.send(u.unsigned(method, u.path(path), nil))
			a.is(405).has("Allow", allow)
			if method == http.MethodHead && a.body != "" {
				t.Errorf("HEAD of %q has the body %q", path, a.body)
			}
		}
	}
}

// TestOldPrefix checks the old all-in-one server's paths.
func TestOldPrefix(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	old := func(method, inner, body string) *answer {
		return u.send(u.request(method, "/storage"+u.path(inner), strings.NewReader(body)))
	}
	old("PUT", "/storage/toys/a", `{"payload":"x"}`).is(200)
	u.get("/storage/toys/a").is(200)
	old("GET", "/storage/toys", "").is(200, `["a"]`)
	old("GET", "/nothing", "").is(404, "0")
	u.send(u.request("GET", "/storage/storage"+u.path("/storage/toys"), nil)).is(404, "0")
}
