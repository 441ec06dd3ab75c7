package console

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
)

// adminToken is the operator of a change without a session.
const adminToken = "admin token"

// Change is a change that an operator made, or a download of a file with secrets.
type Change struct {
	Service string
	Page    string // or the noun of the operation
	Action  string
	What    []Named
	Err     error // nil: it succeeded

	at  time.Time
	who string
}

// Named is a value that says what was changed.
type Named struct{ Name, Value string }

// what returns the values for people.
func (c *Change) what() string {
	var all []string
	for _, one := range c.What {
		all = append(all, one.Name+"="+one.Value)
	}
	return strings.Join(all, ", ")
}

// outcome returns the result for people.
func (c *Change) outcome() string {
	if c.Err != nil {
		return "failed: " + message(c.Err)
	}
	return "ok"
}

// attributes returns the attributes of the log line. A value does not replace an attribute with its name.
func (c *Change) attributes(address string) []any {
	all := []any{"who", c.who, "service", c.Service, "page", c.Page, "action", c.Action}
	for _, one := range c.What {
		if slices.Contains([]string{"who", "service", "page", "action", "error", "client_address"}, one.Name) {
			one.Name = "input_" + one.Name
		}
		all = append(all, one.Name, one.Value)
	}
	if c.Err != nil {
		all = append(all, "error", c.Err)
	}
	return append(all, "client_address", address)
}

// mostChanges is how many changes are kept in memory for the page that lists them. The
// log has all.
const mostChanges = 500

// Changes logs the changes of operators, and has the latest ones.
type Changes struct {
	log   *slog.Logger
	clock clock.Clock

	mu  sync.Mutex
	all []Change
}

// NewChanges returns the changes of a server.
func NewChanges(log *slog.Logger, now clock.Clock) *Changes { return &Changes{log: log, clock: now} }

// Add logs and keeps a change. The context names the operator (service.WithOperator).
func (c *Changes) Add(ctx context.Context, one *Change) {
	added := *one
	added.at, added.who = c.clock(), cmp.Or(service.Operator(ctx), adminToken)
	c.log.InfoContext(context.WithoutCancel(ctx), "operator change", added.attributes(service.OperatorAddress(ctx))...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all = append(c.all, added); len(c.all) > mostChanges {
		c.all = slices.Delete(c.all, 0, len(c.all)-mostChanges)
	}
}

// list returns the latest changes, the newest first.
func (c *Changes) list() []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.all)
	slices.Reverse(list)
	return list
}
