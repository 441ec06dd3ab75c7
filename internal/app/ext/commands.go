package ext

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/jsonschema"
)

// command is the state that the commands share.
type command struct {
	*service.Shell
	state *Extensions
}

func (s *Extensions) commands(sh *service.Shell) []*cobra.Command {
	c := &command{sh, s}
	cmd := &cobra.Command{Use: "ext", Short: "Manage extension storage: tokens, installs, schemas, usage, exports and imports"}
	cmd.AddCommand(c.token(), c.install(), c.tenant(), c.schema(), c.usage(), c.audit(), c.export(), c.importInto())
	return []*cobra.Command{cmd, {
		// The server starts this command to try a schema. It is not for users.
		Use: trialCommandName, Hidden: true, Args: service.Args(),
		RunE: func(*cobra.Command, []string) error { return jsonschema.Main(sh.Stdin, sh.Stdout) },
	}}
}

var errDisabled = errors.New("extension storage is disabled, or no server has been started on this data yet")

// withArgs runs fn on the open service, with the arguments of the command.
func (c *command) withArgs(fn func(ctx context.Context, s *ext.Service, args []string) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, args []string) error {
		if c.state.opened == nil {
			return errDisabled
		}
		return fn(ctx, c.state.opened, args)
	})
}

// withService runs fn on the open service.
func (c *command) withService(fn func(ctx context.Context, s *ext.Service) error) func(*cobra.Command, []string) error {
	return c.withArgs(func(ctx context.Context, s *ext.Service, _ []string) error { return fn(ctx, s) })
}

// now returns the current time of the open service's clock.
func (c *command) now() ext.Moment { return ext.At(c.state.deps.Clock()) }

// owner has the flags --tenant and --install.
type owner struct{ tenant, install string }

func (o *owner) flags(cmd *cobra.Command) {
	o.optional(cmd)
	_ = cmd.MarkFlagRequired("tenant")
}

func (o *owner) tenantFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "`UUID` of the tenant")
	_ = cmd.MarkFlagRequired("tenant")
}

func (o *owner) optional(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "`UUID` of the tenant")
	cmd.Flags().StringVar(&o.install, "install", "", "`UUID` of the install")
}

// parse parses the flags. --install may be omitted unless needInstall is set.
func (o *owner) parse(needInstall bool) (parsed ext.Owner, err error) {
	if parsed.Tenant, err = ext.ParseTenantID(o.tenant); err != nil {
		return parsed, service.Usagef("--tenant: %v", err)
	}
	if !needInstall && o.install == "" {
		return parsed, nil
	}
	if parsed.Install, err = ext.ParseInstallID(o.install); err != nil {
		return parsed, service.Usagef("--install: %v", err)
	}
	return parsed, nil
}

// named converts an error about a field of a request to one about the flag of that name.
func named(err error) error {
	if e, ok := errors.AsType[*ext.ValidationError](err); ok {
		return service.Usagef("--%s: %s", path.Base(e.Pointer), e.Reason)
	}
	return err
}

// parseAccess parses words such as settings=rw. With mayBeNone it accepts settings=,
// which means no access.
func parseAccess(flag string, words []string, mayBeNone bool) (map[ext.Namespace]ext.Access, error) {
	access := map[ext.Namespace]ext.Access{}
	for _, word := range words {
		name, letters, given := strings.Cut(word, "=")
		if name != "" && letters == "" && !(given && mayBeNone) {
			return nil, service.Usagef("%s %s: access is missing: expected %s=r, %s=w or %s=rw", flag, word, name, name, name)
		}
		ns, err := ext.ParseNamespace(name)
		if err != nil {
			return nil, service.Usagef("%s %s: %v", flag, word, err)
		}
		var a ext.Access
		if err := a.UnmarshalText([]byte(letters)); err != nil {
			return nil, service.Usagef("%s %s: access %v", flag, word, err)
		}
		access[ns] = a
	}
	return access, nil
}

