package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/durable"
)

// RecordFile is the file in the data folder that says when the latest backup was made.
const RecordFile = "last-backup.json"

// Record is the latest backup.
type Record struct {
	At      time.Time `json:"at"`
	Path    string    `json:"path"`
	Lost    int64     `json:"lost"`    // files that could not be read
	Without []string  `json:"without"` // services whose database is on a server

	Earlier []earlier `json:"earlier,omitempty"` // the latest first
}

// earlier is a backup before the latest.
type earlier struct {
	At   time.Time `json:"at"`
	Path string    `json:"path"`
}

// maxEarlier limits the number of earlier backups that are remembered.
const maxEarlier = 1000

// Record records that a backup was made, for servers on the same data folder.
func (b *Server) Record(dir string, lost int64) (err error) {
	r := Record{At: b.Clock().UTC(), Path: dir, Lost: lost}
	if abs, err := filepath.Abs(dir); err == nil {
		r.Path = abs
	}
	for _, d := range b.databases() {
		if !d.Embedded() {
			r.Without = append(r.Without, d.Service)
		}
	}
	if last, err := Read(b.Data); err == nil && last != nil { // a broken record is replaced
		r.Earlier = append([]earlier{{last.At, last.Path}}, last.Earlier...)
		r.Earlier = slices.DeleteFunc(r.Earlier, func(e earlier) bool { return e.Path == r.Path || !exists(e.Path) })
		r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// A backup of root is read by the user of the server.
	return durable.File{Name: filepath.Join(b.Data, RecordFile), Mode: 0o644}.Replace(durable.Bytes(text))
}

// exists reports whether a folder may exist: one that cannot be read may.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Known returns the recorded backups that still exist, the latest first.
func Known(data string) (all []service.Backup, err error) {
	last, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", filepath.Join(data, RecordFile), service.Reason(err))
	}
	if last == nil {
		return nil, nil
	}
	for _, b := range append([]earlier{{last.At, last.Path}}, last.Earlier...) {
		if exists(b.Path) {
			all = append(all, service.Backup{Path: b.Path, At: b.At})
		}
	}
	return all, nil
}

// Read returns the record of the latest backup, or nil before the first backup.
func Read(data string) (*Record, error) {
	text, err := os.ReadFile(filepath.Join(data, RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no backup was made
	}
	if err != nil {
		return nil, err
	}
	b := &Record{}
	return b, json.Unmarshal(text, b)
}
