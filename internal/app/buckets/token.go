package buckets

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/conf"
)

const (
	maxTTL = 90 * 24 * time.Hour // of a token
	leeway = 30 * time.Second    // between the clocks of servers

	keySecret = Name + ".key_secret"
)

// tokenKeys returns the keys of tokens for the native API. They are derived from the
// secrets that encrypt access keys, of which the first one signs.
func tokenKeys(secrets []string) (*bearer.Keyring, error) {
	keys, err := bearer.DerivedKeys(secrets, "buckets")
	if err != nil {
		return nil, err
	}
	return bearer.NewKeyring(bearer.Options{Keys: keys, Audience: httpapi.Audience, Leeway: leeway, MaxLifetime: maxTTL})
}

func (c *command) token() *cobra.Command {
	var (
		ttl time.Duration
		gc  bool
	)
	cmd := &cobra.Command{
		Use: "token ACCOUNT", Short: "Create a token of an account for the native API", Args: service.Args("ACCOUNT"),
		Long: "Create a token for the native API under /buckets/v1 and print it. It allows everything in the buckets of the\n" +
			"account. With --gc it also allows to claim and free deleted objects of all accounts. A token cannot be\n" +
			"revoked by itself: it is valid until it expires or until the account is deleted.",
		Example: "  holdfast buckets token main --ttl 24h",
		RunE: c.run(func(ctx context.Context, st store, args []string) error {
			if ttl < time.Second || ttl > maxTTL {
				return service.Usagef("--ttl: must be from 1s to %s", conf.FormatDuration(maxTTL))
			}
			if err := c.state.needKeySecret(); err != nil {
				return err
			}
			a, err := st.Account(ctx, args[0])
			if err != nil {
				return err
			}
			token, err := c.state.tokens.Sign(httpapi.Claims(a, gc), c.state.deps.Clock(), ttl)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.Stdout, token)
			return err
		}),
	}
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token is valid")
	cmd.Flags().BoolVar(&gc, "gc", false, "let it claim and free deleted objects of all accounts")
	return cmd
}
