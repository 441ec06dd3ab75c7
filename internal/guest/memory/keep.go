package memory

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/guest"
)

// changes are the sessions and searches that differ from the guest.HotStore.
type changes struct {
	mu      sync.Mutex // locked after a shard's
	on      bool
	changed map[guest.ID]struct{}
	dropped map[guest.ID]struct{}
	taken   int // IDs in the last TakeChanges, which may not be stored yet
}

var _ guest.HotKeeper = (*Hot)(nil)

// Keep notes changes for TakeChanges from now on. Call it before using h.
func (h *Hot) Keep() {
	c := &h.changes
	c.on, c.changed, c.dropped = true, map[guest.ID]struct{}{}, map[guest.ID]struct{}{}
}

// change notes a session or a search.
func (c *changes) change(id guest.ID) {
	if !c.on {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[id] = struct{}{}
}

// drop notes a dropped session.
func (c *changes) drop(id guest.ID) {
	if !c.on {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.changed, id)
	c.dropped[id] = struct{}{}
}

// take removes the dropped sessions, and any changed IDs up to a limit.
func (c *changes) take(limit int) (dropped, changed []guest.ID, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.dropped {
		dropped = append(dropped, id)
	}
	clear(c.dropped)
	for id := range c.changed {
		if len(changed) == limit {
			break
		}
		changed = append(changed, id)
		delete(c.changed, id)
	}
	c.taken = len(dropped) + len(changed)
	return dropped, changed, len(c.changed) > 0
}

// Unsaved returns about how many sessions and searches changed and are not stored yet. 0 is exact.
func (h *Hot) Unsaved() int {
	c := &h.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.changed) + len(c.dropped) + c.taken
}

// kept is a session's JSON in a guest.HotStore. Members are only added.
type kept struct {
	LastSeen   int64                       `json:"lastSeen"` // Unix milliseconds
	Locale     string                      `json:"locale,omitempty"`
	Currency   string                      `json:"currency,omitempty"`
	Campaign   string                      `json:"campaign,omitempty"`
	Attributes string                      `json:"attributes,omitempty"`
	Lists      map[guest.List][]guest.Item `json:"lists,omitempty"`
}

// keptSearch is a search's JSON.
type keptSearch struct {
	Query   json.RawMessage `json:"query"`
	Created int64           `json:"created"` // Unix milliseconds
}

// touchEvery is how often an unchanged session in use is stored again, so that it does not expire. MarkSeen
// records days, too.
const touchEvery = 24 * time.Hour

// takeStep limits the states per TakeChanges.
const takeStep = 1000

// TakeChanges implements guest.HotKeeper. Evicted entries stay in the store.
func (h *Hot) TakeChanges(maxBytes int) (c guest.HotChanges) {
	var ids []guest.ID
	c.Dropped, ids, c.More = h.changes.take(takeStep)
	bytes := 0
	for i, id := range ids {
		if bytes > maxBytes {
			c.More = true
			h.PutBack(guest.HotChanges{Changed: named(ids[i:])})
			break
		}
		if state, found := h.state(id); found {
			bytes += len(state.State)
			c.Changed = append(c.Changed, state)
		}
	}
	return c
}

// named returns states without content.
func named(ids []guest.ID) (all []guest.HotState) {
	for _, id := range ids {
		all = append(all, guest.HotState{ID: id})
	}
	return all
}

// PutBack implements guest.HotKeeper.
func (h *Hot) PutBack(c guest.HotChanges) {
	h.changes.mu.Lock()
	defer h.changes.mu.Unlock()
	for _, id := range c.Dropped {
		h.changes.dropped[id] = struct{}{}
	}
	for i := range c.Changed {
		h.changes.changed[c.Changed[i].ID] = struct{}{}
	}
}

// state encodes a session or a search. It uses neither.
func (h *Hot) state(id guest.ID) (s guest.HotState, found bool) {
	wall := h.watch.clock()
	part, now := h.lock(string(id))
	defer part.mu.Unlock()
	e := part.byKey[string(id)]
	if e == nil || e.expires <= now {
		return s, false
	}
	s = guest.HotState{Session: id, ID: id, Expires: wall.Add(time.Duration(e.expires-now) * time.Microsecond).Truncate(time.Microsecond)}
	var value any
	switch v := e.value.(type) {
	case guest.Search:
		s.Session, value = v.Session, keptSearch{v.Query, v.Created.UnixMilli()}
	case *session:
		v.kept = s.Expires.Add(-guest.SessionLife).UnixMilli()
		value = kept{v.lastSeen, v.Locale, v.Currency, v.Campaign, string(v.attributes.Value), v.lists}
	}
	text, err := json.Marshal(value)
	if err != nil { // a query or an item that is not JSON: it lives as long as this process
		return s, false
	}
	s.State = text
	return s, true
}

// Sessions implements guest.HotKeeper.
func (h *Hot) Sessions() (all []guest.ID) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for key, e := range s.byKey {
			if _, ok := e.value.(*session); ok {
				all = append(all, guest.ID(key))
			}
		}
		s.mu.Unlock()
	}
	return all
}

// Restore implements guest.HotKeeper.
func (h *Hot) Restore(states []guest.HotState) {
	for i := range states {
		h.restore(&states[i])
	}
}

// restore adds a state unless it is known, expired, or not valid JSON. Its life is limited because the clock may have been
// set back.
func (h *Hot) restore(state *guest.HotState) {
	wall := h.watch.clock()
	i := item{key: string(state.ID), class: sessions, life: state.Expires.Sub(wall)}
	if strings.HasPrefix(i.key, guest.SearchPrefix) {
		var v keptSearch
		if json.Unmarshal(state.State, &v) != nil {
			return
		}
		search := guest.Search{ID: state.ID, Session: state.Session, Query: v.Query, Created: time.UnixMilli(v.Created).UTC()}
		i.value, i.size, i.life = search, searchSize(&search), min(i.life, guest.SearchLife)
	} else {
		var v kept
		if json.Unmarshal(state.State, &v) != nil {
			return
		}
		restored := &session{
			began: true, lastSeen: v.LastSeen, kept: state.Expires.Add(-guest.SessionLife).UnixMilli(), Preferences: guest.Preferences{Locale: v.Locale, Currency: v.Currency, Campaign: v.Campaign},
			attributes: guest.NewAttributes(canonjson.Value(v.Attributes)), lists: v.Lists,
		}
		i.value, i.size, i.life = restored, restored.size(), min(i.life, guest.SessionLife)
	}
	s, now := h.lock(i.key)
	defer s.mu.Unlock()
	if i.life > 0 && s.get(i.key, now) == nil {
		h.put(s, now, i)
	}
}
