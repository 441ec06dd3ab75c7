package replica

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// locationName is the file in the spool with the name of the target that was claimed.
const locationName = "location"

// Claimed reports whether a server with a spool has claimed the target with a name.
func Claimed(spool, location string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(spool, locationName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return location != "" && string(text) == location, err
}

// LostError says that a claimed target has lost its marker.
func LostError(spool string) error {
	return errcode.Newf(errcode.Unavailable, "it has lost %s: is its disk mounted? To begin a new one there, delete %s", MarkerName, filepath.Join(spool, locationName))
}

// checkLost returns an error if the target was claimed before and has lost its marker.
func (r *Replica) checkLost(ctx context.Context) error {
	claimed, err := Claimed(r.opts.Spool, r.opts.Location)
	if err != nil || !claimed {
		return err
	}
	if _, err = readMarker(ctx, r.opts.Target); errcode.Is(err, errcode.NotFound) {
		return LostError(r.opts.Spool)
	}
	return err
}

// noteLocation notes that the target is claimed.
func (r *Replica) noteLocation() error {
	if claimed, err := Claimed(r.opts.Spool, r.opts.Location); err != nil || claimed || r.opts.Location == "" {
		return err
	}
	if err := durable.MakeFolder(r.opts.Spool); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(r.opts.Spool, locationName), durable.Bytes([]byte(r.opts.Location)))
}
