package spanner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	backend "holdfast/internal/syncstorage/spanner"
)

const (
	query    = "ExecuteStreamingSql"
	dml      = "ExecuteBatchDml"
	commit   = "Commit"
	rollback = "Rollback"
)

var (
	reads   = []string{query}
	writes  = []string{query, commit}
	commits = []string{query, dml, commit}
)

func and(all ...[]string) []string { return slices.Concat(all...) }

// tapped is a store with recorded messages and an open session.
type tapped struct {
	ss.Store
	db   *spannerdb.DB
	wire *wire
	opts spannerdb.Options // without the wire

	told []commitStats
}

type commitStats struct {
	name      string
	predicted int
}

// newTapped returns a store on its own database.
func newTapped(t *testing.T, change func(*spannerdb.Options)) *tapped {
	t.Helper()
	s := &tapped{wire: &wire{}}
	opts := options(t)
	s.opts = opts
	opts.Mutations = func(name string, predicted, _ int) { s.told = append(s.told, commitStats{name, predicted}) }
	if change != nil {
		change(&opts)
	}
	s.db = openDB(t, s.wire.tap(opts))
	s.Store = backend.New(s.db)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.clear()
	return s
}

func (s *tapped) clear() { s.wire.taken(); s.told = nil }

// other returns another process's store on the same database.
func (s *tapped) other(t *testing.T) ss.Store {
	t.Helper()
	return backend.New(openDB(t, s.opts))
}

var (
	wide  = ss.BatchLimits{Records: 1 << 40, Bytes: 1 << 40}
	large = ss.Quota{User: 1 << 40, Enforce: true}
)

func at(i int) ss.Timestamp { return ss.Timestamp(1_700_000_000_000 + 1_000*int64(i)) }

func to(collection string, i int, q ss.Quota) ss.Write {
	return ss.Write{Collection: collection, Now: at(i), Quota: q, MaxNames: 100}
}

func update(id, payload string) ss.Update {
	return ss.Update{ID: id, Payload: ss.Some([]byte(payload))}
}

func updates(n, bytes int) []ss.Update {
	us := make([]ss.Update, n)
	for i := range us {
		us[i] = update(fmt.Sprintf("r%05d", i), strings.Repeat("x", bytes))
	}
	return us
}

func user(name string) ss.Owner { return ss.Owner{UID: 1, FxAUID: name, FxAKID: "k"} }

func drained(l *ss.Listing, err error) error {
	if err != nil {
		return err
	}
	defer l.Close()
	n := 0
	for _, err := range l.Items {
		if err != nil {
			return err
		}
		n++
	}
	if n != l.Records {
		return fmt.Errorf("%d records, want Records = %d", n, l.Records)
	}
	return nil
}

type trip struct {
	name string
	want []string
	step func() error
	why  string
}

// TestRoundTrips checks that every method sends the minimum number of messages.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := newTapped(t, nil)
	for _, trip := range slices.Concat(
		writeTrips(t, s, "no quota", user("a"), ss.Quota{}),
		writeTrips(t, s, "quota", user("b"), large),
		readTrips(t, s, user("c")),
		nameTrips(t, s, user("d")),
		quotaTrips(t, s, user("e")),
	) {
		s.clear()
		if err := trip.step(); err != nil {
			t.Errorf("%s: %v", trip.name, err)
		}
		calls := s.wire.taken()
		if got := methods(calls); !slices.Equal(got, trip.want) {
			t.Errorf("%s takes %v, want %v: %s", trip.name, got, trip.want, trip.why)
		}
		checkSelectors(t, trip.name, calls)
	}
}

