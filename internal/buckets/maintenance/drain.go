package maintenance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

const drainFile = "drain-bodies"

const movers = 8 // bodies moved at the same time

// maxRounds limits the restarts caused by bodies that were written to the node during a round.
const maxRounds = 100

// DrainOptions are the choices for a drain.
type DrainOptions struct {
	Keep        bool // do not remove the node
	FewerCopies bool // accept fewer copies if no other node has space
}

// Drained is the result of a drain.
type Drained struct {
	Moved   int64
	Dropped int64    // redundant copies, and copies of garbage
	Stray   int64    // files on the node that no row names
	Failed  int64    // bodies that could not be moved
	NoSpace int64    // failures because no other node has space
	Reasons []string // why, for people
	Removed bool     // the node is no longer in use
}

// drain is a run of Drain.
type drain struct {
	Options
	DrainOptions
	node string

	mu     sync.Mutex
	result Drained
	gone   bool  // the node does not work, so nothing is removed from it
	done   int64 // bodies in this round
	total  int64 // bodies in this round
}

// Drain moves all bodies off a node and removes the node from the database. It first sets NodeDraining, which stays if
// bodies are left. After an interruption, the next call continues.
//
// A server that does not know the state yet may still add bodies. The next round moves them. After the check in
// RemoveNode, such writes fail and clients retry. A reader that has the old row reads the row again.
func Drain(ctx context.Context, o Options, node buckets.Node, do DrainOptions) (Drained, error) {
	d := &drain{Options: o, DrainOptions: do, node: node.ID}
	if err := durable.MakeFolder(o.Folder); err != nil {
		return Drained{}, err
	}
	node.State = buckets.NodeDraining
	if err := o.Nodes.SetNode(ctx, node); err != nil {
		return Drained{}, err
	}
	for range maxRounds {
		n, err := d.list(ctx)
		if err == nil && n > 0 {
			err = d.moveAll(ctx)
		}
		switch {
		case err != nil:
			return d.result, err
		case d.result.Failed > 0:
			return d.result, nil
		case n > 0:
			continue
		case do.Keep:
			return d.result, d.clear()
		}
		err = o.Nodes.RemoveNode(ctx, node.ID)
		if errors.Is(err, buckets.ErrNodeInUse) {
			continue
		}
		d.result.Removed = err == nil
		return d.result, errors.Join(err, d.clear())
	}
	return d.result, errcode.Newf(errcode.Unavailable, "bodies are still written to storage node %s: do all servers use this database?", node.ID)
}

// file is the list of bodies.
func (d *drain) file() string { return filepath.Join(d.Folder, drainFile) }

// clear removes the list.
func (d *drain) clear() error {
	if err := os.Remove(d.file()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list writes the node's bodies to a file, because moving them may take days, too long for a database read.
func (d *drain) list(ctx context.Context) (n int64, err error) {
	s := newSorter(d.Folder, drainFile)
	err = references(ctx, d.Store, func(r buckets.Reference) error {
		if !slices.Contains(r.Sharks, d.node) {
			return nil
		}
		n++
		d.Show(Listing, n, 0)
		b := newBody(r)
		line, err := encodeLine(b.path, r)
		if err != nil {
			return err
		}
		return s.add(line)
	})
	if err == nil {
		err = s.finish()
	}
	d.total = d.done + n
	return n, err
}

// moveAll moves the listed bodies, movers at a time.
func (d *drain) moveAll(ctx context.Context) error {
	in, err := openLines(d.file(), 0)
	if err != nil {
		return err
	}
	defer in.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	rows := &bodies{lines: in}
	slots := make(chan struct{}, movers)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		if err := rows.next(func(*buckets.Reference) bool { return true }); err != nil {
			return err
		}
		if rows.ended {
			wg.Wait()
			return context.Cause(ctx)
		}
		b := rows.body
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := d.take(ctx, &b); err != nil {
				stop(err)
			}
		})
	}
}

