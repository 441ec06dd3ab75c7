package ext

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRecordOperations writes, lists, reads and deletes records as an operator.
func TestRecordOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	records := fmt.Sprintf("records/%s/%s/settings", someInstall.Tenant, someInstall.Install)
	put := func(status int, key, query, body string) string {
		t.Helper()
		return a.Upload(status, "/ext/"+records+"/"+key+"/put"+query, "application/json", body).Text
	}
	contains := func(text, part string) {
		t.Helper()
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	contains(put(200, "theme", "?metadata=%7B%22a%22%3A1%7D&ttl=1d", "{ \"dark\": true,\n \"n\": 1.0 }\n"), `"revision":1`)
	contains(put(200, "theme", "?ifRevision=1", `{"dark":false}`), `"revision":2`)
	contains(put(409, "theme", "?ifRevision=1", `1`), "theme: revision mismatch: the current revision is 2")
	contains(put(409, "theme", "?ifRevision=0", `1`), "the current revision is 2")
	put(200, "u%C3%A9", "?ifRevision=0", `"text"`)
	if text := a.send(200, http.MethodGet, records+"/theme/get", ""); text != `{"dark":false}` {
		t.Error(text)
	}
	if text := a.send(200, http.MethodGet, records+"/u%C3%A9/get", ""); text != `"text"` {
		t.Error(text)
	}
	a.send(404, http.MethodGet, records+"/missing/get", "")
	contains(put(422, "k", "", `text`), "value: is not valid JSON: expected e.g. ")
	contains(put(422, "k", "", ``), "value: ")
	contains(put(422, "k", "?metadata=%5B%5D", `1`), "metadata")
	contains(put(422, "k", "?ttl=1s", `1`), "must be from 1m to 30d")
	contains(put(422, "k", "?ifRevision=-1", `1`), "expected a whole number from 0")
	contains(put(422, "%00", "", `1`), "key")
	put(413, "k", "", `"`+strings.Repeat("x", 300_000)+`"`)
	for i := range 250 {
		put(200, fmt.Sprintf("many-%03d", i), "", "1")
	}
	var list struct {
		Records []recordOutput
		Next    *string
	}
	read := func(query string) int {
		t.Helper()
		list.Records, list.Next = nil, nil
		if err := json.Unmarshal([]byte(a.send(200, http.MethodGet, records+query, "")), &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Records)
	}
	for query, want := range map[string]int{"?limit=1000": 252, "?prefix=many-&limit=250": 250, "?prefix=many-&limit=240": 240, "?prefix=many-24&limit=1000": 10, "?prefix=no": 0, "?prefix=many-&limit=5&after=many-247": 2} {
		if n := read(query); n != want || (list.Next != nil) != (query == "?prefix=many-&limit=250" || query == "?prefix=many-&limit=240") {
			t.Errorf("%s: %d records, want %d; next is %v", query, n, want, list.Next)
		}
	}
	read("?prefix=theme")
	if r := list.Records[0]; r.Key != "theme" || r.Revision != 2 || r.Bytes == 0 || r.Expires != nil || r.Created.IsZero() {
		t.Errorf("%+v", r)
	}
	a.send(422, http.MethodGet, records+"?prefix=%00", "")

	contains(a.send(409, http.MethodPost, records+"/theme/delete", `{"ifRevision":"1"}`), "the current revision is 2")
	a.send(200, http.MethodPost, records+"/theme/delete", `{"ifRevision":"2"}`)
	contains(a.send(404, http.MethodPost, records+"/theme/delete", ""), "theme: record not found")
}
