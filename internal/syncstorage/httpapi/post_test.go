package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestPost(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const stamp = "1790000000.12"
	a := u.post("/storage/toys", `[{"id":"a","payload":"x"},{"id":"{b}","payload":"y","sortindex":1,"ttl":5,"modified":1,"collection":"other"}]`)
	a.is(200, `{"modified":1790000000.12,"success":["a","{b}"],"failed":{}}`).
		has("X-Last-Modified", stamp).has("X-Weave-Timestamp", stamp)
	var list []record
	u.get("/storage/toys?full").is(200).into(&list)
	for _, r := range list {
		if r.Modified != stamp {
			t.Errorf("modified is %s", r.Modified)
		}
	}
	u.get("/info/collections").is(200, `{"toys":`+stamp+`}`)
	u.post("/storage/toys", `[]`).is(200, `{"modified":1790000000.13,"success":[],"failed":{}}`)
	u.post("/storage/empty", ``, "Content-Type: application/newlines").is(200)
	u.get("/info/collections").is(200).has("X-Weave-Records", "2")
}

// TestPostEscapes checks that payloads with escapes, which shrink when decoded, do not overlap.
func TestPostEscapes(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for _, escaped := range []string{`\u0041\u00e4\u20ac\ud83d\ude00`, `\"\\\/\n`, `plain`, ``} {
		object := func(id string) string {
			return `{"id":"` + id + `","payload":"` + escaped + id + escaped + `"}`
		}
		objects := []string{object("a"), object("b"), object("c")}
		u := s.user(t)
		u.post("/storage/list", "["+strings.Join(objects, ",")+"]").is(200)
		u.post("/storage/lines", strings.Join(objects, "\n"), "Content-Type: application/newlines").is(200)
		u.put("/storage/one/b", objects[1]).is(200)
		for _, path := range []string{"list/a", "list/b", "list/c", "lines/a", "lines/b", "lines/c", "one/b"} {
			var got, want struct{ Payload string }
			u.get("/storage/" + path).is(200).into(&got)
			if err := json.Unmarshal([]byte(object(path[len(path)-1:])), &want); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s: %q instead of %q", path, got.Payload, want.Payload)
			}
		}
	}
}

func TestPostFailsRecords(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	long := strings.Repeat("k", 100)
	for name, row := range map[string]struct{ record, reason string }{
		"unknown field":        {`{"id":"bad","payload":"x","colour":1}`, "unknown field colour"},
		"nested unknown field": {`{"id":"bad","deep":[{"a":[1,{}]}]}`, "unknown field deep"},
		"unknown field odd":    {`{"id":"bad","a\"\u000a":1}`, "unknown field a\"\n"},
		"unknown field empty":  {`{"id":"bad","":1}`, "unknown field "},
		"unknown field long":   {`{"id":"bad","` + long + `":1}`, "unknown field " + long[:64]},
		"unknown field before": {`{"colour":1,"id":"bad"}`, "unknown field colour"},
		"first reason counts":  {`{"colour":1,"payload":2,"id":"bad"}`, "unknown field colour"},
		"payload number":       {`{"id":"bad","payload":42}`, "invalid json"},
		"payload object":       {`{"id":"bad","payload":{"a":"b"}}`, "invalid json"},
		"sortindex text":       {`{"id":"bad","sortindex":"xxx"}`, "invalid json"},
		"sortindex digits":     {`{"id":"bad","sortindex":"34"}`, "invalid json"},
		"sortindex fraction":   {`{"id":"bad","sortindex":2.5}`, "invalid json"},
		"sortindex whole":      {`{"id":"bad","sortindex":1.0}`, "invalid json"},
		"sortindex exponent":   {`{"id":"bad","sortindex":1E2}`, "invalid json"},
		"sortindex over":       {`{"id":"bad","sortindex":1000000000}`, "invalid bso: invalid sortindex"},
		"sortindex under":      {`{"id":"bad","sortindex":-1000000000}`, "invalid bso: invalid sortindex"},
		"sortindex 10^30":      {`{"id":"bad","sortindex":1` + strings.Repeat("0", 30) + `}`, "invalid bso: invalid sortindex"},
		"ttl negative":         {`{"id":"bad","ttl":-12}`, "invalid json"},
		"ttl text":             {`{"id":"bad","ttl":"12"}`, "invalid json"},
		"ttl over":             {`{"id":"bad","ttl":1000000000}`, "invalid bso: invalid ttl"},
		"payload twice":        {`{"id":"bad","payload":"x","payload":"x"}`, "invalid json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := s.user(t)
			send := func(contentType, body string) {
				p := u.post("/storage/toys", body, "Content-Type: "+contentType).is(200).posted()
				if want := map[string]string{"bad": row.reason}; !maps.Equal(p.Failed, want) || !slices.Equal(p.Success, []string{"a", "b"}) {
					t.Errorf("%s: %+v; want %q", contentType, p, row.reason)
				}
			}
			send("application/json", "["+bso("a", "x")+","+row.record+","+bso("b", "x")+"]")
			u.get("/storage/toys").is(200, `["b","a"]`)
			send("application/newlines", bso("a", "x")+"\n"+row.record+"\n"+bso("b", "x"))
			u.get("/storage/toys").is(200, `["b","a"]`)
		})
	}
}

