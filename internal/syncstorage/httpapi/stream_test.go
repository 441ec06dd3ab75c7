package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func (u *user) fill(n, size int) {
	u.t.Helper()
	payload := strings.Repeat("x", size)
	var list []string
	flush := func() {
		if p := u.post("/storage/toys", strings.Join(list, "\n"), "Content-Type: application/newlines").is(200).posted(); len(p.Failed) > 0 {
			u.t.Fatalf("%v fail", p.Failed)
		}
		list = list[:0]
	}
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":"%06d","payload":"%s"}`, i, payload))
		if len(list) == 100 || (len(list)+1)*(size+100) > 2500000 {
			flush()
		}
	}
	if len(list) > 0 {
		flush()
	}
}

func TestLargeCollection(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const n, size = 40, 220000 // 8.4 MiB
	u.fill(n, size)
	check := func(a *answer, from, to int) {
		t.Helper()
		a.is(200).has("X-Weave-Records", fmt.Sprint(to-from))
		if a.header.Get("Content-Type") == "application/newlines" {
			a.body = "[" + strings.ReplaceAll(strings.TrimSuffix(a.body, "\n"), "\n", ",") + "]"
		}
		var list []record
		a.into(&list)
		if len(list) != to-from {
			t.Fatalf("%d records", len(list))
		}
		for i, r := range list {
			if r.ID != fmt.Sprintf("%06d", from+i) || len(r.Payload) != size {
				t.Fatalf("record %d is %q of %d bytes", i, r.ID, len(r.Payload))
			}
		}
	}
	whole := u.get("/storage/toys?full&sort=oldest").has("X-Weave-Next-Offset", "")
	check(whole, 0, n)
	lines := u.get("/storage/toys?full&sort=oldest&limit=30", "Accept: application/newlines")
	check(lines, 0, 30)
	rest := u.get("/storage/toys?full&sort=oldest&limit=10&offset=" + lines.header.Get("X-Weave-Next-Offset"))
	check(rest.has("X-Weave-Next-Offset", ""), 30, n)
}

// TestHangUp checks that a disconnected client releases the only database connection.
func TestHangUp(t *testing.T) {
	t.Parallel()
	u := start(t, setup{readers: 1}).user(t)
	u.fill(40, 220000)
	for range 2 {
		w := u.dial(t)
		if err := w.SetReadBuffer(4096); err != nil { // the rest must not fit into buffers
			t.Fatal(err)
		}
		w.say(u.head("GET", u.path("/storage/toys?full")))
		if _, err := io.CopyN(io.Discard, w.in, 100000); err != nil {
			t.Fatal(err)
		}
		if err := w.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		w.Close()
		u.get("/storage/toys?limit=1").is(200)
	}
}

type brokenStore struct {
	ss.Store
	list func(*ss.Listing) (*ss.Listing, error)
	put  func() error
}

func (b brokenStore) List(ctx context.Context, o ss.Owner, q *ss.Query) (*ss.Listing, error) {
	l, err := b.Store.List(ctx, o, q)
	if err != nil || b.list == nil {
		return l, err
	}
	return b.list(l)
}

func (b brokenStore) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (ss.Written, error) {
	if b.put != nil {
		return ss.Written{}, b.put()
	}
	return b.Store.Put(ctx, o, w, u)
}

func cutAfter(n int, err error, released *bool) func(*ss.Listing) (*ss.Listing, error) {
	return func(whole *ss.Listing) (*ss.Listing, error) {
		cut := ss.NewListing(whole.Modified, whole.Records, func(yield func(*ss.BSO, error) bool) {
			i := 0
			for b, e := range whole.Items {
				if i == n {
					yield(nil, err)
					return
				}
				if i++; !yield(b, e) {
					return
				}
			}
		}, func() { *released = true; whole.Close() })
		cut.ContinueAfter(ss.Offset{Skip: 1})
		return cut, nil
	}
}

func TestListingFailsEarly(t *testing.T) {
	t.Parallel()
	for status, err := range map[int]error{500: errors.New("disk on fire"), 503: errcode.New(errcode.Unavailable, "away")} {
		released := false
		u := start(t, setup{log: quiet, store: func(s ss.Store) ss.Store {
			return brokenStore{Store: s, list: cutAfter(2, err, &released)}
		}}).user(t)
		u.post("/storage/toys", bsos("a", "b", "c")).is(200)
		a := u.get("/storage/toys?full", "Accept: application/newlines").is(status, "0").
			has("X-Weave-Records", "").has("X-Weave-Next-Offset", "").has("X-Last-Modified", "").has("Content-Type", "application/json")
		if status == 503 {
			a.has("Retry-After", "10")
		}
		if !released {
			t.Error("the listing is not closed")
		}
	}
}

// TestListingFailsLate checks that a failure after a part was sent closes the connection, because a partial list must
// not look complete.
func TestListingFailsLate(t *testing.T) {
	t.Parallel()
	released := false
	u := start(t, setup{log: quiet, store: func(s ss.Store) ss.Store {
		return brokenStore{Store: s, list: cutAfter(90, errors.New("disk on fire"), &released)}
	}}).user(t)
	u.fill(100, 8000)
	for _, accept := range []string{"application/json", "application/newlines"} {
		released = false
		res, err := u.Client().Do(u.request("GET", u.path("/storage/toys?full"), nil, "Accept: "+accept))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil || res.StatusCode != 200 || len(body) < 256<<10 || json.Valid(body) {
			t.Errorf("%s: %d, %d bytes, %v", accept, res.StatusCode, len(body), err)
		}
		if !released {
			t.Error("the listing is not closed")
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	var failure func() error
	u := start(t, setup{log: quiet, store: func(s ss.Store) ss.Store {
		return brokenStore{Store: s, put: func() error { return failure() }}
	}}).user(t)
	coded := func(code errcode.Code) func() error {
		return func() error { return fmt.Errorf("put: %w", errcode.Wrap(code, "a sentence", errors.New("a secret"))) }
	}
	for _, row := range []struct {
		failure func() error
		status  int
		body    string
		retry   string
	}{
		{coded(errcode.Conflict), 503, "0", "10"},
		{coded(errcode.Unavailable), 503, "0", "10"},
		{coded(errcode.Internal), 500, "0", ""},
		{func() error { return errors.New("disk on fire") }, 500, "0", ""},
		{func() error { panic("a bug") }, 500, "0", ""},
		{func() error { return ss.ErrQuota }, 403, "14", ""},
		{func() error { return ss.ErrTooManyNames }, 400, "13", ""},
		{func() error { return &ss.PreconditionError{Modified: 1790000000990} }, 412, "", ""},
		{func() error { return &ss.PreconditionError{Modified: 1790000000990, NotModified: true} }, 304, "", ""},
	} {
		failure = row.failure
		u.put("/storage/toys/a", `{"payload":"x"}`).is(row.status, row.body).has("Retry-After", row.retry)
	}
	u.get("/storage/toys").is(200, "[]")
}
