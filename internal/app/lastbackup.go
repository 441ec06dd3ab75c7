package app

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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
}

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
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	// A backup of root is read by the user of the server.
	return durable.File{Name: filepath.Join(a.data, backupFile), Mode: 0o644}.Replace(durable.Bytes(text))
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
