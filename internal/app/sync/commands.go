package sync

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/fault"
)

func (s *Storage) commands(sh *service.Shell) []*cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "Manage Firefox Sync: users, storage nodes and tokens"}
	cmd.AddCommand(s.token(sh), s.budget(sh))
	return []*cobra.Command{cmd}
}

// Token is the output of `holdfast sync token`.
type Token struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	UID      int64  `json:"uid"`
	Endpoint string `json:"api_endpoint"`
	Duration int64  `json:"duration"` // seconds
}

func (s *Storage) token(sh *service.Shell) *cobra.Command {
	var c tokenlib.Claims
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token --uid UID",
		Short: "Create a storage token, as the tokenserver does",
		Long: "Create a storage token, signed with the server's master secret, and print it as JSON: id and key\n" +
			"sign requests with Hawk, api_endpoint is the URL of the user's storage. No account is needed or\n" +
			"created.",
		Example: "  holdfast sync token --uid 1\n" +
			"  holdfast sync token --uid 1 --fxa-uid 0123abcd --fxa-kid 0000000001234-qqo --ttl 5m",
		Args: service.Args(),
		PreRunE: func(*cobra.Command, []string) error {
			if c.UID <= 0 {
				return service.Usagef("--uid: must be at least 1")
			}
			if ttl < time.Second || ttl > maxTTL {
				return service.Usagef("--ttl: must be from 1s to %.0fh", maxTTL.Hours())
			}
			return nil
		},
		RunE: sh.Run(func(context.Context, []string) error {
			made, err := s.mint(c, ttl)
			if err != nil {
				return err
			}
			return sh.PrintJSON(made)
		}),
	}
	f := cmd.Flags()
	f.Int64Var(&c.UID, "uid", 0, "`UID` of the storage user")
	f.StringVar(&c.FxAUID, "fxa-uid", "", "account `ID` at the accounts server")
	f.StringVar(&c.FxAKID, "fxa-kid", "", "`ID` of the account's keys")
	f.DurationVar(&ttl, "ttl", time.Hour, "how long the token is valid")
	_ = cmd.MarkFlagRequired("uid")
	return cmd
}

// maxTTL is the maximum lifetime of a token: ten years.
const maxTTL = 10 * 365 * 24 * time.Hour

// mint creates a token for any user, as the tokenserver does.
func (s *Storage) mint(c tokenlib.Claims, ttl time.Duration) (t Token, err error) {
	if s.opened == nil {
		return t, fault.New(fault.Invalid, "storage of Firefox Sync is disabled: set syncstorage.enabled = true")
	}
	d := s.deps
	c.Node, c.Origin = d.Server.Address(d.Server.Listen), tokenlib.Origin
	c.Expires = d.Clock().Add(ttl.Truncate(time.Second))
	t = Token{UID: c.UID, Endpoint: fmt.Sprintf("%s/1.5/%d", c.Node, c.UID), Duration: int64(ttl / time.Second)}
	t.ID, t.Key, err = s.keyring.Mint(c)
	return t, err
}
