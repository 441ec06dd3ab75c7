package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const libraries = "internal/app/console/static/lib"

type library struct {
	Name, Version, License string
	Files                  map[string]struct{ From string }
}

func (r *release) libraries() (all []library, err error) {
	text, err := os.ReadFile(filepath.Join(r.source, libraries, "packages.json"))
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}

// notices are the licenses in the binary: each text once, after the names it applies to.
type notices struct {
	texts [][]byte
	names map[string][]string // by text
}

func (n *notices) add(name, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = append(bytes.TrimSpace(text), '\n')
	if n.names[string(text)] == nil {
		n.texts = append(n.texts, text)
	}
	if had := n.names[string(text)]; !slices.Contains(had, name) {
		n.names[string(text)] = append(had, name)
	}
	return nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([.-].*)?$`)

func (n *notices) addFolder(name, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, f := range files {
		if f.IsDir() || !licenseFile.MatchString(f.Name()) {
			continue
		}
		found = true
		if err := n.add(name, filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return nil
}

func (r *release) thirdParty(a arch) error {
	info, err := buildinfo.ReadFile(filepath.Join(r.tree(a), "holdfast"))
	if err != nil {
		return err
	}
	n := notices{names: map[string][]string{}}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	if err := n.add("Go "+strings.TrimPrefix(runtime.Version(), "go"), filepath.Join(strings.TrimSpace(string(root)), "LICENSE")); err != nil {
		return err
	}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range info.Deps {
		args = append(args, m.Path)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = r.source
	folders, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	for line := range strings.Lines(string(folders)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if err := n.addFolder(name, dir); err != nil {
			return err
		}
	}
	all, err := r.libraries()
	if err != nil {
		return err
	}
	for _, l := range all {
		for file, f := range l.Files {
			if f.From == "LICENSE" {
				if err := n.add(l.Name+" "+l.Version, filepath.Join(r.source, libraries, file)); err != nil {
					return err
				}
			}
		}
	}
	var b bytes.Buffer
	b.WriteString("Licences of third-party software in the Holdfast binary. Holdfast itself is under the\nMozilla Public License 2.0, in LICENSE.\n")
	for _, text := range n.texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(n.names[string(text)], "\n"), text)
	}
	return write(filepath.Join(r.tree(a), "THIRD-PARTY.txt"), b.Bytes())
}
