package guest

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/guest"
)

// backups returns the known backups that have the database.
func (s *Guest) backups(d *service.Deps, db *engine.Database) ([]guest.Backup, error) {
	if !db.Embedded() || d.Backups == nil {
		return nil, nil
	}
	known, err := d.Backups()
	all := make([]guest.Backup, len(known))
	for i, b := range known {
		all[i] = guest.Backup(b)
	}
	return all, err
}

func (c *command) session() *cobra.Command {
	cmd := &cobra.Command{Use: "session", Short: "Manage sessions of guests"}
	cmd.AddCommand(c.erase())
	return cmd
}

func (c *command) erase() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "erase SESSION", Short: "Delete everything that is stored about a session", Args: service.Args("SESSION"),
		Long: "Delete the wishlist, handoffs, stored answers, bot scores, published events, preferences and lists of a\n" +
			"session. Its open handoffs become void. Audited events stay until they are old, and events that are not\n" +
			"published yet until they are published: they have the ID of the session, which is random. If the command\n" +
			"fails, run it again. It prints which known backups may have data of the session, and what remains in the\n" +
			"database server.",
		RunE: c.withStore(func(ctx context.Context, _ guest.Store, args []string) error {
			if _, ok := guest.ParseID(guest.SessionPrefix, args[0]); !ok {
				return guest.ErrSessionID
			}
			if !yes && !c.Confirm(fmt.Sprintf("Delete everything about session %s?", args[0])) {
				return service.Usagef("nothing was deleted; confirm with --yes")
			}
			e, err := c.state.service.Erase(ctx, args[0])
			if err != nil {
				return err
			}
			if c.state.cfg.Hot == guest.HotMemory {
				fmt.Fprintln(c.Stderr, "A running server has preferences and lists in its memory. To delete them, send DELETE /guest/sessions/"+args[0]+"\nto its admin listener, or restart it.")
			}
			return c.PrintJSON(e)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
