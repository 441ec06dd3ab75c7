package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/secrets"
)

// Backup reads a backup's databases and secrets file, and reports damage.
func Backup(ctx context.Context, dir string, progress func(string)) (findings []service.Finding, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if backup.IsPartial(dir) {
		findings = append(findings, service.Finding{
			State: service.Wrong, What: "backup", Says: dir + " is not complete: its backup was interrupted", Fix: "move it away, e.g. with mv " + dir + " " + dir + ".old, and make a new backup",
		})
	}
	databases := 0
	for _, e := range entries {
		name, isDatabase := engine.ServiceOf(e.Name())
		if !isDatabase || e.IsDir() {
			continue
		}
		databases++
		file := filepath.Join(dir, e.Name())
		progress("reading " + file)
		findings = append(findings, verifyFile(ctx, name+" database", file))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, secrets.File)
	values, err := secrets.Read(path)
	broken, isBroken := errors.AsType[*secrets.FileError](err)
	f := service.Finding{State: service.OK, What: "secrets", Says: fmt.Sprintf("%s: %s", path, service.Count(int64(len(values)), "secret"))}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.State, f.Says = service.Warning, path+" does not exist"
		f.Fix = "if the configuration does not set all secrets, look for another backup with the file"
	case isBroken:
		f.State, f.Says, f.Fix = service.Wrong, path+" "+broken.What, broken.Fix
	case err != nil:
		f.State, f.Says, f.Fix = service.Wrong, path+": "+service.Reason(err), "use another backup"
	}
	if databases == 0 && errors.Is(err, fs.ErrNotExist) {
		return append(findings, service.Finding{
			State: service.Wrong, What: "backup", Says: dir + " is not a backup: it contains neither a database nor " + secrets.File,
			Fix: "name a single backup's folder, not the parent folder",
		}), nil
	}
	findings = append(findings, f)
	if databases == 0 {
		findings = append(findings, service.Finding{
			State: service.Warning, What: "databases", Says: dir + " contains no SQLite database",
			Fix: "holdfast backups do not include PostgreSQL and Spanner databases",
		})
	}
	return findings, nil
}

// verifyFile reads a database file completely. what begins the finding.
func verifyFile(ctx context.Context, what, path string) service.Finding {
	const fix = "use another backup; if a single file is damaged, the other files are still good"
	switch problems, err := sqlitedb.VerifyFile(ctx, path); {
	case err != nil:
		return service.Finding{State: service.Wrong, What: what, Says: path + ": " + err.Error(), Fix: fix}
	case len(problems) > 0:
		return service.Finding{State: service.Wrong, What: what, Says: damaged(path, problems), Fix: fix}
	}
	return service.Finding{State: service.OK, What: what, Says: path + ": every page and index was read"}
}
