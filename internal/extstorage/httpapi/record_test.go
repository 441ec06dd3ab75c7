package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	made := c.put("k", `{"value":{"b":1.0,"a":[true,null,"é"]},"metadata":{"m":1},"ttlSeconds":60}`).is(http.StatusCreated).
		has("ETag", `"1"`).has("Location", c.path(records+"/k")).
		says(`{"namespace":"a","key":"k","revision":1,"etag":"\"1\"","ttlExpiresAt":"2026-09-21T14:14:20.123Z",
			"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:20.123Z"}`)
	if n := len(made.members()); n != 7 {
		t.Errorf("the answer has %d members: %s", n, made.body)
	}
	got := c.get(records+"/k").is(http.StatusOK).has("ETag", `"1"`).has("Content-Type", "application/json").
		says(`{"namespace":"a","key":"k","revision":1,"value":{"a":[true,null,"é"],"b":1},"metadata":{"m":1},"ttlExpiresAt":"2026-09-21T14:14:20.123Z"}`)
	if v := got.member("value"); v != `{"a":[true,null,"é"],"b":1}` {
		t.Errorf("the value is %s", v)
	}
	c.do(http.MethodHead, records+"/k", "").is(http.StatusOK).has("ETag", `"1"`).has("Content-Length", got.header.Get("Content-Length"))

	c.clock.Advance(time.Second)
	c.put("k", `{"value":[]}`).is(http.StatusOK).has("ETag", `"2"`).has("Location", "").
		says(`{"revision":2,"ttlExpiresAt":null,"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:21.123Z"}`)
	c.get(records + "/k").says(`{"value":[],"metadata":{}}`)

	c.delete("k").is(http.StatusNoContent)
	c.delete("k").is(http.StatusNoContent)
	c.get(records+"/k").fails(http.StatusNotFound, "NOT_FOUND")
	c.do(http.MethodHead, records+"/k", "").is(http.StatusNotFound)
	c.put("k", `{"value":1}`).is(http.StatusCreated).says(`{"revision":1,"etag":"\"4\""}`)
}

