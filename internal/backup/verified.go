package backup

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/durable"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

const (
	verifiedFile = "backups-verified.json"
	maxVerified  = 200
	maxDamage    = 200
)

// Verification is a server's latest verification of a backup by a restore.
type Verification struct {
	Backup time.Time `json:"backup"` // time of the verified backup
	URL    string    `json:"url"`
	At     time.Time `json:"at"`               // when it was verified
	Damage string    `json:"damage,omitempty"` // "" if intact
}

// RecordVerified records the result of restoring a backup. A backup without databases is recorded only if it is damaged:
// no database was read.
func (b *Server) RecordVerified(address string, point replica.Point, damage string) {
	if len(point.Files) == 0 && damage == "" {
		return
	}
	backup := point.Time
	name := location.Name(address)
	all, err := readVerified(b.Data)
	if err != nil {
		b.Log.Warn("backup verification records cannot be read, starting new records", "error", err)
	}
	all = slices.DeleteFunc(all, func(v Verification) bool { return v.URL == name && v.Backup.Equal(backup) })
	all = append(all, Verification{backup.UTC(), name, b.Clock().UTC(), strings.ToValidUTF8(damage[:min(len(damage), maxDamage)], "")})
	text, err := json.Marshal(all[max(0, len(all)-maxVerified):])
	if err == nil {
		err = durable.Replace(filepath.Join(b.Data, verifiedFile), durable.Bytes(text))
	}
	if err != nil {
		b.Log.Warn("could not record a backup verification for the console", "error", err)
	}
}

// readVerified returns the recorded verifications, or nil if there is no record.
func readVerified(data string) (all []Verification, err error) {
	text, err := os.ReadFile(filepath.Join(data, verifiedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// NewestVerified returns the time of the newest recorded backup at a URL that was restored and found intact; zero: none.
// A backup that retention deleted since does not count.
func NewestVerified(data, address string) (newest time.Time) {
	if address == "" {
		return newest
	}
	known, _ := Known(data) // another finding
	name, verified := location.Name(address), map[int64]bool{}
	for _, v := range Verified(data, address) {
		verified[v.Backup.UnixMilli()] = v.Damage == "" // names of points have milliseconds
	}
	for _, b := range known {
		if b.Path == name && verified[b.At.UnixMilli()] && b.At.After(newest) {
			newest = b.At
		}
	}
	return newest
}

// Verified returns the verifications of backups at a URL, by backup time in Unix nanoseconds.
func Verified(data, address string) map[int64]Verification {
	name, verifications := location.Name(address), map[int64]Verification{}
	all, _ := readVerified(data)
	for _, v := range all {
		if v.URL == name {
			verifications[v.Backup.UnixNano()] = v
		}
	}
	return verifications
}
