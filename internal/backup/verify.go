package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/durable"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// Verifying are options of Verify.
type Verifying struct {
	URL       string
	Identity  string    // file with the private key of an encrypted backup, or ""
	At        time.Time // selects the newest backup at or before a time; zero selects the newest
	Temporary string    // folder for the restored databases
	Progress  func(what string)
}

// Verify restores a backup at a URL into a temporary folder, one database after the other. That reads every object, every page and
// every index, and the secrets file. It reports damage and names the object.
func Verify(ctx context.Context, v Verifying) (found []service.Finding, err error) {
	target, closeIt, err := location.Open(ctx, v.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	r := replica.Restoring{Target: target, At: v.At}
	if v.Identity != "" {
		if r.Identities, err = location.Identities(v.Identity); err != nil {
			return nil, err
		}
	}
	_, point, err := r.Choose(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, service.Finding{State: service.OK, What: "backup", Says: location.Name(v.URL) + " as of " + formatTime(point.Time)})
	for _, name := range slices.Sorted(maps.Keys(point.Files)) {
		v.Progress("reading " + name)
		f, err := v.verifyOne(ctx, r, name)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	if len(point.Also) > 0 {
		f, err := v.verifyOne(ctx, r, "")
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, nil
}

// verifyOne restores a database, or only the secrets file if name is "".
func (v *Verifying) verifyOne(ctx context.Context, r replica.Restoring, name string) (f service.Finding, err error) {
	r.Into = filepath.Join(v.Temporary, "holdfast-verify-"+rand.Text())
	if err := durable.MakeFolder(r.Into); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.Into)) }()
	r.Only = []string{}
	f = service.Finding{State: service.OK, What: "secrets", Says: secrets.File + " can be read"}
	if name != "" {
		r.Only = []string{name}
		f = service.Finding{State: service.OK, What: strings.TrimSuffix(name, ".db") + " database", Says: "every object, page and index was read"}
	}
	_, err = replica.Restore(ctx, r)
	if ctx.Err() != nil {
		return f, ctx.Err()
	}
	if err == nil && name == "" {
		_, err = secrets.Read(filepath.Join(r.Into, secrets.File))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		f.State, f.Says, f.Fix = service.Wrong, err.Error(), "use another backup; databases that are not named here are still good"
	}
	return f, nil
}

// verifySent verifies the newest backup at a URL. The databases are restored into the spool.
func (b *Server) verifySent(ctx context.Context, s *Sending) error {
	s.Progress("verifying the backup")
	found, err := Verify(ctx, Verifying{URL: s.URL, Identity: s.Identity, Temporary: b.spool(s.URL), Progress: s.Progress})
	for _, f := range found {
		if f.State == service.Wrong {
			err = errors.Join(err, fmt.Errorf("%s: %s", f.What, f.Says))
		}
	}
	return err
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
