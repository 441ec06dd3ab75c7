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

// locationName is a file in the spool with Options.Location, written once the target is claimed.
const locationName = "location"

// claimed reports whether the spool's server claimed this location before.
func claimed(spool, location string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(spool, locationName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return location != "" && string(text) == location, err
}

// CheckLost returns an error if the spool's server claimed the target and its marker is gone.
func CheckLost(ctx context.Context, t Target, spool, location string) error {
	before, err := claimed(spool, location)
	if err != nil || !before {
		return err
	}
	if _, err = readMarker(ctx, t); errcode.Is(err, errcode.NotFound) {
		return errcode.Newf(errcode.Unavailable, "%s is missing: is its disk mounted? To start a new replica there, run mv %s %[2]s.old", MarkerName, filepath.Join(spool, locationName))
	}
	return err
}

// noteLocation records the claimed location.
func (r *Replica) noteLocation() error {
	if before, err := claimed(r.opts.Spool, r.opts.Location); err != nil || before || r.opts.Location == "" {
		return err
	}
	if err := durable.MakeFolder(r.opts.Spool); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(r.opts.Spool, locationName), durable.Bytes([]byte(r.opts.Location)))
}
