package app

import (
	"errors"
	"fmt"

	"holdfast/internal/secrets"
)

// Mode is the task for which a process opens services. It decides what Open, and the App that it returns, may change.
type Mode int

// These are the modes; rights says what each may do. Commands run beside a server on the same databases, except in a mode
// that locks them.
const (
	// ModeServe is for holdfast serve.
	ModeServe Mode = iota + 1
	// ModeServeMigrating is ModeServe with --migrate: Serve also migrates database servers.
	ModeServeMigrating
	// ModeMigrate is for App.Migrate. It needs no secrets, because tables contain none: a migration job may have none. In a
	// data folder that no server uses, it creates no files, because the folder may be the wrong one.
	ModeMigrate
	// ModeOperate is for commands that work on the services' data, such as an operation. Services that the data folder does
	// not contain yet are left out.
	ModeOperate
	// ModeKeepSchema is for commands that work on databases as they are: a backup before an upgrade, and the last steps of a
	// restore, which refuse outdated tables.
	ModeKeepSchema
	// ModeCheck is for holdfast check, which changes nothing and needs no secrets.
	ModeCheck
	// ModeRestore is for the databases of a restore, in a folder that no server uses. The secrets file may be missing.
	ModeRestore
	// ModeReadBackup is for databases that were restored temporarily, to read a backup.
	ModeReadBackup
	// ModeCopyRead is for a database that a copy or an import reads: the source, the database with the owners, and the target
	// of a comparison.
	ModeCopyRead
	// ModeCopyWrite is for the target of a copy or an import.
	ModeCopyWrite
	// ModeCopyDryRun is for the target of a dry run, which may not exist yet.
	ModeCopyDryRun
)

// rights are what a mode may do.
type rights struct {
	create         bool           // create missing data folders, SQLite files and node folders
	complete       bool           // create missing SQLite files, but only in a data folder that a server uses
	migrate        bool           // Open migrates SQLite files
	migrateServers bool           // Serve migrates database servers
	lock           bool           // lock the SQLite files against other servers
	temporary      bool           // use an empty temporary database in place of a missing SQLite file
	copies         bool           // only copy databases, which needs little cache
	secrets        secrets.Absent // secrets that are not configured
	newSecrets     bool           // accept Options.NewSecrets
	report         bool           // log as log.level says, otherwise only warnings and errors
}

// modes are the rights of each Mode.
var modes = map[Mode]rights{
	ModeServe:          {create: true, migrate: true, lock: true, secrets: secrets.Create, newSecrets: true, report: true},
	ModeServeMigrating: {create: true, migrate: true, migrateServers: true, lock: true, secrets: secrets.Create, newSecrets: true, report: true},
	ModeMigrate:        {complete: true, secrets: secrets.MakeUp, newSecrets: true}, // App.Migrate follows
	ModeOperate:        {migrate: true, secrets: secrets.MustExist},
	ModeKeepSchema:     {secrets: secrets.MustExist},
	ModeCheck:          {secrets: secrets.MakeUp},
	ModeRestore:        {migrate: true, secrets: secrets.MakeUp},
	ModeReadBackup:     {secrets: secrets.MakeUp},
	ModeCopyRead:       {copies: true, secrets: secrets.MakeUp},
	ModeCopyWrite:      {create: true, migrate: true, lock: true, copies: true, secrets: secrets.MakeUp},
	ModeCopyDryRun:     {temporary: true, copies: true, secrets: secrets.MakeUp},
}

// rights returns what the options' mode may do. New secrets need the secrets file.
func (o *Options) rights() (rights, error) {
	may, ok := modes[o.Mode]
	switch {
	case !ok:
		return may, fmt.Errorf("app.Options: unknown mode %d", o.Mode)
	case o.NewSecrets && !may.newSecrets:
		return may, errors.New("app.Options: only a server and a migration accept new secrets")
	case o.NewSecrets:
		may.secrets = secrets.Create
	}
	return may, nil
}
