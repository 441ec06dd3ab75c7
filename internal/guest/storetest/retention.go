package storetest

import (
	"slices"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
)

func retentionChecks() []check {
	return []check{
		{"Answers", dropAnswers},
		{"Removed", dropRemoved},
		{"Silent", dropSilent},
		{"SilentWhileUsed", silentWhileUsed},
		{"Users", dropUsers},
		{"Handoffs", dropHandoffs},
		{"Refusals", dropRefusals},
		{"BotScores", dropBotScores},
		{"Events", dropEvents},
		{"SameEventAgain", sameEventAgain},
		{"Received", dropReceived},
		{"Limits", retentionLimits},
		{"Erase", erase},
		{"EraseNothing", eraseNothing},
		{"Fails", retentionFails},
	}
}

func (u *user) drop(job retention.Job, before time.Time, limit int) int {
	u.t.Helper()
	old, err := u.h.Store.CountOld(u.t.Context(), job, before)
	suite.Must(u.t, "CountOld", err)
	n, err := u.h.Store.Drop(u.t.Context(), job, before, limit)
	suite.Must(u.t, "Drop", err)
	suite.Equal(u.t, string(job)+": deleted and counted", n, min(old, limit))
	return n
}

const hours24 = 24 * time.Hour

func dropSilent(_ *testing.T, u *user) {
	now := clock.System()
	used, unused := u.other(), u.other()
	for _, u := range []*user{u, used} {
		u.add(u.wish(1))
		u.add(u.wish(2))
		u.add(u.wish(3))
		u.remove(3)
	}
	tomorrow := now.Add(hours24)
	suite.Must(u.t, "MarkSeen", u.h.Store.MarkSeen(u.t.Context(), []guest.ID{used.session, unused.session}, tomorrow))
	suite.Must(u.t, "MarkSeen with an earlier time", u.h.Store.MarkSeen(u.t.Context(), []guest.ID{used.session}, now))
	suite.Equal(u.t, "on the day of the last request", u.drop(retention.JobSilent, now, 10), 0)
	got := []int{u.drop(retention.JobSilent, tomorrow, 3), u.drop(retention.JobSilent, tomorrow, 3), u.drop(retention.JobSilent, tomorrow, 3)}
	suite.Equal(u.t, "later, in pieces", got, []int{3, 1, 0}) // three entries and the session
	suite.Equal(u.t, "silent", len(u.wishes(10)), 0)
	suite.Equal(u.t, "used", len(used.wishes(10)), 2)
	suite.Equal(u.t, "new entry", len([]guest.Wish{u.add(u.wish(1))}), 1)
	suite.Equal(u.t, "after a new entry", u.drop(retention.JobSilent, now, 10), 0)
	used.clear()
	suite.Equal(u.t, "after it was cleared", u.drop(retention.JobSilent, tomorrow.Add(hours24), 10), 2)
}

// silentWhileUsed adds entries while the session's wishlist is deleted. The session keeps all entries, the entries
// added after the deletion, or none.
func silentWhileUsed(_ *testing.T, u *user) {
	for range 20 {
		u.add(u.wish(1))
		done := make(chan error, 1)
		go func() {
			_, err := u.h.Store.Drop(u.t.Context(), retention.JobSilent, clock.System().Add(hours24), 10)
			done <- err
		}()
		again, err := u.tryAdd(u.wish(1))
		suite.Must(u.t, "AddWish", err)
		u.add(u.wish(2))
		suite.Must(u.t, "Drop", <-done)
		var left []string
		for _, w := range u.wishes(10) {
			left = append(left, w.Item)
		}
		slices.Sort(left)
		wasDeleted := again.Outcome == guest.WishAdded // before this add
		switch {
		case slices.Equal(left, []string{u.item(1), u.item(2)}):
		case wasDeleted:
			u.t.Fatalf("entries %v, though both were added after the deletion", left)
		case len(left) == 0, slices.Equal(left, []string{u.item(2)}):
		default:
			u.t.Fatalf("entries %v", left)
		}
		_, err = u.h.Store.Drop(u.t.Context(), retention.JobSilent, clock.System().Add(hours24), 10)
		suite.Must(u.t, "Drop", err)
	}
}

func dropBotScores(_ *testing.T, u *user) {
	now := clock.System()
	for n := range 3 {
		u.h.AddBotScore(u.t, u.session, now.Add(time.Duration(n)*time.Second))
	}
	suite.Equal(u.t, "early", u.drop(retention.JobBotScores, now.Add(-time.Second), 10), 0)
	late := now.Add(time.Minute)
	suite.Equal(u.t, "late, in pieces", []int{u.drop(retention.JobBotScores, late, 2), u.drop(retention.JobBotScores, late, 2)}, []int{2, 1})
}

// dropEvents checks that published events are deleted by class, and that waiting events and dead letters stay.
func dropEvents(_ *testing.T, u *user) {
	u.publishSome()
	late := clock.System().Add(time.Minute)
	suite.Equal(u.t, "early", u.drop(retention.JobEvents, late.Add(-time.Hour), 10), 0)
	suite.Equal(u.t, "events", []int{u.drop(retention.JobEvents, late, 1), u.drop(retention.JobEvents, late, 10)}, []int{1, 1})
	suite.Equal(u.t, "audit events", u.drop(retention.JobAuditEvents, late, 10), 1)
	var left []string
	for _, e := range u.h.Events(u.t, u.session) {
		left = append(left, e.Subject)
	}
	suite.Equal(u.t, "left", left, []string{"dead", "waiting"})
}

