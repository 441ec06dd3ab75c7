package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

const (
	t0 ext.Moment = 1_700_000_000_123
	// early is when sweeping tests begin, decades before t0, so that they do not find other tests' records.
	early ext.Moment = 200_000_000_123

	second ext.Moment = 1000
	minute            = 60 * second
	hour              = 60 * minute
	day               = 24 * hour
)

type user struct {
	t     tb
	h     Harness
	owner ext.Owner
	now   ext.Moment
	quota ext.Quota
}

func newUser(t tb, h Harness) *user {
	return &user{t: t, h: h, owner: newOwner(), now: t0, quota: ext.DefaultQuota()}
}

func newOwner() ext.Owner {
	return ext.Owner{Tenant: ext.TenantID(newUUID()), Install: ext.InstallID(newUUID())}
}

func newUUID() string {
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

func (u *user) other() *user {
	v := *u
	v.owner = newOwner()
	return &v
}

func (u *user) at(now ext.Moment) *user {
	v := *u
	v.now = now
	return &v
}

func put(ns, key, value string) ext.Op {
	return ext.Op{Kind: ext.Put, Namespace: ext.Namespace(ns), Key: ext.Key(key), Value: canonjson.Value(value), Metadata: canonjson.EmptyObject}
}

func expiring(ns, key, value string, until ext.Moment) ext.Op {
	op := put(ns, key, value)
	op.ExpiresAt = until
	return op
}

func del(ns, key string) ext.Op {
	return ext.Op{Kind: ext.Delete, Namespace: ext.Namespace(ns), Key: ext.Key(key)}
}

func look(ns, key string) ext.Op {
	return ext.Op{Kind: ext.Check, Namespace: ext.Namespace(ns), Key: ext.Key(key)}
}

func guarded(op ext.Op, g ext.Precondition) ext.Op {
	op.Precondition = g
	return op
}

func ifRevision(r ext.Revision) ext.Precondition { return ext.Precondition{Revision: ext.Some(r)} }
func ifMatch(seqs ...ext.Seq) ext.Precondition {
	return ext.Precondition{Match: ext.Tags{Set: true, Seqs: seqs}}
}
func ifNoneMatch(seqs ...ext.Seq) ext.Precondition {
	return ext.Precondition{NoneMatch: ext.Tags{Set: true, Seqs: seqs}}
}

var (
	ifAny  = ext.Precondition{Match: ext.Tags{Set: true, Any: true}}
	ifNone = ext.Precondition{NoneMatch: ext.Tags{Set: true, Any: true}}
)

func (u *user) write(ops ...ext.Op) ext.Write {
	return ext.Write{Ops: ops, Now: u.now, Quota: u.quota, Caller: ext.Caller{Kind: "token", ID: "7"}}
}

func (u *user) try(ops ...ext.Op) (ext.Applied, error) {
	return u.h.Store.Apply(u.t.Context(), u.owner, u.write(ops...))
}

func (u *user) apply(ops ...ext.Op) ext.Applied {
	u.t.Helper()
	a, err := u.try(ops...)
	must(u.t, "Apply", err)
	if len(a.Items) != len(ops) {
		u.t.Fatalf("%d items for %d operations", len(a.Items), len(ops))
	}
	return a
}

func (u *user) do(op ext.Op) ext.Item {
	u.t.Helper()
	return u.apply(op).Items[0]
}

func (u *user) get(ns, key string) ext.Record {
	u.t.Helper()
	r, err := u.h.Store.Get(u.t.Context(), u.owner, ext.Namespace(ns), ext.Key(key), u.now)
	must(u.t, "Get "+key, err)
	return r
}

func (u *user) wantGone(ns, key string) {
	u.t.Helper()
	_, err := u.h.Store.Get(u.t.Context(), u.owner, ext.Namespace(ns), ext.Key(key), u.now)
	if !errors.Is(err, ext.ErrNoRecord) {
		u.t.Errorf("Get %s: %v, want no record", key, err)
	}
}

func (u *user) list(q ext.Query) ext.Page {
	u.t.Helper()
	q.Now, q.Limit = u.now, cmp.Or(q.Limit, ext.MaxPage)
	p, err := u.h.Store.List(u.t.Context(), u.owner, q)
	must(u.t, "List", err)
	if len(p.Records) > q.Limit {
		u.t.Errorf("a page of %d has %d", q.Limit, len(p.Records))
	}
	return p
}

func (u *user) wantKeys(what string, p ext.Page, want ...string) {
	u.t.Helper()
	equal(u.t, what, keysOf(p.Records), want)
}

func keysOf(rs []ext.Record) (keys []string) {
	for _, r := range rs {
		keys = append(keys, string(r.Key))
	}
	return keys
}

func (u *user) changes(since ext.Seq) []ext.Change {
	u.t.Helper()
	f, err := u.h.Store.Changes(u.t.Context(), u.owner, since, 1_000_000)
	must(u.t, "Changes", err)
	return f.Changes
}

func (u *user) usage() ext.Usage {
	u.t.Helper()
	us, err := u.h.Store.Usage(u.t.Context(), u.owner, u.now)
	must(u.t, "Usage", err)
	return us
}

func (u *user) audited() ext.Counters {
	u.t.Helper()
	u.stored()
	return u.usage().Counters
}

func (u *user) stored() ext.Counters {
	u.t.Helper()
	a, err := u.h.Inspector.Audit(u.t.Context(), u.owner)
	must(u.t, "Audit", err)
	if !a.Right() {
		u.t.Errorf("the counters are wrong: %+v", a)
	}
	return a.Counters
}

type state struct {
	records  []ext.Record
	counters ext.Counters
	last     ext.Seq
}

func (u *user) state() state {
	u.t.Helper()
	var s state
	s.records = u.export(ext.MaxPage, 0)
	f, err := u.h.Store.Changes(u.t.Context(), u.owner, 1<<60, 1)
	must(u.t, "Changes", err)
	s.last = f.Last

	var want []ext.NamespaceUsage
	byNamespace := map[ext.Namespace][]ext.Record{}
	for _, r := range s.records {
		if n := len(want); n == 0 || want[n-1].Namespace != r.Namespace {
			want = append(want, ext.NamespaceUsage{Namespace: r.Namespace})
		}
		w := &want[len(want)-1]
		w.Keys++
		w.Bytes += int64(len(r.Value) + len(r.Metadata))
		byNamespace[r.Namespace] = append(byNamespace[r.Namespace], r)
	}
	us := u.usage()
	s.counters = u.audited()
	equal(u.t, "counters of Usage", us, ext.UsageOf(want))
	for ns, all := range byNamespace {
		p := u.list(ext.Query{Namespace: ns, Values: true, Metadata: true})
		equal(u.t, "List beside Export", p.Records, all[:min(len(all), ext.MaxPage)])
		equal(u.t, "more in List", p.More, len(all) > ext.MaxPage)
	}
	return s
}

func (u *user) wantState(what string, want state) {
	u.t.Helper()
	equal(u.t, "state after "+what, u.state(), want)
}

func wantError(t tb, what string, got, want error) {
	t.Helper()
	if !sameError(got, want) {
		t.Errorf("%s: %v, want %v", what, describe(got), describe(want))
	}
}

func sameError(got, want error) bool {
	if got == nil || want == nil {
		return got == want
	}
	var gi, wi *ext.ItemError
	if errors.As(want, &wi) {
		return errors.As(got, &gi) && gi.Index == wi.Index && sameError(gi.Err, wi.Err)
	}
	for _, root := range []error{ext.ErrNoRecord, ext.ErrSchemaChanged, ext.ErrChangesGone, ext.ErrKeyReused, ext.ErrNoSchema, ext.ErrNoInstall, ext.ErrInstallDeleted} {
		if errors.Is(want, root) {
			return errors.Is(got, root)
		}
	}
	var gm, wm *ext.MismatchError
	if errors.As(want, &wm) {
		return errors.As(got, &gm) && *gm == *wm
	}
	var gq, wq *ext.QuotaError
	if errors.As(want, &wq) {
		return errors.As(got, &gq) && *gq == *wq
	}
	return errcode.Of(got) == errcode.Of(want)
}

func describe(err error) string {
	var item *ext.ItemError
	var quota *ext.QuotaError
	switch {
	case errors.As(err, &quota):
		errors.As(err, &item)
		return fmt.Sprintf("%+v of %+v", *quota, item)
	case errors.As(err, &item):
		return fmt.Sprintf("operation %d: %v", item.Index, item.Err)
	}
	return fmt.Sprint(err)
}

func item(i int, err error) error { return &ext.ItemError{Index: i, Err: err} }

const parallel = 16
