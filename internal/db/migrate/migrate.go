// Package migrate says which schema changes a service still needs.
//
// A service keeps its changes for one engine in a folder of files named
// NNNN_name.sql, embedded in the binary, forward only. The engine's package
// (sqlitedb, pgdb) applies them under a lock and records each in the ledger
// table schema_migrations, which names the service, so that services may share a
// database.
//
// Servers of two releases may stand on one database while it is upgraded, and
// a release that disappoints is taken back. So a change only adds, and what it
// makes needless is taken away by a later release, when none is left that uses
// it. The name of such a change ends in _needs_NNNN, the newest migration that
// a release must know to go on; older ones then say so instead of failing.
package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"

	"holdfast/internal/fault"
)

// Migration is one schema change.
type Migration struct {
	Version  int    // 1, 2, 3 … without a gap
	Name     string // what it does, from the file's name
	SQL      string
	Checksum string // SHA-256 of SQL, hex
}

// Applied is a line of the ledger.
type Applied struct {
	Version  int
	Name     string
	Checksum string
}

// ErrDevelopment is a database of a development version whose ledger has another
// form. Nothing was released with it, so nothing reads it.
var ErrDevelopment = fault.New(fault.Unavailable, "the database was made by a development version of Holdfast before its first release: move it away and start with an empty one")

// Set is all the changes of one service for one engine, in order.
type Set struct {
	Service    string
	Migrations []Migration
}

var needs = regexp.MustCompile(`_needs_(\d{4})$`)

// needed is the newest migration that a release must know to work on the
// schema after the change; 0 for a change that only adds.
func needed(name string) int {
	m := needs.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

var filename = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// Load reads the changes of a service from a folder. It fails on a file that is
// not named like a change and on a gap or repeat in the numbers: both are
// mistakes of the build, which a test finds.
func Load(service string, fsys fs.FS, dir string) (Set, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return Set{}, fmt.Errorf("migrations of %s: %w", service, err)
	}
	set := Set{Service: service}
	for _, e := range entries {
		m := filename.FindStringSubmatch(e.Name())
		if m == nil {
			return Set{}, fmt.Errorf("migrations of %s: %q is not named NNNN_name.sql", service, e.Name())
		}
		text, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return Set{}, fmt.Errorf("migrations of %s: %w", service, err)
		}
		version, _ := strconv.Atoi(m[1])
		sum := sha256.Sum256(text)
		set.Migrations = append(set.Migrations, Migration{version, m[2], string(text), hex.EncodeToString(sum[:])})
	}
	slices.SortFunc(set.Migrations, func(a, b Migration) int { return a.Version - b.Version })
	for i, m := range set.Migrations {
		if m.Version != i+1 {
			return Set{}, fmt.Errorf("migrations of %s: %04d_%s stands where %04d is due", service, m.Version, m.Name, i+1)
		}
		if needed(m.Name) >= m.Version {
			return Set{}, fmt.Errorf("migrations of %s: %04d_%s needs what comes after it", service, m.Version, m.Name)
		}
	}
	return set, nil
}

// Pending returns the changes that the ledger does not have yet. Lines of the
// ledger that are newer than the binary are fine, a newer release was here
// first, unless they took away what the binary works with. A line that differs
// from the binary's change of the same number is an error, because nobody
// knows then what the schema is.
func (s Set) Pending(ledger []Applied) ([]Migration, error) {
	have := make(map[int]Applied, len(ledger))
	for _, a := range ledger {
		have[a.Version] = a
		if needed(a.Name) > len(s.Migrations) {
			return nil, fmt.Errorf("%s: this release is too old for the database: a newer one has applied %04d_%s; run that, or go back to a backup from before it",
				s.Service, a.Version, a.Name)
		}
	}
	var pending []Migration
	for _, m := range s.Migrations {
		a, ok := have[m.Version]
		switch {
		case !ok:
			pending = append(pending, m)
		case a.Checksum != m.Checksum:
			return nil, fmt.Errorf("%s: migration %04d_%s was applied with another text (%.12s…, this binary has %.12s…); run the release that applied it",
				s.Service, m.Version, m.Name, a.Checksum, m.Checksum)
		case len(pending) > 0:
			return nil, fmt.Errorf("%s: migration %04d_%s was applied but %04d_%s was not; the ledger was edited or restored in part",
				s.Service, m.Version, m.Name, pending[0].Version, pending[0].Name)
		}
	}
	return pending, nil
}
