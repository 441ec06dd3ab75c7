package ext

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
)

func (c *command) install() *cobra.Command {
	cmd := &cobra.Command{Use: "install", Short: "Manage installs: tier, quotas and access"}
	cmd.AddCommand(c.installSet(), c.installShow(), c.installList(), c.installRevoke(), c.installDelete())
	return cmd
}

// withTenant runs fn on the tenant that the flag names.
func (c *command) withTenant(o *owner, fn func(ctx context.Context, s *ext.Service, tenant ext.TenantID) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		parsed, err := o.parse(false)
		if err != nil {
			return err
		}
		return c.withService(func(ctx context.Context, s *ext.Service) error { return fn(ctx, s, parsed.Tenant) })(cmd, args)
	}
}

// withInstall runs fn on the install that the flags name.
func (c *command) withInstall(o *owner, fn func(ctx context.Context, s *ext.Service, install ext.Owner) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		install, err := o.parse(true)
		if err != nil {
			return err
		}
		return c.withService(func(ctx context.Context, s *ext.Service) error { return fn(ctx, s, install) })(cmd, args)
	}
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
		Short: "Register an install, or replace its registration",
		Long: "Register an install, or replace its registration: values that are not given are removed. Quotas override\n" +
			"those of the tier, for at most 14 days. With --namespace, tokens can use the named namespaces\n" +
			"only, with at most that access.",
		Example: "  holdfast ext install set --tenant $TENANT --install $INSTALL --tier large\n" +
			"  holdfast ext install set --tenant $TENANT --install $INSTALL --bytes 1000000000 --namespace settings=rw --namespace log=r\n" +
			"  holdfast ext install set --tenant $TENANT --install $INSTALL --restore",
		Args: service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) (err error) {
			if err := checkQuotas(given, r.Overrides.Quota); err != nil {
				return err
			}
			if until != "" {
				end, err := service.ParseTime("--until", until)
				if err != nil {
					return err
				}
				r.Overrides.Until = ext.At(end)
			}
			if len(namespaces) > 0 {
				if r.Namespaces, err = parseAccess("--namespace", namespaces); err != nil {
					return err
				}
			}
			in, _, err := s.RegisterInstall(ctx, install, r, restore)
			switch {
			case errors.Is(err, ext.ErrInstallDeleted) && restore:
				return errors.New("the deletion of the install or its tenant has not finished, or the tenant was deleted: finish it with ext install delete or ext tenant delete; restore a tenant with ext tenant restore")
			case errors.Is(err, ext.ErrInstallDeleted):
				return errors.New("the install was deleted: --restore allows its ID again, without its old data")
			}
			if err != nil {
				return named(err)
			}
			return c.printInstall(s, install, &in, c.now())
		}),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	f := cmd.Flags()
	given = f.Changed
	f.StringVar(&r.Tier, "tier", "", "`TIER` of the install, from extstorage.tiers")
	f.Int64Var(&r.Overrides.Bytes, "bytes", 0, "quota: `N` bytes")
	f.Int64Var(&r.Overrides.Namespaces, "namespaces", 0, "quota: `N` namespaces")
	f.Int64Var(&r.Overrides.Keys, "keys", 0, "quota: `N` keys in each namespace")
	f.StringVar(&until, "until", "", "`TIME` when --bytes, --namespaces and --keys end (default: in 14 days)")
	f.StringArrayVar(&namespaces, "namespace", nil, "maximum access of tokens to a namespace, as `NS=ACCESS`, such as log=r; repeatable")
	f.BoolVar(&restore, "restore", false, "restore access after ext install revoke or ext install delete")
	return cmd
}

// checkQuotas refuses given quotas below 1.
func checkQuotas(given func(flag string) bool, q ext.Quota) error {
	for _, quota := range []struct {
		flag string
		n    int64
	}{{"bytes", q.Bytes}, {"namespaces", q.Namespaces}, {"keys", q.Keys}} {
		if given(quota.flag) && quota.n < 1 {
			return service.Usagef("--%s: must be at least 1; without --%s the install has the quota of its tier", quota.flag, quota.flag)
		}
	}
	return nil
}

func (c *command) installShow() *cobra.Command {
	var o owner
	cmd := &cobra.Command{
		Use: "show --tenant T --install I", Short: "Show the registration of an install", Args: service.Args(),
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
		Short: "Revoke all access of an install; its data is kept",
		Long: "Revoke all access of an install, registered or not, on every running server within a second. Its\n" +
			"data is kept. To restore access: ext install set --restore. To delete the data:\n" +
			"ext install delete.",
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
	line := func(what string, says any) { w.Printf("%s\t%v\n", what, says) }
	line("tenant", install.Tenant)
	line("install", install.Install)
	if in.Tier != "" {
		line("tier", in.Tier)
	}
	q := in.Quota(s.QuotaOf(in.Tier), now)
	line("quota", fmt.Sprintf("%s, %s, %s in each", service.Count(q.Bytes, "byte"), service.Count(q.Namespaces, "namespace"), service.Count(q.Keys, "key")))
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
	if d := &in.Deletion; d.StartedAt != 0 {
		line("deletion began", service.FormatMillis(int64(d.StartedAt)))
		line("deleted", service.FormatMillis(int64(d.FinishedAt)))
	}
	line("revoked", service.FormatMillis(int64(in.RevokedAt)))
	line("created", service.FormatMillis(int64(in.CreatedAt)))
	line("updated", service.FormatMillis(int64(in.UpdatedAt)))
	return w.Flush()
}
