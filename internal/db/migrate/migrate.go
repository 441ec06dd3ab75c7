// Package migrate determines a service's pending migrations.
//
// Migrations are embedded files named NNNN_name.sql and only go forward. The engine's package (sqlitedb, pgdb)
// applies them under a lock and records each in the table schema_migrations with the service name, so services may
// share a database.
//
// Two releases may share a database during an upgrade, and a release can be rolled back. So a migration only adds. A
// later release removes obsolete parts once no release in use needs them; such a migration's name ends in
// _needs_NNNN, the newest migration a release must know, so older releases report this instead of failing later.
package migrate

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"

	"holdfast/internal/errcode"
)

// Migration is an embedded file.
type Migration struct {
	Version  int    // without gaps
	Name     string // without number and suffix
	SQL      string
	Checksum string // SHA-256 of SQL without comments and white space, hex
}

// Applied is a row of the table schema_migrations.
type Applied struct {
	Version  int
	Name     string
	Checksum string
}

// ErrDevelopment means that an unreleased version applied other migrations, or wrote schema_migrations in another form.
var ErrDevelopment = errcode.New(errcode.Unavailable, "the database was made by a development build of Holdfast: "+DevelopmentFix)

// DevelopmentFix is the advice for ErrDevelopment.
const DevelopmentFix = "export its data with that build, or move the database away, keep it, and start with an empty one"

// Set lists a service's migrations for an engine in order.
type Set struct {
	Service    string // "server" for the server's own tables
	Migrations []Migration
}

var needs = regexp.MustCompile(`_needs_(\d{4})$`)

// needed returns the number after _needs_, or 0.
func needed(name string) int {
	m := needs.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

var filename = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// Load reads the migrations NNNN_name.sql in a folder. It fails if a number is missing.
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
		set.Migrations = append(set.Migrations, Migration{Version: version, Name: m[2], SQL: string(text), Checksum: checksum(string(text))})
	}
	slices.SortFunc(set.Migrations, func(a, b Migration) int { return a.Version - b.Version })
	for i, m := range set.Migrations {
		if m.Version != i+1 {
			return Set{}, fmt.Errorf("migrations of %s: found %04d_%s, expected number %04d", service, m.Version, m.Name, i+1)
		}
		if needed(m.Name) >= m.Version {
			return Set{}, fmt.Errorf("migrations of %s: %04d_%s needs a later migration", service, m.Version, m.Name)
		}
	}
	return set, nil
}

// Pending returns the migrations that the ledger lacks, in order. It accepts rows newer than this binary's
// migrations, unless they removed something that the binary needs. A row that does not match its migration
// is ErrDevelopment.
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
			return nil, fmt.Errorf("%w (its migration %04d_%s of %s differs)", ErrDevelopment, a.Version, a.Name, s.Service)
		case len(pending) > 0:
			return nil, fmt.Errorf("%s: migration %04d_%s was applied but %04d_%s was not; the ledger was edited or restored in part",
				s.Service, m.Version, m.Name, pending[0].Version, pending[0].Name)
		}
	}
	return pending, nil
}
