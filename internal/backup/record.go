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

// Record is the JSON of RecordFile: the latest backup.
type Record struct {
	At      time.Time `json:"at"`      // when it was made
	Path    string    `json:"path"`    // or a URL without parameters
	Lost    int64     `json:"lost"`    // number of files that could not be read
	Without []string  `json:"without"` // services whose databases are on database servers

	// Has are the databases and other files in the backup.
	Has []string `json:"has"`

	Earlier []earlier `json:"earlier,omitempty"` // latest first
}

type earlier struct {
	At   time.Time `json:"at"`
	Path string    `json:"path"`
	Has  []string  `json:"has,omitempty"` // as in Record
}

// all returns the backup and the earlier backups, latest first.
func (r *Record) all() []earlier {
	if r == nil {
		return nil
	}
	return append([]earlier{{r.At, r.Path, r.Has}}, r.Earlier...)
}

// maxEarlier is how many earlier backups are recorded.
const maxEarlier = 1000

// Record records a backup in a folder, which contains the files has.
func (b *Server) Record(dir string, lost int64, has []string) (err error) {
	r := Record{At: b.Clock().UTC(), Path: service.Absolute(dir), Lost: lost, Has: has}
	return b.record(&r, nil)
}

// recordSent records all backups in a target, the newest of which was just made.
func (b *Server) recordSent(ctx context.Context, address string, t replica.Target, lost int64) error {
	listed, err := replica.Inspect(ctx, t)
	if err != nil || len(listed.Points) == 0 {
		return err
	}
	trust, err := location.Own(b.Data)
	if err != nil {
		return err
	}
	name, has := location.Name(address), map[int64][]string{} // contents by Unix milliseconds, as in the names of points
	last, _ := Read(b.Data)                                   // a broken record is replaced
	for _, e := range last.all() {
		if e.Path == name && len(e.Has) > 0 {
			has[e.At.UnixMilli()] = e.Has
		}
	}
	unknown := slices.IndexFunc(listed.Points, func(p replica.Listed) bool { return has[p.Time.UnixMilli()] == nil })
	points, err := replica.Points(ctx, t, b.Known, trust, len(listed.Points)-unknown)
	if err != nil {
		return err
	}
	for _, p := range points {
		has[p.Time.UnixMilli()] = p.Contents()
	}
	var all []earlier
	for _, p := range slices.Backward(listed.Points) {
		all = append(all, earlier{p.Time.UTC(), name, has[p.Time.UnixMilli()]})
	}
	return b.record(&Record{At: all[0].At, Path: name, Lost: lost, Has: all[0].Has}, all[1:])
}

// record adds the services without a copy and the earlier backups, and writes the record.
func (b *Server) record(r *Record, older []earlier) error {
	for _, d := range b.databases() {
		if !d.Embedded() {
			r.Without = append(r.Without, d.Service)
		}
	}
	r.Earlier = older
	if last, err := Read(b.Data); err == nil { // a broken record is replaced
		before := slices.DeleteFunc(last.all(), func(e earlier) bool { return e.Path == r.Path || !exists(e.Path) })
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
	URL  string    `json:"url"`  // without parameters
	Says string    `json:"says"` // the error
}

// recordFailure records why a backup failed; nil removes the record.
func (b *Server) recordFailure(name string, failed error) {
	path := filepath.Join(b.Data, failureFile)
	var err error
	if failed == nil {
		// A success at another URL ends the failure, too: backup.url was changed.
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

// Failure returns the failure of the latest backup to backup.url, also if the URL was changed since, or nil. Without a URL
// the server makes no backups, so an old failure means nothing.
func (s *Settings) Failure(data string) *Failure {
	if s.URL == "" {
		return nil
	}
	return ReadFailure(data)
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

// exists reports whether a recorded backup is still there. A URL is not looked up, and counts as there.
func exists(path string) bool {
	if location.IsURL(path) {
		return true
	}
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Known returns the recorded backups, latest first, but not those whose folder is gone. Backups at URLs may be gone, too.
func Known(data string) (all []service.Backup, err error) {
	last, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", filepath.Join(data, RecordFile), service.Reason(err))
	}
	for _, b := range last.all() {
		if exists(b.Path) {
			all = append(all, service.Backup{Path: b.Path, At: b.At, Has: b.Has})
		}
	}
	return all, nil
}

// last returns the time of the latest recorded backup at a URL.
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
