package ext

import (
	"context"
	"net/url"

	"holdfast/internal/app/service"
)

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
