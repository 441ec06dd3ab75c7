package sigv4

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestCanonicalQuery(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                          "",
		"uploads":                   "uploads=",
		"uploads=":                  "uploads=",
		"&&a&":                      "a=",
		"b=2&a=1":                   "a=1&b=2",
		"a=2&a=1&a":                 "a=&a=1&a=2",
		"a-b=1&a=2":                 "a=2&a-b=1",                // by name, not by name=value
		"a%2Fb=1&a-b=2&a_b=3&ab=4":  "a%2Fb=1&a-b=2&a_b=3&ab=4", // by encoded name: % before -
		"A=1&a=2&B=3":               "A=1&B=3&a=2",
		"prefix=a/b c":              "prefix=a%2Fb%20c",
		"prefix=a+b":                "prefix=a%20b",
		"prefix=%c3%a4~":            "prefix=%C3%A4~",
		"a=b=c":                     "a=b%3Dc",
		"=a":                        "=a",
		"a;b=c":                     "a%3Bb=c",
		"X-Amz-Signature=1&Z=1&a=2": "X-Amz-Signature=1&Z=1&a=2",
	} {
		params, err := parseQuery(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		if got := canonicalQuery(params, false); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	params, _ := parseQuery("X-Amz-Signature=1&a=2&X-Amz-Signature=3")
	if got := canonicalQuery(params, true); got != "a=2" {
		t.Errorf("presigned: %s", got)
	}
}

func TestCanonicalPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"/":                    {"/"},
		"//a/../b/./":          {"//a/../b/./"},
		"/a%20b%2Bc":           {"/a%20b%2Bc"},
		"/a+b":                 {"/a%2Bb", "/a+b"},
		"/a$b":                 {"/a%24b", "/a$b"},
		"/%e4%7E":              {"/%E4~", "/%e4%7E"},
		"/a%2Fb":               {"/a/b", "/a%2Fb"},
		"/\xff":                {"/%FF", "/\xff"},
		"/%25%32%30":           {"/%2520", "/%25%32%30"}, // decoded once
		"/-._~azAZ09/%00%7F!*": {"/-._~azAZ09/%00%7F%21%2A", "/-._~azAZ09/%00%7F!*"},
	} {
		if got, err := canonicalPaths(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"/%", "/%2", "/%2g", "/%g2", "/a%"} {
		if got, err := canonicalPaths(path); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestHeaderValues(t *testing.T) {
	t.Parallel()
	r := Request{Host: "  a:80 ", ContentLength: 5, Header: http.Header{
		"One": {" \t a   b  \t"}, "Two": {" a ", "b  c"}, "Empty": {""}, "Tab": {"a\t\tb"},
	}}
	for name, want := range map[string]string{
		"host": "a:80", "one": "a b", "two": "a,b c", "empty": "", "tab": "a\t\tb", "content-length": "5",
	} {
		if got, ok := r.header(name); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"other", "transfer-encoding", "Host"} {
		if got, ok := r.header(name); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
	r.ContentLength = -1
	if got, ok := r.header("transfer-encoding"); !ok || got != "chunked" {
		t.Errorf("transfer-encoding: %q, %v", got, ok)
	}
}

// FuzzCanonical checks that canonical input stays unchanged, and that encoding keeps the meaning.
func FuzzCanonical(f *testing.F) {
	f.Add("/a%2Fb+c$d", "b=1&a-b=2&a&%7e=+&%3D=%26")
	f.Add("/%zz", "=&==&&;")
	f.Add("/", "\x00&=\x00")
	f.Fuzz(func(t *testing.T, path, query string) {
		if paths, err := canonicalPaths(path); err == nil {
			again, err := canonicalPaths(paths[0])
			if err != nil || len(again) != 1 || again[0] != paths[0] || paths[len(paths)-1] != path {
				t.Errorf("%q: %q, then %q, %v", path, paths, again, err)
			}
			before, _ := unescape(path, false)
			if after, _ := unescape(paths[0], false); before != after {
				t.Errorf("%q means %q, then %q", path, before, after)
			}
		}
		params, err := parseQuery(query)
		if err != nil {
			return
		}
		canonical := canonicalQuery(params, false)
		again, err := parseQuery(canonical)
		if err != nil || canonicalQuery(again, false) != canonical || strings.ContainsAny(canonical, " +\n\"") {
			t.Errorf("%q: %q, then %q, %v", query, canonical, canonicalQuery(again, false), err)
		}
		order := func(a, b parameter) int {
			return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
		}
		slices.SortFunc(params, order)
		slices.SortFunc(again, order)
		if !slices.Equal(params, again) {
			t.Errorf("%q means %q, then %q", query, params, again)
		}
	})
}
