package maintenance

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

const (
	copiers = 8 // bodies copied at the same time
	// passes limits the search for a missing body, with pauses of 1 to 32 seconds. The body may have been moved to
	// another node, or may be garbage that was claimed before the hold.
	passes        = 7
	restorePasses = 4 // passes in a restore, in which bodies do not move
)

// errHoldLost ends a backup whose hold expired.
var errHoldLost = errors.New("the garbage collection hold could not be extended, so bodies may be missing: retry")

// Hold stops garbage collection in all processes. The hold expires if this process dies.
func (s *Service) Hold(ctx context.Context, lease time.Duration) (held context.Context, release func(), err error) {
	id := buckets.NewUUID()
	extend := func(ctx context.Context) error {
		now := s.o.Clock()
		return s.o.Store.Hold(ctx, id, buckets.At(now), buckets.At(now.Add(lease)))
	}
	if err := extend(ctx); err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(lease / 5)
		defer every.Stop()
		for failed := 0; failed < 4; {
			select {
			case <-held.Done():
				return
			case <-every.C:
			}
			if failed++; extend(held) == nil {
				failed = 0
			}
		}
		cancel(errHoldLost)
	}()
	return held, func() {
		cancel(nil)
		<-ended
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer done()
		_ = s.o.Store.Release(ctx, id)
	}, nil
}

// Copied lists the bodies that CopyBodies skipped.
type Copied struct {
	Elsewhere map[string]int64 // bodies by first node
	Lost      []string         // paths with reasons
}

// CopyBodies copies every body on nodes that are folders to dir. It includes garbage, because the database copy may
// reference objects that were deleted since. folders has the name of each node's folder below dir.
func (s *Service) CopyBodies(ctx context.Context, dir string, folders map[string]string, progress func(done, total int64)) (copied Copied, err error) {
	c := newCopier(&s.o.Options, progress)
	if err := c.run(ctx, dir, folders); err != nil {
		return copied, err
	}
	copied = c.copied()
	for path, reason := range c.lost {
		copied.Lost = append(copied.Lost, path+": "+reason)
	}
	slices.Sort(copied.Lost)
	return copied, nil
}

// Source opens a body for a restore. size is the length in bytes that the database states. It returns errcode.NotFound if the body is missing, errcode.Internal if it is
// damaged, and errcode.Unavailable if a retry may succeed.
type Source func(ctx context.Context, path string, size int64) (io.ReadCloser, error)

// RestoreBodies writes and verifies a restored database's bodies. Bodies of garbage may be missing.
func (s *Service) RestoreBodies(ctx context.Context, dir string, folders map[string]string, from Source, progress func(done, total int64)) (copied Copied, err error) {
	c := newCopier(&s.o.Options, progress)
	c.passes, c.isRestore = restorePasses, true
	c.open = func(ctx context.Context, b *body) (io.ReadCloser, int64, error) {
		content, err := from(ctx, b.path, b.ref.Length)
		if err != nil {
			return nil, 0, err
		}
		return blobs.NewCopy(&b.ref.Body, content), blobs.StoredSize(&b.ref.Body), nil
	}
	c.isLost = func(err error) bool {
		code := errcode.Of(err)
		return code == errcode.NotFound || code == errcode.Internal || errors.Is(err, blobs.ErrCorrupt)
	}
	if err := c.run(ctx, dir, folders); err != nil {
		return copied, err
	}
	for path, reason := range c.lost {
		return copied, errcode.Newf(errcode.Unavailable, "%d bodies cannot be read now, e.g. %s: %s", len(c.lost), path, reason)
	}
	return c.copied(), nil
}

// run copies in passes. Later passes retry missing bodies, which may have moved.
func (c *copier) run(ctx context.Context, dir string, folders map[string]string) (err error) {
	if c.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close(), c.root.Close()) }()
	for id, folder := range folders {
		if err := c.add(id, folder); err != nil {
			return err
		}
	}
	for pass := range c.passes {
		if pass > 0 && (len(c.lost) == 0 || !clock.Sleep(ctx, time.Second<<(pass-1))) {
			break
		}
		if err := c.pass(ctx, dir, pass == 0); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.sync()
}

// copied returns the result after run.
func (c *copier) copied() Copied {
	slices.Sort(c.corrupt)
	return Copied{Elsewhere: c.elsewhere, Lost: c.corrupt}
}

// copier copies all bodies into folders, for backups and restores.
type copier struct {
	o        *Options
	progress func(done, total int64)
	root     *os.Root                                           // the backup, or the data folder that is being restored
	link     func(root *os.Root, oldname, newname string) error // replaced in tests
	targets  map[string]target                                  // by node ID

	passes    int
	open      func(ctx context.Context, b *body) (r io.ReadCloser, size int64, err error)
	isLost    func(error) bool // a retry cannot help
	isRestore bool

	mu        sync.Mutex
	done      int64
	elsewhere map[string]int64  // bodies whose nodes are no folders, by first node
	lost      map[string]string // paths to retry, with reasons
	corrupt   []string          // lines for the report
}

