package dist

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everywhere lists the files in every package; systemds lists additional files for systemd.
var (
	everywhere = []string{
		"/usr/bin/holdfast", "/etc/holdfast/holdfast.toml", "/etc/logrotate.d/holdfast", "/usr/share/man/man1/holdfast.1.gz",
		"/usr/share/man/man1/holdfast-serve.1.gz", "/usr/share/bash-completion/completions/holdfast",
		"/usr/share/fish/vendor_completions.d/holdfast.fish", "/usr/share/doc/holdfast/README.md", "/usr/share/doc/holdfast/CHANGELOG.md",
		"/usr/share/doc/holdfast/SECURITY.md", "/usr/share/doc/holdfast/CONTACT", "/usr/share/doc/holdfast/LICENSE", "/usr/share/doc/holdfast/THIRD-PARTY.txt", "/usr/share/doc/holdfast/docs/operations.md",
		"/usr/share/doc/holdfast/docs/monitoring/alerts.yml",
	}
	systemds = []string{
		"/usr/lib/systemd/system/holdfast.service", "/usr/lib/systemd/system/holdfast.socket", "/usr/lib/systemd/system/holdfast-backup.service",
		"/usr/lib/systemd/system/holdfast-backup.timer", "/usr/lib/sysusers.d/holdfast.conf",
	}
)

func has(t *testing.T, listed []string, files ...string) {
	t.Helper()
	for _, file := range files {
		if !slices.Contains(listed, file) {
			t.Errorf("the package has no %s", file)
		}
	}
}

func TestDebianFiles(t *testing.T) {
	t.Parallel()
	var listed []string
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb(t))) {
		listed = append(listed, strings.TrimPrefix(strings.Fields(line)[5], "."))
	}
	has(t, listed, everywhere...)
	has(t, listed, systemds...)
	has(t, listed, "/usr/share/doc/holdfast/copyright", "/usr/share/zsh/vendor-completions/_holdfast")
}

// TestRPM checks that rpm reads the package, verifies its checksums, and installs it into a folder.
func TestRPM(t *testing.T) {
	t.Parallel()
	need(t, "rpm", "rpm")
	file := filepath.Join(release(t), "holdfast-1.2.3-1."+native(t).rpm+".rpm")
	const fields = "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{OS} %{LICENSE} %{BUILDHOST} %{BUILDTIME}"
	want := "holdfast 1.2.3-1 " + native(t).rpm + " linux MPL-2.0 localhost 1700000000"
	if got := output(t, "rpm", "-qp", "--nosignature", "--qf", fields, file); got != want {
		t.Errorf("fields %q, want %q", got, want)
	}
	if out := output(t, "rpm", "-K", "--nosignature", file); !strings.Contains(out, "digests OK") {
		t.Errorf("checksums: %s", out)
	}
	listed := strings.Fields(output(t, "rpm", "-qpl", "--nosignature", file))
	has(t, listed, everywhere...)
	has(t, listed, systemds...)
	has(t, listed, "/usr/share/zsh/site-functions/_holdfast")
	configs := strings.Fields(output(t, "rpm", "-qpc", "--nosignature", file))
	if !slices.Equal(configs, []string{"/etc/holdfast/holdfast.toml", "/etc/logrotate.d/holdfast"}) {
		t.Errorf("configuration files %v", configs)
	}
	scripts := output(t, "rpm", "-qp", "--scripts", "--nosignature", file)
	for _, part := range []string{"systemd-sysusers holdfast.conf", "preset holdfast.service", "disable --now", "try-restart"} {
		if !strings.Contains(scripts, part) {
			t.Errorf("the scripts have no %q:\n%s", part, scripts)
		}
	}

	needRoot(t, "install packages")
	root := t.TempDir()
	output(t, "rpm", "--root", root, "--dbpath", "/rpmdb", "-i", "--nosignature", "--nodeps", "--noscripts", file)
	if out := output(t, filepath.Join(root, "usr/bin/holdfast"), "version"); out != version+" ("+commit+")\n" {
		t.Errorf("version %q", out)
	}
	links(t, filepath.Join(root, "usr/share/doc/holdfast"))
}

