//test:unraced SQLite takes twenty times as long under the race detector

package sqlite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/suite"
	"holdfast/internal/testdb/opened"
)

// found returns the files of a database that have a text.
func found(t *testing.T, path, text string) (in []string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		content, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			in = append(in, filepath.Base(path)+suffix)
		}
	}
	return in
}

// TestEraseLeavesNothing: when a session is erased, no file of the database has what its guest has
// written, or wrote before, though others write among it. A reader that needs the deleted content
// makes the erasure fail, and it can be repeated.
func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "guest.db")
	db := opened.SQLite(t, sqlitedb.Options{Path: path}, sqlite.Migrations)
	store := sqlite.New(db, clock.System, nil)
	erased := guest.NewID(guest.SessionPrefix, clock.System())
	sessions := []guest.ID{erased}
	for range 9 {
		sessions = append(sessions, guest.NewID(guest.SessionPrefix, clock.System()))
	}
	keys := 0
	mutate := func(session guest.ID, fn func(guest.Tx) error) {
		t.Helper()
		keys++
		m := guest.Mutation{Session: session, Route: "POST /test", Key: fmt.Sprint(keys), Digest: sha256.Sum256(nil)}
		_, _, err := store.Mutate(t.Context(), m, func(tx guest.Tx) (guest.Answer, error) {
			return guest.Answer{Status: 200, ContentType: "text/plain", Body: []byte("answer of " + string(session))}, fn(tx)
		})
		suite.Must(t, "Mutate", err)
	}
	property := func(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }
	note := func(session guest.ID, n, version int) string {
		return fmt.Sprintf("note %d of %s, version %d %s", n, session, version, strings.Repeat("x", 200))
	}
	for round := range 10 { // the pages of the tables are split many times
		for _, session := range sessions {
			mutate(session, func(tx guest.Tx) error {
				for n := 6 * round; n < 6*round+6; n++ {
					w := guest.Wish{ID: guest.NewID(guest.WishPrefix, clock.System()), Tenant: property(0), Property: property(n), Source: "list", Note: note(session, n, 1)}
					if _, _, err := tx.AddWish(w); err != nil {
						return err
					}
				}
				return nil
			})
			mutate(session, func(tx guest.Tx) error {
				_, err := tx.SetNote(property(6*round), note(session, 6*round, 2))
				return err
			})
		}
	}
	suite.Equal(t, "written", len(found(t, path, string(erased))) > 0, true)

	reader, err := db.Snapshot(t.Context())
	suite.Must(t, "Snapshot", err)
	suite.Must(t, "read", sqlitedb.ForEach(reader.Conn, `SELECT count(*) FROM bff_consumer_wishlist_anonymous`, func(*zombiezen.Stmt) error { return nil }))
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err = store.Erase(short, erased)
	if !errors.Is(err, sqlitedb.ErrPurge) {
		t.Errorf("while a reader needs the content: %v", err)
	}
	reader.Release()
	last := sessions[len(sessions)-1]
	for _, session := range sessions[:3] {
		e, _, err := store.Erase(t.Context(), session)
		suite.Must(t, "Erase", err)
		suite.Equal(t, "remains", e.Remains, []string{})
		suite.Equal(t, "files with the session", found(t, path, string(session)), nil)
	}
	suite.Equal(t, "files with another session", len(found(t, path, string(last))) > 0, true)
}