// take moves a body. It returns only errors that stop the drain.
func (d *drain) take(ctx context.Context, b *body) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	was, err := d.move(ctx, b)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	stray := err == nil && was != changed && !d.remove(ctx, b.path)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		d.result.Failed++
		if errors.Is(err, blobs.ErrNotEnoughSpace) {
			d.result.NoSpace++
		}
		if len(d.result.Reasons) < 5 {
			d.result.Reasons = append(d.result.Reasons, b.ref.Name+": "+err.Error())
		}
	case was == moved:
		d.result.Moved++
	case was == dropped:
		d.result.Dropped++
	}
	if stray {
		d.result.Stray++
	}
	d.done++
	d.Show(Moving, d.done, d.total)
	if _, ok := errors.AsType[errDatabase](err); ok {
		return err
	}
	return nil
}

// remove does nothing after a failure, because a hanging node would delay every body.
func (d *drain) remove(ctx context.Context, path string) bool {
	d.mu.Lock()
	gone := d.gone
	d.mu.Unlock()
	if err := d.wait(ctx); err != nil {
		return false
	}
	if gone || d.Cluster.Remove(ctx, path, []string{d.node}) == nil {
		return !gone
	}
	d.mu.Lock()
	d.gone = true
	d.mu.Unlock()
	return false
}

// outcome says how move dealt with a body.
type outcome int

const (
	moved   outcome = iota // another node has the copy now
	dropped                // the row no longer names the node
	changed                // the row changed; the next round retries
)

// errDatabase is a failed query, which stops the drain.
type errDatabase struct{ error }

func (e errDatabase) Unwrap() error { return e.error }

// move copies a body to another node and changes its row. The row changes only if it is as it was read; otherwise the
// new copy is an unreferenced file that an audit removes.
func (d *drain) move(ctx context.Context, b *body) (outcome, error) {
	others := without(b.ref.Sharks, d.node)
	if b.ref.Garbage && len(others) > 0 {
		return d.set(ctx, b, others, dropped)
	}
	from := b.ref
	from.Sharks = d.known(b.ref.Sharks)
	added, err := d.Cluster.Replicate(ctx, b.path, from, 1, b.ref.Sharks)
	switch {
	case err == nil:
		return d.set(ctx, b, append(others, added...), moved)
	case ctx.Err() != nil:
		return changed, ctx.Err()
	case b.ref.Garbage && blobs.IsSourceError(err):
		// The garbage collector removed the body, or the node is gone. No new request reads the copy.
		return d.set(ctx, b, nil, dropped)
	case errors.Is(err, blobs.ErrNotEnoughSpace) && d.FewerCopies && d.hasGoodCopy(ctx, b, others):
		return d.set(ctx, b, others, dropped)
	}
	// The object may have been deleted since. Writing the same list reveals whether the row changed.
	if same, failed := d.Store.SetSharks(ctx, b.ref, b.ref.Sharks); failed != nil {
		return changed, errDatabase{failed}
	} else if !same {
		return changed, nil
	}
	return changed, err
}

// set changes the node list in the row of a body, or in its garbage row if the object was overwritten or deleted.
func (d *drain) set(ctx context.Context, b *body, nodes []string, what outcome) (outcome, error) {
	ref := b.ref
	for {
		set, err := d.Store.SetSharks(ctx, ref, nodes)
		switch {
		case errors.Is(err, buckets.ErrNodeRemoved):
			return changed, err
		case err != nil:
			return changed, errDatabase{err}
		case set:
			return what, nil
		case ref.Garbage || ref.Upload != "":
			return changed, nil
		}
		ref.Garbage = true
	}
}

// known returns the nodes among ids that the Cluster can read.
func (d *drain) known(ids []string) (known []string) {
	for _, n := range d.Cluster.Nodes() {
		if slices.Contains(ids, n.ID) {
			known = append(known, n.ID)
		}
	}
	return known
}

// without returns ids without id.
func without(ids []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(other string) bool { return other == id })
}

// hasGoodCopy verifies the other copies before a copy is given up.
func (d *drain) hasGoodCopy(ctx context.Context, b *body, others []string) bool {
	return slices.ContainsFunc(others, func(id string) bool {
		_, err := d.Cluster.Verify(ctx, b.path, b.ref, id, nil)
		return err == nil
	})
}
