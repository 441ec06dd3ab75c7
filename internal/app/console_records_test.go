package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestConsoleChecksDrafts: hostile drafts and columns get an answer that names the place, and none becomes a script.
func TestConsoleChecksDrafts(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o, viewer := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken)
	const page = "/console/extstorage/records?tenant=11111111-2222-4333-8444-555555555555&install=aaaaaaaa-2222-4333-8444-555555555555&namespace=settings"
	values := func(s *operator, key, value string) url.Values {
		form := s.form(page, "return-to", strings.TrimPrefix(page, "/console/extstorage/records?"))
		place, err := url.ParseQuery(form.Get("return-to"))
		if err != nil {
			t.Fatal(err)
		}
		for name := range place {
			form.Set(name, place.Get(name))
		}
		form.Set("revision", "0")
		form.Set("key", key)
		form.Set("value", value)
		return form
	}
	const check, create = "/console/extstorage/records?do=check", "/console/extstorage/records?do=create"
	for name, draft := range map[string]struct{ key, value, says string }{
		"valid":             {"k", `{"__proto__":1}`, "Valid, 15 B"},
		"deep":              {"k", strings.Repeat("[", 100_000), "Value /0/0"},
		"large":             {"k", `"` + strings.Repeat("x", 300_000) + `"`, "Value: "},
		"a script":          {"k", "{\"a\":\n{\"<script>\":01}}", "Value /a/&lt;script&gt;, line 2: "},
		"a key":             {"\x00", "1", "Key: "},
		"a control":         {"k", "\"\x01\"", "Value, line 1: "},
		"a duplicate":       {"k", "{\"a\":1,\n\"a\":2}", "Value /a, line"},
		"without its key":   {"", "1", "Valid, 1 B"},
		"a wrong namespace": {"k", "", "Value, line 1: "},
	} {
		for _, s := range []*operator{o, viewer} {
			status, body, _ := s.do(http.MethodPost, check, values(s, draft.key, draft.value))
			if !strings.Contains(body, draft.says) || strings.Contains(body, "<script>") || status != http.StatusOK && status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %d without %q: %.600q", name, status, draft.says, body)
			}
		}
	}
	for key, value := range map[string]string{"<script>k": `{"<script>":"<script>","__proto__":{"a":[1]},"\u0007":"\u202e"}`, "__proto__": "null", "scalar": `"<img src=x>"`, "wide": `{"` + strings.Repeat("n", 2000) + `":"` + strings.Repeat("v", 9000) + `"}`} {
		o.want(key, http.StatusSeeOther, "", http.MethodPost, create, values(o, key, value))
	}
	for _, columns := range []string{"", "__proto__", "<script>,a", `"`, strings.Repeat("a,", 1000)} {
		status, body, _ := o.do(http.MethodGet, page+"&columns="+url.QueryEscape(columns), nil)
		if status != http.StatusOK && status != http.StatusBadRequest || strings.Contains(strings.ReplaceAll(body, "<script src=", ""), "<script>") || strings.Contains(body, "<img src=x") || len(body) > 60_000 {
			t.Errorf("columns %.20q: %d, %d bytes", columns, status, len(body))
		}
	}
	o.want("the record", http.StatusOK, "&lt;script&gt;k", http.MethodGet, page, nil)
}
