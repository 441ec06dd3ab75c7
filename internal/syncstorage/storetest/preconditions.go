package storetest

import (
	"errors"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func preconditionChecks() []check {
	return []check{
		{"Table", preconditionTable},
		{"Resource", preconditionResource},
		{"Tombstone", preconditionTombstone},
		{"ExpiredRecord", preconditionExpired},
		{"DeletedRecord", preconditionDeleted},
		{"MissingRecord", preconditionMissing},
		{"HiddenCollection", preconditionHidden},
		{"RefusedAppend", refusedAppend},
	}
}

func preconditionTable(t *testing.T, u *user) {
	type prepared struct {
		u      *user
		b      ss.BatchID
		before state
	}
	for _, m := range methods() {
		users := map[bool]prepared{}
		for _, tc := range PreconditionCases() {
			if m.on == theRecord && m.name != "Put" && tc.Modified == 0 {
				continue
			}
			name := fmt.Sprintf("%s, %s", m.name, tc.Name)
			has := tc.Modified != 0
			p, ok := users[has]
			if !ok {
				p.u = u.other().at(CaseFirst)
				if has {
					p.u.put("bookmarks", bso("a", "x"))
				}
				p.b = p.u.stage("bookmarks", bso("staged", "x"))
				p.before = p.u.state()
				p.u.now += second
				users[has] = p
			}
			wantError(t, name, m.call(t.Context(), p.u, "bookmarks", p.b, tc.If), tc.Want)
			if tc.Want != nil || m.kind != writes {
				p.u.wantState(name, p.before)
			} else {
				delete(users, has)
			}
		}
	}
}

func preconditionResource(t *testing.T, u *user) {
	for _, m := range methods() {
		u := u.other()
		stamps := map[resource]ss.Timestamp{theRecord: u.put("bookmarks", bso("a", "x")).Modified}
		u.wait(1e9)
		stamps[theCollection] = u.put("bookmarks", bso("b", "x")).Modified
		u.wait(1e9)
		stamps[theUser] = u.put("tabs", bso("a", "x")).Modified
		b := u.stage("bookmarks")
		before := u.state()
		at := stamps[m.on]
		wantError(t, m.name+" if unmodified since before", m.call(t.Context(), u, "bookmarks", b, ifUnmodifiedSince(at-tick)),
			&ss.PreconditionError{Modified: at})
		wantError(t, m.name+" if modified since", m.call(t.Context(), u, "bookmarks", b, ifModifiedSince(at)),
			&ss.PreconditionError{Modified: at, NotModified: true})
		u.wantState(m.name, before)
		wantError(t, m.name+" if unmodified since", m.call(t.Context(), u, "bookmarks", b, ifUnmodifiedSince(at)), nil)
	}
}

func preconditionTombstone(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	gone := u.deleteCollection("bookmarks").Modified
	_, err := u.store.Post(t.Context(), u.owner, u.writeIf("bookmarks", ifModifiedSince(0)), nil)
	wantError(t, "Post", err, &ss.PreconditionError{NotModified: true})
	err = u.tryList(t.Context(), &ss.Query{Collection: "bookmarks", Now: u.now, If: ifModifiedSince(gone)})
	wantError(t, "List", err, &ss.PreconditionError{NotModified: true})
	wantError(t, "DeleteAll", u.store.DeleteAll(t.Context(), u.owner, ifUnmodifiedSince(gone-tick)), &ss.PreconditionError{Modified: gone})
	wantError(t, "DeleteAll", u.store.DeleteAll(t.Context(), u.owner, ifUnmodifiedSince(gone)), nil)
	wantError(t, "DeleteAll", u.store.DeleteAll(t.Context(), u.owner, ifUnmodifiedSince(0)), nil)
	_, err = u.store.Put(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(0)), bso("a", "x"))
	must(t, "create-only after the end", err)
}

