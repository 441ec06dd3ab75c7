package buckets

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

const (
	// holdTime is how long the garbage collection waits for a backup that died.
	holdTime = 5 * time.Minute
	// copiers is how many bodies are copied at once.
	copiers = 8
	// passes is how often a body that was not found is looked for, after pauses of 1 to 32
	// seconds. Meanwhile it may have been moved to another node, or it is garbage that was
	// claimed before the hold, and its row is removed after its bodies.
	passes = 7
)

// nodesFolder is the folder of a backup with a folder for each configured node. That of
// the node in the data folder has the same name in the backup.
const nodesFolder = Name + ".nodes"

var errHoldLost = errors.New("the hold of the garbage collection could not be extended, so bodies may be missing: retry")

// files backs up the bodies on file nodes.
func (s *Buckets) files() *service.Files {
	return &service.Files{
		Hold: func(ctx context.Context) (context.Context, func(), error) { return s.hold(ctx, holdTime) },
		Copy: s.copyBodies, Omitted: s.omitted,
	}
}

// hold keeps the garbage collector of all processes from removing bodies. The hold is in
// the database and expires if this process dies.
func (s *Buckets) hold(ctx context.Context, lease time.Duration) (held context.Context, release func(), err error) {
	id := buckets.NewUUID()
	extend := func(ctx context.Context) error {
		now := s.deps.Clock()
		return s.store.Hold(ctx, id, buckets.At(now), buckets.At(now.Add(lease)))
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
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		_ = s.store.Release(ctx, id) // otherwise it expires
	}, nil
}

// where returns the URL of each storage node that may have bodies: not of removed ones.
func (s *Buckets) where(ctx context.Context) (map[string]string, error) {
	known, err := s.nodes.service.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all, configured := map[string]string{}, s.nodes.configured()
	for _, n := range known {
		if n.State == buckets.NodeRemoved {
			continue
		}
		all[n.ID] = n.URL
		if url, ok := configured[n.ID]; ok {
			all[n.ID] = url
		}
	}
	return all, nil
}

// isFile reports whether a node is a folder.
func isFile(url string) bool { return strings.HasPrefix(url, "file:") }

// omitted says which nodes a backup without bodies lacks.
func (s *Buckets) omitted(ctx context.Context) (lines []string, err error) {
	all, err := s.where(ctx)
	for id, url := range all {
		lines = append(lines, fmt.Sprintf("the bodies on storage node %s, %s", id, url))
	}
	slices.Sort(lines)
	return lines, err
}

// copyBodies copies every body on file nodes, those of garbage included: an object that
// was deleted after the database was copied is still in the copy. Each body is read once,
// from any good copy, and has a hard link on each further file node.
func (s *Buckets) copyBodies(ctx context.Context, dir string, progress func(done, total int64)) (copied service.Copied, err error) {
	if err := s.nodes.load(ctx); err != nil {
		return copied, err
	}
	defer func() { err = errors.Join(err, s.nodes.close()) }()
	s.cluster.Report = func(f blobs.Finding) {
		if f.Problem != blobs.Missing { // it may be garbage
			s.report(f)
		}
	}
	all, err := s.where(ctx)
	if err != nil {
		return copied, err
	}
	c := newCopier(s, progress)
	defer func() { err = errors.Join(err, c.close()) }()
	for id, url := range all {
		if !isFile(url) {
			continue
		}
		name := Name
		if len(s.cfg.Nodes) > 0 || id != localNode {
			name = filepath.Join(nodesFolder, strings.Replace(id, ":", ",", 1))
		}
		if err := c.add(id, dir, name); err != nil {
			return copied, err
		}
		copied.Names = append(copied.Names, name)
	}
	slices.Sort(copied.Names)
	for pass := range passes {
		if pass > 0 && (len(c.lost) == 0 || !clock.Sleep(ctx, time.Second<<(pass-1))) {
			break
		}
		if err := c.pass(ctx, dir, pass == 0); err != nil {
			return copied, err
		}
	}
	if err := ctx.Err(); err != nil {
		return copied, err
	}
	for id, n := range c.elsewhere {
		where := all[id]
		if where == "" {
			where = "which is not configured"
		}
		copied.Missing = append(copied.Missing, fmt.Sprintf("%s only on storage node %s, %s", count(n), id, where))
	}
	copied.Lost = c.corrupt
	for path, reason := range c.lost {
		copied.Lost = append(copied.Lost, path+": "+reason)
	}
	slices.Sort(copied.Missing)
	slices.Sort(copied.Lost)
	return copied, c.sync()
}

