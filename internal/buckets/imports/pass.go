package imports

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// task is a change for a worker.
type task struct {
	action Action
	from   Listed
	here   *buckets.Object // nil if missing

	plan    Plan            // for TakeVersions
	current *buckets.Object // for TakeVersions; nil if missing or a delete marker
}

// pass imports a bucket. A fatal error in a worker stops the list.
func (i *imports) pass(ctx context.Context, p *pair) error {
	failed := i.result.Failed // of the buckets before; no worker runs
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tasks := make(chan task)
	var workers sync.WaitGroup
	for range i.Parallel {
		workers.Go(func() {
			for t := range tasks {
				if err := i.settle(ctx, p.from, t.from.Key, i.do(ctx, p, t)); err != nil {
					stop(err)
				}
			}
		})
	}
	m := &merge{imports: i, pair: p, here: i.objectsHere(p)}
	run := m.run
	if p.versioning != "" {
		run = (&mergeVersions{m, i.versionsHere(p, i.Prefix)}).run
	}
	m.send = func(t task) error {
		select {
		case tasks <- t:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := run(ctx)
	close(tasks)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	i.change(func(r *Result) { r.Buckets++ })
	if err != nil || i.DryRun {
		return err
	}
	if err := i.setVersions(ctx, p); err != nil {
		return err
	}
	return i.noteFailed(ctx, p, i.result.Failed-failed)
}

// do runs a task, and retries it if the object changed on either side meanwhile.
func (i *imports) do(ctx context.Context, p *pair, t task) error {
	switch {
	case t.action == Retag:
		return i.retag(ctx, p, t)
	case i.DryRun:
		if isGone, err := i.confirm(ctx, p, &t); err != nil || !isGone {
			return err
		}
		i.change(func(r *Result) { r.would(&t) })
		return nil
	case t.action == Delete:
		return i.delete(ctx, p, t)
	case t.action == TakeVersions:
		return i.takeVersions(ctx, p, &t)
	}
	var err error
	for range tries {
		err = i.take(ctx, p, &t)
		switch {
		case errors.Is(err, errChanged):
			t.from.ETag = "" // the list is old
		case errors.Is(err, buckets.ErrPrecondition):
			if again, failed := i.again(ctx, p, &t); failed != nil || !again {
				return failed
			}
		case !errors.Is(err, errDamaged):
			return err
		}
	}
	return err
}

// confirm checks a deletion at the source again, because lists are not always sorted.
func (i *imports) confirm(ctx context.Context, p *pair, t *task) (isGone bool, err error) {
	switch {
	case t.action == Delete:
		isThere, err := i.Source.has(ctx, p.from, t.from.Key)
		return !isThere, err
	case len(t.plan.Delete) > 0:
		return true, i.planAgain(ctx, p, t)
	}
	return true, nil
}

// would counts a task in a dry run.
func (r *Result) would(t *task) {
	switch t.action {
	case Delete:
		r.Deleted++
	case TakeVersions:
		r.Deleted += int64(len(t.plan.Delete))
		r.Imported += int64(len(t.plan.Take))
		for _, from := range t.plan.Take {
			r.Bytes += from.Size
		}
	default:
		r.Imported++
		r.Bytes += t.from.Size
	}
}

// tries limits retries per object.
const tries = 3

// again decides anew after a client changed the object here. It returns false if nothing is left to do.
func (i *imports) again(ctx context.Context, p *pair, t *task) (bool, error) {
	o, err := i.Target.Object(ctx, i.Account.ID, p.bucket.ID, t.from.Key)
	if t.here = &o; errors.Is(err, buckets.ErrNoObject) {
		t.here, err = nil, nil
	}
	if err != nil {
		return false, err
	}
	switch Decide(&t.from, t.here, i.behind()) {
	case Keep:
		i.keep(p, t.from.Key)
		return false, nil
	case Skip:
		i.change(func(r *Result) { r.Skipped++ })
		return false, nil
	}
	return true, nil
}

// keep counts and reports an object that a client changed.
func (i *imports) keep(p *pair, key string) {
	i.change(func(r *Result) { r.Kept++ })
	i.problem(Problem{Bucket: p.from, Key: key, Reason: "kept: a client changed it here after the source"})
}

// unchanged is the condition that the object here is as it was read; nil means missing.
func unchanged(o *buckets.Object) (c buckets.Condition) {
	if o != nil {
		c.Match.Tags = []string{string(o.ID)}
	} else {
		c.NoneMatch.Any = true
	}
	return c
}

// take reads an object and writes it here, unless it changed here meanwhile. The time at the source becomes Modified.
func (i *imports) take(ctx context.Context, p *pair, t *task) error {
	out, err := i.Source.get(ctx, p.from, &t.from, "", "")
	if isGone(err) {
		i.problem(Problem{Bucket: p.from, Key: t.from.Key, Reason: "the source lists the object but does not return it: it was deleted meanwhile"})
		return nil
	} else if err != nil {
		return readable("read the object", err)
	}
	from, err := t.from.answered(out)
	if err != nil {
		_ = out.Body.Close()
		return err
	}
	b := i.Source.newBody(ctx, p.from, from, out)
	defer b.Close()
	o, err := objectOf(&from, out)
	if err == nil && p.lock != nil {
		o.Lock, err = lockOf(out)
	}
	if err == nil {
		err = i.Source.withTags(ctx, p.from, &from, &o, out)
	}
	if err != nil {
		return err
	}
	o.Creator, o.Imported = i.Account.ID, from.Modified
	if !b.hasMD5Tag {
		o.ETag = from.ETag
	}
	put := buckets.PutRequest{Object: o, Size: from.Size, Condition: unchanged(t.here)}
	w, err := i.Target.PutObject(ctx, i.Account.ID, p.bucket.BucketRef, put, &counted{b, i})
	if errors.Is(err, buckets.ErrNoObject) { // deleted here since
		err = buckets.ErrPrecondition
	}
	if err == nil {
		if why := unlikeClients(&o); why != "" {
			i.problem(Problem{Bucket: p.from, Key: t.from.Key, Reason: why})
		}
		t.here = &w.Object
		t.here.Inline = nil
		i.change(func(r *Result) {
			r.Imported++
			r.Bytes += from.Size
			if !b.isVerified {
				r.Unverified++
			}
		})
	}
	return err
}

// answered returns the properties that the source sent with the body, which may be newer than the list.
func (l Listed) answered(out *s3.GetObjectOutput) (Listed, error) {
	etag := ""
	if out.ETag != nil {
		etag = bare(*out.ETag)
	}
	if etag == "" || len(etag) > maxETag || out.ContentLength == nil || out.LastModified == nil {
		return l, errETag
	}
	modified := buckets.At(*out.LastModified)
	if etag != l.ETag || modified.Seconds() != l.Modified.Seconds() {
		l.Modified = modified // whole seconds
	}
	l.ETag, l.Size = etag, *out.ContentLength
	return l, nil
}

// delete checks both sides again before it deletes.
func (i *imports) delete(ctx context.Context, p *pair, t task) error {
	isThere, err := i.Source.has(ctx, p.from, t.from.Key)
	if err != nil || isThere { // written since the list, or the list is not sorted
		return err
	}
	o, err := i.Target.Object(ctx, i.Account.ID, p.bucket.ID, t.from.Key)
	if err == nil && Decide(nil, &o, 0) == Delete {
		err = i.Target.DeleteObject(ctx, i.Account.ID, p.bucket.BucketRef, buckets.Delete{Name: o.Name, Unchanged: &o})
		if err == nil {
			i.change(func(r *Result) { r.Deleted++ })
		}
	}
	if errors.Is(err, buckets.ErrNoObject) || errcode.Is(err, errcode.Precondition) {
		return nil // a client was faster
	}
	return err
}

// counted counts bytes for progress.
type counted struct {
	*body
	imports *imports
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	c.imports.mu.Lock()
	defer c.imports.mu.Unlock()
	c.imports.bytes += int64(n)
	c.imports.show()
	return n, err
}
