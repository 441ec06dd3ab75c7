package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/web"
)

// sent is a request with an idempotency key.
type sent struct {
	method, target, body string
	header               http.Header
}

func (s *sent) fingerprint(t *testing.T) [32]byte {
	t.Helper()
	r := httptest.NewRequest(s.method, s.target, http.NoBody)
	r.Header = s.header
	body := canonjson.Value("")
	if s.body != "" {
		var err error
		if body, err = canonjson.ParseAround([]byte(s.body), 3); err != nil {
			t.Fatal(err)
		}
	}
	return web.Fingerprint(r, r.URL.EscapedPath(), body, "If-Match", "If-None-Match")
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	one := sent{"POST", "/a/b%20c?x=1&y=2&y=3", `{"n":1,"s":"ä\n\"","o":{"a":[1,2],"b":null}}`, http.Header{"If-Match": {`"1"`, `"2"`}}}
	with := func(change func(*sent)) sent {
		s := one
		s.header = one.header.Clone()
		change(&s)
		return s
	}
	for name, s := range map[string]sent{
		"white space":       with(func(s *sent) { s.body = " {\"n\" :\t1,\r\n\"s\":\"ä\\n\\\"\",\"o\":{\"a\":[ 1 , 2 ],\"b\":null} } " }),
		"order":             with(func(s *sent) { s.body = `{"o":{"b":null,"a":[1,2]},"s":"ä\n\"","n":1}` }),
		"escapes":           with(func(s *sent) { s.body = `{"\u006e":1,"s":"\u00E4\u000a\u0022","\u006F":{"a":[1,2],"b":null}}` }),
		"numbers":           with(func(s *sent) { s.body = `{"n":1.0,"s":"ä\n\"","o":{"a":[10e-1,0.2E1],"b":null}}` }),
		"query":             with(func(s *sent) { s.target = "/a/b%20c?y=3&y=%32&x=1" }),
		"path":              with(func(s *sent) { s.target = "/%61/b%20c?x=1&y=2&y=3" }),
		"lines of a header": with(func(s *sent) { s.header = http.Header{"If-Match": {`"1", "2"`}} }),
		"other headers":     with(func(s *sent) { s.header.Set("Authorization", "x"); s.header.Set("Content-Type", "x") }),
	} {
		if s.fingerprint(t) != one.fingerprint(t) {
			t.Errorf("%s: another fingerprint", name)
		}
	}
	seen := map[[32]byte]string{one.fingerprint(t): "the request"}
	for name, s := range map[string]sent{
		"method":           with(func(s *sent) { s.method = "PUT" }),
		"path":             with(func(s *sent) { s.target = "/a/b%20d?x=1&y=2&y=3" }),
		"a slash":          with(func(s *sent) { s.target = "/a%2Fb%20c?x=1&y=2&y=3" }),
		"a percent sign":   with(func(s *sent) { s.target = "/a/b%2520c?x=1&y=2&y=3" }),
		"query":            with(func(s *sent) { s.target = "/a/b%20c?x=1&y=2" }),
		"no body":          with(func(s *sent) { s.body = "" }),
		"null":             with(func(s *sent) { s.body = "null" }),
		"a value":          with(func(s *sent) { s.body = `{"n":2,"s":"ä\n\"","o":{"a":[1,2],"b":null}}` }),
		"a type":           with(func(s *sent) { s.body = `{"n":"1","s":"ä\n\"","o":{"a":[1,2],"b":null}}` }),
		"no null":          with(func(s *sent) { s.body = `{"n":1,"s":"ä\n\"","o":{"a":[1,2]}}` }),
		"order of items":   with(func(s *sent) { s.body = `{"n":1,"s":"ä\n\"","o":{"a":[2,1],"b":null}}` }),
		"a large number":   with(func(s *sent) { s.body = `9007199254740993` }),
		"the next number":  with(func(s *sent) { s.body = `9007199254740992` }),
		"decomposed":       with(func(s *sent) { s.body = `{"n":1,"s":"a\u0308\n\"","o":{"a":[1,2],"b":null}}` }),
		"a condition":      with(func(s *sent) { s.header = http.Header{"If-Match": {`"1"`}} }),
		"another header":   with(func(s *sent) { s.header = http.Header{"If-None-Match": {`"1"`, `"2"`}} }),
		"no condition":     with(func(s *sent) { s.header = http.Header{} }),
		"a line in a body": with(func(s *sent) { s.body, s.header = `"x\nIf-Match: \"1\""`, http.Header{} }),
	} {
		sum := s.fingerprint(t)
		if other, ok := seen[sum]; ok {
			t.Errorf("%s: the same fingerprint as %s", name, other)
		}
		seen[sum] = name
	}
}
