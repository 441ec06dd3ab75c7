package hotstatetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

func (c *client) put(was, value string) bool {
	c.t.Helper()
	stored, err := c.Hot.PutAttributes(c.t.Context(), c.id, was, guest.NewAttributes(canonjson.Value(value)))
	return must(c, stored, err)
}

func (c *client) attributes() guest.Attributes {
	c.t.Helper()
	return c.session(guest.Change{ReadAttributes: true}).Attributes
}

func attributes(_ *testing.T, c *client) {
	suite.Equal(c.t, "none", c.attributes(), guest.Attributes{})
	suite.Equal(c.t, "of a version that never was", c.put("x", `{"a":1}`), false)
	suite.Equal(c.t, "first", c.put("", `{"a":1}`), true)
	first := c.attributes()
	suite.Equal(c.t, "first", first, guest.NewAttributes(`{"a":1}`))
	suite.Equal(c.t, "begun", c.session(guest.Change{}).Created, c.id.Time())
	suite.Equal(c.t, "not read unless asked for", c.session(guest.Change{}).Attributes, guest.Attributes{})
	known := func(version string) guest.Attributes {
		return c.session(guest.Change{ReadAttributes: true, KnownVersion: version}).Attributes
	}
	suite.Equal(c.t, "with the known version", known(first.Version), guest.Attributes{Version: first.Version})
	suite.Equal(c.t, "with another version", known("x"), first)
	suite.Equal(c.t, "as if there were none", c.put("", `{"a":2}`), false)
	large := `{"text":"` + strings.Repeat("ä", 8000) + `"}`
	suite.Equal(c.t, "next", c.put(first.Version, large), true)
	suite.Equal(c.t, "of the version before", c.put(first.Version, `{"a":3}`), false)
	suite.Equal(c.t, "preferences stay", c.session(guest.Change{Locale: new("de"), ReadAttributes: true}).Attributes.Value, canonjson.Value(large))
	suite.Equal(c.t, "attributes with preferences", c.session(guest.Change{}).Locale, "de")
	suite.Equal(c.t, "of another session", newClient(c.t, c.Harness).attributes(), guest.Attributes{})
	suite.Equal(c.t, "removed", c.put(c.attributes().Version, `{}`), true)
	suite.Equal(c.t, "removed", c.attributes(), guest.Attributes{})
	suite.Equal(c.t, "again", c.put("", `{"a":1}`), true)
}

func attributesConcurrently(_ *testing.T, c *client) {
	for round := range 5 {
		was := c.attributes().Version
		var stored atomic.Int32
		c.concurrently(8, func(i int) {
			if c.put(was, fmt.Sprintf(`{"n":%d}`, round*10+i)) {
				stored.Add(1)
			}
		})
		suite.Equal(c.t, "stored", stored.Load(), 1)
	}
}

// attributesWhileChanged reads a session while another request changes its attributes, then its currency. Each
// read must return a pair that existed.
func attributesWhileChanged(_ *testing.T, c *client) {
	const changes, readers = 100, 3
	states := make([]guest.Session, 1+changes) // the first is the new session
	for n := 1; n < len(states); n++ {
		text := fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, strings.Repeat("a", 2000))
		states[n] = guest.Session{Attributes: guest.NewAttributes(canonjson.Value(text)), Preferences: guest.Preferences{Currency: strconv.Itoa(n)}}
	}
	var done atomic.Bool
	c.concurrently(1+readers, func(i int) {
		if i > 0 {
			for !done.Load() {
				c.readState(states)
			}
			return
		}
		was := ""
		for _, s := range states[1:] {
			suite.Equal(c.t, "stored", c.put(was, string(s.Attributes.Value)), true)
			c.session(guest.Change{Currency: &s.Currency})
			was = s.Attributes.Version
		}
		done.Store(true)
	})
}

// readState checks that the session's attributes are in states, and that its currency is in the same state or the
// previous state.
func (c *client) readState(states []guest.Session) {
	c.t.Helper()
	s := c.session(guest.Change{ReadAttributes: true})
	n := slices.IndexFunc(states, func(state guest.Session) bool { return state.Attributes == s.Attributes })
	if n < 0 || s.Currency != states[n].Currency && s.Currency != states[max(n-1, 0)].Currency {
		c.t.Errorf("attributes %.20s of version %q with currency %q", s.Attributes.Value, s.Attributes.Version, s.Currency)
	}
}
