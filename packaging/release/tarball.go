package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func (r *release) name(a arch) string { return "holdfast_" + r.version.files + "_linux_" + a.name }

func (r *release) tarball(a arch) error {
	f, err := os.Create(filepath.Join(r.out, r.name(a)+".tar.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	if err := filepath.WalkDir(r.tree(a), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return r.add(archive, a, path, entry)
	}); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return f.Close()
}

func (r *release) add(archive *tar.Writer, a arch, path string, entry fs.DirEntry) error {
	inside, err := filepath.Rel(r.tree(a), path)
	if err != nil {
		return err
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{
		Name: filepath.ToSlash(filepath.Join(r.name(a), inside)), Typeflag: tar.TypeReg, Size: info.Size(),
		Mode: int64(info.Mode().Perm()), ModTime: r.time, Format: tar.FormatGNU,
	}
	if entry.IsDir() {
		h.Typeflag, h.Size = tar.TypeDir, 0
		h.Name += "/"
		return archive.WriteHeader(h)
	}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(archive, f)
	return err
}

func (r *release) sums(stdout io.Writer) error {
	files, err := filepath.Glob(filepath.Join(r.out, `holdfast[_\-]*`))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		hash := sha256.New()
		_, err = io.Copy(hash, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", hash.Sum(nil), filepath.Base(path))
	}
	if err := write(filepath.Join(r.out, "SHA256SUMS"), b.Bytes()); err != nil {
		return err
	}
	_, err = stdout.Write(b.Bytes())
	return err
}
