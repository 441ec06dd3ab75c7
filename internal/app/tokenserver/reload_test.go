package tokenserver

import (
	"fmt"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/tokenserver"
)

func TestReload(t *testing.T) {
	t.Parallel()
	s := New(noStorage{})
	opened := servicetest.Open(t, s.Service(), nil).Opened
	see := func(text string, see func(*tokenserver.Config) any) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string { return fmt.Sprint(see(s.opened.Config())) }}
	}
	servicetest.Reloads(t, opened, func() service.Service { return New(noStorage{}).Service() }, map[string]servicetest.Effect{
		"tokenserver.allow_new_users":            see("false", func(c *tokenserver.Config) any { return c.AllowNewUsers }),
		"tokenserver.label_from_profile":         see("true", func(c *tokenserver.Config) any { return c.LabelFromProfile }),
		"tokenserver.node_capacity_release_rate": see("0.7", func(c *tokenserver.Config) any { return c.NodeCapacityReleaseRate }),
		"tokenserver.replaced_user_grace":        see("77h0m0s", func(c *tokenserver.Config) any { return c.ReplacedUserGrace }),
		"tokenserver.database_request_timeout":   see("7s", func(c *tokenserver.Config) any { return c.DatabaseRequestTimeout }),
	})
	if c := s.opened.Config(); c.NodeType == "" {
		t.Error("the type of nodes is lost")
	}
}
