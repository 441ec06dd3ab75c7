package ext

import (
	"context"
	"errors"
	"path"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/jsonschema"
	"holdfast/internal/operate"
)

// command is the state that the commands share.
type command struct {
	*service.Shell
	state *Extensions
}

func (s *Extensions) commands(sh *service.Shell) []*cobra.Command {
	c := &command{sh, s}
	cmd := &cobra.Command{Use: "ext", Short: "Manage extension storage: tokens, installs, schemas, usage, exports and imports"}
	cmd.AddCommand(c.install(), c.tenant(), c.schema(), c.usage(), c.export(), c.importInto())
	return []*cobra.Command{cmd, {
		// The server starts this command to try a schema. It is not for users.
		Use: trialCommandName, Hidden: true, Args: service.Args(),
		RunE: func(*cobra.Command, []string) error { return jsonschema.Main(sh.Stdin, sh.Stdout) },
	}}
}

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

// parseAccess parses the words of a flag, such as settings=rw.
func parseAccess(flag string, words []string) (map[ext.Namespace]ext.Access, error) {
	access, err := parseWords(words, true)
	if wrong, ok := errors.AsType[*operate.InputError](err); ok {
		return nil, service.Usagef("%s %s", flag, wrong.Reason)
	}
	return access, err
}