// checkSelectors checks that no read begins a transaction, and that a write's first statement begins its transaction.
func checkSelectors(t *testing.T, name string, calls []*call) {
	t.Helper()
	var open bool
	for i, c := range calls {
		switch c.method {
		case query:
			single, begin := c.transaction().GetSingleUse().GetReadOnly(), c.transaction().GetBegin().GetReadWrite()
			if !open && single == nil && begin == nil || open && len(c.transaction().GetId()) == 0 {
				t.Errorf("%s: message %d is of no single-use read, nor of a write: %v", name, i, c.transaction())
			}
			open = open || begin != nil
		case dml, commit, rollback:
			if !open {
				t.Errorf("%s: %s without a read before it", name, c.method)
			}
			open = c.method == dml
		}
	}
	if open {
		t.Errorf("%s: a transaction is left open", name)
	}
}

func writeTrips(t *testing.T, s *tapped, name string, o ss.Owner, q ss.Quota) []trip {
	ctx, batch := t.Context(), ss.BatchID("b")
	post := func(i int, us []ss.Update) func() error {
		return func() error { _, err := s.Post(ctx, o, to("bookmarks", i, q), us); return err }
	}
	stage := func(i int, create bool) func() error {
		return func() error {
			_, err := s.Append(ctx, o, to("bookmarks", i, q), ss.BatchPart{ID: batch, Opens: create, Updates: updates(100, 10), Limits: wide})
			return err
		}
	}
	end := func(i int, us []ss.Update) func() error {
		return func() error {
			_, err := s.Commit(ctx, o, to("bookmarks", i, q), ss.BatchPart{ID: batch, Updates: us, Limits: wide})
			return err
		}
	}
	const readAndCommit = "one query reads everything that the decision needs, and the commit carries the changes"
	return []trip{
		{name + ": the first Put", writes, func() error { _, err := s.Put(ctx, o, to("bookmarks", 1, q), update("a", "x")); return err }, readAndCommit},
		{name + ": Put", writes, func() error { _, err := s.Put(ctx, o, to("bookmarks", 2, q), update("a", "y")); return err }, readAndCommit},
		{name + ": Post of 100", writes, post(3, updates(100, 10)), readAndCommit},
		{name + ": Post of none", writes, post(4, nil), readAndCommit},
		{name + ": DeleteBSO", writes, func() error { _, err := s.DeleteBSO(ctx, o, to("bookmarks", 5, q), "a"); return err }, readAndCommit},
		{name + ": DeleteBSOs", writes, func() error {
			_, err := s.DeleteBSOs(ctx, o, to("bookmarks", 6, q), []string{"r00001", "r00002", "not there"})
			return err
		}, readAndCommit},
		{name + ": Append that opens", writes, stage(7, true), readAndCommit},
		{name + ": Append", writes, stage(8, false), readAndCommit},
		{name + ": Commit", commits, end(9, nil), "statements in one message move the staged records inside the database"},
		{name + ": the next batch", writes, stage(10, true), readAndCommit},
		{
			name + ": Commit with records", commits, end(11, updates(3, 10)),
			"a separate statement in the same message merges its records",
		},
		{name + ": another batch", writes, stage(11, true), readAndCommit},
		{
			name + ": Commit with more than one message can hold", []string{query, dml, dml, commit}, end(11, updates(4, 2_500_000)),
			"Spanner accepts 10 MB in a message without a commit",
		},
		{name + ": a precondition fails", []string{query, rollback}, func() error {
			w := to("bookmarks", 12, q)
			w.If.UnmodifiedSince = ss.Some(at(1))
			_, err := s.Put(ctx, o, w, update("r00005", "z"))
			return refused(err, errcode.Precondition)
		}, "the locks are released at once"},
		{name + ": DeleteCollection", writes, func() error { _, err := s.DeleteCollection(ctx, o, to("bookmarks", 13, q)); return err }, readAndCommit},
		{name + ": DeleteAll", writes, func() error { return s.DeleteAll(ctx, o, ss.Precondition{}) }, readAndCommit},
		{name + ": Sweep", nil, func() error { _, err := s.Sweep(ctx, at(14), 500); return err }, "Spanner does it"},
	}
}

func refused(err error, code errcode.Code) error {
	if errcode.Is(err, code) {
		return nil
	}
	return fmt.Errorf("%v, want %v", err, code)
}

