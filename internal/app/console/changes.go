package console

import (
	"slices"
	"sync"
	"time"
)

// change is a change that an operator made in the console.
type change struct {
	At      time.Time
	Who     string
	Service string
	Action  string
	What    []string // names and values
	Outcome string
}

// mostChanges is how many changes are kept in memory for the page that lists them. The
// log has all.
const mostChanges = 500

// changes are the latest changes.
type changes struct {
	mu  sync.Mutex
	all []change
}

func newChanges() *changes { return &changes{} }

func (c *changes) add(one change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all = append(c.all, one); len(c.all) > mostChanges {
		c.all = slices.Delete(c.all, 0, len(c.all)-mostChanges)
	}
}

// list returns the latest changes, the newest first.
func (c *changes) list() []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.all)
	slices.Reverse(list)
	return list
}