func preconditionExpired(t *testing.T, u *user) {
	stamp := u.put("bookmarks", expiring("a", "x", 60)).Modified
	u.put("bookmarks", expiring("b", "x", 60))
	u.wait(59e9)
	_, err := u.store.Put(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(0)), bso("a", "y"))
	wantError(t, "create-only over a live record", err, &ss.PreconditionError{Modified: stamp})
	u.wait(2e9)
	_, err = u.store.Put(t.Context(), u.owner, u.writeIf("bookmarks", ifModifiedSince(0)), bso("b", "y"))
	wantError(t, "if modified over an expired record", err, &ss.PreconditionError{NotModified: true})
	_, err = u.store.Put(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(0)), bso("a", "y"))
	must(t, "create-only over an expired record", err)
	equal(t, "payload", u.get("bookmarks", "a").payload, "y")
}

func preconditionDeleted(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	u.deleteBSO("bookmarks", "a")
	w := u.writeIf("bookmarks", ifUnmodifiedSince(0))
	_, err := u.store.Put(t.Context(), u.owner, w, bso("a", "y"))
	must(t, "create-only after a delete", err)
	_, err = u.store.Put(t.Context(), u.owner, w, bso("a", "z"))
	if pe := (*ss.PreconditionError)(nil); !errors.As(err, &pe) || pe.Modified == 0 {
		t.Errorf("create-only twice: %v", err)
	}
	equal(t, "payload", u.get("bookmarks", "a").payload, "y")
}

func preconditionMissing(t *testing.T, u *user) {
	u.put("bookmarks", expiring("expired", "x", 1))
	u.wait(5e9)
	before := u.state()
	for _, p := range []ss.Precondition{{}, ifUnmodifiedSince(0), ifUnmodifiedSince(t0), ifModifiedSince(0), ifModifiedSince(t0)} {
		for _, id := range []string{"absent", "expired"} {
			_, err := u.store.Get(t.Context(), u.owner, ss.Request{Collection: "bookmarks", If: p, Now: u.now}, id)
			wantCode(t, "Get", err, errcode.NotFound)
			_, err = u.store.DeleteBSO(t.Context(), u.owner, u.writeIf("bookmarks", p), id)
			wantCode(t, "DeleteBSO", err, errcode.NotFound)
		}
	}
	u.wantState("reading and deleting missing resources", before)
}

func preconditionHidden(t *testing.T, u *user) {
	b := u.stage("bookmarks", bso("a", "x"))
	err := u.tryList(t.Context(), &ss.Query{Collection: "bookmarks", Now: u.now, If: ifModifiedSince(0)})
	wantError(t, "List", err, &ss.PreconditionError{NotModified: true})
	_, err = u.store.Commit(t.Context(), u.owner, u.writeIf("bookmarks", ifUnmodifiedSince(0)), ss.BatchPart{ID: b, Limits: limits()})
	must(t, "create-only commit", err)
}

func refusedAppend(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	never := u.writeIf("bookmarks", ifUnmodifiedSince(0))
	b := newBatch()
	_, err := u.store.Append(t.Context(), u.owner, never, ss.BatchPart{ID: b, Opens: true, Updates: []ss.Update{bso("b", "x")}, Limits: limits()})
	wantCode(t, "Append with create", err, errcode.Precondition)
	_, err = u.store.Commit(t.Context(), u.owner, u.write("bookmarks"), ss.BatchPart{ID: b, Limits: limits()})
	wantError(t, "Commit of a batch that was not opened", err, ss.ErrNoBatch)

	b = u.stage("bookmarks", bso("b", "x"))
	_, err = u.store.Append(t.Context(), u.owner, never, ss.BatchPart{ID: b, Updates: []ss.Update{bso("b", "y"), bso("c", "y")}, Limits: limits()})
	wantCode(t, "Append", err, errcode.Precondition)
	u.commit("bookmarks", b)
	equalIDs(t, "records", u.query(ss.Query{Collection: "bookmarks", Sort: ss.Oldest}), "a", "b")
	equal(t, "payload", u.get("bookmarks", "b").payload, "x")
}
