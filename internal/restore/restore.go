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
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// unfinished is the folder in a data folder in which a restore works. A server does not start with it.
const unfinished = ".restoring"

// Request says which data is restored.
type Request struct {
	From     string    // a backup folder, a folder with backup folders, or the URL of a repository
	Identity string    // file with the private keys that decrypt a repository, or ""
	At       time.Time // the newest moment that may be restored; zero: no limit
	Services []string  // names; nil: all
	Data     string    // the new data folder
	Clock    clock.Clock

	// Progress, if set, is called with each step.
	Progress func(step string)

	// Finish makes restored data ready for use: it opens the databases in a folder, and restores the files of services.
	Finish func(ctx context.Context, f *Finishing) error
}

// Finishing is restored data that is not ready yet.
type Finishing struct {
	Folder   string
	Services []string      // whose databases are in the folder
	Age      time.Duration // since the data was copied

	// Open opens a file of a service, as service.FileSource does.
	Open func(ctx context.Context, service, name string) (io.ReadCloser, error)
}

// Plan is the result of a restore, or the one that it would have.
type Plan struct {
	From     string
	At       time.Time // every write that was acknowledged before is restored
	Until    time.Time // the source is known to have acknowledged writes until then; not before At
	Services []string  // whose databases are restored
	Secrets  bool      // the secrets file is restored
}

// source is a backup or a replica.
type source interface {
	// plan chooses the moment and the services.
	plan(ctx context.Context, r *Request) (*Plan, error)
	// restore writes the databases and the secrets file of the plan into a folder, and verifies them.
	restore(ctx context.Context, r *Request, p *Plan, folder string) error
	// open opens a file of a service.
	open(ctx context.Context, service, name string) (io.ReadCloser, error)
	close() error
}

func (r *Request) stepf(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// wants reports whether a service is restored.
func (r *Request) wants(service string) bool {
	return r.Services == nil || slices.Contains(r.Services, service)
}

// source opens the source.
func (r *Request) source(ctx context.Context) (source, error) {
	if location.IsURL(r.From) {
		return openRepository(ctx, r.From, r.Identity)
	}
	return openFolder(r.From)
}

// Look returns the plan of Run, and changes nothing.
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

// plan returns the plan of a source that has all services.
func (r *Request) plan(ctx context.Context, s source) (*Plan, error) {
	p, err := s.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, name := range r.Services {
		if !slices.Contains(p.Services, name) {
			return nil, errcode.Newf(errcode.NotFound, "%s has no database of %s", p.From, name)
		}
	}
	if len(p.Services) == 0 && !p.Secrets {
		return nil, errcode.Newf(errcode.NotFound, "%s has neither a database nor %s", p.From, secrets.File)
	}
	return p, nil
}

// Run restores into a data folder that does not exist or is empty. After an error it leaves nothing; a killed one
// leaves a folder with which no server starts.
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
	existed := exists(r.Data)
	if err := engine.MakeFolder(r.Data); err != nil {
		return nil, err
	}
	work := filepath.Join(r.Data, unfinished)
	if err := durable.MakeFolder(work); err != nil {
		return nil, err
	}
	if err := r.fill(ctx, s, p, work); err != nil {
		err = errors.Join(err, os.RemoveAll(work))
		if !existed {
			err = errors.Join(err, os.Remove(r.Data))
		}
		return nil, err
	}
	return p, publish(work, r.Data)
}

// fill restores everything into the work folder.
func (r *Request) fill(ctx context.Context, s source, p *Plan, work string) error {
	if err := s.restore(ctx, r, p, work); err != nil {
		return err
	}
	if p.Secrets {
		if _, err := secrets.Read(filepath.Join(work, secrets.File)); err != nil {
			return fmt.Errorf("the restored %s: %w", secrets.File, err)
		}
	}
	r.stepf("preparing the databases for use")
	return r.Finish(ctx, &Finishing{Folder: work, Services: p.Services, Age: max(0, r.Clock().Sub(p.At)), Open: s.open})
}

// publish moves the content of the work folder to the data folder. As long as the work folder exists, no server starts.
func publish(work, data string) error {
	entries, err := os.ReadDir(work)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := durable.Rename(filepath.Join(work, e.Name()), filepath.Join(data, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(work); err != nil {
		return err
	}
	return durable.SyncFolder(data)
}

// CheckFinished returns an error if a restore into a data folder was interrupted.
func CheckFinished(data string) error {
	if exists(filepath.Join(data, unfinished)) {
		return fmt.Errorf("%s was not restored completely: delete the folder and run holdfast restore again", data)
	}
	return nil
}

// checkEmpty returns an error if a data folder has data.
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
		return fmt.Errorf("the data folder %s is not empty: name a new folder with --data, or move this one away first, such as to %s.old", data, strings.TrimSuffix(data, "/"))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
