package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var shipped = [][2]string{
	{"README.md", ""}, {"CHANGELOG.md", ""}, {"LICENSE", ""}, {"SECURITY.md", ""}, {"CONTACT", ""}, {"docs", ""},
	{"packaging/holdfast.service", "holdfast.service"},
	{"packaging/holdfast.socket", "holdfast.socket"},
	{"packaging/holdfast-backup.service", "holdfast-backup.service"},
	{"packaging/holdfast-backup.timer", "holdfast-backup.timer"},
	{"packaging/holdfast.sysusers", "holdfast.sysusers"},
	{"packaging/holdfast.logrotate", "holdfast.logrotate"},
}

func (r *release) fillTree(a arch, generated string) error {
	tree := r.tree(a)
	if err := os.CopyFS(tree, os.DirFS(generated)); err != nil {
		return err
	}
	for _, file := range shipped {
		to := file[1]
		if to == "" {
			to = file[0]
		}
		if err := copyAll(filepath.Join(r.source, file[0]), filepath.Join(tree, to)); err != nil {
			return err
		}
	}
	if err := unlinkMissing(tree); err != nil {
		return err
	}
	return seal(tree, r.time)
}

func copyAll(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, text)
}

func seal(tree string, at time.Time) error {
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if entry.IsDir() || entry.Name() == "holdfast" {
			mode = 0o755
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}

var link = regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s:#]+)(#[^)\s]*)?\)`)

func unlinkMissing(tree string) error {
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		there := link.ReplaceAllStringFunc(string(text), func(found string) string {
			m := link.FindStringSubmatch(found)
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[2])); err == nil {
				return found
			}
			if strings.HasPrefix(found, "!") {
				return ""
			}
			return m[1]
		})
		return write(path, []byte(there))
	})
}
