package ext

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
)

func (c *command) install() *cobra.Command {
	cmd := &cobra.Command{Use: "install", Short: "What is registered of installs: tier, quotas, access"}
	cmd.AddCommand(c.installSet(), c.installShow(), c.installRevoke())
	return cmd
}

// withInstall runs fn on the install that the flags name.
func (c *command) withInstall(o *owner, fn func(ctx context.Context, s *ext.Service, install ext.Owner) error) func(*cobra.Command, []string) error {
	return c.withService(func(ctx context.Context, s *ext.Service) error {
		install, err := o.parse(true)
		if err != nil {
			return err
		}
		return fn(ctx, s, install)
	})
}

func (c *command) installSet() *cobra.Command {
	var (
		o          owner
		r          ext.Registration
		until      string
		namespaces []string
		restore    bool
		given      func(flag string) bool
	)
	cmd := &cobra.Command{
		Use:   "set --tenant T --install I",
		Short: "Register an install, or replace what is registered",
		Long: "Register an install, or replace what is registered: what is not named is none. Quotas that are\n" +
			"named override those of the tier for 14 days at most. Namespaces that are named are all that\n" +
			"tokens may use, and with no more access than this.",
		Example: "  holdfast ext install set --tenant $TENANT --install $INSTALL --tier large\n" +
			"  holdfast ext install set --tenant $TENANT --install $INSTALL --bytes 1000000000 --namespace settings=rw --namespace log=r\n" +
			"  holdfast ext install set --tenant $TENANT --install $INSTALL --restore",
		Args: service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) (err error) {
			if err := checkQuotas(given, r.Overrides.Quota); err != nil {
				return err
			}
			if until != "" {
				end, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return errors.New("--until must be a time such as 2026-11-21T15:04:05Z")
				}
				r.Overrides.Until = ext.At(end)
			}
			if len(namespaces) > 0 {
				if r.Namespaces, err = parseAccess("--namespace", namespaces, true); err != nil {
					return err
				}
			}
			in, _, err := s.RegisterInstall(ctx, install, r, restore)
			if err != nil {
				return err
			}
			return c.printInstall(s, install, &in, c.now())
		}),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	f := cmd.Flags()
	given = f.Changed
	f.StringVar(&r.Tier, "tier", "", "a tier of extstorage.tiers")
	f.Int64Var(&r.Overrides.Bytes, "bytes", 0, "bytes that it may have")
	f.Int64Var(&r.Overrides.Namespaces, "namespaces", 0, "namespaces that it may have")
	f.Int64Var(&r.Overrides.Keys, "keys", 0, "keys that each of its namespaces may have")
	f.StringVar(&until, "until", "", "when bytes, namespaces and keys end (unset: in 14 days)")
	f.StringArrayVar(&namespaces, "namespace", nil, "NS=ACCESS: what tokens may do in a namespace at most; as often as wanted")
	f.BoolVar(&restore, "restore", false, "give access again to one that was revoked")
	return cmd
}

// checkQuotas refuses quotas below 1 of those that are given.
func checkQuotas(given func(flag string) bool, q ext.Quota) error {
	for _, quota := range []struct {
		flag string
		n    int64
	}{{"bytes", q.Bytes}, {"namespaces", q.Namespaces}, {"keys", q.Keys}} {
		if given(quota.flag) && quota.n < 1 {
			return fmt.Errorf("--%s %d: must be 1 or more; without --%s the install has the quota of its tier", quota.flag, quota.n, quota.flag)
		}
	}
	return nil
}

func (c *command) installShow() *cobra.Command {
	var o owner
	cmd := &cobra.Command{
		Use: "show --tenant T --install I", Short: "Show what is registered of an install", Args: service.Args(),
		RunE: c.withInstall(&o, c.showInstall),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	return cmd
}

func (c *command) installRevoke() *cobra.Command {
	var o owner
	cmd := &cobra.Command{
		Use:   "revoke --tenant T --install I",
		Short: "End all access of an install, registered or not; what it has stays",
		Long: "End all access of an install, registered or not, within a second on every running server. What\n" +
			"it has stays. To give access again: ext install set --restore.",
		Args: service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
			if err := s.RevokeInstall(ctx, install); err != nil {
				return err
			}
			return c.showInstall(ctx, s, install)
		}),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	return cmd
}

func (c *command) showInstall(ctx context.Context, s *ext.Service, install ext.Owner) error {
	in, err := s.ShowInstall(ctx, install)
	if err != nil {
		return err
	}
	return c.printInstall(s, install, &in, c.now())
}

func (c *command) printInstall(s *ext.Service, install ext.Owner, in *ext.Install, now ext.Moment) error {
	w := c.Table()
	line := func(what string, says any) { fmt.Fprintf(w, "%s\t%v\n", what, says) }
	line("tenant", install.Tenant)
	line("install", install.Install)
	if in.Tier != "" {
		line("tier", in.Tier)
	}
	q := in.Quota(s.QuotaOf(in.Tier), now)
	line("may have", fmt.Sprintf("%d bytes, %d namespaces, %d keys in each", q.Bytes, q.Namespaces, q.Keys))
	if in.Overrides.Until != 0 {
		line("overrides end", service.FormatMillis(int64(in.Overrides.Until)))
	}
	if in.Namespaces != nil {
		var all []string
		for _, ns := range slices.Sorted(maps.Keys(in.Namespaces)) {
			access, _ := in.Namespaces[ns].MarshalText() // has no error
			all = append(all, fmt.Sprintf("%s=%s", ns, access))
		}
		line("namespaces", strings.Join(all, " "))
	}
	line("revoked", service.FormatMillis(int64(in.RevokedAt)))
	line("created", service.FormatMillis(int64(in.CreatedAt)))
	line("updated", service.FormatMillis(int64(in.UpdatedAt)))
	return w.Flush()
}
