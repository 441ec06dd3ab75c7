package ext

import (
	"context"
	"net/url"

	"holdfast/internal/app/service"
)

// chooseTier completes tiers in forms; other kinds come from the service's lists.
func (s *Extensions) chooseTier(_ context.Context, kind, _ string, _ url.Values) (*service.Choices, error) {
	if kind != "tier" {
		return nil, nil
	}
	c := &service.Choices{}
	for _, tier := range s.opened.Tiers() {
		c.All = append(c.All, service.Option{Value: tier, Text: tier})
	}
	return c, nil
}
