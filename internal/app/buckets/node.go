package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/fault"
)

func (c *command) node() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Manage the storage nodes, which have the bodies of objects"}
	cmd.AddCommand(c.addNode(), c.listNodes(), c.drainNode())
	return cmd
}

// settleTime is how long a command waits at its end for what goes on in the background.
const settleTime = 10 * time.Second

// onNodes runs a command on the storage nodes.
func (c *command) onNodes(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return c.run(func(ctx context.Context, _ store, args []string) (err error) {
		c.state.cluster.Report = nil // the command reports what it finds
		if err := c.state.nodes.load(ctx); err != nil {
			return err
		}
		defer func() {
			settled, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
			defer cancel()
			_ = c.state.cluster.Wait(settled) // a node that hangs
			_ = c.state.cluster.Close(settled)
			err = errors.Join(err, c.state.nodes.close())
		}()
		c.state.cluster.Refresh(ctx)
		return fn(ctx, args)
	})
}

// knownNode returns a node of the database. One that was removed is not known.
func (c *command) knownNode(ctx context.Context, id string) (n buckets.Node, ok bool, err error) {
	all, err := c.state.store.Nodes(ctx)
	i := slices.IndexFunc(all, func(n buckets.Node) bool { return n.ID == id && n.State != buckets.NodeRemoved })
	if i < 0 {
		return n, false, err
	}
	n = all[i]
	n.URL = cmp.Or(c.state.nodes.configured()[id], n.URL)
	return n, true, nil
}

func (c *command) addNode() *cobra.Command {
	return &cobra.Command{
		Use: "add DATACENTER:NAME URL", Short: "Add a storage node, or use it again after a drain",
		Long: "Add a storage node: an empty folder, or an empty bucket of a cloud provider. It gets a marker with the\n" +
			"name of the node, so that another disk is not taken for it. Running servers use it within seconds.\n\n" +
			"A node that exists already becomes active again, which ends its drain. Its URL may change if the node\n" +
			"has moved there with its marker. The URL of a node of the configuration is changed in the configuration.",
		Example: "  holdfast buckets node add home:disk2 file:///mnt/disk2/holdfast\n" +
			"  holdfast buckets node add cloud:backup 's3://my-bucket?region=eu-central-1'",
		Args: service.Args("DATACENTER:NAME", "URL"),
		RunE: c.onNodes(func(ctx context.Context, args []string) error {
			n := buckets.Node{ID: args[0], URL: args[1], State: buckets.NodeActive, Added: buckets.At(c.state.deps.Clock())}
			if err := errors.Join(buckets.CheckNodeID(n.ID), buckets.CheckNodeURL(n.URL)); err != nil {
				return err
			}
			if address, ok := c.state.nodes.configured()[n.ID]; ok && address != n.URL {
				return fault.Newf(fault.Conflict, "storage node %s is %s in the configuration: change its URL there", n.ID, address)
			}
			old, exists, err := c.knownNode(ctx, n.ID)
			switch {
			case err != nil:
				return err
			case !exists:
				err = c.state.nodes.initialize(ctx, n)
			case old.URL != n.URL:
				err = isNode(ctx, n)
				fallthrough
			default:
				n.Added = old.Added
				if err == nil {
					err = c.state.store.SetNode(ctx, n)
				}
			}
			if err != nil {
				return err
			}
			_, err = c.Printf("storage node %s is active; running servers use it within %s\n", n.ID, loadEvery)
			return err
		}),
	}
}

// isNode returns an error unless the marker of a node is at its URL.
func isNode(ctx context.Context, n buckets.Node) error {
	d, err := openDriver(n, "")
	if err != nil {
		return err
	}
	_, err = d.Space(ctx)
	return errors.Join(err, d.Close())
}

// nodeLine is a storage node as JSON.
type nodeLine struct {
	ID      string            `json:"id"`
	State   buckets.NodeState `json:"state"`
	URL     string            `json:"url"`
	Free    *int64            `json:"free_bytes,omitempty"` // absent: unknown or unlimited
	Size    *int64            `json:"size_bytes,omitempty"`
	Bodies  *int64            `json:"bodies,omitempty"`
	Bytes   *int64            `json:"bytes,omitempty"`
	Problem string            `json:"problem,omitempty"`
}

