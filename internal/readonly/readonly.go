// Package readonly makes services read-only in their databases, for all servers that use them.
package readonly

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// Holders that may end read-only.
const (
	BySetting  = "server.read_only"
	ByOperator = "an operator"
	byCopy     = "copy " // followed by the copy's ID
)

func ByCopy(id string) string { return byCopy + id }

// Name returns a holder as operators know it.
func Name(holder string) string {
	if strings.HasPrefix(holder, byCopy) {
		return "holdfast copy"
	}
	return holder
}

// Describe says who made a service read-only, and since when: e.g. "read-only, by an operator since 2026-11-28T19:20:00Z".
// detail completes the holder, e.g. with the operator's session; it may be "".
func Describe(h rows.Hold, detail string) string {
	text := "read-only, by " + Name(h.Holder)
	if detail != "" {
		text += " (" + detail + ")"
	}
	if !h.Since.IsZero() {
		text += " since " + h.Since.UTC().Format(time.RFC3339)
	}
	if !h.Until.IsZero() {
		text += ", until " + h.Until.UTC().Format(time.RFC3339) + " if it is not prolonged"
	}
	return text
}

// End explains how to end a service's permanent read-only state.
func End(service, holder string) string {
	switch {
	case holder == BySetting:
		return "remove server.read_only from the configuration and reload the server"
	case strings.HasPrefix(holder, byCopy):
		return "set the database_url printed by holdfast copy, or continue with this database: holdfast copy " + service + " --reopen"
	default:
		return "run holdfast read-only off " + service + ", or end it on the console page Read-only"
	}
}

// Switch makes services read-only or writable.
type Switch struct {
	Services []*service.Running
	Setting  atomic.Bool
	Log      *slog.Logger
	// Began returns which operator made a service read-only through this server at a time, which is zero if unknown. It
	// returns "" for anybody else, such as a command. It may be nil.
	Began func(service string, since time.Time) (who string)
	// Where returns the file and line, variable or flag that sets server.read_only for this server; "" if none does. It may
	// be nil.
	Where func() string

	mu      sync.Mutex
	settled map[string]*settled
}

type settled struct {
	closed bool
	warned string
}

// explainTimeout limits the question to a database that refused a write.
const explainTimeout = 2 * time.Second

// Explain adds to the error of a refused write who made the service read-only, since when, and how to end it. Other errors stay. It is for operators.
func (w *Switch) Explain(ctx context.Context, name string, err error) error {
	if !errors.Is(err, rows.ErrReadOnly) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	text, fix := w.explanation(name, rows.Hold{})
	for _, s := range w.Services {
		if s.Rows() == nil {
			continue
		}
		hold, failed := s.Rows().ReadOnly(ctx, s.Name)
		if failed != nil || hold.Holder == "" {
			continue
		}
		text, fix = w.explanation(s.Name, hold)
		if s.Name == name {
			break // otherwise that of another service, such as the storage that an account's import writes to
		}
	}
	// The message may name the one of several things that was refused, before the usual text.
	explained := errcode.Rephrase(err, strings.Replace(errcode.Message(err), rows.ErrReadOnly.Message, text, 1))
	explained.Fix = fix
	return explained
}

// Describe is like the function, with the operator who used this server, or the place of this server's setting.
func (w *Switch) Describe(name string, h rows.Hold) string {
	detail := ""
	switch {
	case h.Holder == ByOperator && w.Began != nil:
		detail = w.Began(name, h.Since)
	case h.Holder == BySetting && w.Where != nil:
		detail = w.Where()
	}
	return Describe(h, detail)
}

// explanation returns why a service refuses writes, and how to end it. h is zero if it does no longer, or if a copy
// refuses only a part of the writes.
func (w *Switch) explanation(name string, h rows.Hold) (text, fix string) {
	if h.Holder == "" {
		return name + " was read-only for a moment, as while holdfast copy waits for the last writes", "repeat it"
	}
	text = name + " is " + w.Describe(name, h)
	if !h.Until.IsZero() {
		return text, "wait until the copy ends"
	}
	return text, End(name, h.Holder)
}

// Settle applies the setting and returns the services' errors. Call it at the start and after changes to the setting
// until it succeeds.
func (w *Switch) Settle(ctx context.Context) (failed map[string]error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed = map[string]error{}
	wanted := w.Setting.Load()
	for _, s := range w.Services {
		db := s.Rows()
		if db == nil {
			continue
		}
		done := w.of(s.Name)
		hold, err := db.ReadOnly(ctx, s.Name)
		holder := hold.Holder
		switch {
		case err != nil:
		case wanted && (holder == "" || holder == BySetting && !done.closed):
			// After an interrupted attempt, the holder may be set without triggers.
			err = db.Close(ctx, s.Name, BySetting, 0, s.Tables)
			holder, done.closed = BySetting, err == nil
		case !wanted && holder == BySetting:
			err = db.Reopen(ctx, s.Name, s.Tables)
			holder, done.closed = "", false
		}
		switch {
		case err != nil:
			failed[s.Name] = err
		case holder != "" && holder != done.warned:
			attrs := []any{"service", s.Name, "by", Name(holder)}
			if hold.Until.IsZero() {
				attrs = append(attrs, "fix", End(s.Name, holder))
			}
			w.Log.Warn("the service is read-only", attrs...)
		}
		if err == nil {
			done.warned = holder
		}
	}
	return failed
}

func (w *Switch) of(name string) *settled {
	if w.settled == nil {
		w.settled = map[string]*settled{}
	}
	if w.settled[name] == nil {
		w.settled[name] = &settled{}
	}
	return w.settled[name]
}

// Set returns errcode.NotFound for an unsupported service, and errcode.Conflict if another holder made it read-only.
func (w *Switch) Set(ctx context.Context, name string, to bool) error {
	i := slices.IndexFunc(w.Services, func(s *service.Running) bool { return s.Name == name && s.Rows() != nil })
	if i < 0 {
		return errcode.New(errcode.NotFound, "no such service, or it cannot be read-only: see holdfast read-only list")
	}
	s, db := w.Services[i], w.Services[i].Rows()
	hold, err := db.ReadOnly(ctx, name)
	if w.Setting.Load() && hold.Holder != BySetting { // even if not yet applied
		hold = rows.Hold{Holder: BySetting}
	}
	switch {
	case err != nil:
		return err
	case hold.Holder != "" && hold.Holder != ByOperator:
		text, fix := w.explanation(name, hold)
		return errcode.Newf(errcode.Conflict, "%s: %s", text, fix)
	case to:
		return db.Close(ctx, name, ByOperator, 0, s.Tables)
	}
	return db.Reopen(ctx, name, s.Tables)
}
