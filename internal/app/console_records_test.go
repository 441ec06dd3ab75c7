package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	recordPlace = "?tenant=11111111-2222-4333-8444-555555555555&install=aaaaaaaa-2222-4333-8444-555555555555&namespace=settings"
	recordsPage = "/console/extstorage/records" + recordPlace
	newRecord   = "/console/extstorage/records/create"
)

func recordForm(o *operator, values ...string) url.Values {
	o.t.Helper()
	form := o.form(newRecord+recordPlace, append(values, "return-to", recordPlace[1:])...)
	place, err := url.ParseQuery(recordPlace[1:])
	if err != nil {
		o.t.Fatal(err)
	}
	for name := range place {
		form.Set(name, place.Get(name))
	}
	return form
}

// TestConsoleChecksDrafts checks that errors name the place in a hostile draft or column, without running scripts.
func TestConsoleChecksDrafts(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o, viewer := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken)
	const page = recordsPage
	values := func(s *operator, key, value string) url.Values {
		return recordForm(s, "revision", "0", "key", key, "value", value)
	}
	const check, create = newRecord + "?do=check", newRecord + "?do=create"
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

// TestConsoleKeepsDrafts checks that a conflict's form keeps the draft, even if the next draft is invalid.
func TestConsoleKeepsDrafts(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	send := func(what string, status int, says, to string, values ...string) string {
		t.Helper()
		return o.want(what, status, says, http.MethodPost, to, recordForm(o, append(values, "key", "k")...))
	}
	const create, save, check = newRecord + "?do=create", "/console/extstorage/record?do=save", "/console/extstorage/record?do=check"
	send("the first", http.StatusSeeOther, "", create, "revision", "0", "value", `{"n":1}`)
	body := send("a collision", http.StatusConflict, "Nothing was saved", create, "revision", "0", "value", `{"n":2}`)
	for _, part := range []string{`name="conflict" value="yes"`, `name="revision" value="1"`, `{&#34;n&#34;:2}`, "Differences"} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s in %s", part, body)
		}
	}
	for _, to := range []string{save, check} {
		body = send("a wrong draft", http.StatusBadRequest, "Value /typed, line 1: ", to, "revision", "1", "conflict", "yes", "value", `{"typed":`)
		if !strings.Contains(body, `{&#34;typed&#34;:</textarea>`) || !strings.Contains(body, "Stored: revision 1") || strings.Contains(body, "Differences") {
			t.Errorf("after a wrong draft: %s", body)
		}
	}
	body = send("a check", http.StatusOK, "The draft is valid, 7 B.", check, "revision", "1", "conflict", "yes", "value", `{"n":3}`)
	if !strings.Contains(body, "Differences") {
		t.Errorf("after a check: %s", body)
	}
	send("the last", http.StatusSeeOther, "", save, "revision", "1", "conflict", "yes", "value", `{"n":3}`)
	send("another collision", http.StatusConflict, "Stored: revision 2", save, "revision", "1", "conflict", "yes", "value", `{"n":4}`)
}

func TestConsoleDeletesRecords(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o, viewer := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken)
	const create, save, remove = newRecord + "?do=create", "/console/extstorage/record?do=save", "/console/extstorage/records?do=delete-chosen"
	for _, key := range []string{"a", "b", "c:1", "<d>"} {
		o.want(key, http.StatusSeeOther, "", http.MethodPost, create, recordForm(o, "revision", "0", "key", key, "value", "1"))
	}
	body := o.want("the boxes", http.StatusOK, `name="key" value="1:&lt;d&gt;"`, http.MethodGet, recordsPage, nil)
	if n := strings.Count(body, `type="checkbox" name="key"`); n != 4 {
		t.Errorf("%d boxes in %s", n, body)
	}
	if body := viewer.want("a viewer", http.StatusOK, "", http.MethodGet, recordsPage, nil); strings.Contains(body, "checkbox") {
		t.Errorf("a viewer can select records: %s", body)
	}
	chosen := func(s *operator, rows ...string) url.Values {
		form := recordForm(s)
		form["key"] = rows
		return form
	}
	viewer.want("a viewer", http.StatusForbidden, "", http.MethodPost, remove, chosen(viewer, "1:a"))
	o.want("the change", http.StatusSeeOther, "", http.MethodPost, save, recordForm(o, "revision", "1", "key", "b", "value", "2"))
	says := "Deleted 2 records; kept 1, changed since the page was shown: b."
	body = o.want("a changed one", http.StatusConflict, says, http.MethodPost, remove, chosen(o, "1:a", "1:b", "1:c:1", "1:gone"))
	if !strings.Contains(body, `value="2:b"`) || !strings.Contains(body, "&lt;d&gt;") || strings.Contains(body, "1:a") || strings.Contains(body, "checked") {
		t.Errorf("the page after it: %s", body)
	}
	for says, rows := range map[string][]string{
		"Select at least one row": nil, "Select at most 100 rows": make([]string, 101),
		"Key: expected REVISION:KEY": {"a"}, "Key: must not contain": {"1:a/b"}, "REVISION:KEY": {"0:a"},
	} {
		o.want(says, http.StatusBadRequest, says, http.MethodPost, remove, chosen(o, rows...))
	}
	o.want("the rest", http.StatusSeeOther, "/console/extstorage/records?", http.MethodPost, remove, chosen(o, "2:b", "1:<d>"))
	o.want("the notice", http.StatusOK, "Deleted 2 records.", http.MethodGet, recordsPage, nil)
	o.want("the empty table", http.StatusOK, "There are no records.", http.MethodGet, recordsPage, nil)
	o.want("the log", http.StatusOK, "b, &lt;d&gt;", http.MethodGet, "/console/changes", nil)
}