func (c *command) listNodes() *cobra.Command {
	var asJSON, bodies bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the storage nodes with their state and free space", Args: service.Args(),
		RunE: c.onNodes(func(ctx context.Context, _ []string) error {
			lines, err := c.state.nodeLines(ctx)
			if err == nil && bodies {
				err = c.countBodies(ctx, lines)
			}
			if err != nil {
				return err
			}
			if asJSON {
				for _, l := range lines {
					if err := c.PrintLine(l); err != nil {
						return err
					}
				}
				return nil
			}
			return c.printNodes(lines, bodies)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each node")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "count the bodies on each node, which reads all metadata")
	return cmd
}

// nodeLines returns the storage nodes that are not removed, by ID.
func (s *Buckets) nodeLines(ctx context.Context) (lines []*nodeLine, err error) {
	known, err := s.store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	configured := s.nodes.configured()
	for _, n := range known {
		if _, ok := configured[n.ID]; n.State == buckets.NodeRemoved && (!ok || len(s.cfg.Nodes) == 0) {
			continue
		}
		lines = append(lines, &nodeLine{ID: n.ID, State: n.State, URL: cmp.Or(configured[n.ID], n.URL)})
		delete(configured, n.ID)
	}
	for id, address := range configured {
		if !slices.ContainsFunc(known, func(n buckets.Node) bool { return n.ID == id }) {
			lines = append(lines, &nodeLine{ID: id, State: "new", URL: address, Problem: "it is initialized when the server starts"})
		}
	}
	slices.SortFunc(lines, func(a, b *nodeLine) int { return strings.Compare(a.ID, b.ID) })
	for _, now := range s.cluster.Nodes() {
		i := slices.IndexFunc(lines, func(l *nodeLine) bool { return l.ID == now.ID })
		if i < 0 {
			continue
		}
		if now.HasSpace && now.Space.Free >= 0 {
			lines[i].Free, lines[i].Size = &now.Space.Free, &now.Space.Total
		}
		if now.Space.ReadOnly {
			lines[i].Problem = "it is read-only"
		}
		if now.Err != nil {
			lines[i].Problem = fault.Message(now.Err)
		}
	}
	return lines, nil
}

// countBodies counts the bodies on each node and their bytes.
func (c *command) countBodies(ctx context.Context, lines []*nodeLine) error {
	nodes := map[string]*nodeLine{}
	for _, l := range lines {
		l.Bodies, l.Bytes = new(int64), new(int64)
		nodes[l.ID] = l
	}
	return c.state.store.References(ctx, func(r buckets.Reference) error {
		for _, id := range r.Sharks {
			if l := nodes[id]; l != nil {
				*l.Bodies++
				*l.Bytes += r.Length
			}
		}
		return nil
	})
}

func (c *command) printNodes(lines []*nodeLine, bodies bool) error {
	w := c.Table()
	head := "NODE\tSTATE\tFREE\tSIZE"
	if bodies {
		head += "\tBODIES\tBYTES"
	}
	w.Printf("%s\n", service.Columns(head+"\tURL\tPROBLEM"))
	size := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return service.FormatBytes(*n)
	}
	for _, l := range lines {
		w.Printf("%s\t%s\t%s\t%s", l.ID, l.State, size(l.Free), size(l.Size))
		if bodies {
			w.Printf("\t%d\t%s", *l.Bodies, size(l.Bytes))
		}
		w.Printf("\t%s\t%s\n", l.URL, l.Problem)
	}
	return w.Flush()
}

func (c *command) drainNode() *cobra.Command {
	var o maintenance.DrainOptions
	cmd := &cobra.Command{
		Use: "drain DATACENTER:NAME", Short: "Move all bodies off a storage node and remove it",
		Long: "Move all bodies off a storage node while servers run, and then remove the node. Bodies are copied to\n" +
			"other nodes from any good copy, so the node may be gone. If the command is interrupted, the node stays\n" +
			"draining and gets no new bodies: run the command again to continue, or end the drain with node add.\n\n" +
			"A body without a good copy stays, and so does the node; the exit status is then 1. A drain waits for a\n" +
			"backup. Remove a node of the configuration from the configuration afterwards.",
		Args: service.Args("DATACENTER:NAME"),
		RunE: c.onNodes(func(ctx context.Context, args []string) error { return c.drain(ctx, args[0], o) }),
	}
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep the node, empty and draining, instead of removing it")
	cmd.Flags().BoolVar(&o.FewerCopies, "fewer-copies", false, "accept one copy less of bodies for which there is no other node with space")
	return cmd
}

func (c *command) drain(ctx context.Context, id string, o maintenance.DrainOptions) error {
	n, ok, err := c.knownNode(ctx, id)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.Newf(fault.NotFound, "there is no storage node %s: holdfast buckets node list shows all", id)
	}
	others := slices.DeleteFunc(c.state.cluster.Nodes(), func(s blobs.Status) bool { return s.ID == id || s.State != buckets.NodeActive })
	if len(others) == 0 {
		return fault.New(fault.Conflict, "there is no other active storage node: add one first")
	}
	var d maintenance.Drained
	err = c.maintain(ctx, func(ctx context.Context, options maintenance.Options) (err error) {
		d, err = maintenance.Drain(ctx, options, n, o)
		return err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: run the command again to continue, or end the drain with holdfast buckets node add %s %s", n.ID, n.URL)
	} else if err != nil {
		return err
	}
	return c.printDrained(n, d)
}

func (c *command) printDrained(n buckets.Node, d maintenance.Drained) error {
	c.Printf("moved bodies: %d; copies that were not needed: %d\n", d.Moved, d.Dropped)
	if d.Stray > 0 {
		c.Printf("files that could not be removed from the node: %d\n", d.Stray)
	}
	if d.Failed > 0 {
		for _, reason := range d.Reasons {
			fmt.Fprintln(c.Stderr, "holdfast: not moved:", reason)
		}
		if d.NoSpace > 0 {
			fmt.Fprintf(c.Stderr, "holdfast: bodies for which no other active node has space: %d. Add a node, or accept one copy less with --fewer-copies\n", d.NoSpace)
		}
		fmt.Fprintf(c.Stderr, "holdfast: bodies that are still on storage node %s: %d. It stays draining: run the command again, or end the drain with holdfast buckets node add %s %s\n",
			n.ID, d.Failed, n.ID, n.URL)
		return &service.ExitError{Status: 1}
	}
	if !d.Removed {
		_, err := c.Printf("storage node %s is empty\n", n.ID)
		return err
	}
	c.Printf("storage node %s is removed\n", n.ID)
	if _, ok := c.state.cfg.Nodes[n.ID]; ok {
		fmt.Fprintln(c.Stdout, "remove it from buckets.nodes in the configuration too")
	}
	return nil
}

// maintain runs an audit or a drain with a progress bar. Only one may run at a time on a
// database, whatever machine it is on.
func (c *command) maintain(ctx context.Context, run func(context.Context, maintenance.Options) error) error {
	return c.exclusively(ctx, func(ctx context.Context, folder string) error { return c.maintained(ctx, folder, run) })
}

// exclusively runs fn with a folder for its files while no other audit or drain runs.
func (c *command) exclusively(ctx context.Context, fn func(ctx context.Context, folder string) error) error {
	folder := filepath.Join(c.state.deps.Data, Name+"-maintenance")
	if err := durable.MakeFolder(folder); err != nil {
		return err
	}
	lock, err := sqlitedb.AcquireLock(ctx, filepath.Join(folder, "one"))
	if inUse, ok := errors.AsType[*sqlitedb.InUseError](err); ok {
		return fmt.Errorf("another audit or drain runs (%s): wait until it has ended", cmp.Or(inUse.Holder, "unknown process"))
	} else if err != nil {
		return err
	}
	err = c.leased(ctx, folder, func(ctx context.Context) error { return fn(ctx, filepath.Join(folder, "work")) })
	return errors.Join(err, lock.Release())
}

// maintained runs an audit or a drain that has the lease.
func (c *command) maintained(ctx context.Context, folder string, run func(context.Context, maintenance.Options) error) error {
	var bar *service.Bar
	var current maintenance.Step
	var waits sync.Once
	err := run(ctx, maintenance.Options{
		Store: c.state.store, Cluster: c.state.cluster, Clock: c.state.deps.Clock, Folder: folder,
		Show: func(step maintenance.Step, n, total int64) {
			if step != current || bar == nil {
				if bar != nil {
					bar.End()
				}
				bar, current = c.Bar(string(step), total), step
			}
			bar.Show(n)
		},
		Waiting: func(expires buckets.Moment) {
			waits.Do(func() {
				fmt.Fprintf(c.Stderr, "holdfast: waiting until a backup has ended; one that was killed is waited for until %s\n", expires.Time().Format("15:04:05 MST"))
			})
		},
	})
	if bar != nil {
		bar.End()
	}
	return err
}
