package storetest

import (
	"context"
	"errors"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

func refusalChecks() []check {
	return []check{
		{"ZeroOwner", zeroOwner},
		{"UnknownCollection", unknownCollection},
		{"UnknownRecord", unknownRecord},
		{"UnknownBatch", unknownBatch},
		{"CancelledCaller", cancelledCaller},
		{"Ping", ping},
	}
}

type kind int

const (
	reads kind = iota
	stages
	writes
)

type resource int

const (
	theRecord resource = iota
	theCollection
	theUser
)

type method struct {
	name string
	on   resource
	kind kind
	call func(ctx context.Context, u *user, collection string, b ss.BatchID, p ss.Precondition) error
}

func methods() []method {
	up := []ss.Update{bso("a", "changed")}
	return []method{
		{"Get", theRecord, reads, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Get(ctx, u.owner, ss.Request{Collection: c, If: p, Now: u.now}, "a")
			return err
		}},
		{"List", theCollection, reads, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			return u.tryList(ctx, &ss.Query{Collection: c, If: p, Now: u.now})
		}},
		{"List of ids", theCollection, reads, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			return u.tryList(ctx, &ss.Query{Collection: c, IDs: []string{"a"}, Full: true, If: p, Now: u.now})
		}},
		{"Put", theRecord, writes, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Put(ctx, u.owner, u.writeIf(c, p), up[0])
			return err
		}},
		{"Post", theCollection, writes, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Post(ctx, u.owner, u.writeIf(c, p), up)
			return err
		}},
		{"Append with create", theCollection, stages, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Append(ctx, u.owner, u.writeIf(c, p), ss.BatchPart{ID: newBatch(), Opens: true, Updates: up, Limits: limits()})
			return err
		}},
		{"Append", theCollection, stages, func(ctx context.Context, u *user, c string, b ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Append(ctx, u.owner, u.writeIf(c, p), ss.BatchPart{ID: b, Updates: up, Limits: limits()})
			return err
		}},
		{"Commit", theCollection, writes, func(ctx context.Context, u *user, c string, b ss.BatchID, p ss.Precondition) error {
			_, err := u.store.Commit(ctx, u.owner, u.writeIf(c, p), ss.BatchPart{ID: b, Updates: up, Limits: limits()})
			return err
		}},
		{"DeleteBSO", theRecord, writes, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.DeleteBSO(ctx, u.owner, u.writeIf(c, p), "a")
			return err
		}},
		{"DeleteBSOs", theCollection, writes, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.DeleteBSOs(ctx, u.owner, u.writeIf(c, p), []string{"a", "absent"})
			return err
		}},
		{"DeleteCollection", theCollection, writes, func(ctx context.Context, u *user, c string, _ ss.BatchID, p ss.Precondition) error {
			_, err := u.store.DeleteCollection(ctx, u.owner, u.writeIf(c, p))
			return err
		}},
		{"DeleteAll", theUser, writes, func(ctx context.Context, u *user, _ string, _ ss.BatchID, p ss.Precondition) error {
			return u.store.DeleteAll(ctx, u.owner, p)
		}},
	}
}

func (u *user) tryList(ctx context.Context, q *ss.Query) error {
	l, err := u.store.List(ctx, u.owner, q)
	if err != nil {
		return err
	}
	_, err = readPage(l)
	return err
}

func zeroOwner(t *testing.T, u *user) {
	b := u.stage("bookmarks", bso("a", "x"))
	nobody := *u
	nobody.owner = ss.Owner{}
	for _, m := range methods() {
		wantCode(t, m.name, m.call(t.Context(), &nobody, "bookmarks", b, ss.Precondition{}), errcode.Denied)
	}
	_, err := u.store.Collections(t.Context(), ss.Owner{})
	wantCode(t, "Collections", err, errcode.Denied)
	_, err = u.store.Usage(t.Context(), ss.Owner{}, u.now)
	wantCode(t, "Usage", err, errcode.Denied)
	_, err = u.store.Totals(t.Context(), []ss.Owner{u.owner, {}})
	wantCode(t, "Totals", err, errcode.Denied)
	wantCode(t, "SetQuota", u.store.SetQuota(t.Context(), ss.Owner{}, ss.Some[int64](1)), errcode.Denied)
	_, err = u.store.Restore(t.Context(), ss.Owner{}, u.write("bookmarks"), ss.Restore{Modified: u.now})
	wantCode(t, "Restore", err, errcode.Denied)
	for _, err := range u.store.Export(t.Context(), ss.Owner{}, u.now) {
		wantCode(t, "Export", err, errcode.Denied)
	}
}

