package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

const (
	bulkTime = 20 * time.Second // per request; the operator repeats the request for the rest
	bulkPage = 500
)

// errLate ends a request that has worked for bulkTime.
var errLate = errors.New("enough for a request")

// selection is the work on selected rows.
type selection struct {
	s       *Buckets
	account buckets.Account
	bucket  buckets.Bucket
	// until is when the request must end; zero for a single object.
	until time.Time
	// done counts the objects that were changed so far.
	done int64
}

// choose returns the selected rows' keys, and puts their names into the log's values. At least one row is required.
func (s *Buckets) choose(ctx context.Context, r *service.PageRequest) (c *selection, keys []string, err error) {
	keys = r.Values["key"]
	if len(keys) == 0 {
		return nil, nil, service.Usagef("select at least one row")
	}
	if len(keys) > consoleRows {
		return nil, nil, service.Usagef("select at most %d rows", consoleRows)
	}
	r.Values.Set("objects", service.FirstNames(keys))
	a, b, err := s.bucket(ctx, r)
	return &selection{s: s, account: a, bucket: b, until: s.deps.Clock().Add(bulkTime)}, keys, err
}

// each calls fn with pages of a row's objects. base is the row's folder, a prefix of their names.
func (c *selection) each(ctx context.Context, key string, fn func(ctx context.Context, base string, all []buckets.Object) error) error {
	if name, ok := strings.CutPrefix(key, objectKey); ok {
		o, err := c.s.opened.Object(ctx, c.account.ID, c.bucket.ID, name)
		if errors.Is(err, buckets.ErrNoObject) {
			return nil // deleted concurrently
		} else if err != nil {
			return err
		}
		return fn(ctx, folderOf(name), []buckets.Object{o})
	}
	folder, ok := strings.CutPrefix(key, folderKey)
	if !ok || !strings.HasSuffix(folder, "/") {
		return service.Usagef("key: unknown row")
	}
	base := folderOf(strings.TrimSuffix(folder, "/"))
	q := buckets.Query{Prefix: folder, Limit: bulkPage, Metadata: true}
	for {
		page, err := c.s.opened.List(ctx, c.account.ID, c.bucket.ID, q)
		if err != nil {
			return err
		}
		all := make([]buckets.Object, 0, len(page.Entries))
		for i := range page.Entries {
			all = append(all, *page.Entries[i].Object)
		}
		if len(all) > 0 {
			if err := fn(ctx, base, all); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		q.Start = page.Next
	}
}

// outcome returns the notice for the objects that were changed. did is a verb, e.g. "deleted". Errors that the operator
// can read also say how many objects were changed before.
func (c *selection) outcome(did string, err error) (o service.Outcome, _ error) {
	objects := service.Count(c.done, "object")
	if errors.Is(err, errLate) {
		o.Notice = did + " " + objects + " so far; repeat it for the rest"
		return o, nil
	}
	if err == nil {
		o.Notice = did + " " + objects
		return o, nil
	}
	code, text := errcode.Of(err), errcode.Message(err)
	if c.done == 0 || code == errcode.Internal || text == "" {
		return o, err
	}
	return o, errcode.Rephrase(err, fmt.Sprintf("%s; %s before it: %s", text, did, objects))
}

// deleteChosen deletes the selected objects and all objects in selected folders. An operator repeats it if the time was
// not enough.
func (s *Buckets) deleteChosen(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
	c, keys, err := s.choose(ctx, r)
	if err != nil {
		return service.Outcome{}, err
	}
	for _, key := range keys {
		if err = c.each(ctx, key, c.delete); err != nil {
			break
		}
	}
	return c.outcome("deleted", err)
}

// delete deletes a page of objects. Deleted objects do not count; the first other error is returned after the whole
// page was tried.
func (c *selection) delete(ctx context.Context, _ string, all []buckets.Object) error {
	if c.s.deps.Clock().After(c.until) {
		return errLate
	}
	var list []buckets.Deletion
	for i := range all {
		list = append(list, buckets.Deletion{Name: all[i].Name})
	}
	deleted, err := c.s.opened.DeleteObjects(ctx, c.account.ID, c.bucket.BucketRef, list)
	for i := range deleted {
		switch {
		case deleted[i].Err == nil:
			c.done++
		case !errors.Is(deleted[i].Err, buckets.ErrNoObject):
			err = cmp.Or(err, deleted[i].Err)
		}
	}
	return err
}