// count says how many bodies.
func count(n int64) string {
	if n == 1 {
		return "1 body"
	}
	return fmt.Sprintf("%d bodies", n)
}

// copier copies bodies to the folder of a backup.
type copier struct {
	s        *Buckets
	progress func(done, total int64)
	link     func(oldname, newname string) error // os.Link
	targets  map[string]target                   // by node

	mu        sync.Mutex
	done      int64
	elsewhere map[string]int64  // bodies that no file node has, by the first of their nodes
	lost      map[string]string // reasons, by path
	corrupt   []string          // bodies without a good copy, with the reason
}

func newCopier(s *Buckets, progress func(done, total int64)) *copier {
	return &copier{s: s, progress: progress, link: os.Link, targets: map[string]target{}, elsewhere: map[string]int64{}, lost: map[string]string{}}
}

// target is the folder of a node in the backup.
type target struct {
	*filedriver.Driver
	dir string
}

func (c *copier) add(id, backup, name string) error {
	t := target{dir: filepath.Join(backup, name)}
	if err := durable.MakeFolder(filepath.Dir(t.dir)); err != nil {
		return err
	}
	if err := filedriver.Init(t.dir, id); err != nil {
		return err
	}
	t.Driver = filedriver.New(t.dir, id)
	c.targets[id] = t
	return nil
}

func (c *copier) close() (err error) {
	for _, t := range c.targets {
		err = errors.Join(err, t.Close())
	}
	return err
}

// body is a line of the list of bodies.
type body struct {
	Path string            `json:"path"`
	Ref  buckets.Reference `json:"ref"`
}

// pass copies all bodies, or those that were not found before. It writes a list of them
// first, because a transaction must not last as long as the copy.
func (c *copier) pass(ctx context.Context, dir string, first bool) (err error) {
	list, err := os.CreateTemp(dir, ".bodies-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, list.Close(), os.Remove(list.Name())) }()
	wanted := c.lost
	var total int64
	w := bufio.NewWriter(list)
	encode := json.NewEncoder(w)
	err = c.s.store.References(ctx, func(r buckets.Reference) error {
		b := body{buckets.BodyPath(r.Owner, r.Bucket, r.ID, r.Name), r}
		if _, ok := wanted[b.Path]; !ok && !first {
			return nil
		}
		total++
		return encode.Encode(b) //nolint:musttag // only this process reads it
	})
	if err = errors.Join(err, w.Flush()); err != nil {
		return err
	}
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return err
	}
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
	decode := json.NewDecoder(bufio.NewReader(list))
	for ctx.Err() == nil {
		var b body
		if err := decode.Decode(&b); err != nil { //nolint:musttag // see above
			if !errors.Is(err, io.EOF) {
				cancel(err)
			}
			break
		}
		work <- b
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// finish takes note of a body that was copied or could not be read. It returns other
// errors.
func (c *copier) finish(b *body, total int64, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
	case !blobs.IsSourceError(err) || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, blobs.ErrCorrupt):
		c.corrupt = append(c.corrupt, b.Path+": "+errcode.Message(err))
	default:
		c.lost[b.Path] = errcode.Message(err)
		return nil
	}
	c.done++
	c.progress(c.done, total)
	return nil
}

// copy copies one body. An error of the nodes that it is read from is a source error.
func (c *copier) copy(ctx context.Context, b *body) error {
	var to []target
	for _, id := range b.Ref.Sharks {
		if t, ok := c.targets[id]; ok {
			to = append(to, t)
		}
	}
	if len(to) == 0 {
		c.mu.Lock()
		c.elsewhere[b.Ref.Sharks[0]]++
		c.mu.Unlock()
		return nil
	}
	for i, t := range to {
		if i > 0 && c.linked(b, to[0], t) {
			continue
		}
		r, size, err := c.s.cluster.OpenStored(ctx, b.Path, b.Ref)
		if err != nil {
			return blobs.SourceError(err)
		}
		_, err = t.Put(ctx, b.Path, r, size)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// linked links a body into another folder. It reports whether the file system has hard links: without
// them, the caller verifies and copies the body again.
func (c *copier) linked(b *body, from, to target) bool {
	path := filepath.FromSlash(b.Path)
	name := filepath.Join(to.dir, path)
	return os.MkdirAll(filepath.Dir(name), 0o700) == nil && c.link(filepath.Join(from.dir, path), name) == nil
}

// sync makes the folders durable. The driver has done so for what it wrote, but not for
// links.
func (c *copier) sync() error {
	for _, t := range c.targets {
		root, err := os.OpenRoot(t.dir)
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
