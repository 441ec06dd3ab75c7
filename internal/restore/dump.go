package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
)

// dumpBegin begins files in pg_dump's custom format.
const dumpBegin = "PGDMP"

// IsDump reports whether a file is a custom-format pg_dump.
func IsDump(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, ignoreMissing(err)
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	begin := make([]byte, len(dumpBegin))
	_, err = io.ReadFull(file, begin)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return string(begin) == dumpBegin, errors.Join(err, file.Close())
}

// ignoreMissing drops the error for a missing file, because the text may be a URL.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Dump restores a PostgreSQL dump into the services' database. Call Check, Run, the services' steps, and Finish.
type Dump struct {
	File string // in pg_dump's custom format
	// Trusted allows a role whose SQL can run programs on the database server. A dump is a program: pg_restore runs its
	// statements as the role of database_url.
	Trusted  bool
	Moment   time.Time          // the dump has this state
	Services []*service.Running // opened with their configured databases
	Progress func(step string)
}

// target returns the PostgreSQL database that the services share, or errcode.Invalid.
func (d *Dump) target() (*engine.Database, error) {
	var shared *engine.Database
	for _, s := range d.Services {
		for _, db := range s.Databases {
			switch {
			case db.Target.Kind != engine.Postgres:
			case shared == nil:
				shared = db
			case shared.Target.URL != db.Target.URL:
				return nil, errcode.Newf(errcode.Invalid, "the services use several databases, %s and %s: name the dump's services with --service", shared.Where, db.Where)
			}
		}
	}
	if shared == nil {
		return nil, errcode.New(errcode.Invalid, "no service uses PostgreSQL: set the database_url of each service to the new, empty database first")
	}
	return shared, nil
}

// Check returns where the dump will be restored, without credentials, or why not. Nothing is changed.
func (d *Dump) Check(ctx context.Context) (where string, err error) {
	t, err := d.target()
	if err != nil {
		return "", err
	}
	has, err := t.Relations(ctx)
	switch {
	case err != nil:
		return "", err
	case has.Citus:
		return "", errcode.Newf(errcode.Invalid, "%s uses the Citus extension: restore it with Citus tools", t.Where)
	case has.Powerful && !d.Trusted:
		return "", errcode.Newf(errcode.Invalid, "the role of %s is a superuser, may create roles, or may use the database server's files or programs, and a dump can contain any SQL: set database_url to another role, or repeat with --trust-dump if nobody else could change the dump", t.Where)
	case has.Tables > 0:
		return "", errcode.Newf(errcode.Conflict, "%s is not empty, it contains %s: create a new database, and set database_url to it", t.Where, service.Count(int64(has.Tables), "table"))
	}
	return t.Where, nil
}

// Run restores the dump with pg_restore, all or nothing. No server uses the database before End.
func (d *Dump) Run(ctx context.Context) (restored []*service.Running, err error) {
	if _, err := d.Check(ctx); err != nil {
		return nil, err
	}
	t, err := d.target()
	if err != nil {
		return nil, err
	}
	if err := t.BeginRestore(ctx, d.Moment); err != nil {
		return nil, err
	}
	d.Progress("running pg_restore")
	if err := pgRestore(ctx, t.Target.URL, d.File); err != nil {
		return nil, errors.Join(err, t.AbandonRestore(context.WithoutCancel(ctx)))
	}
	for _, s := range d.Services {
		for _, db := range s.Databases {
			if db.Target.Kind != engine.Postgres {
				continue
			}
			if missing, err := db.Unmigrated(ctx); err != nil {
				return nil, err
			} else if missing {
				d.Progress("the dump contains no tables for " + s.Name)
				continue
			}
			restored = append(restored, s)
			d.Progress("reading the tables for " + s.Name)
			problems, _, err := db.Verify(ctx)
			if err != nil {
				return nil, err
			}
			if len(problems) > 0 {
				return nil, fmt.Errorf("%s: the restored database is damaged: %s", s.Name, problems[0])
			}
		}
	}
	if len(restored) == 0 {
		return nil, errcode.Newf(errcode.NotFound, "%s contains no tables for %s", d.File, strings.Join(names(d.Services), ", "))
	}
	return restored, nil
}

// End lets servers use the databases of services. Call it after the steps of the restored services.
func End(ctx context.Context, services []*service.Running) error {
	for _, s := range services {
		for _, db := range s.Databases {
			if err := db.EndRestore(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func names(all []*service.Running) (list []string) {
	for _, s := range all {
		list = append(list, s.Name)
	}
	return list
}

// farthestZone is a little more than the farthest time zone's distance to UTC, for DumpTime.
const farthestZone = 15 * time.Hour

var archiveCreated = regexp.MustCompile(`(?m)^; *Archive created at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)`)

// DumpTime returns the moment of a dump, or an earlier one: the file's modification time, unless the file was copied
// without it. pg_dump writes when it began, as the local time of its machine without the zone, so a modification time
// that no zone explains is replaced by the earliest time that the header may mean. The moment decides how many numbers
// are skipped for clients; an early one only skips more.
func DumpTime(ctx context.Context, file string) (time.Time, error) {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}, err
	}
	program, err := pgRestoreProgram()
	if err != nil {
		return time.Time{}, err
	}
	cmd := exec.CommandContext(ctx, program, "--list", file)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	list, err := cmd.Output()
	if err != nil {
		return time.Time{}, errcode.Newf(errcode.Invalid, "%s is not a dump that this version of pg_restore can read: %v", file, err)
	}
	return dumpTime(list, info.ModTime()), nil
}

// dumpTime chooses between the header in the output of pg_restore --list and the file's time.
func dumpTime(list []byte, modified time.Time) time.Time {
	m := archiveCreated.FindSubmatch(list)
	if m == nil {
		return modified
	}
	created, err := time.Parse(time.DateTime, string(m[1]))
	if err != nil || modified.Sub(created) <= farthestZone {
		return modified
	}
	return created.Add(-farthestZone)
}

// pgRestoreProgram looks in PATH, as for a command that an operator types.
func pgRestoreProgram() (string, error) {
	program, err := exec.LookPath("pg_restore")
	if err != nil {
		return "", errors.New("pg_restore is not installed: install PostgreSQL's client programs, in the version that made the dump or newer")
	}
	return program, nil
}

// pgRestore keeps the password out of the arguments, which every local user can read.
func pgRestore(ctx context.Context, address, file string) error {
	program, err := pgRestoreProgram()
	if err != nil {
		return err
	}
	env := os.Environ()
	if u, err := url.Parse(address); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			env = append(env, "PGPASSWORD="+password)
			u.User = url.User(u.User.Username())
			address = u.String()
		}
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "--single-transaction", "--exit-on-error", "--no-owner", "--dbname="+address, file)
	cmd.Env, cmd.Stderr = env, &output
	if err := cmd.Run(); err != nil {
		lines := slices.DeleteFunc(strings.Split(output.String(), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
		return fmt.Errorf("pg_restore failed, and nothing was restored: %w: %s", err, strings.Join(lines[:min(3, len(lines))], " "))
	}
	return nil
}