// publishSome appends three published events, one of them audited, a dead letter and a waiting event.
func (u *user) publishSome() {
	u.t.Helper()
	subjects := []string{"published", "audited", "published", "dead", "waiting"}
	for _, subject := range subjects {
		e := u.event(clock.System())
		if e.Subject = subject; subject == "audited" {
			e.Retention = guest.Audit
		}
		u.record(e)
	}
	box, ctx, all := u.h.Store.Outbox(), u.t.Context(), outbox.Parts(1<<outbox.Partitions-1)
	parts, err := box.Claim(ctx, "test", time.Hour, all)
	suite.Must(u.t, "Claim", err)
	suite.Equal(u.t, "parts", parts, all)
	events, _, err := box.Next(ctx, outbox.Query{Parts: all, Limit: 1000, Now: clock.System()})
	suite.Must(u.t, "Next", err)
	events = slices.DeleteFunc(events, func(e outbox.Event) bool { return e.Owner != string(u.session) || e.Topic != "test.v1" })
	suite.Equal(u.t, "events", len(events), len(subjects))
	suite.Must(u.t, "Done", box.Done(ctx, "test", 0, events[:3]))
	suite.Must(u.t, "Refuse", box.Refuse(ctx, events[3], "poison", func(int) outbox.Decision { return outbox.Decision{SetAside: true, At: clock.System()} }))
	suite.Must(u.t, "Release", box.Release(ctx, "test", all))
}

// sameEventAgain checks that a republished event keeps its ID, and that a published event is not published again.
func sameEventAgain(_ *testing.T, u *user) {
	u.record(u.event(clock.System()), u.event(clock.System()))
	box, ctx, all := u.h.Store.Outbox(), u.t.Context(), outbox.Parts(1<<outbox.Partitions-1)
	_, err := box.Claim(ctx, "test", time.Hour, all)
	suite.Must(u.t, "Claim", err)
	next := func() []outbox.Event {
		events, _, err := box.Next(ctx, outbox.Query{Parts: all, Limit: 1000, Now: clock.System()})
		suite.Must(u.t, "Next", err)
		return events
	}
	first := next()
	suite.Equal(u.t, "events", len(first), 2)
	suite.Equal(u.t, "after a kill", next(), first)
	suite.Must(u.t, "Refuse", box.Refuse(ctx, first[0], "refused", func(int) outbox.Decision { return outbox.Decision{At: clock.System(), Next: clock.System()} }))
	suite.Equal(u.t, "after a refusal", next(), first)
	suite.Must(u.t, "Refuse", box.Refuse(ctx, first[0], "poison", func(int) outbox.Decision { return outbox.Decision{SetAside: true, At: clock.System()} }))
	suite.Equal(u.t, "set aside", next(), first[1:])
	id, found, err := box.FindDead(ctx, first[0].Name)
	suite.Must(u.t, "FindDead", err)
	suite.Equal(u.t, "found", found, true)
	found, err = box.RetryDead(ctx, id)
	suite.Must(u.t, "RetryDead", err)
	suite.Equal(u.t, "queued again", found, true)
	suite.Equal(u.t, "queued again", next(), first)
	suite.Must(u.t, "Done", box.Done(ctx, "test", 0, first[:1]))
	suite.Equal(u.t, "after it was marked", next(), first[1:])
	suite.Must(u.t, "Release", box.Release(ctx, "test", all))
}

func retentionLimits(_ *testing.T, u *user) {
	for _, job := range retention.Jobs {
		if _, err := u.h.Store.Drop(u.t.Context(), job, clock.System(), 0); !errcode.Is(err, errcode.Invalid) {
			u.t.Errorf("%s with limit 0: %v", job, err)
		}
	}
	_, err := u.h.Store.Drop(u.t.Context(), "other", clock.System(), 1)
	suite.Equal(u.t, "another job", errcode.Is(err, errcode.NotFound), true)
	_, err = u.h.Store.CountOld(u.t.Context(), "other", clock.System())
	suite.Equal(u.t, "another job", errcode.Is(err, errcode.NotFound), true)
}

func erase(_ *testing.T, u *user) {
	u.ring()
	other := u.other()
	for _, u := range []*user{u, other} {
		u.add(u.wish(1))
		u.add(u.wish(2))
		u.remove(2)
		u.newHandoff(time.Minute)
		u.h.AddBotScore(u.t, u.session, clock.System())
		u.publishSome()
	}
	before := u.h.Find(u.t, string(other.session))
	e, answers, err := u.h.Store.Erase(u.t.Context(), u.session)
	suite.Must(u.t, "Erase", err)
	suite.Equal(u.t, "answers", len(answers), e.Answers)
	suite.Equal(u.t, "is there anything to erase", e.Answers > 0, true)
	e.Answers, e.Remains = 0, nil // tested by each engine
	suite.Equal(u.t, "Erase", e, guest.Erased{Wishes: 2, Handoffs: 1, BotScores: 1, Events: 3, Kept: 6})
	suite.Equal(u.t, "tables with the session", u.h.Find(u.t, string(u.session)), map[string]int{"outbox": 6})
	suite.Equal(u.t, "tables with another session", u.h.Find(u.t, string(other.session)), before)
	e, _, err = u.h.Store.Erase(u.t.Context(), u.session)
	suite.Must(u.t, "Erase again", err)
	e.Remains = nil
	suite.Equal(u.t, "Erase again", e, guest.Erased{Kept: 6})
}

func eraseNothing(_ *testing.T, u *user) {
	e, answers, err := u.h.Store.Erase(u.t.Context(), u.session)
	suite.Must(u.t, "Erase", err)
	e.Remains = nil
	suite.Equal(u.t, "Erase", e, guest.Erased{})
	suite.Equal(u.t, "answers", len(answers), 0)
}
