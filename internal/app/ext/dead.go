package ext

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/outbox"
)

// deadHint is logged when an audit event is set aside.
const deadHint = "run holdfast ext audit dead to list such events, and holdfast ext audit retry --all to publish them"

func (c *command) audit() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Manage audit events that were set aside because they could not be published"}
	cmd.AddCommand(
		c.auditDead(),
		c.auditEvent("retry", "Publish set-aside events again",
			"Publish set-aside events again. A running server does it within half a minute. They come after\n"+
				"newer events of their installs.", "queued again", c.retryDead),
		c.auditEvent("drop", "Delete set-aside events",
			"Delete set-aside events. They are never published.", "deleted", c.dropDead),
	)
	return cmd
}

func (c *command) auditDead() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "dead", Short: "List set-aside events", Args: service.Args(),
		RunE: c.withService(func(ctx context.Context, _ *ext.Service) error { return c.listDead(ctx, asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each event, with its payload")
	return cmd
}

// deadLine is a set-aside event as JSON.
type deadLine struct {
	Tenant   string    `json:"tenant"`
	Install  string    `json:"install"`
	Seq      int64     `json:"seq"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key"`
	At       time.Time `json:"at"`
	Payload  any       `json:"payload"`
	Attempts int       `json:"attempts"`
	SetAside time.Time `json:"setAside"`
	Error    string    `json:"error"`
}

func (c *command) listDead(ctx context.Context, asJSON bool) error {
	w := c.Table()
	if !asJSON {
		w.Printf("TENANT\tINSTALL\tSEQ\tTOPIC\tATTEMPTS\tSET ASIDE\tERROR\n")
	}
	err := outbox.EachDead(ctx, c.state.audit, func(d *outbox.DeadEvent) error {
		if asJSON {
			return c.PrintLine(deadLine{d.Owner, d.Stream, d.Seq, d.Topic, d.Key, d.At, d.Payload, d.Attempts, d.DiedAt, d.Reason})
		}
		_, err := w.Printf("%s\t%s\t%d\t%s\t%d\t%s\t%q\n", d.Owner, d.Stream, d.Seq, d.Topic, d.Attempts, d.DiedAt.Format(time.RFC3339), d.Reason)
		return err
	})
	if err != nil || asJSON {
		return err
	}
	return w.Flush()
}

func (c *command) retryDead(ctx context.Context, id outbox.ID) (bool, error) {
	return c.state.audit.RetryDead(ctx, id)
}

func (c *command) dropDead(ctx context.Context, id outbox.ID) (bool, error) {
	return c.state.audit.DropDead(ctx, id)
}

// auditEvent returns a command that does something to one set-aside event or to all.
func (c *command) auditEvent(name, short, long, done string, do func(context.Context, outbox.ID) (bool, error)) *cobra.Command {
	var (
		o   owner
		seq int64
		all bool
	)
	cmd := &cobra.Command{
		Use: name + " (--all | --tenant T --install I --seq N)", Short: short, Long: long, Args: service.Args(),
		RunE: c.withService(func(ctx context.Context, _ *ext.Service) error {
			if all {
				return c.everyDead(ctx, done, do)
			}
			who, err := o.parse(true)
			if err != nil {
				return err
			}
			found, err := do(ctx, outbox.ID{Owner: string(who.Tenant), Stream: string(who.Install), Seq: seq})
			if err == nil && !found {
				err = errors.New("no such set-aside event; holdfast ext audit dead lists them")
			}
			return err
		}),
	}
	o.optional(cmd)
	cmd.Flags().Int64Var(&seq, "seq", 0, "`NUMBER` of the event, as ext audit dead prints it")
	cmd.Flags().BoolVar(&all, "all", false, "all set-aside events")
	cmd.MarkFlagsOneRequired("all", "seq")
	for _, flag := range []string{"tenant", "install", "seq"} {
		cmd.MarkFlagsMutuallyExclusive("all", flag)
	}
	cmd.MarkFlagsRequiredTogether("tenant", "install", "seq")
	return cmd
}

func (c *command) everyDead(ctx context.Context, done string, do func(context.Context, outbox.ID) (bool, error)) error {
	n := 0
	err := outbox.EachDead(ctx, c.state.audit, func(d *outbox.DeadEvent) error {
		found, err := do(ctx, d.ID())
		if found {
			n++
		}
		return err
	})
	c.Printf("events %s: %d\n", done, n)
	return err
}