// newCopier returns a copier for a backup from the Cluster.
func newCopier(o *Options, progress func(done, total int64)) *copier {
	return &copier{
		o: o, progress: progress, link: (*os.Root).Link, targets: map[string]target{}, elsewhere: map[string]int64{}, lost: map[string]string{},
		passes: passes, isLost: func(err error) bool { return errors.Is(err, blobs.ErrCorrupt) },
		open: func(ctx context.Context, b *body) (io.ReadCloser, int64, error) {
			return o.Cluster.OpenStored(ctx, b.path, b.ref)
		},
	}
}

// target is a node's folder in the backup or data folder.
type target struct {
	*filedriver.Driver
	name string // folder below the copier's root
}

// add creates a node's folder. The name contains the node's ID, which may come from a backup's database.
func (c *copier) add(id, name string) error {
	if err := durable.CheckName(name); err != nil {
		return err
	}
	t, dir := target{name: name}, filepath.Join(c.root.Name(), name)
	if err := durable.MakeFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := filedriver.Init(dir, id); err != nil {
		return err
	}
	t.Driver = filedriver.New(dir, id)
	c.targets[id] = t
	return nil
}

// close closes all targets.
func (c *copier) close() (err error) {
	for _, t := range c.targets {
		err = errors.Join(err, t.Close())
	}
	return err
}

// pass lists the bodies, or those missed by an earlier pass, before it copies them, to keep the transaction short.
func (c *copier) pass(ctx context.Context, dir string, first bool) (err error) {
	list, err := os.CreateTemp(dir, ".bodies-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, list.Close(), os.Remove(list.Name())) }()
	wanted := c.lost
	var total int64
	w := bufio.NewWriter(list)
	err = references(ctx, c.o.Store, func(r buckets.Reference) error {
		b := newBody(r)
		if _, ok := wanted[b.path]; !ok && !first {
			return nil
		}
		total++
		line, err := encodeLine(b.path, r)
		if err != nil {
			return err
		}
		return writeLine(w, line)
	})
	if err = errors.Join(err, w.Flush()); err != nil {
		return err
	}
	in, err := openLines(list.Name(), 0)
	if err != nil {
		return err
	}
	defer in.close()
	if !first {
		c.lost, total = map[string]string{}, c.done+total
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan body)
	var workers sync.WaitGroup
	for range copiers {
		workers.Go(func() {
			for b := range work {
				if err := c.finish(&b, total, c.copy(ctx, &b)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for rows := (&bodies{lines: in}); ctx.Err() == nil; {
		if err := rows.next(func(*buckets.Reference) bool { return true }); err != nil {
			cancel(err)
		}
		if rows.ended || ctx.Err() != nil {
			break
		}
		work <- rows.body
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// finish decides about an error: it stops the copy, counts the body as lost, or leaves it to the next pass. An error
// that is not the source's means that the target failed.
func (c *copier) finish(b *body, total int64, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
	case !blobs.IsSourceError(err) || errors.Is(err, context.Canceled) || c.isRestore && errcode.Is(err, errcode.Invalid):
		return err
	case c.isLost(err) && c.isRestore && b.ref.Garbage:
	case c.isLost(err):
		c.corrupt = append(c.corrupt, b.path+": "+errcode.Message(err))
	default:
		c.lost[b.path] = errcode.Message(err)
		return nil
	}
	c.done++
	c.progress(c.done, total)
	return nil
}

// copy copies a body to each target that its row names. Further targets get hard links.
func (c *copier) copy(ctx context.Context, b *body) error {
	var to []target
	for _, id := range b.ref.Sharks {
		if t, ok := c.targets[id]; ok {
			to = append(to, t)
		}
	}
	if len(to) == 0 {
		c.mu.Lock()
		c.elsewhere[b.ref.Sharks[0]]++
		c.mu.Unlock()
		return nil
	}
	for i, t := range to {
		if i > 0 && c.linked(b, to[0], t) {
			continue
		}
		r, size, err := c.open(ctx, b)
		if err != nil {
			return blobs.SourceError(err)
		}
		_, err = t.Put(ctx, b.path, r, size)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// linked hard-links a copy, or returns false if the file system has no hard links.
func (c *copier) linked(b *body, from, to target) bool {
	path := filepath.FromSlash(b.path)
	name := filepath.Join(to.name, path)
	return c.root.MkdirAll(filepath.Dir(name), 0o700) == nil && c.link(c.root, filepath.Join(from.name, path), name) == nil
}

// sync makes links durable, because the driver syncs only files.
func (c *copier) sync() error {
	for _, t := range c.targets {
		root, err := c.root.OpenRoot(t.name)
		if err != nil {
			return err
		}
		err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			f, err := root.Open(path)
			if err != nil {
				return err
			}
			return errors.Join(f.Sync(), f.Close())
		})
		if err := errors.Join(err, root.Close()); err != nil {
			return err
		}
	}
	return nil
}
