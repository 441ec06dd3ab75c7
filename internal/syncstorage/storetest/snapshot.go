package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	ss "holdfast/internal/syncstorage"
)

func snapshotChecks() []check {
	return []check{
		{"ListingWhileWritten", func(t *testing.T, u *user) { listingWhileWritten(t, u, "x") }},
		{"LargeListingWhileWritten", func(t *testing.T, u *user) { listingWhileWritten(t, u, xs(1<<20)) }},
		{"StampAndRows", stampAndRows},
		{"Infos", infosOfOneSnapshot},
	}
}

func listingWhileWritten(t *testing.T, u *user, payload string) {
	for i := range 10 {
		u.put("history", bso(fmt.Sprint(i), payload))
	}
	q := ss.Query{Collection: "history", Sort: ss.Oldest, Full: true, Now: u.now}
	want := u.list("history")
	l, err := u.store.List(t.Context(), u.owner, &q)
	must(t, "List", err)
	defer l.Close()
	equal(t, "stamp", l.Modified, want.modified)
	equal(t, "count", l.Records, len(want.records))
	i := 0
	for b, err := range l.Items {
		must(t, "Items", err)
		switch i {
		case 0:
			u.put("history", bso("1", "changed"))
			u.put("history", bso("new", "new"))
		case 2:
			u.deleteBSOs("history", "3", "4")
		case 5:
			u.deleteCollection("history")
		}
		got := recordOf(b)
		got.expiry = 0
		if i < len(want.records) {
			equal(t, "record", got, want.records[i])
		}
		i++
	}
	equal(t, "records", i, len(want.records))
	equalIDs(t, "afterwards", u.list("history"))
}

func stampAndRows(t *testing.T, u *user) {
	const n = 60
	var (
		mu     sync.Mutex
		stamps []ss.Timestamp
	)
	ctx, done := context.WithCancelCause(t.Context())
	finished := errors.New("the writer finished")
	go func() {
		for i := range n {
			// Store the stamp before a reader that saw the record looks it up.
			mu.Lock()
			w, err := u.store.Put(t.Context(), u.owner, u.write("history"), bso(fmt.Sprintf("%03d", i), "x"))
			stamps = append(stamps, w.Modified)
			mu.Unlock()
			if err != nil {
				done(err)
				return
			}
		}
		done(finished)
	}()
	for running := true; running; {
		running = ctx.Err() == nil
		p := u.list("history")
		var newest ss.Timestamp
		for i, r := range p.records {
			newest = max(newest, r.modified)
			equal(t, "record", r.id, fmt.Sprintf("%03d", i))
		}
		equal(t, "the listing's stamp and its newest record", p.modified, newest)
		mu.Lock()
		for i, at := range stamps {
			if at <= p.modified && i >= len(p.records) {
				t.Errorf("record %d was written at %v and is not in the listing of %v", i, at, p.modified)
			}
		}
		mu.Unlock()
	}
	if err := context.Cause(ctx); !errors.Is(err, finished) {
		t.Fatalf("Put: %v", err)
	}
	equal(t, "records", len(u.list("history").records), n)
}

func infosOfOneSnapshot(t *testing.T, u *user) {
	u.post("bookmarks", bso("a", "x"))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 40 && err == nil; i++ {
			name := []string{"bookmarks", "tabs"}[i%2]
			_, err = u.store.Post(t.Context(), u.owner, u.write(name), []ss.Update{bso(fmt.Sprint(i), "x"), bso(fmt.Sprint(i, "b"), "x")})
		}
		done <- err
	}()
	for running := true; running; {
		select {
		case err := <-done:
			must(t, "Post", err)
			running = false
		default:
		}
		cs := u.collections()
		var newest ss.Timestamp
		for _, c := range cs.Stamps {
			newest = max(newest, c.Modified)
		}
		equal(t, "the user's stamp in Collections", cs.Modified, newest)
		for _, c := range u.usage().Collections {
			odd := int64(0)
			if c.Name == "bookmarks" {
				odd = 1
			}
			equal(t, "records of complete writes in "+c.Name, c.Records%2, odd)
			equal(t, "bytes of "+c.Name, c.Bytes, c.Records)
		}
	}
}
