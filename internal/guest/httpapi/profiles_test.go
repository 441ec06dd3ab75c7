package httpapi_test

import (
	"fmt"
	"testing"

	"holdfast/internal/guest"
)

// inProfiles runs a test in a hotel search and in a shop, where users can sign in.
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

// item returns the ID of an item that exists.
func (s *server) item() string {
	if s.profile.IsHotel() {
		return property
	}
	return "sku-4711"
}

// nth returns the ID of the n-th of many items.
func (s *server) nth(n int) string {
	if s.profile.IsHotel() {
		return fmt.Sprintf("%08d%s", n, property[8:])
	}
	return fmt.Sprintf("sku-%08d", n)
}

// view and wish are the bodies of requests that put an item into a list.
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
