package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// Verifying says which backup Verify reads, and whom to trust.
type Verifying struct {
	Clouds    location.Clouds
	URL       string
	Known     replica.Names // as in Server
	Trust     replica.Trust
	AtLeast   replica.Expected
	Identity  string            // private key file, or ""
	At        time.Time         // selects the newest backup at or before this time; zero selects the newest
	Temporary string            // folder for restored databases
	Progress  func(what string) // called before each step; required

	damaged bool
	point   replica.Point // that was verified

	// Bodies, if set, calls fn for each file that the databases in folder refer to.
	Bodies func(ctx context.Context, folder string, services []string, fn func(service, name string, size int64) error) error
}

// Verify restores a backup at a URL into a temporary folder, and so reads all of it.
func Verify(ctx context.Context, v Verifying) ([]service.Finding, error) { return v.verify(ctx) }

// verify reads a backup completely and returns a finding for each of its files.
func (v *Verifying) verify(ctx context.Context) (findings []service.Finding, err error) {
	target, closeIt, err := v.Clouds.Open(ctx, v.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	r := replica.Restoring{Target: target, Known: v.Known, Trust: v.Trust, AtLeast: v.AtLeast, At: v.At}
	if v.Identity != "" {
		if r.Identities, err = location.Identities(v.Identity); err != nil {
			return nil, err
		}
	}
	_, point, err := r.Choose(ctx)
	if err != nil {
		return nil, err
	}
	v.point = point
	if err := r.CheckIdentities(ctx, point); err != nil {
		return nil, err
	}
	above, err := durable.OpenFolder(v.Temporary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, above.Close()) }()
	name := "holdfast-verify-" + rand.Text()
	into, err := above.NewFolder(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, into.Close(), above.RemoveAll(name)) }()
	return v.verifyInto(ctx, r, point, into)
}

// verifyInto restores each database into a folder of its own, and then moves it to into, from where Bodies reads all.
func (v *Verifying) verifyInto(ctx context.Context, r replica.Restoring, point replica.Point, into *durable.Folder) (findings []service.Finding, err error) {
	findings = append(findings, service.Finding{State: service.OK, What: "backup", Says: location.Name(v.URL) + " as of " + service.FormatMoment(point.Time)})
	var restored []string
	for _, name := range slices.Sorted(maps.Keys(point.Files)) {
		f := v.verifyDatabase(ctx, r, into, name)
		if of, ok := engine.ServiceOf(name); ok && f.State != service.Wrong {
			restored = append(restored, of)
		}
		findings = append(findings, f)
	}
	if len(point.Files) == 0 {
		findings = append(findings, service.Finding{
			State: service.Warning, What: "databases", Says: "the backup contains no SQLite database, so none was read",
			Fix: "back up databases on servers with their own tools; holdfast backup list shows which backups have databases",
		})
	}
	if len(point.Also) > 0 {
		findings = append(findings, v.verifySecrets(ctx, r, into))
	} else {
		findings = append(findings, noSecrets(location.Name(v.URL)+" as of "+service.FormatMoment(point.Time)))
	}
	if v.Bodies != nil {
		findings = append(findings, v.verifyBodies(ctx, r, point, into.Path(), restored)...)
	}
	return findings, ctx.Err()
}

// damageFix is the advice after damage: every file is verified by itself.
const damageFix = "use another backup; databases and files that are not named here are still good"

// ignoredFix is for a file without which the backup is complete.
const ignoredFix = "somebody else may have added the file: see who may write to the target"

// databaseFolder holds the database that is being verified. No file of a server has such a name.
const databaseFolder = "database.folder"

// verifyDatabase restores a database temporarily and reads it.
func (v *Verifying) verifyDatabase(ctx context.Context, r replica.Restoring, into *durable.Folder, name string) service.Finding {
	v.Progress("reading " + name)
	of, _ := engine.ServiceOf(name)
	f := service.Finding{State: service.OK, What: of + " database", Says: "every object, page and index was read"}
	r.Ignored = func(damage error) {
		f.State, f.Says, f.Fix = service.Warning, "every object, page and index was read, without a file that others replace: "+damage.Error(), ignoredFix
	}
	if err := restoreDatabase(ctx, r, into, name); err != nil {
		v.damaged = v.damaged || errcode.Is(err, errcode.Unavailable)
		f.State, f.Says, f.Fix = service.Wrong, err.Error(), damageFix
	}
	return f
}

