package tokenserver

import (
	"context"
	"fmt"
	"net/http"

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
	w.Printf("ID\tNODE\tACCOUNTS\tCAPACITY\tAVAILABLE\tDOWN\tDRAINED\n")
	for _, n := range nodes {
		w.Printf("%d\t%s\t%d\t%d\t%d\t%s\t%s\n", n.ID, n.URL, n.Load, n.Capacity, n.Available, yes(n.Downed), yes(n.Backoff))
	}
	return w.Flush()
}

func (c *command) nodeAdd() *cobra.Command {
	var capacity int64
	var unchecked bool
	cmd := &cobra.Command{
		Use:   "add URL",
		Short: "Add a storage node for new accounts",
		Long: "Add a storage node for new accounts. URL is its server.public_url. Browsers of new accounts use the\n" +
			"node at once, so the command first asks URL/__heartbeat__ whether a storage server is there.",
		Example: "  holdfast sync node add https://sync2.example.org --capacity 5000",
		Args:    service.Args("URL"),
		RunE: c.withService(func(ctx context.Context, s *tokenserver.Service, args []string) error {
			node, err := tokenserver.NewNode(args[0], capacity)
			if err != nil {
				return err
			}
			if node.URL != tokenserver.Self && !unchecked {
				if err := answers(ctx, node.URL); err != nil {
					return err
				}
			}
			n, err := s.AddNode(ctx, args[0], capacity)
			if err != nil {
				return err
			}
			return c.printNodes([]tokenserver.Node{n})
		}),
	}
	cmd.Flags().Int64Var(&capacity, "capacity", 100000, "maximum `NUMBER` of accounts")
	cmd.Flags().BoolVar(&unchecked, "no-check", false, "add a node that this machine cannot reach, or that does not run yet")
	return cmd
}

// answers returns an error unless a healthy storage server answers at a URL.
func answers(ctx context.Context, url string) error {
	address := url + "/__heartbeat__"
	status, err := service.Fetch(ctx, address)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers %d, not 200", address, status)
	}
	if err != nil {
		return fmt.Errorf("%w: correct the URL, start the node, or add it with --no-check; nothing was added", err)
	}
	return nil
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