// TestAlpine reads an Alpine package: three compressed archives in one file, which tar reads as one.
func TestAlpine(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join(release(t), "holdfast_1.2.3_"+native(t).apk+".apk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	var info string
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == ".PKGINFO" {
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			info = string(text)
		}
		if h.Name == "usr/bin/holdfast" && h.Mode&0o777 != 0o755 {
			t.Errorf("the binary has mode %o", h.Mode)
		}
		listed = append(listed, "/"+h.Name)
	}
	for _, line := range []string{"pkgname = holdfast", "pkgver = 1.2.3", "arch = " + native(t).apk, "license = MPL-2.0", "depend = openrc"} {
		if !strings.Contains(info, line+"\n") {
			t.Errorf("no %q in\n%s", line, info)
		}
	}
	has(t, listed, everywhere...)
	has(t, listed, "/etc/init.d/holdfast", "/.pre-install", "/usr/share/zsh/site-functions/_holdfast")
	if slices.ContainsFunc(listed, func(file string) bool { return strings.Contains(file, "systemd") }) {
		t.Error("there is no systemd on Alpine")
	}
}

func TestManual(t *testing.T) {
	t.Parallel()
	page := output(t, "zcat", filepath.Join(tree(t), "man/holdfast-serve.1.gz"))
	if !strings.Contains(page, `"Nov 2023"`) || !strings.Contains(page, version) || !strings.Contains(page, "SYNOPSIS") {
		t.Errorf("the manual page of serve:\n%s", page)
	}
	script := filepath.Join(tree(t), "completions/holdfast.bash")
	output(t, "bash", "-n", script)
	completed := output(t, "bash", "-c", `. "$1"; PATH=$2:$PATH
		COMP_LINE="holdfast se" COMP_POINT=11 COMP_WORDS=(holdfast se) COMP_CWORD=1
		compopt() { :; }
		__start_holdfast; printf "%s\n" "${COMPREPLY[@]}"`, "bash", script, tree(t))
	if !strings.Contains(completed, "serve") {
		t.Errorf("se is completed as %q", completed)
	}
}

// TestSBOM checks that the SBOM contains Go, the modules recorded in the binary, and the console's libraries, and that
// THIRD-PARTY.txt contains each licence.
func TestSBOM(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(release(t), "holdfast_1.2.3_linux_"+native(t).dist+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion < "1.5" || bom.SerialNumber != "" || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" ||
		bom.Metadata.Component.Name != "holdfast" || bom.Metadata.Component.Version != "1.2.3" {
		t.Errorf("%+v", bom)
	}
	info, err := buildinfo.ReadFile(filepath.Join(tree(t), "holdfast"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	want = append(want, "pkg:npm/%40fontsource-variable/inter@5.3.0", "pkg:npm/htmx.org@2.0.11", "pkg:npm/uplot@1.6.32")
	licenses, err := os.ReadFile(filepath.Join(tree(t), "THIRD-PARTY.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range bom.Components {
		got = append(got, c.PURL)
		name := c.Name
		if name == "std" {
			name = "Go"
		}
		if !strings.Contains(string(licenses), "\n"+name+" "+c.Version+"\n") {
			t.Errorf("THIRD-PARTY.txt has no %s %s", name, c.Version)
		}
	}
	for _, text := range []string{"Copyright (c) 2022 Leon Sorokin", "Zero-Clause BSD", "SIL OPEN FONT LICENSE", "Copyright 2009 The Go Authors"} {
		if !strings.Contains(string(licenses), text) {
			t.Errorf("THIRD-PARTY.txt has no %q", text)
		}
	}
	if len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("components %v, want %v", got, want)
	}
}

// links checks that a package contains the targets of its documents' links.
func links(t *testing.T, root string) {
	t.Helper()
	address := regexp.MustCompile(`\]\(([^)\s:#]+)(?:#[^)\s]*)?\)`)
	documents := 0
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		documents++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range address.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s links to a file that is not in the package: %s", path, found[1])
			}
		}
		return nil
	})
	if err != nil || documents < 10 {
		t.Errorf("%d documents, %v", documents, err)
	}
}

// documented checks that a package contains the documentation named in its units.
func documented(t *testing.T, root string) {
	t.Helper()
	units, err := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system/*"))
	if err != nil || len(units) != 4 {
		t.Fatalf("units %v, %v", units, err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimPrefix(unitSetting(t, string(text), "Documentation"), "file://")
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}