func TestPostFailsIDs(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, id := range []string{"", strings.Repeat("a", 65), `A\n`, `\nA`, `A\nB`, `\t`, `\u0000`, `\u007f`, `é`, `\ud83d\ude00`} {
		p := u.post("/storage/toys", `[{"id":"`+id+`","payload":"x"},{"id":"good"}]`).is(200).posted()
		if len(p.Failed) != 1 || len(p.Success) != 1 {
			t.Errorf("%q: %+v", id, p)
		}
		for _, reason := range p.Failed {
			if reason != "invalid bso: invalid id" {
				t.Errorf("%q: %q", id, reason)
			}
		}
	}
	u.get("/storage/toys").is(200, `["good"]`)
}

func TestPostRefusesBody(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	good := bso("good", "x")
	for name, body := range map[string]string{
		"empty": "", "space": "  ", "object": "{}", "record": good, "null": "null", "text": `"a"`, "number": "1", "not JSON": "sammich",
		"element null": "[" + good + ",null]", "element number": "[" + good + ",1]", "element string": "[" + good + `,"a"]`, "element list": "[" + good + ",[]]",
		"element empty": "[" + good + ",{}]", "no id": "[" + good + `,{"payload":"x"}]`, "id null": "[" + good + `,{"id":null}]`, "id number": "[" + good + `,{"id":1}]`,
		"id twice in a record": "[" + good + `,{"id":"a","id":"b"}]`, "id twice": "[" + good + "," + bso("good", "y") + "]", "id twice by escape": "[" + good + `,{"id":"\u0067ood"}]`,
		"failed id twice": "[" + good + `,{"id":"bad","payload":1},{"id":"bad","payload":2}]`,
		"cut":             "[" + good, "cut after comma": "[" + good + ",", "cut in a record": "[" + good + `,{"id":`, "trailing comma": "[" + good + ",]", "comma first": "[," + good + "]", "no comma": "[" + good + good + "]",
		"two lists": "[" + good + "][]", "garbage after": "[" + good + "] x", "minus after": "[" + good + "]-", "quote after": "[" + good + `]"`, "number after": "[" + good + "]1e",
		"lines": good + "\n" + good, "invalid UTF-8": "[" + good + ",{\"id\":\"a\xff\"}]", "lone surrogate": "[" + good + `,{"id":"a","payload":"\udfff"}]`,
		"lone surrogate in what is ignored": "[" + good + `,{"id":"a","modified":"\ud800x"}]`, "NUL": "[" + good + "\x00]", "byte order mark": "\ufeff[" + good + "]",
		"bad number in what is ignored": "[" + good + `,{"id":"a","modified":01}]`, "bad literal": "[" + good + `,{"id":"a","modified":nul}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := s.user(t)
			u.post("/storage/toys", body).is(400, "8")
			u.post("/storage/toys", body, "Content-Type: text/plain").is(400, "8")
			u.post("/storage/toys?batch=true", body).is(400, "8")
			u.get("/info/collections").is(200, "{}").has("X-Last-Modified", "0.00")
		})
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	good := bso("good", "x")
	for name, row := range map[string]struct {
		body   string
		stored string // "" if rejected
	}{
		"nothing": {"", "[]"}, "one": {good, `["good"]`}, "one and its end": {good + "\n", `["good"]`}, "DOS": {bso("a", "") + "\r\n" + good + "\r\n", `["good","a"]`},
		"two": {good + "\n" + bso("z", ""), `["z","good"]`}, "space around": {"  " + good + "\t \n", `["good"]`}, "escaped end in a payload": {`{"id":"good","payload":"a\nb"}`, `["good"]`},
		"only an end": {"\n", ""}, "only a DOS end": {"\r\n", ""}, "empty line last": {good + "\n\n", ""}, "empty line first": {"\n" + good, ""}, "empty line between": {good + "\n\n" + bso("a", ""), ""},
		"space line": {good + "\n \n", ""}, "object without id": {good + "\n{}", ""}, "list": {"[]", ""}, "list of one": {"[" + good + "]", ""}, "null": {good + "\nnull", ""}, "text": {good + "\n\"a\"", ""},
		"comma after": {good + ",\n", ""}, "two in a line": {good + good, ""}, "broken over lines": {"{\"id\":\n\"good\"}", ""}, "raw end in a payload": {"{\"id\":\"good\",\"payload\":\"a\nb\"}", ""},
		"old Mac": {good + "\r" + bso("a", ""), ""}, "cut": {good + "\n{\"id\":\"a\"", ""}, "repeated id": {good + "\n" + good, ""}, "invalid UTF-8": {good + "\n{\"id\":\"a\xff\"}", ""},
		"unit separator": {good + "\u2028" + bso("a", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := s.user(t)
			a := u.post("/storage/toys", row.body, "Content-Type: application/newlines")
			if row.stored == "" {
				a.is(400, "8")
				u.get("/info/collections").is(200, "{}")
				return
			}
			a.is(200)
			u.get("/storage/toys").is(200, row.stored)
		})
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, contentType := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset", "text/plain", "TEXT/PLAIN;charset=UTF-8", " text/plain "} {
		u.put("/storage/toys/a", `{}`, "Content-Type: "+contentType).is(200)
		u.post("/storage/toys", `[]`, "Content-Type: "+contentType).is(200)
	}
	u.post("/storage/toys", ``, "Content-Type: application/newlines;charset=utf-8").is(200)
	before := u.get("/info/collections").body
	for _, contentType := range []string{"", "application/xml", "application/x-www-form-urlencoded", "text/html", "application", "/", ";", "json", "application/json, text/plain", "multipart/form-data; boundary=x"} {
		u.put("/storage/toys/a", `{}`, "Content-Type:"+contentType).is(415, "0")
		u.post("/storage/toys", `[]`, "Content-Type:"+contentType).is(415, "0")
	}
	u.put("/storage/toys/a", `{}`, "Content-Type: application/newlines").is(415, "0") // the newlines format is only for lists
	u.get("/info/collections").is(200, before)
}

// TestZeroVector checks that crypto records with an all-zero initialization vector, an old client's bug, are rejected.
func TestZeroVector(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const zero = "AAAAAAAAAAAAAAAAAAAAAA=="
	for form, bad := range map[string]bool{
		`{"ciphertext":"x","IV":"` + zero + `","hmac":"y"}`: true,
		`{"IV":   "` + zero + `"}`:                          true,
		"{\"IV\":\n\t\"" + zero + "\"}":                     true,
		`{"IV":"other"},{"IV":"` + zero + `"}`:              true,
		`{"IV":"BAAAAAAAAAAAAAAAAAAAAA=="}`:                 false,
		`{"iv":"` + zero + `"}`:                             false,
		`{"IV":"` + zero + `x"}`:                            false,
		`{"IV":"AAAAAAAAAAAAAAAAAAAAAA="}`:                  false,
		`{"IV":}`:                                           false,
		`IV":`:                                              false,
	} {
		body := fmt.Sprintf(`{"id":"keys","payload":%q}`, form)
		status, code := 200, []string{}
		if bad {
			status, code = 400, []string{"8"}
		}
		u.put("/storage/crypto/keys", body).is(status, code...)
		u.post("/storage/crypto", "["+bso("good", "x")+","+body+"]").is(status, code...)
		u.post("/storage/crypto?batch=true", "["+body+"]").is(map[bool]int{false: 202, true: 400}[bad])
		u.put("/storage/toys/keys", body).is(200) // allowed in other collections
		if bad {
			u.get("/storage/crypto").is(200, "[]")
		}
		u.delete("/storage/crypto").is(200)
	}
}
