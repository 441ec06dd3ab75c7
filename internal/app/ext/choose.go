package ext

import (
	"context"
	"net/url"

	"holdfast/internal/app/service"
)

// chooseTier returns the tiers of the configuration.
func (s *Extensions) chooseTier(_ context.Context, kind, _ string, _ url.Values) ([]service.Option, error) {
	if kind != "tier" {
		return nil, nil
	}
	all := []service.Option{}
	for _, tier := range s.opened.Tiers() {
		all = append(all, service.Option{Value: tier, Text: tier})
	}
	return all, nil
}
