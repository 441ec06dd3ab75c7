package backup

import (
	"context"
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
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// RecordFile in the data folder records the latest backup, and failureFile a later failure of a backup to a URL.
const (
	RecordFile  = "last-backup.json"
	failureFile = "backup-failed.json"
)

type Record struct {
	At      time.Time `json:"at"`
	Path    string    `json:"path"` // or a URL without parameters
	Lost    int64     `json:"lost"`
	Without []string  `json:"without"`

	Earlier []earlier `json:"earlier,omitempty"` // latest first
}

type earlier struct {
	At   time.Time `json:"at"`
	Path string    `json:"path"`
}

const maxEarlier = 1000

func (b *Server) Record(dir string, lost int64) (err error) {
	r := Record{At: b.Clock().UTC(), Path: service.Absolute(dir), Lost: lost}
	return b.record(&r, nil)
}

func (b *Server) recordSent(ctx context.Context, address string, t replica.Target, lost int64) error {
	content, err := replica.Inspect(ctx, t)
	if err != nil || len(content.Points) == 0 {
		return err
	}
	name := location.Name(address)
	var older []earlier
	for _, p := range slices.Backward(content.Points) {
		older = append(older, earlier{p.Time.UTC(), name})
	}
	return b.record(&Record{At: older[0].At, Path: name, Lost: lost}, older[1:])
}

func (b *Server) record(r *Record, older []earlier) error {
	for _, d := range b.databases() {
		if !d.Embedded() {
			r.Without = append(r.Without, d.Service)
		}
	}
	r.Earlier = older
	if last, err := Read(b.Data); err == nil && last != nil { // a broken record is replaced
		before := append([]earlier{{last.At, last.Path}}, last.Earlier...)
		before = slices.DeleteFunc(before, func(e earlier) bool { return e.Path == r.Path || !exists(e.Path) })
		r.Earlier = append(r.Earlier, before...)
		slices.SortStableFunc(r.Earlier, func(a, b earlier) int { return b.At.Compare(a.At) })
	}
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// The server's user must be able to read it after a backup by root.
	return durable.File{Name: filepath.Join(b.Data, RecordFile), Mode: 0o644}.Replace(durable.Bytes(text))
}

// Failure is the latest backup to a URL, if it failed.
type Failure struct {
	At   time.Time `json:"at"`
	URL  string    `json:"url"`
	Says string    `json:"says"`
}

func (b *Server) recordFailure(name string, failed error) {
	path := filepath.Join(b.Data, failureFile)
	var err error
	if failed == nil {
		if last := ReadFailure(b.Data); last != nil && last.URL != name {
			return
		}
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
	} else {
		var text []byte
		if text, err = json.Marshal(Failure{b.Clock().UTC(), name, failed.Error()}); err == nil {
			err = durable.File{Name: path, Mode: 0o644}.Replace(durable.Bytes(text))
		}
	}
	if err != nil {
		b.Log.Warn("could not record a backup's result for the console", "error", err)
	}
}

// ReadFailure returns the latest backup's failure, or nil.
func ReadFailure(data string) *Failure {
	text, err := os.ReadFile(filepath.Join(data, failureFile))
	f := &Failure{}
	if err != nil || json.Unmarshal(text, f) != nil {
		return nil
	}
	return f
}

func exists(path string) bool {
	if location.IsURL(path) {
		return true
	}
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Known returns the recorded backups that still exist, latest first.
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

func last(data, address string) (at time.Time, err error) {
	known, err := Known(data)
	name := location.Name(address)
	for _, b := range known {
		if b.Path == name && b.At.After(at) {
			at = b.At
		}
	}
	return at, err
}

// Read returns the latest backup's record, or nil.
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
