package buckets

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/engine"
	"holdfast/internal/replica"
	"holdfast/internal/testdb"
)

// TestRestoreOfHostileRows restores the bodies of databases whose rows name folders and files outside the data folder.
// The restore and the walk of a verification fail, do not panic, and write nothing outside.
func TestRestoreOfHostileRows(t *testing.T) {
	t.Parallel()
	const object = `UPDATE manta_bucket_object SET `
	rows := map[string]string{
		"a node in a new folder":  `INSERT INTO manta_bucket_node (id, url, state, added) VALUES ('../../../out:1', 'file:///x', 'active', 0)`,
		"an absolute node":        `INSERT INTO manta_bucket_node (id, url, state, added) VALUES ('/tmp/out:1', 'file:///x', 'active', 0)`,
		"a node without a colon":  `INSERT INTO manta_bucket_node (id, url, state, added) VALUES ('..', 'file:///x', 'active', 0)`,
		"a long node":             `INSERT INTO manta_bucket_node (id, url, state, added) VALUES ('a:` + strings.Repeat("n", 300) + `', 'file:///x', 'active', 0)`,
		"an owner with dots":      object + `owner = '../../../../out'`,
		"a bucket with dots":      object + `bucket_id = '../../../../../out'`,
		"an ID with dots":         object + `id = '../../../../../out'`,
		"a short ID":              object + `id = 'a'`,
		"an ID with a line break": object + `id = 'ab' || char(10) || char(9)`,
		"no nodes":                object + `sharks = '[]'`,
		"a node with dots":        object + `sharks = '["../../../out:1"]'`,
		"a negative length":       object + `content_length = -1`,
	}
	for what, sql := range rows {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			data := filepath.Join(root, "deep", "data")
			s, opened := openBuckets(t, data)
			s.stored(t, "body")
			change(t, filepath.Join(data, engine.FileName(Name)), sql)
			before := testdb.Tree(t, root, data)
			_, err := opened.Files.Restore(t.Context(), data, func(context.Context, string, int64) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader("body")), nil
			}, func(int64, int64) {})
			if err == nil {
				t.Error("the restore succeeds")
			}
			if _, err := s.eachBody(t.Context(), func(replica.Body) error { return nil }); err == nil {
				t.Error("the walk succeeds")
			}
			testdb.WantTree(t, what, before, testdb.Tree(t, root, data))
		})
	}
}

func change(t *testing.T, file, sql string) {
	t.Helper()
	c, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	c.SetBusyTimeout(10 * time.Second)
	err = sqlitex.ExecuteTransient(c, `PRAGMA ignore_check_constraints = ON`, nil)
	if err := errors.Join(err, sqlitex.ExecuteTransient(c, sql, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}
