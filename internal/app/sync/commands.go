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
	cmd := &cobra.Command{Use: "sync", Short: "Firefox Sync: tokens, users, nodes and the limits of a commit"}
	cmd.AddCommand(s.token(sh), s.budget(sh))
	return []*cobra.Command{cmd}
}

// Token is what `holdfast sync token` prints.
type Token struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	UID      int64  `json:"uid"`
	Endpoint string `json:"api_endpoint"`
	Duration int64  `json:"duration"` // seconds
}

func (s *Storage) token(sh *service.Shell) *cobra.Command {
	var c tokenlib.Claims
	var duration int64
	cmd := &cobra.Command{
		Use:   "token --uid N",
		Short: "Make a storage token, as the tokenserver would",
		Long: "Make a storage token with the server's master secret and print it as JSON: id and key sign\n" +
			"requests by Hawk, api_endpoint is the user's storage. No account is needed or made.",
		Example: "  holdfast sync token --uid 1\n" +
			"  holdfast sync token --uid 1 --fxa-uid 0123abcd --fxa-kid 0000000001234-qqo --duration 300",
		Args: service.Args(),
		RunE: sh.Run(func(context.Context, []string) error {
			made, err := s.mint(c, duration)
			if err != nil {
				return err
			}
			return sh.PrintJSON(made)
		}),
	}
	f := cmd.Flags()
	f.Int64Var(&c.UID, "uid", 0, "the storage user")
	f.StringVar(&c.FxAUID, "fxa-uid", "", "the account's id at the accounts server")
	f.StringVar(&c.FxAKID, "fxa-kid", "", "the id of the account's keys")
	f.Int64Var(&duration, "duration", 3600, "seconds until the token expires")
	_ = cmd.MarkFlagRequired("uid")
	return cmd
}

// mostSeconds is how long a token may be good, ten years.
const mostSeconds = 10 * 365 * 24 * 3600

// mint makes a token as the tokenserver does, for any user.
func (s *Storage) mint(c tokenlib.Claims, duration int64) (t Token, err error) {
	if c.UID <= 0 {
		return t, fault.New(fault.Invalid, "--uid must be above 0")
	}
	if duration < 1 || duration > mostSeconds {
		return t, fault.Newf(fault.Invalid, "--duration must be from 1 to %d seconds", mostSeconds)
	}
	if s.opened == nil {
		return t, fault.New(fault.Invalid, "sync storage is disabled in this configuration: set syncstorage.enabled")
	}
	d := s.deps
	c.Node, c.Origin = d.Server.Address(d.Server.Listen), tokenlib.Origin
	c.Expires = d.Clock().Add(time.Duration(duration) * time.Second)
	t = Token{UID: c.UID, Endpoint: fmt.Sprintf("%s/1.5/%d", c.Node, c.UID), Duration: duration}
	t.ID, t.Key, err = s.keyring.Mint(c)
	return t, err
}