func TestTimeToLiveEndsExactly(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1,"ttlSeconds":60}`).is(http.StatusCreated)
	c.clock.Advance(time.Minute - time.Millisecond)
	c.get(records + "/k").is(http.StatusOK)
	c.clock.Advance(time.Millisecond)
	c.get(records + "/k").is(http.StatusNotFound)
	c.put("k", `{"value":1,"ifRevision":0}`).is(http.StatusCreated).says(`{"revision":1,"ttlExpiresAt":null}`)
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(http.StatusCreated) // revision 1, change 1
	const mismatch = "REVISION_MISMATCH"
	for _, x := range []struct {
		method, body, header string
		status               int
		revision             string
	}{
		{http.MethodPut, `{"value":1,"ifRevision":0}`, "", 409, "1"},
		{http.MethodPut, `{"value":1,"ifRevision":7}`, "", 409, "1"},
		{http.MethodPut, `{"value":1}`, `If-Match: "7"`, 412, "1"},
		{http.MethodPut, `{"value":1}`, `If-Match: W/"1"`, 412, "1"},
		{http.MethodPut, `{"value":1}`, `If-None-Match: *`, 412, "1"},
		{http.MethodPut, `{"value":1}`, `If-None-Match: "1"`, 412, "1"},
		{http.MethodPut, `{"value":1,"ifRevision":7}`, `If-Match: "7"`, 412, "1"},
		{http.MethodPatch, `2`, `If-Match: "7"`, 412, "1"},
		{http.MethodDelete, "", `If-Match: "7"`, 412, "1"},
		{http.MethodGet, "", `If-Match: "7"`, 412, "1"},
		{http.MethodGet, "", `If-Revision-Match: 7`, 409, "1"},
		{http.MethodGet, "", `If-Revision-Match: 0`, 409, "1"},
	} {
		var headers []string
		if x.header != "" {
			headers = append(headers, x.header)
		}
		c.do(x.method, records+"/k", x.body, headers...).fails(x.status, mismatch, "revision "+x.revision)
	}
	c.do(http.MethodPatch, records+"/k?ifRevision=7", `2`).fails(409, mismatch, "revision 1")
	c.do(http.MethodDelete, records+"/k?ifRevision=7", "").fails(409, mismatch, "revision 1")
	c.post(records+"/k/increment", `{"pointer":"","by":1,"ifRevision":7}`).fails(409, mismatch, "revision 1")

	c.put("k", `{"value":2,"ifRevision":1.0}`, `If-Match: "9", "1"`).is(http.StatusOK)
	c.put("k", `{"value":3}`, `If-Match: "9"`, `If-Match: "2"`).is(http.StatusOK)
	c.put("k", `{"value":4}`, `If-Match: *`).is(http.StatusOK)
	c.patch(records+"/k?ifRevision=4", `5`).is(http.StatusOK)
	c.post(records+"/k/increment", `{"pointer":"","by":1,"ifRevision":5e0}`).is(http.StatusOK)

	c.put("none", `{"value":1,"ifRevision":3}`).fails(409, mismatch, "revision 0")
	c.put("none", `{"value":1}`, `If-Match: *`).fails(412, mismatch, "revision 0")
	c.delete("none?ifRevision=0").fails(409, mismatch, "revision 0")
	c.delete("none?ifRevision=1").fails(409, mismatch, "revision 0")
	c.delete("none", `If-Match: *`).fails(412, mismatch, "revision 0")
	c.get(records+"/none", `If-Match: *`).fails(404, "NOT_FOUND")
	c.put("none", `{"value":1}`, `If-None-Match: *`).is(http.StatusCreated)
}

func TestNotModified(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	for _, tag := range []string{`"1"`, `W/"1"`, `"0", "1"`, `*`} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if a := c.do(method, records+"/k", "", "If-None-Match: "+tag).is(http.StatusNotModified).has("ETag", `"1"`); a.body != "" {
				t.Errorf("%s has a body: %q", tag, a.body)
			}
		}
	}
	c.get(records+"/k", `If-None-Match: "2"`).is(http.StatusOK)
	c.get(records+"/k", `If-None-Match: "1"`, `If-Match: "2"`).fails(412, "REVISION_MISMATCH")
	c.get(records+"/none", `If-None-Match: *`).is(http.StatusNotFound)
	c.get(records+"/k", `If-None-Match: 1`).fails(400, "VALIDATION_FAILED", "pointer /if-none-match")
}

// TestTagOfAnEarlierLife checks that a deleted record's tag does not match a later record with the same key.
func TestTagOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	first := c.put("k", `{"value":1}`).is(http.StatusCreated).header.Get("ETag")
	c.delete("k").is(http.StatusNoContent)
	c.put("k", `{"value":2}`).is(http.StatusCreated).says(`{"revision":1}`)
	c.put("k", `{"value":3}`, "If-Match: "+first).fails(412, "REVISION_MISMATCH", "revision 1")
	c.get(records+"/k", "If-None-Match: "+first).is(http.StatusOK)
}

func TestRevisionHeaderThatIsNone(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	c.get(records+"/k", "If-Revision-Match: 1").is(http.StatusOK)
	for _, h := range []string{"abc", `"1"`, "-1", "01", "+1", "1.0", "NaN", "9223372036854775808", "1, 1"} {
		c.get(records+"/k", "If-Revision-Match: "+h).fails(400, "VALIDATION_FAILED", "pointer /if-revision-match")
	}
	c.get(records+"/k", "If-Revision-Match: 1", "If-Revision-Match: 1").fails(400, "VALIDATION_FAILED", "pointer /if-revision-match")
}

func TestUnsupportedPreconditions(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	values := map[string]string{
		"If-Match": `"1"`, "If-None-Match": "*", "If-Modified-Since": "Sat, 01 Jan 2000 00:00:00 GMT",
		"If-Unmodified-Since": "Sat, 01 Jan 2000 00:00:00 GMT", "If-Range": `"1"`, "If-Revision-Match": "1",
	}
	fill := strings.NewReplacer("{install}", c.install, "{namespace}", "a", "{key}", "k", "{version}", "1")
	refused := 0
	for _, r := range description(t).Routes() {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			continue
		}
		for name, value := range values {
			if strings.Contains(r.Path, "/records/{key}") && (name == "If-Match" || name == "If-None-Match") {
				continue
			}
			media := "Content-Type: application/json"
			switch {
			case r.ID == "patchRecord":
				media = "Content-Type: application/merge-patch+json"
			case r.ID == "importInstall":
				media = lines
			}
			refused++
			c.do(r.Method, fill.Replace(r.Path), bodyFor[r.ID], media, name+": "+value).
				fails(400, "VALIDATION_FAILED", "pointer /"+strings.ToLower(name))
		}
	}
	if refused < 40 {
		t.Errorf("only %d headers were sent", refused)
	}
	for body, supported := range map[string]bool{
		`{"operation":"put","namespace":"a","key":"k","value":2}`:                        true,
		`{"operation":"delete","namespace":"a","key":"k"}`:                               true,
		`{"operation":"patch","namespace":"a","key":"k","patch":2}`:                      true,
		`{"operation":"increment","namespace":"a","key":"k","pointer":"","by":1}`:        true,
		`{"operation":"bulkPut","namespace":"a","items":[{"key":"k","value":2}]}`:        false,
		`{"operation":"batch","ops":[{"op":"put","namespace":"a","key":"k","value":2}]}`: false,
	} {
		for name, value := range values {
			if supported && (name == "If-Match" || name == "If-None-Match") {
				continue
			}
			c.runner().ask(body, name+": "+value).fails(400, "VALIDATION_FAILED", "pointer /"+strings.ToLower(name))
		}
	}
	c.get(records + "/k").says(`{"value":1,"revision":1}`)
	c.get(records).says(`{"nextCursor":null}`)
	c.get("/changes").says(`{"nextSince":1}`)
}

func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for in, out := range map[string]string{
		"9007199254740993":                        "9007199254740993",
		"123456789012345678901234567890.10":       "123456789012345678901234567890.1",
		"0.1000000000000000055511151231257827021": "0.1000000000000000055511151231257827021",
		"1e308": "1e308", "-0": "0", "1E2": "100",
	} {
		c.put("n", `{"value":`+in+`}`)
		if v := c.get(records + "/n").member("value"); v != out {
			t.Errorf("%s comes back as %s, want %s", in, v, out)
		}
	}
	c.put("n", `{"value":{"n":9007199254740993}}`)
	c.post(records+"/n/increment", `{"pointer":"/n","by":0.1}`).is(http.StatusOK).says(`{"sum":9007199254740993.1}`)
}

func TestPatch(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":{"a":1,"b":{"c":2,"d":3}},"metadata":{"m":1},"ttlSeconds":60}`).is(http.StatusCreated)
	c.clock.Advance(time.Second)
	c.patch(records+"/k", `{"a":null,"b":{"c":4}}`).is(http.StatusOK).has("ETag", `"2"`).
		says(`{"revision":2,"ttlExpiresAt":"2026-09-21T14:14:20.123Z"}`)
	c.get(records + "/k").says(`{"value":{"b":{"c":4,"d":3}},"metadata":{"m":1}}`)
	c.patch(records+"/none", `{}`).fails(404, "NOT_FOUND")
	c.patch(records+"/k", `{"a":"`+strings.Repeat("x", 65536)+`"}`).fails(413, "LIMIT_EXCEEDED")
	c.patch(records+"/k", `{"a":1,"a":2}`).fails(400, "VALIDATION_FAILED")
	c.patch(records+"/k", `{"a":{"n":1e999}}`).fails(400, "VALIDATION_FAILED", "pointer /a/n")
}

