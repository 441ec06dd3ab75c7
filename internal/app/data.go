package app

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// engine is which database a URL selects.
type engine string

const (
	engineSQLite   engine = "sqlite"
	enginePostgres engine = "postgres"
)

// target is a parsed database_url.
type target struct {
	engine engine
	path   string // of a SQLite file
	url    string // of a server
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
	}
	return target{}, fmt.Errorf("%s.database_url begins with %q: this release knows sqlite: and postgres: only", room, scheme)
}

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
