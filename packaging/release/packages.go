package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // each registers a package format
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

func (r *release) packages(a arch) error {
	// nfpm reads from the working directory: tree/ contains the tarball's files, packaging/ the package-only files.
	work, err := os.MkdirTemp("", "holdfast-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Symlink(r.tree(a), filepath.Join(work, "tree")); err != nil {
		return err
	}
	own := filepath.Join(work, "packaging")
	if err := errors.Join(copyAll(filepath.Join(r.source, "packaging"), own), seal(own, r.time)); err != nil {
		return err
	}
	if err := os.Chdir(work); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm", "apk"} {
		if err := r.pack(a, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return os.Chdir(r.out) // the working directory is removed
}

func (r *release) pack(a arch, format string) error {
	version, err := r.version.of(format)
	if err != nil {
		return err
	}
	variables := map[string]string{"ARCH": a.nfpm, "VERSION": version, "HOMEPAGE": r.contact["homepage"]}
	if contact := r.contact["contact"]; strings.Contains(contact, "@") {
		variables["EMAIL"] = "<" + contact + ">"
	}
	config, err := nfpm.ParseFileWithEnvMapping("packaging/nfpm.yaml", func(name string) string { return variables[name] })
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.time
	info.Maintainer = strings.TrimSpace(info.Maintainer)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	f, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := packager.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

func (r *release) readContact() error {
	text, err := os.ReadFile(filepath.Join(r.source, "CONTACT"))
	if err != nil {
		return err
	}
	r.contact = map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			r.contact[key] = strings.TrimSpace(value)
		}
	}
	return nil
}
