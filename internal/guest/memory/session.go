package memory

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/ident"
)

type session struct {
	began    bool
	lastSeen int64 // Unix milliseconds
	guest.Preferences
	attributes guest.Attributes
	lists      map[guest.List][]guest.Item
	mirror     *mirror
	kept       int64 // last use that a guest.HotStore knows, in Unix milliseconds; 0: the session is not stored
}

type mirror struct {
	wishes json.RawMessage
	filled time.Time
	lease  string
	blocks int   // by writers; above 0, no lease exists
	until  int64 // expiry of the lease or the blocks, in watch microseconds
}

func (m *mirror) blocked(now int64) int {
	if m == nil || now >= m.until {
		return 0
	}
	return m.blocks
}

func (v *session) size() int {
	n := SessionBytes - entryBytes - 30 + len(v.Campaign) + len(v.attributes.Value)
	for _, items := range v.lists {
		for _, i := range items {
			n += 48 + len(i.Key) + len(i.Value)
		}
	}
	if v.mirror != nil {
		n += 80 + len(v.mirror.wishes)
	}
	return n
}

// session locks the session's shard. The caller stores the value with keep and unlocks the shard.
func (h *Hot) session(id guest.ID) (s *shard, v *session, now int64) {
	s, now = h.lock(string(id))
	if e := s.get(string(id), now); e != nil {
		return s, e.value.(*session), now
	}
	return s, &session{}, now
}

// keep stores a used session. Use by itself is a change only every touchEvery.
func (h *Hot) keep(s *shard, id guest.ID, v *session, now int64) {
	if v.kept > 0 && h.changes.on && h.watch.clock().UnixMilli()-v.kept >= touchEvery.Milliseconds() {
		h.changes.change(id)
	}
	h.put(s, now, item{string(id), sessions, v, v.size(), guest.SessionLife})
}

// Session implements guest.HotSessions.
func (h *Hot) Session(_ context.Context, id guest.ID, change guest.Change) (guest.Session, error) {
	wall := h.watch.clock().UnixMilli()
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	if !v.began {
		v.began, v.lastSeen = true, wall
	}
	result := guest.Session{ID: id, Created: id.Time(), LastSeen: time.UnixMilli(v.lastSeen).UTC()}
	v.lastSeen = wall
	if change.Locale != nil {
		v.Locale = *change.Locale
	}
	if change.Currency != nil {
		v.Currency = *change.Currency
	}
	if change.Campaign != nil {
		v.Campaign = *change.Campaign
	}
	if change.Locale != nil || change.Currency != nil || change.Campaign != nil {
		h.changes.change(id)
	}
	result.Preferences = v.Preferences
	if change.ReadAttributes {
		result.Attributes = v.attributes
		if v.attributes.Version == change.KnownVersion {
			result.Attributes.Value = ""
		}
	}
	h.keep(s, id, v, now)
	return result, nil
}

// PutAttributes implements guest.HotSessions.
func (h *Hot) PutAttributes(_ context.Context, id guest.ID, was string, next guest.Attributes) (bool, error) {
	wall := h.watch.clock().UnixMilli()
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	if !v.began {
		v.began, v.lastSeen = true, wall
	}
	stored := v.attributes.Version == was
	if stored {
		v.attributes = next
		h.changes.change(id)
	}
	h.keep(s, id, v, now)
	return stored, nil
}

// Push implements guest.HotSessions.
func (h *Hot) Push(_ context.Context, id guest.ID, list guest.List, item guest.Item) error {
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	items := slices.DeleteFunc(slices.Clone(v.lists[list]), func(i guest.Item) bool { return i.Key == item.Key })
	items = slices.Insert(items, 0, guest.Item{Key: item.Key, Value: slices.Clone(item.Value)})
	if v.lists == nil {
		v.lists = map[guest.List][]guest.Item{}
	}
	v.lists[list] = items[:min(len(items), list.Most())]
	h.changes.change(id)
	h.keep(s, id, v, now)
	return nil
}

