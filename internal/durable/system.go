package durable

import (
	"io/fs"
	"os"
)

const private = 0o600

type system struct{}

func (system) open(path string) (folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return openFolder{root}, nil
}

func (system) mkdir(path string) error { return os.Mkdir(path, 0o700) }

func (system) rename(from, to string) error { return os.Rename(from, to) }

type openFolder struct{ *os.Root }

func (f openFolder) create(name string, mode fs.FileMode) (file, error) {
	to, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	if err != nil || mode == 0 {
		return to, err
	}
	if err := to.Chmod(mode); err != nil { // regardless of the umask
		_, _ = to.Close(), f.Remove(name)
		return nil, err
	}
	return to, nil
}

func (f openFolder) link(from, to string) error   { return f.Link(from, to) }
func (f openFolder) rename(from, to string) error { return f.Rename(from, to) }
func (f openFolder) remove(name string) error     { return f.Remove(name) }
func (f openFolder) sync() error                  { return SyncIn(f.Root, ".") }
