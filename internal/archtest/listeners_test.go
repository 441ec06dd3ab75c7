package archtest

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// servesHTTP matches code that serves HTTP without package web, and so without its framing checks and its limits of
// HTTP/2.
var servesHTTP = regexp.MustCompile(`\bhttp\.(?:Server\{|Serve\(|ServeTLS\(|ListenAndServe|NewServeConn)|new\(http\.Server\)|\bhttp2\.(?:Server\{|ConfigureServer)|\bfcgi\.Serve|\bcgi\.Serve|\btls\.(?:Listen|NewListener)\(|\bh2c\.|\bfasthttp\.`)

// TestOneServer checks that only package web serves HTTP.
func TestOneServer(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, inWeb := os.DirFS(root), 0
	for name := range ownServer(t) {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range servesHTTP.FindAllString(string(text), -1) {
			if strings.HasPrefix(name, "internal/web/") {
				inWeb++
				continue
			}
			t.Errorf("%s: %s: serve HTTP with web.NewServer and web.Serve, which check requests and limit HTTP/2", name, found)
		}
	}
	if inWeb != 1 {
		t.Errorf("package web has %d servers, want one", inWeb)
	}
}
