package httpapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestMalformedConditionsInBodies checks that a condition in a body or query that is empty or malformed never counts as
// absent, in any write that takes one.
func TestMalformedConditionsInBodies(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(201)
	r := c.runner()
	before := c.get("/changes").body
	refuse := func(what string, a *answer) {
		t.Helper()
		if a.status != 400 || !strings.Contains(a.body, "/"+what) {
			t.Errorf("%s: %d %s, want 400 with the place of %s", a.what, a.status, a.body, what)
		}
	}
	items := func(name, value string) {
		t.Helper()
		member := fmt.Sprintf(`"key":"k",%q:%s`, name, value)
		refuse(name, c.post(records, `{"items":[{"value":2,`+member+`}]}`))
		refuse(name, r.ask(`{"operation":"bulkPut","namespace":"a","items":[{"value":2,`+member+`}]}`))
		for _, op := range []string{`"op":"put","value":2`, `"op":"delete"`, `"op":"check"`, `"op":"increment","pointer":"","by":1`} {
			ops := `"ops":[{"namespace":"a",` + op + `,` + member + `}]}`
			refuse(name, c.post("/batch", `{`+ops))
			refuse(name, r.ask(`{"operation":"batch",`+ops))
		}
	}
	for _, value := range []string{`null`, `""`, `" "`, `"1"`, `-1`, `1.5`, `1e-1`, `9223372036854775808`, `true`, `[]`, `[1]`, `{}`} {
		revision := `"ifRevision":` + value
		refuse("ifRevision", c.put("k", `{"value":2,`+revision+`}`))
		refuse("ifRevision", c.post(records+"/k/increment", `{"pointer":"","by":1,`+revision+`}`))
		for _, operation := range []string{`"put","value":2`, `"delete"`, `"patch","patch":2`, `"increment","pointer":"","by":1`} {
			refuse("ifRevision", r.ask(`{"namespace":"a","key":"k",`+revision+`,"operation":`+operation+`}`))
		}
		items("ifRevision", value)
	}
	for _, value := range []string{`null`, `1`, `[]`, `true`, `""`, `" "`, `","`, `"\""`, `"17"`, `"\"17"`, `"*, \"17\""`, `"*,*"`, `"\"1\" \"2\""`} {
		items("ifMatch", value)
	}
	for _, value := range []string{"", " ", "-1", "+1", "01", "1.0", "1e3", "x", "null", "*", `"1"`, "9223372036854775808", "1&ifRevision=1"} {
		query := "?ifRevision=" + strings.ReplaceAll(url.QueryEscape(value), "%26ifRevision%3D", "&ifRevision=")
		refuse("ifRevision", c.do("DELETE", records+"/k"+query, ""))
		refuse("ifRevision", c.patch(records+"/k"+query, `2`))
	}
	if after := c.get("/changes").body; after != before {
		t.Errorf("a refused write changed something: %s", after)
	}
}