// restoreDatabase uses a folder of its own, because each restore also writes the other files, e.g. the secrets.
func restoreDatabase(ctx context.Context, r replica.Restoring, into *durable.Folder, name string) error {
	own, err := into.NewFolder(databaseFolder)
	if err != nil {
		return err
	}
	r.Into, r.Only = own.Path(), []string{name}
	if _, err = replica.Restore(ctx, r); err == nil {
		err = into.Move(filepath.Join(databaseFolder, name), name)
	}
	return errors.Join(err, own.Close(), into.RemoveAll(databaseFolder))
}

// verifySecrets restores and parses the secrets file.
func (v *Verifying) verifySecrets(ctx context.Context, r replica.Restoring, into *durable.Folder) service.Finding {
	f := service.Finding{State: service.OK, What: "secrets", Says: secrets.File + " can be read"}
	r.Into, r.Only = into.Path(), []string{}
	_, err := replica.Restore(ctx, r)
	if err == nil {
		if _, err = secrets.Read(filepath.Join(r.Into, secrets.File)); errors.Is(err, fs.ErrNotExist) {
			return noSecrets(location.Name(v.URL))
		}
	}
	if err != nil {
		f.State, f.Says, f.Fix = service.Wrong, err.Error(), damageFix
	}
	return f
}

// noSecrets is a warning: a configuration may set all secrets.
func noSecrets(where string) service.Finding {
	return service.Finding{
		State: service.Warning, What: "secrets", Says: where + " does not contain " + secrets.File,
		Fix: "if the configuration does not set all secrets, look for another backup with the file",
	}
}

const (
	// bodyReaders is how many files are read at the same time.
	bodyReaders = 8
	// mostDamages is how many damaged files are named.
	mostDamages = 20
)

// verifyBodies reads each file that the restored databases refer to.
func (v *Verifying) verifyBodies(ctx context.Context, r replica.Restoring, point replica.Point, folder string, services []string) (findings []service.Finding) {
	v.Progress("reading service files")
	var mu sync.Mutex
	var running sync.WaitGroup
	var good, bad int64
	slots := make(chan struct{}, bodyReaders)
	err := v.Bodies(ctx, folder, services, func(of, name string, size int64) error {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			body, err := r.OpenBody(ctx, point, of, name, size)
			if err == nil {
				_, err = io.Copy(io.Discard, body)
				err = errors.Join(err, body.Close())
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				good++
			} else if bad++; bad <= mostDamages {
				findings = append(findings, service.Finding{State: service.Wrong, What: of + " file", Says: name + ": " + err.Error(), Fix: damageFix})
			}
		})
		return ctx.Err()
	})
	running.Wait()
	if err != nil {
		return append(findings, service.Finding{State: service.Wrong, What: "files", Says: err.Error(), Fix: "restore the backup, which reads them, too"})
	}
	f := service.Finding{State: service.OK, What: "files", Says: service.Count(good, "file") + " of services can be read"}
	if len(services) < len(point.Files) { // only an intact database says which files it needs
		f.State, f.Fix = service.Warning, damageFix
		f.Says += "; files of the databases that cannot be restored were not read"
	}
	if bad > 0 {
		f.State, f.Says, f.Fix = service.Wrong, f.Says+fmt.Sprintf(", and %d cannot", bad), damageFix
	}
	return append(findings, f)
}

// EachFile calls fn with each file that the services' databases refer to.
func EachFile(ctx context.Context, services []*service.Running, fn func(of, name string, size int64) error) error {
	for _, s := range services {
		if s.Files == nil || s.Files.Bodies == nil {
			continue
		}
		if _, err := s.Files.Bodies.Each(ctx, func(b replica.Body) error { return fn(s.Name, b.Name, b.Size) }); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// verifySent restores the databases into the spool. After damage, the next backup sends whole databases.
func (b *Server) verifySent(ctx context.Context, s *Sending) error {
	s.Progress("verifying the backup")
	trust, err := location.Own(b.Data)
	if err != nil {
		return err
	}
	v := Verifying{Clouds: b.Clouds, URL: s.URL, Known: b.Known, Trust: trust, Identity: s.Identity, Temporary: spool(b.Data, s.URL), Progress: s.Progress}
	findings, err := v.verify(ctx)
	if v.damaged && ctx.Err() == nil {
		err = errors.Join(err, os.RemoveAll(spool(b.Data, s.URL)))
	}
	for _, f := range findings {
		if f.State == service.Wrong {
			err = errors.Join(err, fmt.Errorf("%s: %s", f.What, f.Says))
		}
	}
	return err
}
