// Package changes records operators' changes to a running server in its log, in memory, and in a small file that
// survives restarts.
package changes

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

const adminToken = "admin token"

// most limits the entries. The file may have fewer entries, if they are long.
const most = 5000

// Log logs and records operators' changes.
type Log struct {
	Log     *slog.Logger
	Clock   clock.Clock
	Message func(error) string
	File    string // "" if changes are not stored

	mu      sync.Mutex
	read    bool
	all     []Entry // oldest first
	unsaved bool
}

// Entry is a change with its time and operator.
type Entry struct {
	Number  int64           `json:"n"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`
	Service string          `json:"service"`
	Page    string          `json:"page"`
	Action  string          `json:"action"`
	What    []service.Named `json:"what,omitempty"`
	Failed  string          `json:"failed,omitempty"` // error; "" means success
	Address string          `json:"address,omitempty"`
}

func (e *Entry) Text() string {
	var all []string
	for _, named := range e.What {
		all = append(all, named.Name+"="+named.Value)
	}
	return strings.Join(all, ", ")
}

func (l *Log) Add(ctx context.Context, c *service.Change) {
	e := Entry{
		At: l.Clock().UTC(), Who: cmp.Or(service.Operator(ctx), adminToken), Service: c.Service, Page: c.Page, Action: c.Action, What: c.What,
		Address: service.OperatorAddress(ctx),
	}
	if c.Err != nil {
		e.Failed = l.Message(c.Err)
	}
	l.Log.InfoContext(context.WithoutCancel(ctx), "operator change", attributes(&e, c.Err)...)
	e.shorten()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load()
	e.Number = 1
	if n := len(l.all); n > 0 {
		e.Number = l.all[n-1].Number + 1
	}
	l.keep(e)
	l.save(&e)
}

// attributes renames values that would replace an attribute with the same name.
func attributes(e *Entry, err error) []any {
	all := []any{"who", e.Who, "service", e.Service, "page", e.Page, "action", e.Action}
	for _, named := range e.What {
		if slices.Contains([]string{"who", "service", "page", "action", "error", "client_address"}, named.Name) {
			named.Name = "input_" + named.Name
		}
		all = append(all, named.Name, named.Value)
	}
	if err != nil {
		all = append(all, "error", err)
	}
	return append(all, "client_address", e.Address)
}

// keep requires the lock.
func (l *Log) keep(e Entry) {
	if l.all = append(l.all, e); len(l.all) > most {
		l.all = slices.Delete(l.all, 0, len(l.all)-most)
	}
}

// Filter selects changes. The zero value selects all.
type Filter struct {
	Who, Service, Text string // case-insensitive substrings
	Since, Until       time.Time
	Before             int64 // only numbers below; 0 means all
	Limit              int
}

func (l *Log) List(f *Filter) (entries []Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load()
	for _, e := range slices.Backward(l.all) {
		if len(entries) == f.Limit {
			break
		}
		if f.selects(&e) {
			entries = append(entries, e)
		}
	}
	return entries
}

func (f *Filter) selects(e *Entry) bool {
	if f.Before > 0 && e.Number >= f.Before || e.At.Before(f.Since) || !f.Until.IsZero() && !e.At.Before(f.Until) {
		return false
	}
	text := func() string { return e.Page + " " + e.Action + " " + e.Text() + " " + e.Failed }
	return has(e.Who, f.Who) && has(e.Service, f.Service) && (f.Text == "" || has(text(), f.Text))
}

func has(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
