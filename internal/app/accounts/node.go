package accounts

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

func (c *command) nodeList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the storage nodes",
		Args:  service.Args(),
		RunE: c.withService(func(ctx context.Context, s *tokenserver.Service, _ []string) error {
			nodes, err := s.ListNodes(ctx)
			if err != nil {
				return err
			}
			return c.printNodes(nodes)
		}),
	}
}

func (c *command) printNodes(nodes []tokenserver.Node) error {
	w := c.Table()
	fmt.Fprintln(w, "ID\tNODE\tACCOUNTS\tCAPACITY\tAVAILABLE\tDOWN\tDRAINED")
	for _, n := range nodes {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\t%s\n", n.ID, n.URL, n.Load, n.Capacity, n.Available, yes(n.Downed), yes(n.Backoff))
	}
	return w.Flush()
}

func (c *command) nodeAdd() *cobra.Command {
	var capacity int64
	cmd := &cobra.Command{
		Use:     "add URL",
		Short:   "Add a storage node for new accounts",
		Example: "  holdfast sync node add https://sync2.example.org --capacity 5000",
		Args:    service.Args("URL"),
		RunE: c.withService(func(ctx context.Context, s *tokenserver.Service, args []string) error {
			n, err := s.AddNode(ctx, args[0], capacity)
			if err != nil {
				return err
			}
			return c.printNodes([]tokenserver.Node{n})
		}),
	}
	cmd.Flags().Int64Var(&capacity, "capacity", 100000, "maximum `NUMBER` of accounts")
	return cmd
}

func (c *command) nodeDrain() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:     "drain URL",
		Short:   "Assign no new accounts to a storage node; its accounts stay",
		Example: "  holdfast sync node drain https://sync2.example.org",
		Args:    service.Args("URL"),
		RunE: c.withService(func(ctx context.Context, s *tokenserver.Service, args []string) error {
			drained := !undo
			n, err := s.SetNode(ctx, args[0], tokenserver.NodeChange{Backoff: &drained})
			if err != nil {
				return err
			}
			return c.printNodes([]tokenserver.Node{n})
		}),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "assign new accounts to it again")
	return cmd
}
