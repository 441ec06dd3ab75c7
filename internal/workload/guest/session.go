package guest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/workload"
)

// State is the visible state of a session.
type State struct {
	Wishes  string // JSON: entries by item
	Handoff string // last handoff's ID and status, or ""
}

// Guest changes its session, with one request in flight at a time.
type Guest struct {
	Visitor
	Profile *Profile // nil: HotelSearch
	N       int
	Random  *rand.Rand

	State  State    // last acknowledged
	Lost   *Change  // unanswered
	Last   *Change  // answered
	Events []string // events of completed changes
	Open   *Handoff // last handoff, unless consumed or its token was lost
	Burned *Handoff // last consumed

	keys    int
	history []version
	wishes  map[string]entry // State.Wishes by item
}

type entry struct {
	Note     string `json:"note"`
	Quantity int    `json:"quantity,omitempty"`
}

type version struct {
	State
	sent, acknowledged int64
}

// Change is a change with its idempotency key. An unanswered change is resent with the same key.
type Change struct {
	Call

	Kind           string
	After          State
	Event          string // may be ""
	Handoff        *Handoff
	Sent           int64  // test clock
	Tried, Refused bool   // refused at every attempt
	Answer         string // acknowledgement

	wishes map[string]entry
}

func (d *Change) String() string { return d.Kind + " " + d.Path + d.Body }

// NewGuest returns a guest without a session.
func NewGuest(n int) *Guest {
	return &Guest{N: n, State: State{Wishes: "{}"}, history: []version{{State: State{Wishes: "{}"}}}}
}

// Forget keeps only the last state, between rounds.
func (g *Guest) Forget() { g.history = g.history[len(g.history)-1:] }

// nearlyMost is a quantity after which additions could exceed the shop's limit, 99.
const nearlyMost = 90

// Next chooses a change, possibly without effect. It includes handoff changes only if handoffs is set.
func (g *Guest) Next(handoffs bool) *Change {
	g.keys++
	d := &Change{Call: Call{Key: fmt.Sprintf("%d-%d", g.N, g.keys)}, After: g.State, wishes: maps.Clone(g.wishes)}
	if d.wishes == nil {
		d.wishes = map[string]entry{}
	}
	p := g.profile()
	n := g.Random.IntN(6)
	item := p.Item(n)
	before, live := d.wishes[item]
	e := entry{Note: fmt.Sprint("note ", g.keys)}
	members := fmt.Sprintf(`"note":%q}`, e.Note)
	if p.quantities {
		e.Quantity = 1 + g.Random.IntN(3)
		members = fmt.Sprintf(`"quantity":%d,%s`, e.Quantity, members)
	}
	switch choice := g.Random.IntN(10); {
	case choice < 2:
		d.Kind, d.Method, d.Path = "remove", http.MethodDelete, "/wishlist/"+item
		if live {
			d.Event = "wishlist.removed.v1 " + item
			delete(d.wishes, item)
		}
	case live && (choice < 4 || before.Quantity > nearlyMost):
		d.Kind, d.Method, d.Path, d.Body = "note", http.MethodPatch, "/wishlist/"+item, "{"+members
		d.wishes[item] = e
		if e.Quantity != before.Quantity {
			d.Event = "wishlist.changed.v1 " + item
		}
	case choice < 6 && handoffs && g.Open != nil:
		d.Kind, d.Method, d.Handoff = "consume", http.MethodPost, g.Open
		d.Path, d.Body = Site{}.Ask("consume", *g.Open)
		d.After.Handoff = g.Open.HandoffID + " consumed"
	case choice < 6 && handoffs:
		time.Sleep(2 * time.Millisecond) // the handoff list is ordered by millisecond
		d.Kind, d.Method, d.Path, d.Body, d.Event = "mint", http.MethodPost, p.Mint(d.Key), p.Cargo, "handoff.initiated.v1 "+p.Handed(d.Key)
	default:
		d.Kind, d.Method, d.Path, d.Body = "add", http.MethodPost, "/wishlist", strings.TrimSuffix(p.Wish(n), "}")+","+members
		switch {
		case !live:
			d.Event = "wishlist.added.v1 " + item
			d.wishes[item] = e
		case p.quantities: // adding again adds to the quantity, and keeps the note
			d.Event = "wishlist.changed.v1 " + item
			d.wishes[item] = entry{before.Note, before.Quantity + e.Quantity}
		}
	}
	d.After.Wishes = text(d.wishes)
	return d
}

