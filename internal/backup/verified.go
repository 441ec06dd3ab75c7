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
	"holdfast/internal/replica/location"
)

const (
	verifiedFile = "backups-verified.json" // in the data folder
	maxVerified  = 200                     // verifications that are remembered
	maxDamage    = 200                     // bytes of a description
)

// Verification is the latest time that a server restored a backup to verify it.
type Verification struct {
	Backup time.Time `json:"backup"`
	URL    string    `json:"url"` // without parameters
	At     time.Time `json:"at"`
	Damage string    `json:"damage,omitempty"` // "": all of it could be read
}

// RecordVerified records that a backup was restored to verify it. damage describes what could not be read.
func (b *Server) RecordVerified(address string, backup time.Time, damage string) {
	name := location.Name(address)
	all, err := readVerified(b.Data)
	if err != nil {
		b.Log.Warn("the verifications of backups cannot be read, and begin anew", "error", err)
	}
	all = slices.DeleteFunc(all, func(v Verification) bool { return v.URL == name && v.Backup.Equal(backup) })
	all = append(all, Verification{backup.UTC(), name, b.Clock().UTC(), strings.ToValidUTF8(damage[:min(len(damage), maxDamage)], "")})
	text, err := json.Marshal(all[max(0, len(all)-maxVerified):])
	if err == nil {
		err = durable.Replace(filepath.Join(b.Data, verifiedFile), durable.Bytes(text))
	}
	if err != nil {
		b.Log.Warn("could not record the verification of a backup for the console", "error", err)
	}
}

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

// Verified returns the verifications of the backups at a URL by the time of the backup in nanoseconds since 1970.
func Verified(data, address string) map[int64]Verification {
	name, found := location.Name(address), map[int64]Verification{}
	all, _ := readVerified(data) // it is only a cache of what verification finds
	for _, v := range all {
		if v.URL == name {
			found[v.Backup.UnixNano()] = v
		}
	}
	return found
}
