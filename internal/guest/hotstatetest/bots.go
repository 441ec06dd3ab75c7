package hotstatetest

import (
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/suite"
)

func botChecks() []check {
	return []check{{"Events", events}, {"Sessions", sessions}, {"Offences", offences}, {"Solved", solved}}
}

var wide = bots.Window{Life: time.Hour, Most: 100}

func (c *client) see(browser string, session guest.ID, events, members bots.Window) bots.Sighted {
	c.t.Helper()
	seen, err := c.Hot.SeeBrowser(c.t.Context(), bots.Sighting{Browser: browser, Session: session, Events: events, Members: members})
	return must(c, seen, err)
}

func events(_ *testing.T, c *client) {
	k := key()
	for i := range 5 {
		suite.Equal(c.t, "seen", c.see(k, "", wide, wide), bots.Sighted{Events: i + 1})
	}
	suite.Equal(c.t, "another browser", c.see(key(), "", wide, wide).Events, 1)
	suite.Equal(c.t, "at most", c.see(k, "", bots.Window{Life: time.Hour, Most: 3}, wide).Events, 3)
	suite.Equal(c.t, "only three were kept", c.see(k, "", wide, wide).Events, 4)
	c.Wait(20 * time.Millisecond)
	suite.Equal(c.t, "after the window", c.see(k, "", bots.Window{Life: 10 * time.Millisecond, Most: 100}, wide).Events, 1)
}

func sessions(_ *testing.T, c *client) {
	k := key()
	ids := make([]guest.ID, 6)
	for i := range ids {
		ids[i] = guest.NewID(guest.SessionPrefix, clock.System())
	}
	for i := range 5 {
		suite.Equal(c.t, "sessions", c.see(k, ids[i], wide, wide).Sessions, i+1)
		suite.Equal(c.t, "the same again", c.see(k, ids[i], wide, wide).Sessions, i+1)
		c.Wait(time.Millisecond)
	}
	suite.Equal(c.t, "a request without one", c.see(k, "", wide, wide).Sessions, 5)
	three := bots.Window{Life: time.Hour, Most: 3}
	suite.Equal(c.t, "at most", c.see(k, ids[5], wide, three).Sessions, 3)
	suite.Equal(c.t, "the newest are kept", c.see(k, ids[4], wide, wide).Sessions, 3)
	c.Wait(20 * time.Millisecond)
	suite.Equal(c.t, "they age one by one", c.see(k, ids[5], wide, bots.Window{Life: 10 * time.Millisecond, Most: 3}).Sessions, 1)
}

func offences(_ *testing.T, c *client) {
	k := key()
	for range 2 {
		c.ok(c.Hot.AddOffence(c.t.Context(), k, bots.SignalHoneypot))
	}
	c.ok(c.Hot.AddOffence(c.t.Context(), k, bots.SignalReplay))
	suite.Equal(c.t, "seen", c.see(k, "", wide, wide), bots.Sighted{Events: 1, Honeypots: 2, Replays: 1})
	suite.Equal(c.t, "another browser", c.see(key(), "", wide, wide), bots.Sighted{Events: 1})
	c.Pass(c.t, bots.OffenceLife+time.Second)
	seen := c.see(k, "", wide, wide)
	suite.Equal(c.t, "later", []int{seen.Honeypots, seen.Replays}, []int{0, 0})
}

func solved(_ *testing.T, c *client) {
	k := key()
	c.ok(c.Hot.SolvedChallenge(c.t.Context(), k, c.id))
	suite.Equal(c.t, "solved", c.see(k, c.id, wide, wide).Solved, true)
	suite.Equal(c.t, "another session", c.see(k, guest.NewID(guest.SessionPrefix, clock.System()), wide, wide).Solved, false)
	suite.Equal(c.t, "no session", c.see(k, "", wide, wide).Solved, false)
	suite.Equal(c.t, "another browser", c.see(key(), c.id, wide, wide).Solved, false)
	c.Pass(c.t, bots.SolvedLife+time.Second)
	suite.Equal(c.t, "later", c.see(k, c.id, wide, wide).Solved, false)
}
