package service

import (
	"context"
	"time"
)

// RestoreStep prepares a service's restored data for clients that know more than it, because they have seen writes
// that the data lacks.
//
// holdfast restore runs the steps of all restored services after it has opened their databases and restored their
// files. No server can use a data folder or a dump's database before all steps have ended. After an error or a kill a
// data folder is restored anew, and holdfast finish-restore runs all steps again on a database, so a step need not
// continue where it stopped, but may run twice. A step must be short. Work that takes longer, or that must not reach all clients at once, is
// only recorded in the database (rows.WorkOf); the server does it later.
type RestoreStep struct {
	Doc string // what the step does, as a line of the progress, e.g. "revoking handoff keys"
	Run func(context.Context, Restored) error
}

// Restored describes the data that a restore brought back.
type Restored struct {
	// Age is the time since the restored moment, at least 0. The lost server may have acknowledged writes in it.
	Age time.Duration
}

// Credential is a permission or a protection that the data records. If it was taken back or changed after a backup, a
// restore of the backup undoes that. holdfast restore lists the credentials of the restored data.
type Credential struct {
	// Counted counts the credentials in the data. Without a Table, the data does not contain them, e.g. signed tokens,
	// and Of is a plural.
	Counted

	// Again are the paths of the service's operations that take it back or change it, e.g. "keys/revoke".
	Again []string
}
