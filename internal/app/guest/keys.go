package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/guest/httpapi"
)

// command is what the commands share.
type command struct {
	*service.Shell
	state *Guest
}

func (s *Guest) commands(sh *service.Shell) []*cobra.Command {
	c := &command{sh, s}
	cmd := &cobra.Command{Use: "guest", Short: "Manage guests: handoff keys, service tokens, tenants, events, old data, sessions"}
	cmd.AddCommand(c.token())
	return []*cobra.Command{cmd}
}

var errDisabled = errors.New("guest is disabled, or no server has been started on this data yet")

// ready returns the handoffs of the open service, if this process can use their keys.
func (s *Guest) ready() (*handoffParts, error) {
	if s.opened == nil || s.opened.handoffs == nil {
		return nil, errDisabled
	}
	return s.opened.handoffs, s.opened.handoffs.isSaved()
}

// parts returns the open parts of the service.
func (s *Guest) parts() (*parts, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}

// run runs fn on the open service.
func (c *command) run(fn func(ctx context.Context, h *handoffParts, args []string) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, args []string) error {
		h, err := c.state.ready()
		if err != nil {
			return err
		}
		return fn(ctx, h, args)
	})
}

func (c *command) token() *cobra.Command {
	var (
		ttl           time.Duration
		named, tenant string
		events        bool
	)
	cmd := &cobra.Command{
		Use: "token --service NAME", Short: "Create a token of a service for the internal listener", Args: service.Args(),
		Long: "Create a token with which a booking site verifies and consumes handoffs on the internal listener, and print\n" +
			"it. With --tenant it is limited to the handoffs to this tenant. With --events it allows only to push events,\n" +
			"which suspend and reinstate tenants. A token cannot be revoked by itself: it is valid until it expires, or\n" +
			"until the secret guest.handoff_secret is replaced.",
		Example: "  holdfast guest token --service booking --ttl 720h",
		RunE: c.run(func(_ context.Context, h *handoffParts, _ []string) error {
			if ttl < time.Second || ttl > maxTTL {
				return service.Usagef("--ttl: must be from 1s to %s", conf.FormatDuration(maxTTL))
			}
			claims, err := httpapi.ServiceClaims(named, tenant)
			if events {
				claims, err = httpapi.EventClaims(named)
			}
			if err != nil {
				return service.Usagef("%s", errcode.Message(err))
			}
			token, err := h.tokens.Sign(claims, h.deps.Clock(), ttl)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.Stdout, token)
			return err
		}),
	}
	cmd.Flags().StringVar(&named, "service", "", "`NAME` of the service, 1 to 64 of a-z, 0-9 and -")
	_ = cmd.MarkFlagRequired("service")
	cmd.Flags().StringVar(&tenant, "tenant", "", "`UUID` of the only tenant whose handoffs it may consume")
	cmd.Flags().BoolVar(&events, "events", false, "for a service that pushes events about tenants to /internal/events")
	cmd.MarkFlagsMutuallyExclusive("tenant", "events")
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token is valid")
	return cmd
}
