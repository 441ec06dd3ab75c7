package web_test

import (
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

func TestParseOrigin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want web.Origin
		back string // result of String
	}{
		{"https://Example.org", web.Origin{Scheme: "https", Host: "example.org", Port: 443}, "https://example.org"},
		{"http://example.org:8000/", web.Origin{Scheme: "http", Host: "example.org", Port: 8000}, "http://example.org:8000"},
		{"https://example.org:443/sync/", web.Origin{Scheme: "https", Host: "example.org", Port: 443, Prefix: "/sync"}, "https://example.org/sync"},
		{"HTTP://127.0.0.1:80/a/b~c", web.Origin{Scheme: "http", Host: "127.0.0.1", Port: 80, Prefix: "/a/b~c"}, "http://127.0.0.1/a/b~c"},
		{"http://[0:0:0:0:0:0:0:1]:5000", web.Origin{Scheme: "http", Host: "::1", Port: 5000}, "http://[::1]:5000"},
		{"http://my_nas.local", web.Origin{Scheme: "http", Host: "my_nas.local", Port: 80}, "http://my_nas.local"},
	} {
		got, err := web.ParseOrigin(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v; want %+v", tc.text, got, err, tc.want)
		}
		if got.String() != tc.back {
			t.Errorf("%s: written back as %s", tc.text, got)
		}
	}
	for _, text := range []string{
		"", "example.org", "//example.org", "ftp://example.org", "https://", "https:///sync", "https://u:p@example.org",
		"https://example.org?x", "https://example.org/?", "https://example.org/#", "https://example.org:0", "https://example.org:65536",
		"https://example.org:08", "https://example.org:", "https://exa mple.org", "https://[::1", "https://[fe80::1%25eth0]", "https://[1.2.3.4]",
		"https://example.org/a//b", "https://example.org/a/../b", "https://example.org/a%2fb", "https://example.org/ü", "https://ex\x00ample.org",
	} {
		if got, err := web.ParseOrigin(text); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestOriginMap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ prefix, target, public, inner string }{
		{"", "/1.5/7/storage/x?full=1", "/1.5/7/storage/x?full=1", "/1.5/7/storage/x?full=1"},
		{"/sync", "/sync/1.5/7", "/sync/1.5/7", "/1.5/7"},
		{"/sync", "/1.5/7?a=/sync/", "/sync/1.5/7?a=/sync/", "/1.5/7?a=/sync/"},
		{"/sync", "/sync", "/sync", "/"},
		{"/sync", "/sync?x", "/sync?x", "/?x"},
		{"/sync", "/sync/", "/sync/", "/"},
		{"/sync", "/syncs/1.5", "/sync/syncs/1.5", "/syncs/1.5"},
		{"/sync", "/%73ync/1.5", "/sync/%73ync/1.5", "/%73ync/1.5"},
		{"/sync", "//sync/1.5", "/sync//sync/1.5", "//sync/1.5"},
		{"/a/b", "/a/b/../%2e%2e/", "/a/b/../%2e%2e/", "/../%2e%2e/"},
		{"/storage", "/storage/1.5/7", "/storage/1.5/7", "/1.5/7"},
	} {
		public, inner := web.Origin{Prefix: tc.prefix}.Map(tc.target)
		if public != tc.public || inner != tc.inner {
			t.Errorf("%q under %q: public %q, inner %q; want %q, %q", tc.target, tc.prefix, public, inner, tc.public, tc.inner)
		}
	}
}
