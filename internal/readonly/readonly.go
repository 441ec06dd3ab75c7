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
	// Began returns which operator made a service read-only through this server, and when; "" if that is unknown, as
	// after a command. It may be nil.
	Began func(service string) (who string, at time.Time)

	mu      sync.Mutex
	settled map[string]*settled
}

type settled struct {
	closed bool
	warned string
}

// explainTimeout limits the question to a database that refused a write.
const explainTimeout = 2 * time.Second

// Explain adds to the error of a refused write who made the service read-only, since when if that is known, and how to
// end it. Other errors stay. It is for operators.
func (w *Switch) Explain(ctx context.Context, name string, err error) error {
	if !errors.Is(err, rows.ErrReadOnly) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	text, fix := w.explanation(name, "", time.Time{})
	for _, s := range w.Services {
		if s.Rows() == nil {
			continue
		}
		holder, until, failed := s.Rows().ReadOnly(ctx, s.Name)
		if failed != nil || holder == "" {
			continue
		}
		text, fix = w.explanation(s.Name, holder, until)
		if s.Name == name {
			break // otherwise that of another service, such as the storage that an account's import writes to
		}
	}
	// The message may name the one of several things that was refused, before the usual text.
	explained := errcode.Rephrase(err, strings.Replace(errcode.Message(err), rows.ErrReadOnly.Message, text, 1))
	explained.Fix = fix
	return explained
}

// explanation returns why a service refuses writes, and how to end it. holder is "" if it does no longer, or if a copy
// refuses only a part of the writes.
func (w *Switch) explanation(name, holder string, until time.Time) (text, fix string) {
	if holder == "" {
		return name + " was read-only for a moment, as while holdfast copy waits for the last writes", "repeat it"
	}
	text = name + " is read-only, by " + Name(holder)
	if holder == ByOperator && w.Began != nil {
		if who, at := w.Began(name); who != "" {
			text += " (" + who + ", " + at.UTC().Format(time.RFC3339) + ")"
		}
	}
	if !until.IsZero() {
		return text + ", until " + until.UTC().Format(time.RFC3339) + " if it is not prolonged", "wait until the copy ends"
	}
	return text, End(name, holder)
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
		holder, until, err := db.ReadOnly(ctx, s.Name)
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
			if until.IsZero() {
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
	holder, until, err := db.ReadOnly(ctx, name)
	if w.Setting.Load() { // even if not yet applied
		holder = BySetting
	}
	switch {
	case err != nil:
		return err
	case holder != "" && holder != ByOperator:
		fix := End(name, holder)
		if !until.IsZero() {
			fix = "wait until the copy ends"
		}
		return errcode.Newf(errcode.Conflict, "%s is read-only, by %s: %s", name, Name(holder), fix)
	case to:
		return db.Close(ctx, name, ByOperator, 0, s.Tables)
	}
	return db.Reopen(ctx, name, s.Tables)
}
