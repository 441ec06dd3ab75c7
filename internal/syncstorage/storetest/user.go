package storetest

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	ss "holdfast/internal/syncstorage"
)

const (
	t0 ss.Timestamp = 1_700_000_000_120
	// early is when sweeping tests begin, decades before t0, so that they do not find other tests' records.
	early ss.Timestamp = 200_000_000_120

	tick   ss.Timestamp = ss.Tick
	second ss.Timestamp = 1000
	hour                = 3600 * second
)

type user struct {
	t     tb
	h     Harness
	store ss.Store
	owner ss.Owner
	now   ss.Timestamp
}

func newUser(t tb, h Harness) *user {
	return &user{t: t, h: h, store: h.Store, owner: newOwner(), now: t0}
}

// newOwner returns an owner whose fields are all unique, because a backend may use any of them as the key.
func newOwner() ss.Owner {
	return ss.Owner{
		UID:    1 + rand.Int64N(1<<53),
		FxAUID: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()),
		FxAKID: fmt.Sprintf("%013d-%08x", 1_600_000_000_000+rand.Int64N(1<<36), rand.Uint32()),
	}
}

func newBatch() ss.BatchID {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return ss.BatchID(hex.EncodeToString(b[:]))
}

func newName() string { return fmt.Sprintf("test-%016x", rand.Uint64()) }

func (u *user) other() *user {
	v := *u
	v.owner = newOwner()
	return &v
}

func (u *user) at(now ss.Timestamp) *user {
	v := *u
	v.now = now
	return &v
}

func (u *user) wait(d time.Duration) { u.now += ss.Timestamp(d.Milliseconds()) }

func (u *user) write(collection string) ss.Write {
	return ss.Write{Collection: collection, Now: u.now, MaxNames: 1000}
}

func (u *user) writeIf(collection string, p ss.Precondition) ss.Write {
	w := u.write(collection)
	w.If = p
	return w
}

func limits() ss.BatchLimits { return ss.BatchLimits{Records: 10_000, Bytes: 100_000_000} }

func ifUnmodifiedSince(t ss.Timestamp) ss.Precondition {
	return ss.Precondition{UnmodifiedSince: ss.Some(t)}
}

func ifModifiedSince(t ss.Timestamp) ss.Precondition {
	return ss.Precondition{ModifiedSince: ss.Some(t)}
}

func bso(id, payload string) ss.Update {
	return ss.Update{ID: id, Payload: ss.Some([]byte(payload))}
}

func expiring(id, payload string, ttl int64) ss.Update {
	u := bso(id, payload)
	u.TTL = ss.Some(ttl)
	return u
}

func (u *user) put(collection string, up ss.Update) ss.Written {
	u.t.Helper()
	return u.wrote("Put")(u.store.Put(u.t.Context(), u.owner, u.write(collection), up))
}

func (u *user) post(collection string, us ...ss.Update) ss.Written {
	u.t.Helper()
	return u.wrote("Post")(u.store.Post(u.t.Context(), u.owner, u.write(collection), us))
}

func (u *user) stage(collection string, us ...ss.Update) ss.BatchID {
	u.t.Helper()
	b := newBatch()
	u.wrote("Append")(u.store.Append(u.t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Opens: true, Updates: us, Limits: limits()}))
	return b
}

func (u *user) append(collection string, b ss.BatchID, us ...ss.Update) ss.Written {
	u.t.Helper()
	return u.wrote("Append")(u.store.Append(u.t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Updates: us, Limits: limits()}))
}

func (u *user) commit(collection string, b ss.BatchID, us ...ss.Update) ss.Written {
	u.t.Helper()
	return u.wrote("Commit")(u.store.Commit(u.t.Context(), u.owner, u.write(collection), ss.BatchPart{ID: b, Updates: us, Limits: limits()}))
}

func (u *user) deleteBSO(collection, id string) ss.Written {
	u.t.Helper()
	return u.wrote("DeleteBSO")(u.store.DeleteBSO(u.t.Context(), u.owner, u.write(collection), id))
}

func (u *user) deleteBSOs(collection string, ids ...string) ss.Written {
	u.t.Helper()
	return u.wrote("DeleteBSOs")(u.store.DeleteBSOs(u.t.Context(), u.owner, u.write(collection), ids))
}

func (u *user) deleteCollection(collection string) ss.Written {
	u.t.Helper()
	return u.wrote("DeleteCollection")(u.store.DeleteCollection(u.t.Context(), u.owner, u.write(collection)))
}

func (u *user) deleteAll() {
	u.t.Helper()
	must(u.t, "DeleteAll", u.store.DeleteAll(u.t.Context(), u.owner, ss.Precondition{}))
}

func (u *user) wrote(step string) func(ss.Written, error) ss.Written {
	u.t.Helper()
	return func(w ss.Written, err error) ss.Written {
		u.t.Helper()
		must(u.t, step, err)
		w.Used = ss.Used{}
		return w
	}
}

func (u *user) get(collection, id string) record {
	u.t.Helper()
	b, err := u.store.Get(u.t.Context(), u.owner, ss.Request{Collection: collection, Now: u.now}, id)
	must(u.t, "Get "+id, err)
	return recordOf(&b)
}

func (u *user) list(collection string) page {
	u.t.Helper()
	return u.query(ss.Query{Collection: collection, Sort: ss.Oldest, Full: true})
}

func (u *user) query(q ss.Query) page {
	u.t.Helper()
	q.Now = u.now
	l, err := u.store.List(u.t.Context(), u.owner, &q)
	must(u.t, "List", err)
	p, err := readPage(l)
	must(u.t, "List", err)
	return p
}

func (u *user) collections() ss.Collections {
	u.t.Helper()
	cs, err := u.store.Collections(u.t.Context(), u.owner)
	must(u.t, "Collections", err)
	return cs
}

func (u *user) usage() ss.Usage {
	u.t.Helper()
	us, err := u.store.Usage(u.t.Context(), u.owner, u.now)
	must(u.t, "Usage", err)
	return us
}