func unknownCollection(t *testing.T, u *user) {
	stamp := u.put("bookmarks", bso("a", "x")).Modified
	before := u.state()
	for _, name := range []string{newName(), "tabs"} {
		w := u.write(name)
		w.MaxNames = 0
		_, err := u.store.Get(t.Context(), u.owner, ss.Request{Collection: name, Now: u.now}, "a")
		wantCode(t, "Get", err, errcode.NotFound)
		p := u.list(name)
		equal(t, "stamp of List", p.modified, 0)
		equalIDs(t, "List", p)
		_, err = u.store.DeleteBSO(t.Context(), u.owner, w, "a")
		wantCode(t, "DeleteBSO", err, errcode.NotFound)
		got := u.wrote("DeleteBSOs")(u.store.DeleteBSOs(t.Context(), u.owner, w, []string{"a"}))
		equal(t, "DeleteBSOs", got, ss.Written{Modified: stamp})
		got = u.wrote("DeleteCollection")(u.store.DeleteCollection(t.Context(), u.owner, w))
		equal(t, "DeleteCollection", got, ss.Written{Modified: stamp})
	}
	u.wantState("asking for what is not there", before)

	v := u.other()
	equal(t, "DeleteCollection of a user without data", v.deleteCollection("tabs"), ss.Written{})
	equal(t, "DeleteBSOs of a user without data", v.deleteBSOs("tabs", "a"), ss.Written{})
	v.deleteAll()
	v.wantState("nothing", state{})
}

func unknownRecord(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	before := u.state()
	for _, id := range []string{"b", "A", "", "a ", "%"} {
		_, err := u.store.Get(t.Context(), u.owner, ss.Request{Collection: "bookmarks", Now: u.now}, id)
		wantCode(t, "Get", err, errcode.NotFound)
		_, err = u.store.DeleteBSO(t.Context(), u.owner, u.write("bookmarks"), id)
		wantCode(t, "DeleteBSO", err, errcode.NotFound)
	}
	equalIDs(t, "List", u.query(ss.Query{Collection: "bookmarks", IDs: []string{"b", "A", "a "}}))
	u.wantState("asking for what is not there", before)
}

func unknownBatch(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	open := u.stage("bookmarks", bso("b", "x"))
	done := u.stage("bookmarks")
	u.commit("bookmarks", done)
	before := u.state()
	stranger := u.other()
	stranger.put("bookmarks", bso("a", "x"))
	for _, tc := range []struct {
		name       string
		u          *user
		collection string
		batch      ss.BatchID
	}{
		{"unknown", u, "bookmarks", newBatch()},
		{"unknown, in an absent collection", u, "tabs", newBatch()},
		{"unknown, in a collection of no name", u, newName(), newBatch()},
		{"of another user", stranger, "bookmarks", open},
		{"of another collection", u, "tabs", open},
		{"committed", u, "bookmarks", done},
	} {
		_, err := tc.u.store.Append(t.Context(), tc.u.owner, tc.u.write(tc.collection), ss.BatchPart{ID: tc.batch, Updates: []ss.Update{bso("c", "x")}, Limits: limits()})
		wantError(t, "Append to a batch "+tc.name, err, ss.ErrNoBatch)
		_, err = tc.u.store.Commit(t.Context(), tc.u.owner, tc.u.write(tc.collection), ss.BatchPart{ID: tc.batch, Updates: []ss.Update{bso("c", "x")}, Limits: limits()})
		wantError(t, "Commit of a batch "+tc.name, err, ss.ErrNoBatch)
	}
	u.wantState("requests with wrong batches", before)
	u.commit("bookmarks", open)
	equalIDs(t, "the staged record", u.query(ss.Query{Collection: "bookmarks", Sort: ss.Oldest}), "a", "b")
}

func cancelledCaller(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "x"))
	b := u.stage("bookmarks", bso("b", "x"))
	before := u.state()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, m := range methods() {
		if m.kind == reads {
			continue
		}
		if err := m.call(gone, u, "bookmarks", b, ss.Precondition{}); err == nil {
			t.Errorf("%s succeeded with a cancelled context", m.name)
		} else if c := errcode.Of(err); c != errcode.Unavailable && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want Unavailable or the error of the context", m.name, err)
		}
	}
	u.wantState("cancelled steps", before)
	u.commit("bookmarks", b)
	equal(t, "the staged record", u.get("bookmarks", "b").payload, "x")
	equal(t, "the record that was not staged", u.get("bookmarks", "a").payload, "x")
}

func ping(t *testing.T, u *user) { must(t, "Ping", u.store.Ping(t.Context())) }
