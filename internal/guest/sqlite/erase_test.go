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
	"sync"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
	"holdfast/internal/testdb/opened"
)

// found returns the names of the database files that contain a text.
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

func publishAll(t *testing.T, store backend.Store) {
	t.Helper()
	for {
		events, _, err := store.Outbox().Next(t.Context(), outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: 1000, Now: clock.System()})
		suite.Must(t, "Next", err)
		if len(events) == 0 {
			return
		}
		suite.Must(t, "Done", store.Outbox().Done(t.Context(), "test", 0, events))
	}
}

// TestEraseLeavesNothing checks that no database file contains a guest's texts after the erasure, although other
// guests write concurrently. While a reader needs the deleted content, the erasure fails, and may be repeated.
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
	property := func(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }
	note := func(session guest.ID, n, version int) string {
		return fmt.Sprintf("note %d of %s, version %d %s", n, session, version, strings.Repeat("x", 200))
	}
	write := func(session guest.ID, round int) error {
		mutation := func(key string, n int) guest.Mutation {
			return guest.Mutation{Session: session, Route: "POST /test", Key: fmt.Sprint(key, n), Digest: sha256.Sum256(nil)}
		}
		for n := 6 * round; n < 6*round+6; n++ {
			w := guest.Wish{ID: guest.NewID(guest.WishPrefix, clock.System()), Tenant: property(0), Item: property(n), Source: "list", Note: note(session, n, 1)}
			event := guest.NewID(guest.EventPrefix, clock.System())
			if _, err := store.AddWish(t.Context(), guest.AddWish{Mutation: mutation("add", n), Wish: w, Event: event}); err != nil {
				return err
			}
		}
		n := 6 * round
		_, err := store.ChangeWish(t.Context(), guest.ChangeWish{Mutation: mutation("note", n), Item: property(n), Note: new(note(session, n, 2))})
		return err
	}
	for round := range 10 { // splits the pages of the tables many times
		var all sync.WaitGroup
		for _, session := range sessions {
			all.Go(func() {
				if err := write(session, round); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	publishAll(t, store)
	suite.Equal(t, "written", len(found(t, path, string(erased))) > 0, true)

	reader, err := db.Snapshot(t.Context())
	suite.Must(t, "Snapshot", err)
	suite.Must(t, "read", reader.Read(func(c *zombiezen.Conn) error {
		return sqlitedb.ForEach(c, `SELECT count(*) FROM bff_consumer_wishlist_anonymous`, func(*zombiezen.Stmt) error { return nil })
	}))
	for wait := 300 * time.Millisecond; !errors.Is(err, sqlitedb.ErrPurge); wait *= 2 { // the purge starts late on a busy machine
		short, cancel := context.WithTimeout(t.Context(), wait)
		_, _, err = store.Erase(short, erased)
		cancel()
		if !errcode.Is(err, errcode.Unavailable) || wait > time.Minute {
			t.Fatalf("while a reader needs the content: %v", err)
		}
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
