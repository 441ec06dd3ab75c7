package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/jsonschema"
)

func (c *command) ext() *cobra.Command {
	cmd := &cobra.Command{Use: "ext", Short: "Extension storage: tokens, installs, what they have, exports and imports"}
	cmd.AddCommand(c.extToken(), c.extInstall(), c.extUsage(), c.extExport(), c.extImport())
	return cmd
}

// trial is not for people: the server starts it to try a schema.
func (c *command) trial() *cobra.Command {
	return &cobra.Command{
		Use: app.TrialVerb, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return jsonschema.Main(c.env.Stdin, c.env.Stdout) },
	}
}

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

// parseAccess reads settings=rw.
func parseAccess(flag string, words []string) (map[ext.Namespace]ext.Access, error) {
	access := map[ext.Namespace]ext.Access{}
	for _, word := range words {
		name, letters, _ := strings.Cut(word, "=")
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

func (c *command) extToken() *cobra.Command {
	var (
		o          owner
		r          app.ExtTokenRequest
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
		Args: cobra.NoArgs,
		RunE: c.with(func(_ context.Context, a *app.App, _ []string) (err error) {
			if _, err := records(a); err != nil {
				return err
			}
			if r.Owner, err = o.parse(r.Service == ""); err != nil {
				return err
			}
			if r.Namespaces, err = parseAccess("--namespace", namespaces); err != nil {
				return err
			}
			made, err := a.ExtToken(r)
			if err != nil {
				return err
			}
			if asJSON {
				return c.json(made)
			}
			_, err = fmt.Fprintln(c.env.Stdout, made.Token)
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
	return cmd
}

// records is the room of extensions' records.
func records(a *app.App) (*ext.Service, error) {
	if s := a.Records(); s != nil {
		return s, nil
	}
	return nil, errors.New("extension storage is off in this configuration, or no server with it has been started on this data yet")
}
