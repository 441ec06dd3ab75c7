package hotstatetest

import (
	"context"
	"encoding/json"
	"testing"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/suite"
)

func eraseChecks() []check { return []check{{"Session", eraseSession}} }

type erasing struct {
	backend.Store
	answers []string
}

func (e *erasing) Erase(context.Context, guest.ID) (guest.Erased, []string, error) {
	return guest.Erased{Answers: len(e.answers)}, e.answers, nil
}

func eraseSession(_ *testing.T, c *client) {
	db := &erasing{answers: []string{key(), key()}}
	s := guest.NewService(guest.Options{Store: db, Hot: c.Hot, Clock: clock.System})
	other := newClient(c.t, c.Harness)
	ctx, kept := c.t.Context(), key()
	searches := map[*client]guest.ID{}
	for _, one := range []*client{c, other} {
		one.session(guest.Change{Locale: new("de"), Campaign: new(`{"source":"a"}`)})
		one.push(guest.RecentlyViewed, "a", `1`)
		found, err := s.BeginSearch(ctx, one.id, "hash", json.RawMessage(`{}`))
		c.ok(err)
		searches[one] = found.ID
		one.fill(`[1]`)
	}
	for _, k := range append([]string{kept}, db.answers...) {
		c.ok(c.Hot.PutAnswer(ctx, k, [32]byte{1}, guest.StoredAnswer{Version: 201, Body: []byte("x")}))
	}

	erased, err := s.Erase(ctx, string(c.id))
	c.ok(err)
	suite.Equal(c.t, "erased", erased.Answers, 2)
	suite.Equal(c.t, "recently viewed", c.items(guest.RecentlyViewed), nil)
	suite.Equal(c.t, "history", c.items(guest.SearchHistory), nil)
	suite.Equal(c.t, "mirror", string(c.mirror().Wishes), "")
	suite.Equal(c.t, "preferences", c.session(guest.Change{}).Preferences, guest.Preferences{})
	done := func(k string) bool {
		a, err := c.Hot.ClaimAnswer(ctx, k, "owner")
		c.ok(err)
		return a.Done
	}
	suite.Equal(c.t, "answers", []bool{done(db.answers[0]), done(db.answers[1]), done(kept)}, []bool{false, false, true})
	for one, id := range searches {
		_, found, err := c.Hot.Search(ctx, id)
		c.ok(err)
		suite.Equal(c.t, "a search", found, one == other)
	}
	suite.Equal(c.t, "preferences of another", other.session(guest.Change{}).Locale, "de")
	suite.Equal(c.t, "history of another", len(other.items(guest.SearchHistory)), 1)
	suite.Equal(c.t, "mirror of another", string(other.mirror().Wishes), `[1]`)
}
