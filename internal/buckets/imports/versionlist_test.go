package imports

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestVersionsAcrossPages lists a name with versions on two pages, with every form of next-page marker.
func TestVersionsAcrossPages(t *testing.T) {
	t.Parallel()
	for name, marker := range map[string]string{
		"the name":                "a/key",
		"the name and more":       "a/key[minio_cache:v2,return:]",
		"not the name":            "something else",
		"a longer name":           "a/key2",
		"the name and characters": "a/key\x01+ü",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := func(versions, next string) string {
				text := "<ListVersionsResult><EncodingType>url</EncodingType>"
				for word := range strings.FieldsSeq(versions) {
					key, version, _ := strings.Cut(word, ":")
					text += "<Version><Key>" + url.QueryEscape(key) + "</Key><VersionId>" + version + "</VersionId><LastModified>2026-11-27T15:00:00.000Z</LastModified><ETag>00</ETag><Size>1</Size></Version>"
				}
				if next != "" {
					text += "<IsTruncated>true</IsTruncated><NextKeyMarker>" + url.QueryEscape(next) + "</NextKeyMarker><NextVersionIdMarker>v3</NextVersionIdMarker>"
				}
				return text + "</ListVersionsResult>"
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch q := r.URL.Query(); {
				case !q.Has("key-marker"):
					_, _ = fmt.Fprint(w, page("a:v1 a/k:v1 a/key:v4 a/key:v3", marker))
				case q.Get("key-marker") == marker && q.Get("version-id-marker") == "v3":
					_, _ = fmt.Fprint(w, page("a/key:v2 a/key:v1 b:v2 b:v1", ""))
				default:
					t.Errorf("query %v", q)
					w.WriteHeader(http.StatusBadRequest)
				}
			}))
			t.Cleanup(server.Close)
			s, err := NewSource(t.Context(), SourceOptions{Endpoint: server.URL, Anonymous: true, Parallel: 1})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := s.listVersions(t.Context(), "bucket", "", func(key string, versions []Listed) error {
				for _, v := range versions {
					key += " " + v.Version
				}
				got = append(got, key)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want := []string{"a v1", "a/k v1", "a/key v1 v2 v3 v4", "b v1 v2"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
