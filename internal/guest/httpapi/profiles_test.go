package httpapi_test

import (
	"fmt"
	"testing"

	"holdfast/internal/guest"
)

// inProfiles runs a test in a hotel search and in a shop, both with sign-in.
func inProfiles(t *testing.T, test func(*testing.T, *server)) {
	t.Helper()
	for name, profile := range map[string]*guest.Profile{"hotel": hotel(), "shop": shop()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newParts(t)
			p.profile, p.users = profile, userKeys(t, userSecret)
			test(t, serve(t, p))
		})
	}
}

func (s *server) item() string {
	if s.profile.IsHotel() {
		return property
	}
	return "sku-4711"
}

func (s *server) nth(n int) string {
	if s.profile.IsHotel() {
		return fmt.Sprintf("%08d%s", n, property[8:])
	}
	return fmt.Sprintf("sku-%08d", n)
}

// view and wish return request bodies that put an item into a list.
func (s *server) view(item string) string {
	return fmt.Sprintf(`{"tenantId":%q,%q:%q}`, tenant, s.profile.Member(), item)
}

func (s *server) wish(item string) string {
	return fmt.Sprintf(`{"tenantId":%q,%q:%q,"source":"list"}`, tenant, s.profile.Member(), item)
}

func (s *server) mintPath() string { return "/handoff/" + tenant + "/" + s.item() }

func (s *server) mintBody() string {
	if s.profile.IsHotel() {
		return stay
	}
	return `{"payload":{"items":[{"itemId":"sku-4711","quantity":2}]}}`
}
