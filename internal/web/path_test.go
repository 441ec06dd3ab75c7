package web_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

func TestSegments(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"/":                {""},
		"/a/b":             {"a", "b"},
		"/a//b/":           {"a", "", "b", ""},
		"/a%2Fb/%2e%2E/..": {"a/b", "..", ".."},
		"/%7Bguid%7D/a+b":  {"{guid}", "a+b"},
		"/%00/%ff":         {"\x00", "\xff"},
	} {
		got, err := web.Segments(path)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "a/b", "*", "/a%", "/a%2", "/%zz", "/a/%e", "?x"} {
		if got, err := web.Segments(path); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
}

func FuzzSegments(f *testing.F) {
	for _, path := range []string{"/", "/a%2Fb//..", "/%", "/a b", "*"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := web.Segments(path)
		if err != nil {
			return
		}
		escaped := make([]string, len(segments))
		for i, s := range segments {
			escaped[i] = url.PathEscape(s)
		}
		again, err := web.Segments("/" + strings.Join(escaped, "/"))
		if err != nil || !slices.Equal(again, segments) {
			t.Errorf("%q is %q, and then %q, %v", path, segments, again, err)
		}
	})
}
