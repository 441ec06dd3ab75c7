package memory

import (
	"context"
	"maps"
	"slices"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
)

// browser holds a browser's counts. It is evicted like a cache, because bots can make up browsers.
type browser struct {
	// request times in microseconds, oldest first
	events   []int64
	sessions map[string]int64 // last seen
	offences map[string]int
	until    int64              // when offences expire
	solved   map[guest.ID]int64 // expiry by session
}

// changeBrowser runs fn on the browser's counts, or on new counts of an unknown browser. It forgets offences that expired.
func (h *Hot) changeBrowser(id string, fn func(b *browser, now int64)) {
	key := "bot:" + id
	s, now := h.lock(key)
	defer s.mu.Unlock()
	b := &browser{sessions: map[string]int64{}, offences: map[string]int{}, solved: map[guest.ID]int64{}}
	if e := s.get(key, now); e != nil {
		b = e.value.(*browser)
	}
	if b.until <= now {
		clear(b.offences)
	}
	maps.DeleteFunc(b.solved, func(_ guest.ID, until int64) bool { return until <= now })
	fn(b, now)
	size := 200 + 8*cap(b.events) + 80*(len(b.sessions)+len(b.solved))
	h.put(s, now, item{key, caches, b, size, bots.SessionsWindow})
}

// SeeBrowser implements bots.Hot.
func (h *Hot) SeeBrowser(_ context.Context, s bots.Sighting) (seen bots.Sighted, err error) {
	h.changeBrowser(s.Browser, func(b *browser, now int64) {
		b.events = slices.DeleteFunc(b.events, func(at int64) bool { return at <= now-s.Events.Life.Microseconds() })
		b.events = append(b.events, now)
		b.events = b.events[max(0, len(b.events)-s.Events.Most):]
		maps.DeleteFunc(b.sessions, func(_ string, at int64) bool { return at <= now-s.Members.Life.Microseconds() })
		if s.Session != "" {
			b.sessions[string(s.Session)] = now
		}
		for len(b.sessions) > s.Members.Most {
			dropOldest(b.sessions, string(s.Session))
		}
		seen = bots.Sighted{
			Events: len(b.events), Sessions: len(b.sessions), Honeypots: b.offences[bots.SignalHoneypot], Replays: b.offences[bots.SignalReplay],
			Solved: b.solved[s.Session] > 0,
		}
	})
	return seen, nil
}

// dropOldest removes the member that was seen longest ago, other than but.
func dropOldest(members map[string]int64, but string) {
	oldest := ""
	for name, at := range members {
		if name != but && (oldest == "" || at < members[oldest]) {
			oldest = name
		}
	}
	delete(members, oldest)
}

// AddOffence implements bots.Hot.
func (h *Hot) AddOffence(_ context.Context, id, offence string) error {
	h.changeBrowser(id, func(b *browser, now int64) {
		b.offences[offence]++
		b.until = now + bots.OffenceLife.Microseconds()
	})
	return nil
}

// SolvedChallenge implements bots.Hot.
func (h *Hot) SolvedChallenge(_ context.Context, id string, session guest.ID) error {
	h.changeBrowser(id, func(b *browser, now int64) { b.solved[session] = now + bots.SolvedLife.Microseconds() })
	return nil
}
