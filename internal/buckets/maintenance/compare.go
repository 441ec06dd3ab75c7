package maintenance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/errcode"
)

// batchSize is how many copies are compared before progress is saved. readers limits concurrency.
const (
	batchSize = 64
	readers   = 4
)

// compareAll compares each node in turn, and saves the progress after each.
func (a *audit) compareAll(ctx context.Context) error {
	var compared, total int64
	for _, p := range a.state.Nodes {
		total += p.Copies
		compared += p.Compared
	}
	for _, id := range slices.Sorted(keys(a.state.Nodes)) {
		p := a.state.Nodes[id]
		if p.Done {
			continue
		}
		before := p.Compared
		c := &comparison{audit: a, node: id, at: p, show: func() { a.Show(Comparing, compared+p.Compared-before, total) }}
		if err := c.run(ctx); err != nil {
			return errors.Join(err, a.state.save())
		}
		compared += p.Compared - before
		p.Done = true
		if err := a.state.save(); err != nil {
			return err
		}
	}
	return nil
}

// keys iterates over the keys of a map.
func keys[V any](m map[string]V) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// comparison merges a node's files with the rows that name the node, both in path order.
type comparison struct {
	*audit
	node  string
	at    *position
	show  func() // reports progress
	batch []item // items to verify and save together

	until string     // last path of a scrub round; "" for all
	pace  blobs.Pace // limits the read rate; nil for no limit
}

// item is a file, a row, or both for the same path.
type item struct {
	file   *blobs.Info // nil if the copy is missing
	body   *body       // nil if the file is unreferenced
	offset int64       // in the list of bodies, after this item
	found  *Finding
	young  bool  // unreferenced, but within the grace period
	failed error // the node failed, so nothing is known
}

// path returns the path from either side.
func (i *item) path() string {
	if i.file != nil {
		return i.file.Path
	}
	return i.body.path
}

// errBadNode is a failure of the node that is compared.
type errBadNode struct{ error }

// run turns a failing node into a finding, so that the other nodes are still audited.
func (c *comparison) run(ctx context.Context) error {
	err := c.merge(ctx)
	bad, ok := errors.AsType[errBadNode](err)
	if !ok || ctx.Err() != nil || c.background {
		return err
	}
	return c.state.find(Finding{Problem: BadNode, Node: c.node, Detail: bad.Error()})
}

// merge compares from the saved position on.
func (c *comparison) merge(ctx context.Context) error {
	in, err := openLines(filepath.Join(c.Folder, bodiesFile), c.at.Offset)
	if err != nil {
		return err
	}
	defer in.close()
	next, stop := iter.Pull2(c.Cluster.Walk(ctx, c.node, c.at.After))
	defer stop()
	p := &pairs{rows: &bodies{lines: in}, node: c.node, after: c.at.After, until: c.until, next: next, offset: c.at.Offset}
	err = errors.Join(p.nextFile(), p.nextRow())
	for err == nil && !p.ended() {
		var i item
		i, err = p.take()
		c.batch = append(c.batch, i)
		if len(c.batch) == batchSize && err == nil {
			err = c.flush(ctx)
		}
	}
	if _, bad := errors.AsType[errBadNode](err); err != nil && !bad {
		return err
	}
	if failed := c.flush(ctx); failed != nil {
		return failed
	}
	return err
}

// pairs walks files and rows together, both sorted by path.
type pairs struct {
	rows   *bodies
	node   string
	after  string // exclusive
	until  string // inclusive; "" for all
	next   func() (blobs.Info, error, bool)
	file   *blobs.Info // nil at the end
	offset int64       // in the list of bodies, after the last row taken
}

// ended reports whether both sides ended.
func (p *pairs) ended() bool { return p.file == nil && p.rows.ended }

// nextFile moves to the next file. An error is the node's.
func (p *pairs) nextFile() error {
	info, err, ok := p.next()
	p.file = &info
	if !ok || err == nil && p.until != "" && info.Path > p.until {
		p.file = nil
	}
	if err != nil {
		p.file = nil
		return errBadNode{err}
	}
	return nil
}

// nextRow moves to the next row that names the node.
func (p *pairs) nextRow() error {
	for {
		err := p.rows.next(func(r *buckets.Reference) bool { return slices.Contains(r.Sharks, p.node) })
		if err != nil || p.rows.ended || p.rows.path > p.after {
			p.rows.ended = p.rows.ended || p.until != "" && p.rows.path > p.until
			return err
		}
	}
}

