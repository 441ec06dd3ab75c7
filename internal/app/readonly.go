package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/db/rows"
	"holdfast/internal/fault"
)

// Holders of read-only that may end it.
const (
	settingHolder = "server.read_only"
	adminHolder   = "the admin listener"
	copyHolder    = "copy " // and the ID of the copy
)

// endReadOnly says how to end read-only of a service without an end.
func endReadOnly(service, holder string) string {
	switch {
	case holder == settingHolder:
		return "restart the server without server.read_only"
	case strings.HasPrefix(holder, copyHolder):
		return "set the database_url that holdfast copy has printed, or go on with this database: holdfast copy " + service + " --reopen"
	default:
		return "end it on the page Read-only of the console, or send DELETE /read-only/" + service + " to the admin listener"
	}
}

// rowsOf returns the database of a service that can be read-only; nil if it cannot.
func (s *opened) rowsOf() rows.Database {
	if len(s.tables) == 0 || len(s.Databases) != 1 {
		return nil
	}
	return s.Databases[0].Rows(nil)
}

// settleReadOnly makes services read-only as the setting says. Another holder stays. It is called until the start is
// complete, and warns of each holder once.
func (a *App) settleReadOnly(ctx context.Context) (failed map[string]error) {
	failed = map[string]error{}
	for _, s := range a.opened {
		db := s.rowsOf()
		if db == nil {
			continue
		}
		holder, until, err := db.ReadOnly(ctx, s.name)
		switch {
		case err != nil:
		case a.cfg.Server.ReadOnly && (holder == "" || holder == settingHolder && !s.closed):
			// The holder may be there and triggers be missing: of an attempt that was interrupted.
			err = db.Close(ctx, s.name, settingHolder, 0, s.tables)
			holder, s.closed = settingHolder, err == nil
		case !a.cfg.Server.ReadOnly && holder == settingHolder:
			err = db.Reopen(ctx, s.name, s.tables)
			holder = ""
		}
		switch {
		case err != nil:
			failed[s.name] = err
		case holder != "" && holder != s.readOnlyBy:
			attrs := []any{"service", s.name, "by", holder}
			if until.IsZero() {
				attrs = append(attrs, "fix", endReadOnly(s.name, holder))
			}
			a.log.Warn("the service is read-only", attrs...)
		}
		if err == nil {
			s.readOnlyBy = holder
		}
	}
	return failed
}

// errHalfCopied means that nobody but the copy may write.
var errHalfCopied = errors.New("its database has only a part of a copy or an import: run the same command (holdfast copy or holdfast import) again, or wait until it has finished")

// halfCopied reports whether the database of a service has only a part of a copy. patience
// is the timeout.
func (s *opened) halfCopied(ctx context.Context, patience time.Duration) (half bool) {
	db := s.rowsOf()
	if db == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := db.View(ctx, func(v rows.View) error {
		state, err := readCopyState(v, s.name)
		half = state.unfinished()
		return err
	})
	return err == nil && half
}

// whole returns an error if the database of a service has only a part of a copy.
func (a *App) whole(ctx context.Context, name string) error {
	for _, s := range a.opened {
		if s.name == name && s.halfCopied(ctx, readyTimeout) {
			return fmt.Errorf("%s: %w", name, errHalfCopied)
		}
	}
	return nil
}

// readOnlyAtStart applies the setting before the first request. A database that is
// unavailable or not migrated gets it later.
func (a *App) readOnlyAtStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	_ = a.settleReadOnly(ctx)
}

// readOnlyState is a service on the admin listener.
type readOnlyState struct {
	Service  string     `json:"service"`
	ReadOnly bool       `json:"readOnly"`
	By       string     `json:"by,omitempty"`
	Until    *time.Time `json:"until,omitempty"` // of a copy that is in progress
}

// handleReadOnly adds the paths that show read-only and switch it.
func (a *App) handleReadOnly(mux *http.ServeMux) {
	mux.Handle("GET /read-only", a.charged(0, func(w http.ResponseWriter, r *http.Request) {
		states := []readOnlyState{}
		for _, s := range a.opened {
			db := s.rowsOf()
			if db == nil {
				continue
			}
			holder, until, err := db.ReadOnly(r.Context(), s.name)
			if err != nil {
				sendError(w, http.StatusServiceUnavailable, s.name+": "+cmp.Or(fault.Message(err), "internal error"))
				return
			}
			state := readOnlyState{Service: s.name, ReadOnly: holder != "", By: holder}
			if holder != "" && !until.IsZero() {
				state.Until = &until
			}
			states = append(states, state)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(states) // an error means that the client has left
	}))
	change := func(to bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			name := r.PathValue("service")
			err := a.setReadOnly(r.Context(), name, to)
			switch {
			case fault.Is(err, fault.NotFound):
				sendError(w, http.StatusNotFound, fault.Message(err))
			case fault.Is(err, fault.Conflict):
				sendError(w, http.StatusConflict, fault.Message(err))
			case err != nil:
				sendError(w, http.StatusServiceUnavailable, cmp.Or(fault.Message(err), "internal error"))
			default:
				a.log.Warn("read-only was changed", "service", name, "read_only", to)
				w.WriteHeader(http.StatusNoContent)
			}
		}
	}
	mux.Handle("POST /read-only/{service}", a.charged(0, change(true)))
	mux.Handle("DELETE /read-only/{service}", a.charged(0, change(false)))
}

func (a *App) setReadOnly(ctx context.Context, name string, to bool) error {
	i := slices.IndexFunc(a.opened, func(s *opened) bool { return s.name == name && s.rowsOf() != nil })
	if i < 0 {
		return fault.New(fault.NotFound, "no such service, or it cannot be read-only: see GET /read-only")
	}
	s, db := a.opened[i], a.opened[i].rowsOf()
	holder, _, err := db.ReadOnly(ctx, name)
	if a.cfg.Server.ReadOnly { // also if it has not been applied yet
		holder = settingHolder
	}
	switch {
	case err != nil:
		return err
	case holder != "" && holder != adminHolder:
		return fault.Newf(fault.Conflict, "%s is read-only by %s: only that can change it (holdfast copy %s --reopen ends read-only by a copy)", name, holder, name)
	case to:
		return db.Close(ctx, name, adminHolder, 0, s.tables)
	}
	return db.Reopen(ctx, name, s.tables)
}
