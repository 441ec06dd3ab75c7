package storetest

import (
	"fmt"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

func nodeChecks() []check {
	return []check{
		{"Nodes", nodes},
		{"RemovedNode", removedNode},
		{"RemoveRace", removeNodeRace},
		{"ClaimOfMovedGarbage", claimOfMovedGarbage},
		{"ClaimOfMovedParts", claimOfMovedParts},
	}
}

func (u *user) westNode(state buckets.NodeState) buckets.Node {
	u.t.Helper()
	n := buckets.Node{ID: "west:2.stor", URL: "s3://bucket?region=x", State: state, Added: start}
	must(u.t, "SetNode", u.h.Nodes.SetNode(u.t.Context(), n))
	return n
}

func (u *user) wantNodes(want ...buckets.Node) {
	u.t.Helper()
	got, err := u.h.Nodes.Nodes(u.t.Context())
	must(u.t, "Nodes", err)
	equal(u.t, "nodes", got, want)
}

func nodes(t *testing.T, u *user) {
	ctx, s := t.Context(), u.h.Nodes
	service := buckets.NewNodeService(s)
	u.wantNodes()
	must(t, "RemoveNode of an unknown node", service.RemoveNode(ctx, "a:b"))
	u.wantNodes()
	west := u.westNode(buckets.NodeActive)
	east := buckets.Node{ID: "east:1.stor", URL: "file:///srv", State: buckets.NodeReadOnly, Added: start + 1}
	must(t, "SetNode", s.SetNode(ctx, east))
	u.wantNodes(east, west)
	west = u.westNode(buckets.NodeDraining)
	u.wantNodes(east, west)

	inUse := func(what string) {
		t.Helper()
		wantError(t, "with "+what, service.RemoveNode(ctx, west.ID), buckets.ErrNodeInUse)
		u.wantNodes(east, west)
	}
	u.put("a")
	inUse("an object")
	u.delete("a")
	inUse("garbage")
	claim, all := u.claim(9)
	u.remove(claim, all)
	id := u.createUpload("up", u.now)
	u.putPart("up", id, part(1, 10, u.now))
	inUse("a part")
	for _, r := range u.references() {
		_, err := u.h.References.SetSharks(ctx, r, []string{"east:1.stor", "west:2.store"})
		must(t, "SetSharks", err)
	}
	west.State = buckets.NodeRemoved
	for range 2 {
		must(t, "RemoveNode", service.RemoveNode(ctx, west.ID))
		u.wantNodes(east, west)
	}
}

func removedNode(t *testing.T, u *user) {
	ctx := t.Context()
	u.westNode(buckets.NodeActive)
	u.put("a")
	id := u.createUpload("up", u.now)
	var ref buckets.Reference
	for _, ref = range u.references() {
	}
	for _, state := range []buckets.NodeState{buckets.NodeRemoving, buckets.NodeRemoved} {
		u.westNode(state)
		before := u.everything()
		_, err := u.tryPut(object("a"), buckets.Condition{})
		wantError(t, "Put", err, buckets.ErrNodeRemoved)
		err = u.h.Uploads.PutPart(ctx, u.key("up", id), part(1, 10, u.now))
		wantError(t, "PutPart", err, buckets.ErrNodeRemoved)
		equal(t, "afterwards", u.everything(), before)
		u.putObject(buckets.Object{Name: "inline", Body: inline("abc")})
		u.delete("inline")
		kept := []string{"west:2.stor", "north:3.stor"} // a row may keep its nodes
		set, err := u.h.References.SetSharks(ctx, ref, kept)
		must(t, "SetSharks", err)
		equal(t, "set", set, true)
		was := ref.Sharks
		ref.Sharks = []string{"north:3.stor"}
		moved := ref
		moved.Sharks = kept
		_, err = u.h.References.SetSharks(ctx, moved, ref.Sharks)
		must(t, "SetSharks", err)
		_, err = u.h.References.SetSharks(ctx, ref, was)
		wantError(t, "SetSharks", err, buckets.ErrNodeRemoved)
		equal(t, "nodes", u.references()[ref.ID].Sharks, ref.Sharks)
		u.westNode(buckets.NodeActive)
		_, err = u.h.References.SetSharks(ctx, ref, was)
		must(t, "SetSharks", err)
		ref.Sharks = was
	}
	u.put("a")
	u.putPart("up", id, part(1, 10, u.now))
}

func removeNodeRace(t *testing.T, u *user) {
	const writers = 20
	service := buckets.NewNodeService(u.h.Nodes)
	for round := range 5 {
		u.westNode(buckets.NodeDraining)
		var removed error
		errs := testdb.Concurrently(writers+1, func(i int) error {
			if i == writers {
				removed = service.RemoveNode(t.Context(), "west:2.stor")
				return nil
			}
			_, err := u.tryPut(object(fmt.Sprint(round, i)), buckets.Condition{})
			return err
		})
		won := suite.Winners(t, errs[:writers], is(buckets.ErrNodeRemoved))
		switch {
		case removed == nil:
			equal(t, "objects on a node that was removed", won, 0)
		default:
			wantError(t, "RemoveNode", removed, buckets.ErrNodeInUse)
		}
		for i, err := range errs[:writers] {
			if err == nil {
				u.delete(fmt.Sprint(round, i))
			}
		}
		claim, all := u.claim(2 * writers)
		u.remove(claim, all)
	}
}

// claimOfMovedGarbage checks that a worker does not remove a garbage row that was moved after the claim, because the
// worker removed the body only from the old nodes.
func claimOfMovedGarbage(t *testing.T, u *user) {
	o := u.put("a")
	u.delete("a")
	first, old := u.claim(9)
	ref := u.references()[o.ID]
	set, err := u.h.References.SetSharks(t.Context(), ref, []string{"north:3.stor"})
	must(t, "SetSharks", err)
	equal(t, "set", set, true)
	equal(t, "removed by the first claim", u.remove(first, old), 0)
	second, moved := u.claim(9)
	equal(t, "claimed again", len(moved), 1)
	equal(t, "nodes", moved[0].Sharks, []string{"north:3.stor"})
	ref.Sharks = moved[0].Sharks
	set, err = u.h.References.SetSharks(t.Context(), ref, nil)
	must(t, "SetSharks", err)
	equal(t, "set", set, true)
	u.wantBodies(nil, nil)
	equal(t, "removed by the second claim", u.remove(second, moved), 0)
	third, none := u.claim(9)
	equal(t, "nodes", none[0].Sharks, nil)
	equal(t, "removed by the third claim", u.remove(third, none), 1)
	u.wantBacklog(0, 0, 0)
}

func claimOfMovedParts(t *testing.T, u *user) {
	id := u.createUpload("up", u.now)
	p := part(1, 10, u.now)
	u.putPart("up", id, p)
	must(t, "Abort", u.h.Uploads.Abort(t.Context(), u.key("up", id), u.now))
	first, old := u.claim(9)
	ref := u.references()[p.ID]
	set, err := u.h.References.SetSharks(t.Context(), ref, []string{"north:3.stor"})
	must(t, "SetSharks", err)
	equal(t, "set", set, true)
	equal(t, "removed by the first claim", u.remove(first, old), 0)
	equal(t, "nodes", u.references()[p.ID].Sharks, []string{"north:3.stor"})
	second, again := u.claim(9)
	equal(t, "removed by the second claim", u.remove(second, again), 1)
	u.wantBodies(nil, nil)
}
