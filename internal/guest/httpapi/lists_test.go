package httpapi_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/memory"
)

func TestRecentlyViewed(t *testing.T) {
	t.Parallel()
	inProfiles(t, recentlyViewed)
}

func recentlyViewed(t *testing.T, s *server) {
	b := s.begin()
	b.want(200, http.MethodGet, "/session/recently-viewed", "", `"items":[]`)
	for _, n := range []int{1, 2, 1} {
		b.want(201, http.MethodPost, "/session/recently-viewed", s.view(s.nth(n)), "viewedAt")
	}
	a := b.send(http.MethodGet, "/session/recently-viewed", "")
	if first, second := strings.Index(a.body, s.nth(1)), strings.Index(a.body, s.nth(2)); first < 0 || second < first || strings.Count(a.body, s.profile.Member()) != 2 {
		t.Errorf("the list is %s", a.body)
	}
	for _, body := range []string{`{}`, `{"tenantId":"x","propertyId":"y"}`, `{"tenantId":"` + tenant + `"}`, `{"more":1}`, `[]`} {
		b.want(422, http.MethodPost, "/session/recently-viewed", body)
	}
	other := s.begin()
	other.want(200, http.MethodGet, "/session/recently-viewed", "", `"items":[]`)
	b.want(204, http.MethodPost, "/session/clear", "")
	b.want(200, http.MethodGet, "/session/recently-viewed", "", `"items":[]`)
	(&browser{server: s}).want(401, http.MethodGet, "/session/recently-viewed", "")
}

var rateLimit = regexp.MustCompile(`^"wishlist";r=(\d+);t=\d+$`)

func TestRateLimits(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	s := newServer(t).at(func(p *parts) {
		p.hot = hot
		p.limits = guest.Limits{
			guest.ClassWishlist:  {Events: 60, Per: time.Hour, Burst: 3},
			guest.ClassBootstrap: {Events: 20, Per: time.Hour, Burst: 4},
		}
	})
	b := s.begin()
	for left := 2; left >= 0; left-- {
		a := b.send(http.MethodGet, "/wishlist", "")
		b.check(a, 200)
		if got := rateLimit.FindStringSubmatch(a.header.Get("RateLimit")); got == nil || got[1] != fmt.Sprint(left) || a.header.Get("RateLimit-Policy") != `"wishlist";q=60;w=3600` {
			t.Errorf("with %d left: %v", left, a.header)
		}
	}
	a := b.send(http.MethodGet, "/wishlist", "")
	b.check(a, 429)
	if a.header.Get("Retry-After") != "60" || a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, `"code":"rate-limited"`) || !strings.Contains(a.body, `"retriable":true`) {
		t.Errorf("refused: %v %s", a.header, a.body)
	}
	b.want(200, http.MethodGet, "/session", "") // a class without a limit
	s.begin().want(200, http.MethodGet, "/wishlist", "")
	for range 2 {
		s.begin()
	}
	(&browser{server: s}).want(429, http.MethodPost, "/session", "", "rate-limited")
}