func TestIncrement(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	inc := records + "/k/increment"
	c.post(inc, `{"pointer":"/n","by":1}`).fails(404, "NOT_FOUND")
	c.post(inc, `{"pointer":"/n/m","by":1.5,"create":true}`).is(http.StatusCreated).has("ETag", `"1"`).has("Location", c.path(records+"/k")).says(`{"revision":1,"sum":1.5}`)
	c.post(inc, `{"pointer":"/n/m","by":-3,"min":-1.5,"max":0}`).is(http.StatusOK).says(`{"revision":2,"sum":-1.5}`)
	c.post(inc, `{"pointer":"/n/m","by":-1,"min":-2}`).fails(409, "BOUND_REACHED", "pointer /min")
	c.post(inc, `{"pointer":"/n","by":1}`).fails(400, "VALIDATION_FAILED", "pointer /pointer")
	c.get(records + "/k").says(`{"value":{"n":{"m":-1.5}},"revision":2}`)
}

// TestKeysInPaths checks that a path is neither cleaned nor decoded twice.
func TestKeysInPaths(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for raw, key := range map[string]string{
		".": ".", "..": "..", "%2e%2E%2e": "...", "a%25b": "a%b", "a%252Fb": "a%2Fb", "%C3%A9": "é", "a+b": "a+b", "a%20b": "a b",
		"x;y=z": "x;y=z", "%F0%9F%90%98": "🐘", "increment": "increment", strings.Repeat("k", 128): strings.Repeat("k", 128),
	} {
		a := c.put(raw, `{"value":1}`).is(http.StatusCreated)
		if got := a.members()["key"]; got != key {
			t.Errorf("%s is the key %q, want %q", raw, got, key)
		}
		c.get(records + "/" + raw).is(http.StatusOK)
	}
	for _, raw := range []string{"a%2Fb", "%00", "%7F", "%FF", strings.Repeat("k", 129), ""} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			c.do(method, records+"/"+raw, "").fails(400, "VALIDATION_FAILED", "pointer /key")
		}
	}
	for _, raw := range []string{"A", "-a", "a_b", "%C3%A9", strings.Repeat("a", 65), "%2F"} {
		c.get("/namespaces/"+raw+"/records/k").fails(400, "VALIDATION_FAILED", "pointer /namespace")
	}
}