func (c *command) token() *cobra.Command {
	var (
		o          owner
		r          tokenRequest
		namespaces []string
		asJSON     bool
	)
	cmd := &cobra.Command{
		Use:   "token --tenant T (--install I --namespace NS=ACCESS… | --service NAME)",
		Short: "Create a token for an install, or for a service that acts for installs",
		Long: "Create a token, signed with the server's own key, and print it. It is valid for one install and the\n" +
			"named namespaces, with access r (read), w (write) or rw. With --service it is valid on the internal\n" +
			"listener only, for every install of the tenant; with --schemas it may also write schemas.",
		Example: "  holdfast ext token --tenant $TENANT --install $INSTALL --namespace settings=rw --namespace log=r\n" +
			"  holdfast ext token --tenant $TENANT --service runner --ttl 720h",
		Args: service.Args(),
		RunE: c.withService(func(context.Context, *ext.Service) (err error) {
			if r.Owner, err = o.parse(r.Service == ""); err != nil {
				return err
			}
			if r.Namespaces, err = parseAccess("--namespace", namespaces, false); err != nil {
				return err
			}
			if r.Schemas && r.Service == "" {
				return service.Usagef("--schemas needs --service: an install's token may write schemas where it has rw")
			}
			made, err := c.state.makeToken(r)
			if err != nil {
				return err
			}
			if asJSON {
				return c.PrintJSON(made)
			}
			_, err = fmt.Fprintln(c.Stdout, made.Token)
			return err
		}),
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&namespaces, "namespace", nil, "access to a namespace, as `NS=ACCESS`, such as settings=rw; repeatable")
	f.StringVar(&r.Service, "service", "", "`NAME` of a service: a-z, 0-9 and -")
	f.BoolVar(&r.Schemas, "schemas", false, "let the service register and activate schemas")
	f.DurationVar(&r.TTL, "ttl", time.Hour, "how long the token is valid")
	f.BoolVar(&asJSON, "json", false, "print JSON with the token, its ID, expiry and URL")
	cmd.MarkFlagsOneRequired("install", "service")
	cmd.MarkFlagsMutuallyExclusive("install", "service")
	cmd.MarkFlagsRequiredTogether("install", "namespace")
	cmd.AddCommand(c.revokeToken(), c.revokedTokens())
	return cmd
}

// holderFlags adds the flags of a command about revoked tokens.
func (o *owner) holderFlags(cmd *cobra.Command, services *bool) {
	o.optional(cmd)
	cmd.Flags().BoolVar(services, "services", false, "tokens of the tenant's services instead of an install")
	cmd.MarkFlagsMutuallyExclusive("install", "services")
}

// holder returns the owner of the tokens that the flags of holderFlags name.
func (o *owner) holder(services bool) (ext.Owner, error) {
	switch {
	case o.tenant == "":
		return ext.Owner{}, service.Usagef("--tenant is required")
	case !services && o.install == "":
		return ext.Owner{}, service.Usagef("--install or --services is required")
	case !services:
		return o.parse(true)
	}
	who, err := o.parse(false)
	return ext.Services(who.Tenant), err
}

func (c *command) revokeToken() *cobra.Command {
	var (
		o        owner
		r        revocation
		services bool
		until    string
	)
	cmd := &cobra.Command{
		Use:   "revoke (TOKEN | --tenant T (--install I | --services) --id ID)",
		Short: "Revoke one token",
		Long: "Revoke one token on every running server within a second: TOKEN, or the token with the ID (jti) that\n" +
			"an audit event or ext token --json shows. The revocation is kept until the token has expired; without\n" +
			"--expires, until every token of today has expired.",
		Example: "  holdfast ext token revoke $TOKEN\n" +
			"  holdfast ext token revoke --tenant $TENANT --install $INSTALL --id $ID",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return service.Args("TOKEN")(cmd, args)
		},
	}
	cmd.RunE = c.withArgs(func(ctx context.Context, s *ext.Service, args []string) (err error) {
		switch {
		case len(args) == 1 && slices.ContainsFunc([]string{"tenant", "install", "services", "id", "expires"}, cmd.Flags().Changed):
			return service.Usagef("TOKEN cannot be used together with flags: it contains its tenant, ID and expiry")
		case len(args) == 1:
			err = r.read(c.state, args[0])
		case r.id == "":
			return service.Usagef("TOKEN or --id is required")
		default:
			r.owner, err = o.holder(services)
		}
		if err != nil {
			return err
		}
		if until != "" {
			end, err := service.ParseTime("--expires", until)
			if err != nil {
				return err
			}
			r.expires = ext.At(end)
		}
		t, err := s.RevokeToken(ctx, r.owner, r.id, r.expires)
		if err != nil {
			return named(err)
		}
		_, err = c.Printf("revoked token %s; it expires at %s\n", t.ID, service.FormatMillis(int64(t.ExpiresAt)))
		return err
	})
	o.holderFlags(cmd, &services)
	cmd.Flags().StringVar(&r.id, "id", "", "`ID` of the token (jti)")
	cmd.Flags().StringVar(&until, "expires", "", "`TIME` when the token expires, such as 2026-11-21T15:04:05Z")
	return cmd
}

func (c *command) revokedTokens() *cobra.Command {
	var (
		o        owner
		services bool
	)
	cmd := &cobra.Command{
		Use: "revoked --tenant T (--install I | --services)", Short: "List revoked tokens that have not expired", Args: service.Args(),
		RunE: c.withService(func(ctx context.Context, s *ext.Service) error {
			who, err := o.holder(services)
			if err != nil {
				return err
			}
			all, err := s.RevokedTokens(ctx, who)
			if err != nil {
				return err
			}
			w := c.Table()
			w.Printf("ID\tREVOKED\tEXPIRES\n")
			for _, t := range all {
				w.Printf("%s\t%s\t%s\n", t.ID, service.FormatMillis(int64(t.RevokedAt)), service.FormatMillis(int64(t.ExpiresAt)))
			}
			return w.Flush()
		}),
	}
	o.holderFlags(cmd, &services)
	return cmd
}