// profile returns the profile, with its default.
func (g *Guest) profile() *Profile {
	if g.Profile == nil {
		return HotelSearch
	}
	return g.Profile
}

// text encodes wishes like State.
func text(wishes map[string]entry) string {
	all, _ := json.Marshal(wishes)
	return string(all)
}

// Acknowledge checks and records a change's answer, at the latest now.
func (g *Guest) Acknowledge(d *Change, a workload.Answer, now int64) error {
	want := http.StatusOK
	switch {
	case d.Kind == "mint", d.Kind == "add" && strings.HasPrefix(d.Event, "wishlist.added"):
		want = http.StatusCreated
	case d.Kind == "remove":
		want = http.StatusNoContent
	}
	if a.Status != want {
		return fmt.Errorf("%s: %d %s, want %d", d, a.Status, a.Body, want)
	}
	if d.Kind == "mint" {
		d.Handoff = &Handoff{}
		if err := json.Unmarshal([]byte(a.Body), d.Handoff); err != nil {
			return fmt.Errorf("%s: %s: %w", d, a.Body, err)
		}
		d.After.Handoff = d.Handoff.HandoffID + " open"
	}
	d.Answer = fmt.Sprint(a.Status, a.Body)
	g.Last = d
	g.done(d, now)
	return nil
}

// done records that the change happened.
func (g *Guest) done(d *Change, now int64) {
	g.Lost, g.State, g.wishes = nil, d.After, d.wishes
	g.history = append(g.history, version{d.After, d.Sent, now})
	switch d.Kind {
	case "mint":
		g.Open = d.Handoff
	case "consume":
		g.Open, g.Burned = nil, d.Handoff
	}
	if d.Event != "" {
		g.Events = append(g.Events, d.Event)
	}
}

// Found records the state read after a change's answer was lost. Changes are atomic.
func (g *Guest) Found(got State, now int64) (done bool, err error) {
	d := g.Lost
	switch {
	case got == g.State:
		g.Lost = nil
		return false, nil
	case d.isAfter(g.State, got):
		d.After = got
		g.done(d, now)
		return true, nil
	}
	return false, fmt.Errorf("%s was not answered, and guest %d has %+v; before: %+v", d, g.N, got, g.State)
}

// Changes reports whether a change is visible.
func (d *Change) Changes(before State) bool { return d.After != before || d.Kind == "mint" }

// isAfter reports whether got is the state after the change. A mint's ID is only known from the answer.
func (d *Change) isAfter(before, got State) bool {
	if d.Kind == "mint" {
		return got.Wishes == before.Wishes && got.Handoff != before.Handoff && strings.HasSuffix(got.Handoff, " open")
	}
	return got == d.After
}

// Was reports whether the session may have been in a state between two clock ticks.
func (g *Guest) Was(got State, begun, ended int64) bool {
	possible := false
	for _, v := range g.history {
		if v.acknowledged < begun {
			possible = false
		}
		possible = possible || v.sent <= ended && v.State == got
	}
	return possible || g.Lost != nil && g.Lost.isAfter(g.State, got)
}

// Wishes returns a list's entries by item, as in State.
func Wishes(a workload.Answer) (string, error) {
	var page struct {
		Items []struct {
			PropertyID, ItemID string
			entry
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
		return "", fmt.Errorf("GET /wishlist: %d %s %w", a.Status, a.Body, err)
	}
	all := map[string]entry{}
	for _, i := range page.Items {
		all[i.PropertyID+i.ItemID] = i.entry
	}
	return text(all), nil
}

// LastHandoff returns the ID and status of a list's first handoff, as in State.
func LastHandoff(a workload.Answer) (string, error) {
	var page struct {
		Items []struct{ HandoffID, Status string }
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
		return "", fmt.Errorf("GET /handoff: %d %s %w", a.Status, a.Body, err)
	}
	if len(page.Items) == 0 {
		return "", nil
	}
	return page.Items[0].HandoffID + " " + page.Items[0].Status, nil
}
