package guest

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
)

func (c *command) tenant() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tenant", Short: "Suspend and reinstate tenants",
		Long: "Suspend and reinstate tenants, as received events do: the one with the latest time counts. No handoff to a\n" +
			"suspended tenant is minted or consumed. Running servers leave its properties out of searches within a minute.",
	}
	cmd.AddCommand(c.listTenants(), c.setTenant("suspend", "Suspend a tenant", true), c.setTenant("reinstate", "Reinstate a tenant", false))
	return cmd
}

func (c *command) setTenant(use, short string, suspended bool) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: use + " TENANT", Short: short, Args: service.Args("TENANT"), Example: "  holdfast guest tenant " + use + " 11111111-2222-4333-8444-555555555555",
		RunE: c.withStore(func(ctx context.Context, _ guest.Store, args []string) error {
			if err := c.state.service.SuspendTenant(ctx, args[0], suspended, reason); err != nil {
				return err
			}
			done := map[bool]string{true: "suspended", false: "reinstated"}[suspended]
			_, err := c.Printf("the tenant is %s\n", done)
			return err
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; tenant list prints it")
	return cmd
}

// tenantLine is a suspended tenant as JSON.
type tenantLine struct {
	Tenant string    `json:"tenantId"`
	Reason string    `json:"reason"`
	At     time.Time `json:"suspendedAt"`
	Event  string    `json:"event"`
}

func (c *command) listTenants() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the suspended tenants", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			all, err := st.SuspendedTenants(ctx)
			if err != nil {
				return err
			}
			return c.list(asJSON, []any{"TENANT", "SUSPENDED (UTC)", "REASON"}, func(add row) error {
				for _, s := range all {
					if err := add(tenantLine{s.Tenant, s.Reason, s.At, s.Event}, s.Tenant, s.At.Format(time.DateTime), strconv.Quote(s.Reason)); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each tenant")
	return cmd
}
