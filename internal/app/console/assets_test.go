package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"
)

// TestLibraries checks that libraries match packages.json, and that the binary contains their licences.
func TestLibraries(t *testing.T) {
	t.Parallel()
	dir, err := fs.Sub(static, "static/lib")
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(dir, "packages.json")
	if err != nil {
		t.Fatal(err)
	}
	var packages []struct {
		Name, Version, License string
		Files                  map[string]struct{ From, SHA256 string }
	}
	if err := json.Unmarshal(text, &packages); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, p := range packages {
		licences := 0
		for name, f := range p.Files {
			sums[name] = f.SHA256
			if f.From == "LICENSE" {
				licences++
			}
		}
		if p.Version == "" || p.License == "" || licences != 1 {
			t.Errorf("%s: version %q, licence %q, %d texts of it", p.Name, p.Version, p.License, licences)
		}
	}
	files, err := fs.ReadDir(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(sums)+1 {
		t.Errorf("%d files, but packages.json names %d", len(files)-1, len(sums))
	}
	for name, want := range sums {
		body, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Error(err)
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the SHA-256 %x, and packages.json has %s", name, sum, want)
		}
	}
}
