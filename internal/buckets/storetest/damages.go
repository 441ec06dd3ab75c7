package storetest

import (
	"testing"

	"holdfast/internal/buckets"
)

func damageChecks() []check {
	return []check{{"Marks", marks}, {"Attempts", attempts}, {"SeenAgain", seenAgain}, {"Scrubs", scrubs}}
}

func (u *user) damaged(copies ...buckets.Copy) (all []buckets.Damage) {
	u.t.Helper()
	for _, c := range copies {
		all = append(all, buckets.NewDamage(c, "corrupt", u.now))
	}
	must(u.t, "Mark", u.h.Damages.Mark(u.t.Context(), all))
	return all
}

func (u *user) wantMarks(what string, q buckets.DamageQuery, want ...buckets.Damage) {
	u.t.Helper()
	got, err := u.h.Damages.Marked(u.t.Context(), q)
	must(u.t, "Marked", err)
	equal(u.t, what, got, want)
}

func (u *user) copyOf(node string, o buckets.Object) buckets.Copy {
	return buckets.Copy{Node: node, Path: buckets.BodyPath(u.owner, u.bucket.ID, o.ID, o.Name)}
}

func marks(t *testing.T, u *user) {
	all := buckets.DamageQuery{Limit: 10}
	u.wantMarks("no marks", all)
	o := u.put("a")
	east, west := u.copyOf("east:1.stor", o), u.copyOf("west:2.stor", o)
	m := u.damaged(west, east)
	equal(t, "what the path says", []any{m[0].Owner, m[0].Bucket, m[0].ID}, []any{u.owner, u.bucket.ID, o.ID})
	u.wantMarks("in order", all, m[1], m[0])
	u.wantMarks("a page", buckets.DamageQuery{Limit: 1}, m[1])
	u.wantMarks("the next page", buckets.DamageQuery{After: east, Limit: 1}, m[0])
	u.wantMarks("after the last", buckets.DamageQuery{After: west, Limit: 1})

	first := u.now
	u.tick()
	again := buckets.NewDamage(west, "missing", u.now).Of(&buckets.Reference{Owner: u.owner, Bucket: u.bucket.ID, Name: "ü", Upload: "u", Number: 3, Body: o.Body})
	must(t, "Mark", u.h.Damages.Mark(t.Context(), []buckets.Damage{again}))
	again.FirstSeen, again.Next = first, first
	u.wantMarks("seen again", all, m[1], again)
	u.tick()
	u.damaged(west)
	again.LastSeen, again.Problem = u.now, "corrupt"
	u.wantMarks("the row stays known", all, m[1], again)
	old := again
	old.LastSeen = first
	must(t, "Mark", u.h.Damages.Mark(t.Context(), []buckets.Damage{old}))
	u.wantMarks("an earlier report", all, m[1], again)

	must(t, "Unmark", u.h.Damages.Unmark(t.Context(), []buckets.Damage{m[1], again, m[1]}))
	u.wantMarks("all are removed", all)
	must(t, "Mark of nothing", u.h.Damages.Mark(t.Context(), nil))
}

func attempts(t *testing.T, u *user) {
	o := u.put("a")
	east, west := u.copyOf("east:1.stor", o), u.copyOf("west:2.stor", o)
	first := u.now
	u.damaged(east)
	u.tick()
	m := append(u.damaged(west), buckets.NewDamage(east, "corrupt", first))
	due := func(want ...buckets.Damage) {
		t.Helper()
		got, err := u.h.Damages.DueMarks(t.Context(), u.now, 10)
		must(t, "DueMarks", err)
		equal(t, "due", got, want)
	}
	counts := func(want ...buckets.DamageCount) {
		t.Helper()
		got, err := u.h.Damages.CountMarks(t.Context())
		must(t, "CountMarks", err)
		equal(t, "counts", got, want)
	}
	due(m[1], m[0])
	one, err := u.h.Damages.DueMarks(t.Context(), u.now, 1)
	must(t, "DueMarks", err)
	equal(t, "the first that is due", one, m[1:])
	counts(
		buckets.DamageCount{Node: "east:1.stor", State: buckets.Damaged, Copies: 1, Oldest: first},
		buckets.DamageCount{Node: "west:2.stor", State: buckets.Damaged, Copies: 1, Oldest: u.now},
	)
	failed := m[1].Of(&buckets.Reference{Owner: u.owner, Bucket: u.bucket.ID, Name: "a", Body: o.Body}).Failed(buckets.Lost, "no good copy", u.now)
	must(t, "NoteAttempt", u.h.Damages.NoteAttempt(t.Context(), failed))
	due(m[0])
	u.wantMarks("lost", buckets.DamageQuery{State: buckets.Lost, Limit: 9}, failed)
	u.wantMarks("damaged", buckets.DamageQuery{State: buckets.Damaged, Limit: 9}, m[0])
	counts(
		buckets.DamageCount{Node: "east:1.stor", State: buckets.Lost, Copies: 1, Oldest: first},
		buckets.DamageCount{Node: "west:2.stor", State: buckets.Damaged, Copies: 1, Oldest: u.now},
	)
	u.now = failed.Next
	due(m[0], failed)
	must(t, "Unmark", u.h.Damages.Unmark(t.Context(), append(m, failed)))
	must(t, "NoteAttempt without a mark", u.h.Damages.NoteAttempt(t.Context(), failed))
	u.wantMarks("nothing", buckets.DamageQuery{Limit: 9})
	pause := failed
	for range 20 {
		pause = pause.Failed(buckets.Lost, "", u.now)
	}
	equal(t, "the longest pause", pause.Next-u.now, hour)
}

func seenAgain(t *testing.T, u *user) {
	c := u.copyOf("east:1.stor", u.put("a"))
	read := u.damaged(c)
	u.tick()
	u.damaged(c)
	must(t, "Unmark", u.h.Damages.Unmark(t.Context(), read))
	read[0].LastSeen = u.now
	u.wantMarks("seen again", buckets.DamageQuery{Limit: 9}, read[0])
	must(t, "Unmark", u.h.Damages.Unmark(t.Context(), read))
	u.wantMarks("not seen again", buckets.DamageQuery{Limit: 9})
}

func scrubs(t *testing.T, u *user) {
	want := func(want ...buckets.Scrub) {
		t.Helper()
		got, err := u.h.Scrubs.Scrubs(t.Context())
		must(t, "Scrubs", err)
		equal(t, "scrubs", got, want)
	}
	want()
	west := buckets.Scrub{Node: "west:2.stor", Began: u.now, After: "v2/x", Copies: 1, Bytes: 2, Found: 3, Total: 4}
	east := buckets.Scrub{Node: "east:1.stor", Began: u.now, Done: true, Ended: u.tick()}
	for _, s := range []buckets.Scrub{west, east} {
		must(t, "SetScrub", u.h.Scrubs.SetScrub(t.Context(), s))
	}
	want(east, west)
	west.After, west.Done, west.Ended = "", true, u.tick()
	must(t, "SetScrub", u.h.Scrubs.SetScrub(t.Context(), west))
	want(east, west)
}
