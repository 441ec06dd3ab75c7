package app

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

// backupFile is the file in the data folder that says when the latest backup was made.
const backupFile = "last-backup.json"

// lastBackup is the latest backup.
type lastBackup struct {
	At      time.Time `json:"at"`
	Path    string    `json:"path"`
	Lost    int64     `json:"lost"`    // files that could not be read
	Without []string  `json:"without"` // services whose database is on a server

	Earlier []earlierBackup `json:"earlier,omitempty"` // the latest first
}

// earlierBackup is a backup before the latest.
type earlierBackup struct {
	At   time.Time `json:"at"`
	Path string    `json:"path"`
}

// maxEarlier limits the number of earlier backups that are remembered.
const maxEarlier = 1000

// recordBackup records that a backup was made, for servers on the same data folder.
func (a *App) recordBackup(dir string, lost int64) (err error) {
	b := lastBackup{At: a.now().UTC(), Path: dir, Lost: lost}
	if abs, err := filepath.Abs(dir); err == nil {
		b.Path = abs
	}
	for _, d := range a.databases() {
		if !d.Embedded() {
			b.Without = append(b.Without, d.Service)
		}
	}
	if last, err := readBackup(a.data); err == nil && last != nil { // a broken record is replaced
		b.Earlier = append([]earlierBackup{{last.At, last.Path}}, last.Earlier...)
		b.Earlier = slices.DeleteFunc(b.Earlier, func(e earlierBackup) bool { return e.Path == b.Path || !exists(e.Path) })
		b.Earlier = b.Earlier[:min(len(b.Earlier), maxEarlier)]
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	// A backup of root is read by the user of the server.
	return durable.File{Name: filepath.Join(a.data, backupFile), Mode: 0o644}.Replace(durable.Bytes(text))
}

// exists reports whether a folder may exist: one that cannot be read may.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// knownBackups returns the recorded backups that still exist, the latest first.
func knownBackups(data string) (all []service.Backup, err error) {
	last, err := readBackup(data)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", filepath.Join(data, backupFile), service.Reason(err))
	}
	if last == nil {
		return nil, nil
	}
	for _, b := range append([]earlierBackup{{last.At, last.Path}}, last.Earlier...) {
		if exists(b.Path) {
			all = append(all, service.Backup{Path: b.Path, At: b.At})
		}
	}
	return all, nil
}

// readBackup returns the latest backup, or nil if there is none.
func readBackup(data string) (*lastBackup, error) {
	text, err := os.ReadFile(filepath.Join(data, backupFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	b := &lastBackup{}
	return b, json.Unmarshal(text, b)
}
