package app

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// engine is which database a URL selects.
type engine string

const (
	engineSQLite   engine = "sqlite"
	enginePostgres engine = "postgres"
	engineSpanner  engine = "spanner"
)

// target is a parsed database_url.
type target struct {
	engine engine
	path   string // of a SQLite file
	url    string // of a server; of Spanner the name of the database
}

// parseTarget reads a room's database_url. Empty selects the room's SQLite file
// in the data folder. Errors do not quote the URL, which may hold a password.
func parseTarget(room, databaseURL, data string) (target, error) {
	scheme, rest, found := strings.Cut(databaseURL, ":")
	switch {
	case databaseURL == "":
		return target{engine: engineSQLite, path: filepath.Join(data, room+".db")}, nil
	case !found:
		return target{}, fmt.Errorf("%s.database_url is no URL: write sqlite:PATH or postgres://user@host/database", room)
	}
	switch scheme {
	case "sqlite":
		path, err := sqlitePath(rest)
		if err != nil || path == "" {
			return target{}, fmt.Errorf("%s.database_url names no file: write sqlite:PATH", room)
		}
		return target{engine: engineSQLite, path: path}, nil
	case "postgres", "postgresql":
		return target{engine: enginePostgres, url: databaseURL}, nil
	case "spanner":
		if room != syncRoom {
			break
		}
		name := strings.TrimPrefix(rest, "//")
		if !spannerDatabase.MatchString(name) {
			return target{}, fmt.Errorf("%s.database_url names no database of Spanner: write spanner://projects/P/instances/I/databases/D", room)
		}
		return target{engine: engineSpanner, url: name}, nil
	}
	known := "sqlite: and postgres:"
	if room == syncRoom {
		known = "sqlite:, postgres: and spanner:"
	}
	return target{}, fmt.Errorf("%s.database_url begins with %q: this room knows %s only", room, scheme, known)
}

// spannerDatabase is the name of a database by the rules of Spanner: an
// instance's id has 2 to 64 characters, a database's 2 to 30. A project of a
// domain has a colon in its id.
var spannerDatabase = regexp.MustCompile(`^projects/[a-z][-a-z0-9.:]*[a-z0-9]/instances/[a-z][-a-z0-9]{0,62}[a-z0-9]/databases/[a-z][-_a-z0-9]{0,28}[a-z0-9]$`)

// sqlitePath takes sqlite:relative/path, sqlite:/path and sqlite:///path.
func sqlitePath(rest string) (string, error) {
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		rest = after
	}
	return url.PathUnescape(rest)
}

// makeData creates the data folder, readable by its owner only, when something
// is to live in it.
func makeData(data string) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("cannot create the data folder: %w", err)
	}
	return nil
}