func readTrips(t *testing.T, s *tapped, o ss.Owner) []trip {
	ctx := t.Context()
	fill := func(collection string, us []ss.Update) func() error {
		return func() error { _, err := s.Post(ctx, o, to(collection, 1, ss.Quota{}), us); return err }
	}
	list := func(q ss.Query) func() error {
		q.Now = at(2)
		return func() error { return drained(s.List(ctx, o, &q)) }
	}
	get := func(collection, id string) (ss.BSO, error) {
		return s.Get(ctx, o, ss.Request{Collection: collection, Now: at(2)}, id)
	}
	const one = "one query on one snapshot"
	return []trip{
		{"fill", writes, fill("history", updates(20, 10)), ""},
		{"fill with more than a page in memory", writes, fill("forms", updates(6, 500_000)), ""},
		{"Collections", reads, func() error { _, err := s.Collections(ctx, o); return err }, one},
		{"Usage", reads, func() error { _, err := s.Usage(ctx, o, at(2)); return err }, one},
		{"Get", reads, func() error { _, err := get("history", "r00001"); return err }, one},
		{"Get of an absent record", reads, func() error { _, err := get("history", "nobody"); return refused(err, errcode.NotFound) }, one},
		{"List", reads, list(ss.Query{Collection: "history", Full: true}), one},
		{"List of ids, a page", reads, list(ss.Query{Collection: "history", Limit: ss.Some(5), Sort: ss.Newest}), one},
		{"List of an empty collection", reads, list(ss.Query{Collection: "tabs", Full: true}), one},
		{
			"List of more than fits in memory", and(reads, reads), list(ss.Query{Collection: "forms", Full: true}),
			"the number must be known before the last record is read, so a second query on the same snapshot counts",
		},
		{"Ping", reads, func() error { return s.Ping(ctx) }, one},
	}
}