// Items returns values that callers must not change.
func (h *Hot) Items(_ context.Context, id guest.ID, list guest.List) ([]guest.Item, error) {
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	if s.get(string(id), now) != nil {
		h.keep(s, id, v, now)
	}
	return v.lists[list], nil
}

// PutSearch implements guest.HotSessions.
func (h *Hot) PutSearch(_ context.Context, search guest.Search) error {
	search.Query = slices.Clone(search.Query)
	s, now := h.lock(string(search.ID))
	defer s.mu.Unlock()
	h.put(s, now, item{string(search.ID), sessions, search, searchSize(&search), guest.SearchLife})
	h.changes.change(search.ID)
	return nil
}

// searchSize returns a search's approximate size in bytes.
func searchSize(s *guest.Search) int { return 200 + len(s.Query) }

// Search implements guest.HotSessions.
func (h *Hot) Search(_ context.Context, id guest.ID) (guest.Search, bool, error) {
	s, now := h.lock(string(id))
	defer s.mu.Unlock()
	if e := s.get(string(id), now); e != nil {
		return e.value.(guest.Search), true, nil
	}
	return guest.Search{}, false, nil
}

// DropSession implements guest.HotSessions.
func (h *Hot) DropSession(_ context.Context, id guest.ID, searches []guest.ID) error {
	for _, key := range searches {
		h.remove(string(key))
	}
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	h.changes.drop(id)
	e := s.byKey[string(id)]
	if e == nil {
		return nil
	}
	if v.mirror.blocked(now) == 0 {
		s.drop(e)
		return nil
	}
	h.keep(s, id, &session{mirror: &mirror{blocks: v.mirror.blocks, until: v.mirror.until}}, now)
	return nil
}

func (h *Hot) remove(key string) {
	s, _ := h.lock(key)
	defer s.mu.Unlock()
	if e := s.byKey[key]; e != nil {
		s.drop(e)
	}
}

// Mirror implements guest.HotMirror.
func (h *Hot) Mirror(_ context.Context, id guest.ID) (guest.Mirror, error) {
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	defer func() { h.keep(s, id, v, now) }()
	switch {
	case v.mirror != nil && v.mirror.wishes != nil:
		return guest.Mirror{Wishes: v.mirror.wishes, Filled: v.mirror.filled}, nil
	case v.mirror != nil && now < v.mirror.until:
		return guest.Mirror{}, nil
	}
	v.mirror = &mirror{lease: ident.New(), until: now + guest.LeaseLife.Microseconds()}
	return guest.Mirror{Lease: v.mirror.lease}, nil
}

// FillMirror implements guest.HotMirror.
func (h *Hot) FillMirror(_ context.Context, id guest.ID, lease string, wishes json.RawMessage) error {
	wall := h.watch.clock()
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	if m := v.mirror; m == nil || lease == "" || m.lease != lease || now >= m.until {
		return nil
	}
	v.mirror = &mirror{wishes: slices.Clone(wishes), filled: time.UnixMilli(wall.UnixMilli()).UTC()}
	h.keep(s, id, v, now)
	return nil
}

// BlockMirror implements guest.HotMirror.
func (h *Hot) BlockMirror(_ context.Context, id guest.ID) error {
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	v.mirror = &mirror{blocks: v.mirror.blocked(now) + 1, until: now + guest.BlockLife.Microseconds()}
	h.keep(s, id, v, now)
	return nil
}

// UnblockMirror implements guest.HotMirror.
func (h *Hot) UnblockMirror(_ context.Context, id guest.ID) error { return h.dropMirror(id, 1) }

// DropMirror implements guest.HotMirror.
func (h *Hot) DropMirror(_ context.Context, id guest.ID) error { return h.dropMirror(id, 0) }

func (h *Hot) dropMirror(id guest.ID, blocks int) error {
	s, v, now := h.session(id)
	defer s.mu.Unlock()
	if v.mirror == nil {
		return nil
	}
	if left := v.mirror.blocked(now) - blocks; left > 0 {
		v.mirror = &mirror{blocks: left, until: v.mirror.until}
	} else {
		v.mirror = nil
	}
	h.keep(s, id, v, now)
	return nil
}