// take returns the next path with its file, its row, or both. An error belongs to the following item.
func (p *pairs) take() (i item, err error) {
	file, row := p.file, !p.rows.ended
	if file != nil && row {
		row = p.rows.path <= file.Path
		if p.rows.path < file.Path {
			file = nil
		}
	}
	if row {
		b := p.rows.body
		i.body, p.offset = &b, p.rows.offset
		err = p.nextRow()
	}
	i.offset = p.offset
	if file != nil {
		i.file = file
		err = errors.Join(err, p.nextFile())
	}
	return i, err
}

// flush verifies the batch in parallel, stores findings in order, and moves the position.
func (c *comparison) flush(ctx context.Context) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for i := range c.batch {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c.batch[i].found, c.batch[i].failed = c.check(ctx, &c.batch[i])
		})
	}
	wg.Wait()
	batch := c.batch
	c.batch = c.batch[:0]
	for i := range batch {
		checked := &batch[i]
		if checked.failed != nil {
			return checked.failed
		}
		if checked.found != nil {
			if err := c.state.find(*checked.found); err != nil {
				return err
			}
		}
		c.at.After, c.at.Offset = checked.path(), checked.offset
		if checked.body != nil {
			c.at.Compared++
		}
		if checked.young {
			c.at.Young++
		}
	}
	c.show()
	if c.background {
		return nil // the progress is in the database
	}
	return c.state.saveEvery()
}

// check compares an item and returns a finding, if any. Garbage is not checked: its bodies may be removed at any time.
func (c *comparison) check(ctx context.Context, i *item) (*Finding, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case i.body == nil:
		if i.young = c.Clock().Sub(i.file.Modified) <= c.Grace; i.young {
			return nil, nil
		}
		f := Finding{Problem: Unreferenced, Node: c.node, Path: i.file.Path, Size: i.file.Size, Modified: i.file.Modified}
		if i.file.Temporary {
			f.Detail = "from an unfinished write"
		}
		return &f, nil
	case i.body.ref.Garbage:
		return nil, nil
	case i.file == nil:
		f := Finding{Problem: Missing, Node: c.node}.of(i.body)
		return &f, nil
	case !blobs.HasSize(&i.body.ref.Body, i.file.Size):
		f := Finding{Problem: Corrupt, Node: c.node, Detail: fmt.Sprintf("the copy has %d bytes, expected %d", i.file.Size, blobs.StoredSize(&i.body.ref.Body))}.of(i.body)
		return &f, nil
	case !c.Verify:
		return nil, nil
	}
	if c.pace != nil {
		if err := c.pace(ctx, fileCost); err != nil {
			return nil, err
		}
	}
	v, detail, err := c.verify(ctx, c.node, i.body, c.pace)
	if err == nil && detail == "" && c.background && v.Whole && !v.Framed {
		err = c.addFrames(ctx, i.body)
	}
	if err != nil || detail == "" {
		return nil, err
	}
	f := Finding{Problem: Corrupt, Node: c.node, Detail: detail}.of(i.body)
	return &f, nil
}

// verify reads a copy and describes its problem. A missing copy is not a problem here: it was removed after the walk,
// or the next audit finds it.
func (a *audit) verify(ctx context.Context, node string, b *body, pace blobs.Pace) (v verified, detail string, err error) {
	v.Verified, err = a.Cluster.Verify(ctx, b.path, b.ref, node, pace)
	switch {
	case err == nil:
		v.Whole = true
		return v, "", nil
	case errcode.Is(err, errcode.NotFound):
		return v, "", nil
	case ctx.Err() != nil:
		return v, "", ctx.Err()
	case errors.Is(err, blobs.ErrCorrupt):
		return v, "the copy does not match its length or checksums", nil
	}
	if down := a.Cluster.Ping(ctx, node); down != nil {
		return v, "", errBadNode{down}
	}
	return v, "the copy cannot be read: " + err.Error(), nil // a bad sector on a working disk
}

type verified struct {
	blobs.Verified
	Whole bool
}

// addFrames adds missing frames to a body that was read completely anyway, except during a backup.
func (c *comparison) addFrames(ctx context.Context, b *body) error {
	if !b.ref.Frames.Set && c.node != b.ref.Sharks[0] {
		return nil // the comparison of that node does it
	}
	if until, err := c.Store.Held(ctx, buckets.At(c.Clock())); err != nil || until != 0 {
		return err
	}
	_ = AddFrames(ctx, c.Store, c.Cluster, b.ref, c.pace)
	return ctx.Err()
}
