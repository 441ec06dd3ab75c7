package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/outbox"
)

// withStore runs fn on the open store, with the arguments of the command.
func (c *command) withStore(fn func(ctx context.Context, st guest.Store, args []string) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, args []string) error {
		if c.state.opened == nil {
			return errDisabled
		}
		return fn(ctx, c.state.opened, args)
	})
}

// eventLine is an event as JSON.
type eventLine struct {
	ID       string     `json:"id"`
	Type     string     `json:"type"`
	Key      string     `json:"key"`
	Subject  string     `json:"subject"`
	Class    string     `json:"retentionClass"`
	At       time.Time  `json:"at"`
	Payload  any        `json:"payload"`
	Attempts int        `json:"attempts"`
	Error    string     `json:"error,omitempty"`
	Next     *time.Time `json:"nextAttempt,omitempty"`
	SetAside *time.Time `json:"setAside,omitempty"`
}

func newEventLine(e *outbox.Event, attempts int, reason string) eventLine {
	return eventLine{ID: e.Name, Type: e.Topic, Key: e.Owner, Subject: e.Key, Class: e.Class, At: e.At, Payload: e.Payload, Attempts: attempts, Error: reason}
}

// notNil returns nil for the zero time.
func notNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (c *command) outbox() *cobra.Command {
	cmd := &cobra.Command{Use: "outbox", Short: "Show events that are not published yet"}
	cmd.AddCommand(c.listOutbox())
	return cmd
}

// page is how many events are read at once.
const page = 500

func (c *command) listOutbox() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List events that are not published yet, in their order", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			return c.listWaiting(ctx, st.Outbox(), limit, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each event, with its payload")
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most so many events")
	return cmd
}

func (c *command) listWaiting(ctx context.Context, box outbox.Kept, limit int, asJSON bool) error {
	w := c.Table()
	if !asJSON {
		fmt.Fprintln(w, "EVENT\tTYPE\tKEY\tAT\tATTEMPTS\tNEXT\tERROR")
	}
	for after := int64(0); limit > 0; {
		some, err := box.ListWaiting(ctx, after, min(limit, page))
		if err != nil {
			return err
		}
		for i := range some {
			e := &some[i]
			after = e.Position
			if asJSON {
				line := newEventLine(&e.Event, e.Attempts, e.Reason)
				line.Next = notNil(e.Next)
				if err := c.PrintLine(line); err != nil {
					return err
				}
				continue
			}
			next := "now"
			if !e.Next.IsZero() {
				next = e.Next.Format(time.RFC3339)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%q\n", e.Name, e.Topic, e.Owner, e.At.Format(time.RFC3339), e.Attempts, next, e.Reason)
		}
		if limit -= len(some); len(some) < page {
			break
		}
	}
	if asJSON {
		return nil
	}
	return w.Flush()
}

func (c *command) deadLetters() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letters", Short: "Manage events that were set aside because they could not be published"}
	cmd.AddCommand(
		c.listDeadLetters(),
		c.deadLetter("retry", "Publish set-aside events again",
			"Publish set-aside events again. A running server does it within half a minute. They come after\nnewer events of their sessions.",
			"queued again", outbox.Kept.RetryDead),
		c.deadLetter("drop", "Delete set-aside events", "Delete set-aside events. They are never published.", "deleted", outbox.Kept.DropDead),
	)
	return cmd
}

func (c *command) listDeadLetters() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List set-aside events", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			return c.listDead(ctx, st.Outbox(), asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each event, with its payload")
	return cmd
}

func (c *command) listDead(ctx context.Context, box outbox.Kept, asJSON bool) error {
	w := c.Table()
	if !asJSON {
		fmt.Fprintln(w, "EVENT\tTYPE\tKEY\tATTEMPTS\tSET ASIDE\tERROR")
	}
	err := outbox.EachDead(ctx, box, func(d *outbox.DeadEvent) error {
		if asJSON {
			line := newEventLine(&d.Event, d.Attempts, d.Reason)
			line.SetAside = notNil(d.DiedAt)
			return c.PrintLine(line)
		}
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%q\n", d.Name, d.Topic, d.Owner, d.Attempts, d.DiedAt.Format(time.RFC3339), d.Reason)
		return err
	})
	if err != nil || asJSON {
		return err
	}
	return w.Flush()
}

// deadLetter returns a command that does something to set-aside events.
func (c *command) deadLetter(name, short, long, done string, do func(outbox.Kept, context.Context, outbox.ID) (bool, error)) *cobra.Command {
	var all bool
	var event string
	cmd := &cobra.Command{
		Use: name + " (--all | --event ID)", Short: short, Long: long, Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			box, n := st.Outbox(), 0
			one := func(id outbox.ID) error {
				found, err := do(box, ctx, id)
				if found {
					n++
				}
				return err
			}
			if all {
				err := outbox.EachDead(ctx, box, func(d *outbox.DeadEvent) error { return one(d.ID()) })
				fmt.Fprintf(c.Stdout, "events %s: %d\n", done, n)
				return err
			}
			id, found, err := box.FindDead(ctx, event)
			if err == nil && found {
				err = one(id)
			}
			if err == nil && n == 0 {
				err = errors.New("no such set-aside event; holdfast guest dead-letters list lists them")
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all set-aside events")
	cmd.Flags().StringVar(&event, "event", "", "`ID` of the event, as dead-letters list prints it")
	cmd.MarkFlagsOneRequired("all", "event")
	cmd.MarkFlagsMutuallyExclusive("all", "event")
	return cmd
}

// quarantineLine is a received event as JSON.
type quarantineLine struct {
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	At       time.Time `json:"at"`
	Received time.Time `json:"received"`
	Reason   string    `json:"reason"`
	Body     string    `json:"body"`
}

func (c *command) quarantine() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "quarantine", Short: "List received events that had no effect because they were not understood or their ID was used twice", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			all, err := st.Quarantined(ctx, limit)
			for i := range all {
				q := &all[i]
				if err == nil {
					err = c.PrintLine(quarantineLine{q.Source, q.ID, q.Type, q.Time, q.Received, q.Reason, string(q.Body)})
				}
			}
			return err
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most so many events")
	return cmd
}
