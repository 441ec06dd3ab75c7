package hotstatetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/canonjson"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

func modelChecks() []check { return []check{{"RandomSteps", randomSteps}} }

type machine struct {
	*client
	locale string
	values guest.Attributes
	lists  map[guest.List][]string
	mirror string
	lease  string
	until  time.Duration
	blocks int
	locked bool // by a lease or a block, until enough time passes
}

func randomSteps(t *testing.T, c *client) {
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		m := &machine{client: newClient(rt, c.Harness), lists: map[guest.List][]string{}}
		return map[string]func(*rapid.T){
			"session": m.stepSession, "attributes": m.stepAttributes, "push": m.stepPush, "push more": m.stepPush, "read mirror": m.stepMirror, "fill mirror": m.stepFill,
			"block mirror": m.stepBlock, "unblock mirror": m.stepUnblock, "drop mirror": m.stepDropMirror, "drop": m.stepDrop, "pass": m.stepPass, "": m.compare,
		}
	})
}

func (m *machine) stepSession(rt *rapid.T) {
	change := guest.Change{}
	if rapid.Bool().Draw(rt, "changes") {
		m.locale = rapid.SampledFrom([]string{"de", "en-GB", ""}).Draw(rt, "locale")
		change.Locale = &m.locale
	}

	suite.Equal(m.t, "locale", m.session(change).Locale, m.locale)
}

func (m *machine) stepAttributes(rt *rapid.T) {
	next := guest.NewAttributes(canonjson.Value(rapid.SampledFrom([]string{`{}`, `{"a":1}`, `{"b":[]}`}).Draw(rt, "attributes")))
	was := rapid.SampledFrom([]string{m.values.Version, "", guest.NewAttributes(`{"a":1}`).Version}).Draw(rt, "version")
	stored := was == m.values.Version
	suite.Equal(m.t, "stored", m.put(was, string(next.Object())), stored)
	if stored {
		m.values = next
	}
}

func (m *machine) stepPush(rt *rapid.T) {
	list := rapid.SampledFrom([]guest.List{guest.RecentlyViewed, guest.SearchHistory}).Draw(rt, "list")
	k := fmt.Sprint("k", rapid.IntRange(0, 60).Draw(rt, "key"))
	m.push(list, k, `{}`)
	items := slices.DeleteFunc(slices.Clone(m.lists[list]), func(s string) bool { return s == k })
	items = slices.Insert(items, 0, k)
	m.lists[list] = items[:min(len(items), list.Most())]
}

func (m *machine) stepMirror(*rapid.T) {
	got := m.client.mirror()
	suite.Equal(m.t, "mirror", string(got.Wishes), m.mirror)
	suite.Equal(m.t, "lease", got.Lease != "", m.mirror == "" && !m.locked)
	if got.Lease != "" {
		m.lease, m.locked, m.until = got.Lease, true, guest.LeaseLife
	}
}

func (m *machine) stepFill(rt *rapid.T) {
	wishes := fmt.Sprintf(`[%d]`, rapid.IntRange(0, 9).Draw(rt, "wishes"))
	m.ok(m.Hot.FillMirror(m.t.Context(), m.id, m.lease, json.RawMessage(wishes)))
	if m.lease != "" {
		m.mirror, m.lease, m.locked = wishes, "", false
	}
}

func (m *machine) stepBlock(*rapid.T) {
	m.ok(m.Hot.BlockMirror(m.t.Context(), m.id))
	m.mirror, m.lease, m.locked, m.until = "", "", true, guest.BlockLife
	m.blocks++
}

func (m *machine) stepUnblock(*rapid.T) {
	m.ok(m.Hot.UnblockMirror(m.t.Context(), m.id))
	m.blocks = max(0, m.blocks-1)
	m.mirror, m.lease, m.locked = "", "", m.blocks > 0
}

func (m *machine) stepDropMirror(*rapid.T) {
	m.ok(m.Hot.DropMirror(m.t.Context(), m.id))
	m.mirror, m.lease, m.locked = "", "", m.blocks > 0
}

func (m *machine) stepDrop(*rapid.T) {
	m.ok(m.Hot.DropSession(m.t.Context(), m.id, nil))
	m.lose()
}

func (m *machine) lose() {
	m.values = guest.Attributes{}
	m.locale, m.lists, m.mirror, m.lease, m.locked = "", map[guest.List][]string{}, "", "", m.blocks > 0
}

func (m *machine) stepPass(rt *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 2 * time.Minute, 31 * day}).Draw(rt, "time")
	m.Pass(m.t, d)
	if m.until -= d; m.until <= 0 {
		m.locked, m.lease, m.blocks = false, "", 0
	}
	if d > guest.SessionLife {
		m.lose()
	}
}

func (m *machine) compare(*rapid.T) {
	for _, list := range []guest.List{guest.RecentlyViewed, guest.SearchHistory} {
		suite.Equal(m.t, string(list), m.items(list), m.lists[list])
	}
	suite.Equal(m.t, "attributes", m.attributes(), m.values)
}
