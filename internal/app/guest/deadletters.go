package guest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/outbox"
)

// withStore runs fn on the open store, with the arguments of the command.
func (c *command) withStore(fn func(ctx context.Context, st guest.Store, args []string) error) func(*cobra.Command, []string) error {
	return c.Run(func(ctx context.Context, args []string) error {
		st, err := c.state.store()
		if err != nil {
			return err
		}
		return fn(ctx, st, args)
	})
}

func (c *command) outbox() *cobra.Command {
	cmd := &cobra.Command{Use: "outbox", Short: "Show events that are not published yet"}
	cmd.AddCommand(c.listOutbox())
	return cmd
}

// page is how many events are read at once.
const page = 500

var errLimit = service.Usagef("--limit: must be at least 1")

func (c *command) listOutbox() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List events that are not published yet, in their order", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			if limit < 1 {
				return errLimit
			}
			return c.listWaiting(ctx, st.Outbox(), limit, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each event, with its payload")
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most so many events")
	return cmd
}

func (c *command) listWaiting(ctx context.Context, box outbox.Kept, limit int, asJSON bool) error {
	return c.list(asJSON, []any{"EVENT", "TYPE", "KEY", "AT", "ATTEMPTS", "NEXT", "ERROR"}, func(add row) error {
		for after := int64(0); limit > 0; {
			some, err := box.ListWaiting(ctx, after, min(limit, page))
			if err != nil {
				return err
			}
			for i := range some {
				e := &some[i]
				after = e.Position
				next := "now"
				if !e.Next.IsZero() {
					next = e.Next.Format(time.RFC3339)
				}
				if err := add(httpapi.ViewWaiting(e), e.Name, e.Topic, e.Owner, e.At.Format(time.RFC3339), e.Attempts, next, strconv.Quote(e.Reason)); err != nil {
					return err
				}
			}
			if limit -= len(some); len(some) < page {
				break
			}
		}
		return nil
	})
}

func (c *command) deadLetters() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letters", Short: "Manage events that were set aside because they could not be published"}
	cmd.AddCommand(
		c.listDeadLetters(),
		c.deadLetter("retry", "Publish set-aside events again",
			"Publish set-aside events again. A running server does it at once. They come after newer events of their\nsessions.",
			"queued again", guest.RetryDead),
		c.deadLetter("drop", "Delete set-aside events", "Delete set-aside events. They are never published.", "deleted", guest.DropDead),
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
	return c.list(asJSON, []any{"EVENT", "TYPE", "KEY", "ATTEMPTS", "SET ASIDE", "ERROR"}, func(add row) error {
		return outbox.EachDead(ctx, box, func(d *outbox.DeadEvent) error {
			return add(httpapi.ViewDead(d), d.Name, d.Topic, d.Owner, d.Attempts, d.DiedAt.Format(time.RFC3339), strconv.Quote(d.Reason))
		})
	})
}

// deadLetter returns a command that does something to set-aside events.
func (c *command) deadLetter(name, short, long, done string, do func(context.Context, outbox.Kept, string) (int, error)) *cobra.Command {
	var all bool
	var event string
	cmd := &cobra.Command{
		Use: name + " (--all | --event ID)", Short: short, Long: long, Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			if !all && event == "" {
				return service.Usagef("--event: must not be empty")
			}
			n, err := do(ctx, st.Outbox(), event)
			if errors.Is(err, guest.ErrNoEvent) {
				err = fmt.Errorf("%w: holdfast guest dead-letters list lists them", err)
			}
			if all {
				c.Printf("events %s: %d\n", done, n)
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

func (c *command) refusals() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "refusals", Short: "List handoffs that were consumed again, with the number of refused attempts", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			if limit < 1 {
				return errLimit
			}
			all, err := st.Refusals(ctx, limit)
			if err != nil {
				return err
			}
			return c.list(asJSON, []any{"HANDOFF", "REASON", "ATTEMPTS", "FIRST (UTC)", "LAST (UTC)"}, func(add row) error {
				for _, r := range all {
					if err := add(httpapi.ViewRefusal(r), r.Handoff, r.Reason, r.Attempts, r.First.Format(time.DateTime), r.Last.Format(time.DateTime)); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each handoff and reason")
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most so many, the one with the last attempt first")
	return cmd
}

func (c *command) quarantine() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "quarantine", Short: "List received events that had no effect because they were not understood or their ID was used twice", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, st guest.Store, _ []string) error {
			if limit < 1 {
				return errLimit
			}
			all, err := st.Quarantined(ctx, limit)
			for i := range all {
				q := &all[i]
				if err == nil {
					err = c.PrintLine(httpapi.ViewQuarantine(q))
				}
			}
			return err
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most so many events")
	return cmd
}
