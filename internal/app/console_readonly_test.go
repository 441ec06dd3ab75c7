package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/db/rows"
	"holdfast/internal/readonly"
)

// TestConsoleShowsCopy checks a service that a copy made read-only, which only the copy can end.
func TestConsoleShowsCopy(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	s := a.opened[slices.IndexFunc(a.opened, func(s *opened) bool { return s.Name == "extstorage" })]
	db := s.Rows()
	shows := func(path string, texts ...string) (page string) {
		t.Helper()
		page = o.want(path, http.StatusOK, "read-only, by holdfast copy", http.MethodGet, "/console/"+path, nil)
		for _, want := range texts {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q in\n%s", path, want, page)
			}
		}
		return page
	}
	for _, lease := range []time.Duration{time.Hour, 0} {
		if err := db.Close(t.Context(), s.Name, readonly.ByCopy("1"), lease, s.Tables); err != nil {
			t.Fatal(err)
		}
		fix := "holdfast copy extstorage --reopen"
		if lease > 0 {
			fix = "wait until the copy ends"
			shows("", "Z if it is not prolonged")
			shows("read-only", fix)
		} else {
			shows("")
			shows("read-only", "set the database_url printed by holdfast copy", fix)
		}
		if page := shows("read-only"); strings.Contains(page, "Stop writes: service extstorage") || strings.Contains(page, "Accept writes: service extstorage") {
			t.Errorf("an operator may end read-only of a copy in\n%s", page)
		}
		o.want("ending it", http.StatusConflict, fix, http.MethodPost, "/console/read-only?do=off", o.form("/console/", "service", s.Name))
	}
	if err := db.Reopen(t.Context(), s.Name, s.Tables); err != nil {
		t.Fatal(err)
	}
	for state, says := range map[string]string{
		`{"id":"1","claim":{"id":"2","by":"process 3 on host h"}}`: "in progress, by process 3 on host h",
		`{"id":"1","target":true}`:                                 "contains only part of a copy",
	} {
		if err := db.Update(t.Context(), func(u rows.Update) error { return u.SetState(s.Name, state) }); err != nil {
			t.Fatal(err)
		}
		if page := o.want("the state", http.StatusOK, says, http.MethodGet, "/console/read-only", nil); strings.Contains(page, "Stop writes: service extstorage") {
			t.Errorf("an operator may disturb a copy in\n%s", page)
		}
	}
	if err := db.Update(t.Context(), func(u rows.Update) error { return u.SetState(s.Name, "") }); err != nil {
		t.Fatal(err)
	}
	o.want("after the end", http.StatusOK, "Stop writes: service extstorage", http.MethodGet, "/console/read-only", nil)
	a.cfg.Server.ReadOnly = true
	a.readOnly.Setting.Store(true)
	if page := o.want("the setting", http.StatusOK, "server.read_only is not applied yet", http.MethodGet, "/console/read-only", nil); strings.Contains(page, "?do=") {
		t.Errorf("an operator may change the setting in\n%s", page)
	}
}
