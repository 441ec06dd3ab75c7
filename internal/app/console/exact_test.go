package console

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExactInputs checks that names come back from a form as they are, although browsers send each line break as CR LF.
func TestExactInputs(t *testing.T) {
	t.Parallel()
	attr := regexp.MustCompile(`name="([^"]*)" value="([^"]*)"`)
	for _, name := range []string{"", "a", "a b", "%0A", "*", "a\nb", "a\rb", "a\r\nb", "\x01", "\u202e", "\ufffe", "100%\n", "a+b\r"} {
		var p page
		p.exactInput("hidden", "object", name)
		m := attr.FindStringSubmatch(p.String())
		if m == nil || strings.ContainsAny(p.String(), "\r\n") {
			t.Fatalf("%q: %s", name, &p)
		}
		sent := url.Values{m[1]: {m[2]}, "other": {"*"}}
		if err := restoreExact(sent); err != nil || sent.Get("object") != name || len(sent) != 2 {
			t.Errorf("%q comes back as %q, %v", name, sent, err)
		}
	}
	if err := restoreExact(url.Values{"*object": {"%zz"}}); err == nil {
		t.Error("a value that is not escaped is accepted")
	}
}

// TestHiddenInputsAreExact checks that every hidden field and check box in the console is written by exactInput, unless its
// value cannot have a line break.
func TestHiddenInputsAreExact(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile(`"type", "hidden", "name", ([^,]+),`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found += strings.Count(string(text), "exactInput(")
		for _, m := range plain.FindAllStringSubmatch(string(text), -1) {
			switch m[1] {
			case `"csrf"`, `"return-to"`, `"return-page"`, `"next"`: // tokens and paths
			default:
				t.Errorf("%s: the hidden field %s is not written by exactInput", file, m[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d exact inputs", found)
	}
}
