package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// unfinished is a folder in the data folder that keeps a server from starting.
const unfinished = ".restoring"

// Request names the data to restore and its new folder.
type Request struct {
	Clouds   location.Clouds
	From     string           // backup folder, folder with backup folders, or URL
	Known    replica.Names    // files that a repository may contain; see backup.NamesOf
	Trust    replica.Trust    // who may have written a repository
	AtLeast  replica.Expected // the newest point must not be older; zero: any
	Identity string           // private key file for a repository, or ""
	At       time.Time        // latest moment to restore; zero means no limit
	Services []string         // nil means all
	Data     string           // new or empty data folder
	Clock    clock.Clock

	Progress func(step string) // may be nil

	Finish func(ctx context.Context, f *Finishing) error // prepares the data before it gets its place; an error undoes the restore
}

// Finishing is restored data that is not ready yet.
type Finishing struct {
	Folder   string        // holds the data until it is ready
	Services []string      // whose databases were restored
	Moment   time.Time     // the data has this state
	Age      time.Duration // time since the restored moment

	// Open opens a service's file with a size in bytes.
	Open func(ctx context.Context, service, name string, size int64) (io.ReadCloser, error)
}

// Plan is a restore's expected or actual result.
type Plan struct {
	From     string    // without credentials
	At       time.Time // earlier acknowledged writes are restored
	Until    time.Time // the source acknowledged writes at least until then; not before At
	Services []string  // whose databases are restored
	Secrets  bool      // the secrets file is restored

	// Signer is the key that signed a repository, or zero. IsProven says whether the request trusts it.
	Signer   replica.Signer
	IsProven bool
}

// source is a place with restorable data: a folder or a repository. Call plan, restore and open in this order.
type source interface {
	plan(ctx context.Context, r *Request) (*Plan, error)
	restore(ctx context.Context, r *Request, p *Plan, into *durable.Folder) error
	open(ctx context.Context, service, name string, size int64) (io.ReadCloser, error)
	close() error
}

func (r *Request) stepf(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// wants reports whether the request includes a service.
func (r *Request) wants(service string) bool {
	return r.Services == nil || slices.Contains(r.Services, service)
}

// IsURL reports whether the request restores a repository.
func (r *Request) IsURL() bool { return location.IsURL(r.From) }

// FromName returns From without credentials, for messages.
func (r *Request) FromName() string { return location.Name(r.From) }

// source returns the source for From, which the caller closes.
func (r *Request) source(ctx context.Context) (source, error) {
	if r.IsURL() {
		return openRepository(ctx, r)
	}
	return openFolder(r.From)
}

// Look returns Run's plan without changing anything.
func Look(ctx context.Context, r *Request) (p *Plan, err error) {
	s, err := r.source(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := checkEmpty(r.Data); err != nil {
		return nil, err
	}
	return r.plan(ctx, s)
}

// clockTolerance is the expected difference between the clocks of two machines.
const clockTolerance = 10 * time.Second

// plan returns the source's plan. It refuses a clock that is behind, services that the source does not have, and an
// empty plan.
func (r *Request) plan(ctx context.Context, s source) (*Plan, error) {
	p, err := s.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, name := range r.Services {
		if !slices.Contains(p.Services, name) {
			return nil, errcode.Newf(errcode.NotFound, "%s contains no database for %s", p.From, name)
		}
	}
	if behind := p.Until.Sub(r.Clock()); behind > clockTolerance {
		return nil, errcode.Newf(errcode.Invalid, "the clock of this machine is %s behind the newest write in %s: set the clock first, because clients take a write with an earlier time for an old write",
			behind.Round(time.Second), p.From)
	}
	if len(p.Services) == 0 && !p.Secrets {
		return nil, errcode.Newf(errcode.NotFound, "%s contains neither a database nor %s", p.From, secrets.File)
	}
	return p, nil
}

// Run restores into a new or empty data folder. An error leaves nothing; a kill leaves a folder with which no server
// starts.
func Run(ctx context.Context, r *Request) (p *Plan, err error) {
	s, err := r.source(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := checkEmpty(r.Data); err != nil {
		return nil, err
	}
	if p, err = r.plan(ctx, s); err != nil {
		return nil, err
	}
	existed, err := fserror.Exists(r.Data)
	if err != nil {
		return nil, err
	}
	if err := engine.MakeFolder(r.Data); err != nil {
		return nil, err
	}
	data, err := durable.OpenFolder(r.Data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	work, err := data.NewFolder(unfinished)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	if err := r.fill(ctx, s, p, work); err != nil {
		err = errors.Join(err, data.RemoveAll(unfinished))
		if !existed {
			err = errors.Join(err, os.Remove(r.Data))
		}
		return nil, err
	}
	return p, publish(work, data)
}

// fill restores everything into the work folder, and checks that a server can use it.
func (r *Request) fill(ctx context.Context, s source, p *Plan, work *durable.Folder) error {
	if err := s.restore(ctx, r, p, work); err != nil {
		return err
	}
	if p.Secrets {
		if _, err := secrets.Read(filepath.Join(work.Path(), secrets.File)); err != nil {
			return fmt.Errorf("the restored %s: %w", secrets.File, err)
		}
	}
	if p.IsProven {
		if err := location.TrustSigner(work.Path(), p.Signer); err != nil {
			return err
		}
	}
	r.stepf("preparing the databases for use")
	return r.Finish(ctx, &Finishing{Folder: work.Path(), Services: p.Services, Moment: p.At, Age: max(0, r.Clock().Sub(p.At)), Open: s.open})
}

// publish keeps the work folder until the end, because no server starts while it exists.
func publish(work, data *durable.Folder) error {
	entries, err := work.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := data.Move(filepath.Join(unfinished, e.Name()), e.Name()); err != nil {
			return err
		}
	}
	return errors.Join(data.Remove(unfinished), data.Sync())
}

// CheckFinished returns an error after an interrupted restore into a data folder.
func CheckFinished(data string) error {
	interrupted, err := fserror.Exists(filepath.Join(data, unfinished))
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil // a file: no restore began there, and a server with all data elsewhere does not need the folder
	case err != nil:
		return fserror.Named(err, "the data folder %s cannot be read: %s", data, service.Reason(err))
	case interrupted:
		return fmt.Errorf("%s was not restored completely: move it away, e.g. with mv %[1]s %[1]s.old, and run holdfast restore again", strings.TrimSuffix(data, "/"))
	}
	return nil
}

// checkEmpty returns an error unless the data folder is missing or empty. After an interrupted restore the error says
// so.
func checkEmpty(data string) error {
	entries, err := os.ReadDir(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0 && entries[0].Name() == unfinished:
		return CheckFinished(data)
	case len(entries) > 0:
		return fmt.Errorf("the data folder %s is not empty: name a new folder with --data, or move this one away first, e.g. to %s.old", data, strings.TrimSuffix(data, "/"))
	}
	return nil
}
