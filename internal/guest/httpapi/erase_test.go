package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

// TestErase also checks that the session's handoff cannot be consumed.
func TestErase(t *testing.T) {
	t.Parallel()
	inProfiles(t, eraseSession)
}

func eraseSession(t *testing.T, s *server) {
	_, err := s.guests.Erase(t.Context(), "gms_x")
	suite.WantCode(t, "no session", err, errcode.Invalid)
	b, other := s.begin(), s.begin()
	for _, b := range []*browser{b, other} {
		b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`)
		b.want(201, http.MethodPost, "/session/recently-viewed", s.view(s.item()))
		b.want(201, http.MethodPost, "/wishlist", s.wish(s.item()))
		b.want(200, http.MethodGet, "/wishlist", "", s.item()) // fills the mirror
		b.want(201, http.MethodPost, s.mintPath(), s.mintBody())
	}
	session := func(b *browser) guest.ID { id, _, _ := strings.Cut(b.cookie, "."); return guest.ID(id) }
	search, err := s.guests.BeginSearch(t.Context(), session(b), "vienna", json.RawMessage(`{}`))
	suite.Must(t, "BeginSearch", err)

	e, err := s.guests.Erase(t.Context(), string(session(b)))
	suite.Must(t, "Erase", err)
	suite.Equal(t, "erased", e, guest.Erased{Wishes: 1, Handoffs: 1, Answers: 2, Kept: 2, Remains: []string{}})
	if _, err := s.guests.Search(t.Context(), session(b), search.ID); err == nil {
		t.Error("the search is left")
	}
	for path, want := range map[string]string{"/wishlist": `"items":[]`, "/session/recently-viewed": `"items":[]`, "/handoff": `"items":[]`, "/session": `"preferences":{}`} {
		b.want(200, http.MethodGet, path, "", want)
	}
	other.want(200, http.MethodGet, "/session/recently-viewed", "", s.item())
	other.want(200, http.MethodGet, "/wishlist", "", s.item())
	other.want(200, http.MethodGet, "/session", "", "de-AT")
}
