package ext

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/jsonschema"
)

// command is what the commands share.
type command struct {
	*service.Shell
	state *Extensions
}

func (s *Extensions) commands(sh *service.Shell) []*cobra.Command {
	c := &command{sh, s}
	cmd := &cobra.Command{Use: "ext", Short: "Extension storage: tokens, installs, usage, exports and imports"}
	cmd.AddCommand(c.token(), c.install(), c.usage(), c.audit(), c.export(), c.importInto())
	return []*cobra.Command{cmd, {
		// Not for people: the server starts it to try a schema.
		Use: trialCommandName, Hidden: true, Args: service.Args(),
		RunE: func(*cobra.Command, []string) error { return jsonschema.Main(sh.Stdin, sh.Stdout) },
	}}
}

var errDisabled = errors.New("extension storage is disabled in this configuration, or no server with it has been started on this data yet")

// withService runs fn on the open service.
func (c *command) withService(fn func(ctx context.Context, s *ext.Service) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, _ []string) error {
		if c.state.opened == nil {
			return errDisabled
		}
		return fn(ctx, c.state.opened)
	})
}

// now is the present moment of the open service.
func (c *command) now() ext.Moment { return ext.At(c.state.deps.Clock()) }

// owner is --tenant and --install.
type owner struct{ tenant, install string }

func (o *owner) flags(cmd *cobra.Command) {
	o.optional(cmd)
	_ = cmd.MarkFlagRequired("tenant")
}

func (o *owner) optional(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "the tenant, a UUID")
	cmd.Flags().StringVar(&o.install, "install", "", "the install, a UUID")
}

// parse reads the flags; an install may be left out where it is not needed.
func (o *owner) parse(needInstall bool) (parsed ext.Owner, err error) {
	if parsed.Tenant, err = ext.ParseTenantID(o.tenant); err != nil {
		return parsed, fmt.Errorf("--tenant %w", err)
	}
	if !needInstall && o.install == "" {
		return parsed, nil
	}
	if parsed.Install, err = ext.ParseInstallID(o.install); err != nil {
		return parsed, fmt.Errorf("--install %w", err)
	}
	return parsed, nil
}

// parseAccess reads settings=rw, and settings= where mayBeNone.
func parseAccess(flag string, words []string, mayBeNone bool) (map[ext.Namespace]ext.Access, error) {
	access := map[ext.Namespace]ext.Access{}
	for _, word := range words {
		name, letters, given := strings.Cut(word, "=")
		if name != "" && letters == "" && !(given && mayBeNone) {
			return nil, fmt.Errorf("%s %s: the access is missing: use %s=r, %s=w or %s=rw", flag, word, name, name, name)
		}
		ns, err := ext.ParseNamespace(name)
		if err != nil {
			return nil, fmt.Errorf("%s: the namespace %w", flag, err)
		}
		var a ext.Access
		if err := a.UnmarshalText([]byte(letters)); err != nil {
			return nil, fmt.Errorf("%s %s=: the access %w", flag, name, err)
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
		Short: "Make a token of an install, or of a service that speaks for installs",
		Long: "Make a token, signed by the server's own key, and print it. It is good for an install and the\n" +
			"namespaces that are named; the access is r, w or rw. With --service it is good on the internal\n" +
			"listener only, for every install of the tenant.",
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
	f.StringArrayVar(&namespaces, "namespace", nil, "NS=ACCESS: what the token may do in a namespace; as often as wanted")
	f.StringVar(&r.Service, "service", "", "the name of a service, of a-z, 0-9 and -")
	f.DurationVar(&r.TTL, "ttl", time.Hour, "how long the token is good for")
	f.BoolVar(&asJSON, "json", false, "print when it ends and where it is good, too")
	cmd.MarkFlagsOneRequired("install", "service")
	cmd.MarkFlagsMutuallyExclusive("install", "service")
	cmd.MarkFlagsRequiredTogether("install", "namespace")
	cmd.AddCommand(c.revokeToken(), c.revokedTokens())
	return cmd
}

// holderFlags are --tenant, --install and --services of a command about revoked tokens.
func (o *owner) holderFlags(cmd *cobra.Command, services *bool) {
	o.optional(cmd)
	cmd.Flags().BoolVar(services, "services", false, "of the services of the tenant, and not of an install")
	cmd.MarkFlagsMutuallyExclusive("install", "services")
}

// holder is whose tokens holderFlags name.
func (o *owner) holder(services bool) (ext.Owner, error) {
	if !services {
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
		Use:   "revoke TOKEN | revoke --tenant T (--install I | --services) --id ID",
		Short: "End the access of one token",
		Long: "End the access of one token within a second on every running server: of the token itself, or of\n" +
			"the one whose ID (its jti) an audit event or ext token --json has. The entry is removed when the\n" +
			"token has expired: without --expires when any token of today has.",
		Example: "  holdfast ext token revoke $TOKEN\n" +
			"  holdfast ext token revoke --tenant $TENANT --install $INSTALL --id $ID",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = c.Run(func(ctx context.Context, args []string) (err error) {
		s := c.state.opened
		switch {
		case s == nil:
			return errDisabled
		case len(args) == 1 && cmd.Flags().NFlag() > 0:
			return errors.New("TOKEN says its tenant, ID and expiry itself: leave the flags out")
		case len(args) == 1:
			err = r.read(c.state, args[0])
		case r.id == "":
			return errors.New("TOKEN or --id is required")
		default:
			r.owner, err = o.holder(services)
		}
		if err != nil {
			return err
		}
		if until != "" {
			end, err := time.Parse(time.RFC3339, until)
			if err != nil {
				return errors.New("--expires must be a time such as 2026-11-21T15:04:05Z")
			}
			r.expires = ext.At(end)
		}
		t, err := s.RevokeToken(ctx, r.owner, r.id, r.expires)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Stdout, "revoked token %s until %s, when it has expired\n", t.ID, service.FormatMillis(int64(t.ExpiresAt)))
		return err
	})
	o.holderFlags(cmd, &services)
	cmd.Flags().StringVar(&r.id, "id", "", "the ID of the token, its jti")
	cmd.Flags().StringVar(&until, "expires", "", "when the token expires")
	return cmd
}

func (c *command) revokedTokens() *cobra.Command {
	var (
		o        owner
		services bool
	)
	cmd := &cobra.Command{
		Use: "revoked --tenant T (--install I | --services)", Short: "List the revoked tokens that have not expired", Args: service.Args(),
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
			fmt.Fprintln(w, "ID\tREVOKED\tEXPIRES")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\n", t.ID, service.FormatMillis(int64(t.RevokedAt)), service.FormatMillis(int64(t.ExpiresAt)))
			}
			return w.Flush()
		}),
	}
	o.holderFlags(cmd, &services)
	return cmd
}
