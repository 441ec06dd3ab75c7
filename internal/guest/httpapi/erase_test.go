package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

// TestEraseNamesBackups: an erasure lists the known backups that were made since the session began.
func TestEraseNamesBackups(t *testing.T) {
	t.Parallel()
	now := clock.System().UTC().Truncate(time.Second)
	backup := func(name string, at time.Duration) guest.Backup { return guest.Backup{Path: name, At: now.Add(at)} }
	s := newServer(t).at(func(p *parts) {
		p.backups = func() ([]guest.Backup, error) {
			return []guest.Backup{backup("/later", time.Hour), backup("/earlier", -time.Hour)}, nil
		}
	})
	e, err := s.guests.Erase(t.Context(), string(guest.NewID(guest.SessionPrefix, now)))
	suite.Must(t, "Erase", err)
	suite.Equal(t, "backups", e.Backups, []guest.Backup{backup("/later", time.Hour)})
	failing := s.at(func(p *parts) {
		p.backups = func() ([]guest.Backup, error) { return nil, errors.New("broken") }
	})
	_, err = failing.guests.Erase(t.Context(), string(guest.NewID(guest.SessionPrefix, now)))
	suite.WantCode(t, "backups that cannot be read", err, errcode.Unavailable)
	_, err = s.guests.Erase(t.Context(), "gms_x")
	suite.WantCode(t, "no session", err, errcode.Invalid)
}

// TestErase: nothing is left of a session, neither in the database nor in hot state, and its
// handoff cannot be consumed.
func TestErase(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, other := s.begin(), s.begin()
	for _, b := range []*browser{b, other} {
		b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`)
		b.want(201, http.MethodPost, "/session/recently-viewed", `{"tenantId":"`+tenant+`","propertyId":"`+property+`"}`)
		b.want(201, http.MethodPost, "/wishlist", `{"tenantId":"`+tenant+`","propertyId":"`+property+`","source":"list"}`)
		b.want(200, http.MethodGet, "/wishlist", "", property) // fills the mirror
		b.want(201, http.MethodPost, "/handoff/"+tenant+"/"+property, stay)
	}
	session := func(b *browser) guest.ID { id, _, _ := strings.Cut(b.cookie, "."); return guest.ID(id) }
	search, err := s.guests.BeginSearch(t.Context(), session(b), "vienna", json.RawMessage(`{}`))
	suite.Must(t, "BeginSearch", err)

	e, err := s.guests.Erase(t.Context(), string(session(b)))
	suite.Must(t, "Erase", err)
	suite.Equal(t, "erased", e, guest.Erased{Wishes: 1, Handoffs: 1, Answers: 2, Kept: 2, Remains: []string{}, Backups: []guest.Backup{}})
	if _, err := s.guests.Search(t.Context(), session(b), search.ID); err == nil {
		t.Error("the search is left")
	}
	for path, want := range map[string]string{"/wishlist": `"items":[]`, "/session/recently-viewed": `"items":[]`, "/handoff": `"items":[]`, "/session": `"preferences":{}`} {
		b.want(200, http.MethodGet, path, "", want)
	}
	other.want(200, http.MethodGet, "/session/recently-viewed", "", property)
	other.want(200, http.MethodGet, "/wishlist", "", property)
	other.want(200, http.MethodGet, "/session", "", "de-AT")
}
