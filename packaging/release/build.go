package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

type arch struct {
	name   string
	goarch string
	nfpm   string
}

var arches = []arch{{"amd64", "amd64", "amd64"}, {"arm64", "arm64", "arm64"}, {"armv7", "arm", "arm7"}}

func archNames() (names []string) {
	for _, a := range arches {
		names = append(names, a.name)
	}
	return names
}

func (a arch) goos() []string { return []string{"GOOS=linux", "GOARCH=" + a.goarch, "GOARM=7"} }

func (r *release) tree(a arch) string { return filepath.Join(r.out, "linux_"+a.name) }

func (r *release) build(env []string, binary string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-ldflags", "-s -w "+r.ldflags, "-o", binary, "./cmd/holdfast")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -tags="+r.tags)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", strings.Join(env[:2], " "), err, text)
	}
	return nil
}

// generate writes the binary's output, which is the same on every architecture: the example configuration,
// completions and manual pages.
func (r *release) generate(dir string) error {
	native, err := r.native(dir)
	if err != nil {
		return err
	}
	defer os.Remove(native)
	print := func(file, head string, args ...string) error {
		text, err := r.ask(native, args...)
		if err != nil {
			return err
		}
		return write(filepath.Join(dir, file), append([]byte(head), text...))
	}
	head, err := os.ReadFile(filepath.Join(r.source, "packaging", "holdfast.toml.head"))
	if err != nil {
		return err
	}
	if err := print("holdfast.toml", string(head), "config", "example"); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if err := print(filepath.Join("completions", "holdfast."+shell), "", "completion", shell); err != nil {
			return err
		}
	}
	if _, err := r.ask(native, "man", filepath.Join(dir, "man")); err != nil {
		return err
	}
	return compressAll(filepath.Join(dir, "man"))
}

func (r *release) native(dir string) (string, error) {
	path := filepath.Join(dir, "native")
	for _, a := range r.arches {
		if runtime.GOOS == "linux" && runtime.GOARCH == a.goarch {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return "", err
			}
			return path, os.Symlink(filepath.Join(r.tree(a), "holdfast"), path)
		}
	}
	return path, r.build([]string{"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}, path)
}

func (r *release) ask(binary string, args ...string) ([]byte, error) {
	cmd := exec.Command(binary, args...)
	// Do not inherit the environment; set the date of the manual pages.
	cmd.Env = []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("holdfast %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return text, nil
}

func compressAll(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := zip.Write(text); err != nil {
			return err
		}
		if err := zip.Close(); err != nil {
			return err
		}
		if err := write(path+".gz", b.Bytes()); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
