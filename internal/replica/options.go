package replica

import (
	"log/slog"
	"time"

	"filippo.io/age"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
)

// Options configure a Replica. Server, Files, Target, Key, Clock and Log are required; Spool, too, except in some
// tests. The caller must not change the maps and slices after New.
type Options struct {
	Server string // ID of the data folder, which owns the target: a text that never changes

	// Files are databases by their name in the target, e.g. "sync.db". They must stay open until Close, and without Once
	// no other Replica may have them.
	Files map[string]*sqlitedb.DB

	// Also contains the paths of small files that a restore needs, such as the secrets file, by name. Each is sent
	// when it changes; missing files are skipped.
	Also map[string]string

	// Known are files that the target's restore points may contain besides the names in Files and Also, e.g. the
	// databases of services that are off now.
	Known Names

	// Order lists databases in Files in capture order. The others follow, sorted by name.
	Order []string

	// Once makes a backup: Sync makes one restore point and checks all objects it sends. It does not checkpoint, so
	// any process may replicate or serve the databases. Call Sync, Tidy and Close, but not Start.
	Once bool

	Target Target // see Folder and package location

	// Location, if set, names the target, e.g. its URL; only equality counts. A target that was claimed before and lost its
	// marker is refused, because its disk may not be mounted.
	Location string

	// Key signs everything. A target that another key signed is refused.
	Key SigningKey

	// Recipients can decrypt the replica. Without recipients, it is not encrypted.
	Recipients []age.Recipient

	// Spool is a folder for unsent files, limited to SpoolBytes per database; the default is 256 MiB. Beyond the
	// limit they are dropped, and the whole database is sent when the target is available again. The folder is created,
	// and must survive restarts: it also records what was sent.
	Spool      string
	SpoolBytes int64

	// Keep limits the age of restore points. The default is a week.
	Keep time.Duration

	// Rule keeps some points that are older than Keep; the zero value keeps none. With Once, Keep has no effect: the rule
	// decides about all points, and its zero value keeps all.
	Rule Keep

	// Dismissed, if set, returns the files whose points up to a time may all be deleted. The newest point with every
	// other file is always kept. The map is only read. An error ends the maintenance, which is tried again.
	Dismissed func() (map[string]time.Time, error)

	// Interval is the time between captures, each of which becomes a restore point if anything changed. The default is
	// one second.
	Interval time.Duration

	// Timeout limits an upload. The default is 30 seconds; for large objects, a second per 100 KB is added.
	Timeout time.Duration

	Bodies map[string]Bodies // by service

	Clock clock.Clock
	Log   *slog.Logger

	space func(folder string) (free, size float64, err error)

	// Fault, for tests, is called between all steps, also concurrently.
	Fault func(point string) error
}