// nameTrips are operations on names unknown to this process or to every process.
func nameTrips(t *testing.T, s *tapped, o ss.Owner) []trip {
	ctx, neighbour := t.Context(), s.other(t)
	named := func(names ...string) {
		for _, name := range names {
			if _, err := neighbour.Put(ctx, o, to(name, 0, ss.Quota{}), update("a", "x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	named("theirs-put", "theirs-get", "theirs-delete", "theirs-info")
	put := func(name string, i int) func() error {
		return func() error { _, err := s.Put(ctx, o, to(name, i, ss.Quota{}), update("a", "x")); return err }
	}
	get := func(name string) error {
		_, err := s.Get(ctx, o, ss.Request{Collection: name, Now: at(9)}, "a")
		return err
	}
	const once = "a name is looked up once by a process"
	return []trip{
		{
			"Put in a name that is new", and(reads, writes, writes), put("mine", 1),
			"after the lookup it is inserted in a separate transaction, so that users who need the same name do not wait for the write",
		},
		{"Put in it again", writes, put("mine", 2), once},
		{"Put in a name that another process made", and(reads, writes), put("theirs-put", 3), once},
		{"Put in that again", writes, put("theirs-put", 4), once},
		{"Get of a name that another process made", and(reads, reads), func() error { return get("theirs-get") }, once},
		{"Get of that again", reads, func() error { return get("theirs-get") }, once},
		{"Get of an unknown name", reads, func() error { return refused(get("nobodys"), errcode.NotFound) }, "a collection without a name has no record to look for"},
		{"List of an unknown name", reads, func() error {
			return drained(s.List(ctx, o, &ss.Query{Collection: "nobodys", Now: at(9)}))
		}, "the same"},
		{"DeleteCollection of a name that another process made", and(reads, writes), func() error {
			_, err := s.DeleteCollection(ctx, o, to("theirs-delete", 5, ss.Quota{}))
			return err
		}, "looked up in the same transaction, so that a write that creates the name is entirely before or after"},
		{"Collections with a name that another process made", and(reads, reads), func() error { _, err := s.Collections(ctx, o); return err }, once},
		{"Collections again", reads, func() error { _, err := s.Collections(ctx, o); return err }, once},
	}
}

func quotaTrips(t *testing.T, s *tapped, o ss.Owner) []trip {
	ctx := t.Context()
	small := ss.Quota{User: 30, Enforce: true}
	put := func(i int, q ss.Quota, payload string) func() error {
		return func() error { _, err := s.Put(ctx, o, to("prefs", i, q), update("a", payload)); return err }
	}
	full := func(step func() error) func() error { return func() error { return refused(step(), errcode.Quota) } }
	recount, undone := []string{query, query, commit}, []string{query, query, rollback}
	return []trip{
		{"Put without a quota", writes, put(1, ss.Quota{}, "0123456789"), ""},
		{"Put, the first that is counted", recount, put(2, large, "0123456789"), "there are no counters yet"},
		{"Put, the next", writes, put(3, large, "0123456789"), "the counters are within the quota"},
		{"Put over the quota", undone, full(put(4, small, strings.Repeat("x", 31))), "the counters may be too high, so the records are counted"},
		{"Append over the quota", []string{query, query, query, rollback}, full(func() error {
			_, err := s.Append(ctx, o, to("prefs", 5, small), ss.BatchPart{ID: "b", Opens: true, Updates: []ss.Update{update("b", strings.Repeat("x", 21))}, Limits: wide})
			return err
		}), "the bytes that the staged records will replace are read if the result depends on them"},
		{"Append without a quota", writes, func() error {
			_, err := s.Append(ctx, o, to("prefs", 6, ss.Quota{}), ss.BatchPart{ID: "b", Opens: true, Updates: []ss.Update{update("b", "0123456789")}, Limits: wide})
			return err
		}, ""},
		{"Commit over the quota", undone, full(func() error {
			_, err := s.Commit(ctx, o, to("prefs", 7, ss.Quota{User: 15, Enforce: true}), ss.BatchPart{ID: "b", Limits: wide})
			return err
		}), "the records are counted, and nothing is written"},
		{"Commit without a quota", commits, func() error {
			_, err := s.Commit(ctx, o, to("prefs", 8, ss.Quota{}), ss.BatchPart{ID: "b", Limits: wide})
			return err
		}, "the counters are reset with the collection's row"},
	}
}

// TestRouteToLeader checks that only read-write transactions carry the header, because any replica may serve reads.
func TestRouteToLeader(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		s := newTapped(t, func(o *spannerdb.Options) { o.RouteToLeader = wanted })
		o := user("a")
		sent := func(name string, write bool, step func() error) {
			t.Helper()
			s.clear()
			if err := step(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			calls := s.wire.taken()
			if len(calls) == 0 {
				t.Errorf("%s: nothing was sent", name)
			}
			for _, c := range calls {
				if c.leader != (wanted && write) {
					t.Errorf("%s, wanted %v: %s goes to the leader: %v", name, wanted, c.method, c.leader)
				}
			}
		}
		for _, trip := range writeTrips(t, s, "write", o, large) {
			if trip.want != nil {
				sent(trip.name, true, trip.step)
			}
		}
		sent("Collections", false, func() error { _, err := s.Collections(t.Context(), o); return err })
		sent("List", false, func() error { return drained(s.List(t.Context(), o, &ss.Query{Collection: "forms", Now: at(20)})) })
	}
}

func TestCommitStats(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		s := newTapped(t, func(o *spannerdb.Options) {
			if !wanted {
				o.Mutations = nil
			}
		})
		if _, err := s.Put(t.Context(), user("a"), to("tabs", 1, ss.Quota{}), update("a", "x")); err != nil {
			t.Fatal(err)
		}
		calls := s.wire.taken()
		last, ok := calls[len(calls)-1].request.(*sppb.CommitRequest)
		if !ok || last.GetReturnCommitStats() != wanted {
			t.Errorf("wanted %v: %v", wanted, last.GetReturnCommitStats())
		}
	}
}
