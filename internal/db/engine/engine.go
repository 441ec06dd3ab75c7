// Package engine opens the database selected by a service's database_url (SQLite, PostgreSQL or Cloud Spanner), and
// Redis for expendable data.
package engine

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"holdfast/internal/db/redisdb"
)

// Kind is an engine, as the scheme of a database_url.
type Kind string

// Database engines. Citus is PostgreSQL: its migrations detect the extension.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
	Spanner  Kind = "spanner"
	Redis    Kind = "redis" // not for a database_url
)

// Title returns the name for people.
func (k Kind) Title() string {
	switch k {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "PostgreSQL"
	}
	return strings.ToUpper(string(k[:1])) + string(k[1:])
}

// Traits describe an engine for copying rows.
type Traits struct {
	// NamesOwners means that two texts identify an owner (rows.Spanner), so replaced owners lose their rows. Such an
	// engine stores no counters, may expire rows, and reads owners one by one.
	NamesOwners bool

	// RowsOfUpdate limits the rows of a transaction, which are sent at commit and may be repeated. If it is 0, rows
	// are written as they arrive.
	RowsOfUpdate int

	// IsRaw means that views are rows.RawView and updates are rows.RawUpdate.
	IsRaw bool

	// NoImport explains why the engine cannot be an import target; "" if it can.
	NoImport string
}

func (k Kind) Traits() Traits {
	switch k {
	case Postgres:
		return Traits{IsRaw: true}
	case Spanner:
		return Traits{
			NamesOwners: true, RowsOfUpdate: 5000, // limited number of values per commit
			NoImport: "Spanner cannot be an import target: it already uses the tables of Mozilla's server",
		}
	}
	return Traits{}
}

// example has a URL for each engine, for errors.
var example = map[Kind]string{
	SQLite:   "sqlite:PATH",
	Postgres: "postgres://user@host/database",
	Spanner:  "spanner://projects/P/instances/I/databases/D",
	Redis:    "redis://user:password@host:port/0",
}

// Target is a parsed database_url.
type Target struct {
	Kind Kind
	Path string // SQLite only
	URL  string // PostgreSQL or Redis URL, or Spanner database name
}

// FileOf returns the SQLite file that a database_url names, with file as the default, or "" for a database server.
func FileOf(databaseURL, file string) string {
	t, err := Parse(databaseURL, file, SQLite)
	if err != nil {
		return ""
	}
	return t.Path
}

// Parse parses a database_url for a service with the supported engines; "" selects the SQLite file. Errors omit the
// URL, which may contain a password.
func Parse(databaseURL, file string, supported ...Kind) (Target, error) {
	if databaseURL == "" {
		return Target{Kind: SQLite, Path: file}, nil
	}
	scheme, rest, found := strings.Cut(databaseURL, ":")
	if !found {
		return Target{}, fmt.Errorf("not a URL: expected %s", examples(supported))
	}
	kind := Kind(scheme)
	switch scheme {
	case "postgresql":
		kind = Postgres
	case "rediss":
		kind = Redis
	}
	if !slices.Contains(supported, kind) {
		hint := ""
		if scheme == "mysql" {
			hint = ". To import data from Mozilla's server, unset this setting and its SYNC_… variable, and run holdfast import"
		}
		return Target{}, fmt.Errorf("the scheme %q is not supported: expected %s%s", scheme, examples(supported), hint)
	}
	switch kind {
	case SQLite:
		path, err := url.PathUnescape(strings.TrimPrefix(rest, "//")) // sqlite:relative, sqlite:/path and sqlite:///path
		if err != nil || path == "" {
			return Target{}, fmt.Errorf("no file name: expected %s", example[SQLite])
		}
		return Target{Kind: SQLite, Path: path}, nil
	case Spanner:
		name := strings.TrimPrefix(rest, "//")
		if !spannerDatabase.MatchString(name) {
			return Target{}, fmt.Errorf("not a valid Spanner database name: expected %s", example[Spanner])
		}
		return Target{Kind: Spanner, URL: name}, nil
	case Redis:
		if _, err := redisdb.Parse(databaseURL); err != nil {
			return Target{}, fmt.Errorf("not a valid URL of Redis: expected %s", example[Redis])
		}
		return Target{Kind: Redis, URL: databaseURL}, nil
	}
	return Target{Kind: Postgres, URL: databaseURL}, nil
}

func examples(kinds []Kind) string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = example[k]
	}
	return strings.Join(all, " or ")
}

// Instance IDs take 2 to 64 characters, database IDs 2 to 30. A domain-scoped project ID contains a colon.
var spannerDatabase = regexp.MustCompile(`^projects/[a-z][-a-z0-9.:]*[a-z0-9]/instances/[a-z][-a-z0-9]{0,62}[a-z0-9]/databases/[a-z][-_a-z0-9]{0,28}[a-z0-9]$`)
