package buckets

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // S3's ETag is an MD5
	"encoding/json"
	"errors"
	"hash"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
)

// move is where objects go.
type move struct {
	bucket  buckets.Bucket
	keep    bool
	replace bool
}

// target reads where a request moves objects.
func (c *chosen) target(ctx context.Context, r *service.PageRequest) (m move, err error) {
	m.bucket, err = c.s.opened.Bucket(ctx, c.account.ID, cmp.Or(r.Value("to-bucket"), c.bucket.Name))
	m.keep, m.replace = r.Value("keep") == "yes", r.Value("replace") == "yes"
	return m, about(r.Value("to-bucket"), err)
}

// did returns the verb for messages.
func (m *move) did() string {
	if m.keep {
		return "copied"
	}
	return "moved"
}

func (s *Buckets) moveChosen(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
	c, keys, err := s.choose(ctx, r)
	if err != nil {
		return service.Outcome{}, err
	}
	m, err := c.target(ctx, r)
	if err != nil {
		return service.Outcome{}, err
	}
	folder := asFolder(r.Value("to-folder"))
	for _, key := range keys {
		if inside, ok := strings.CutPrefix(key, folderKey); ok && m.bucket.ID == c.bucket.ID && strings.HasPrefix(folder, inside) {
			return service.Outcome{}, service.Usagef("the folder %s cannot be moved into itself", path.Base(inside))
		}
	}
	for _, key := range keys {
		err = c.each(ctx, key, func(ctx context.Context, base string, all []buckets.Object) error {
			for i := range all {
				if c.s.deps.Clock().After(c.until) {
					return errLate
				}
				if err := c.move(ctx, all[i].Name, folder+strings.TrimPrefix(all[i].Name, base), m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	return c.outcome(m.did(), err)
}

func (s *Buckets) moveObject(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, object, err := s.object(ctx, r)
	if err != nil {
		return o, err
	}
	c := &chosen{s: s, account: a, bucket: b}
	m, err := c.target(ctx, r)
	if err == nil {
		err = c.move(ctx, object.Name, r.Value("to"), m)
	}
	o.Notice = m.did() + " object " + object.Name
	o.Next = service.PageLink("objects", "account", a.Name, "bucket", m.bucket.Name, "prefix", folderOf(r.Value("to")))
	return o, err
}

// move copies an object and then deletes the original. Interrupted at any point, it loses nothing and can be repeated.
func (c *chosen) move(ctx context.Context, from, to string, m move) error {
	if err := buckets.CheckObjectName(to); err != nil {
		return err
	}
	if m.bucket.ID == c.bucket.ID && to == from {
		return errcode.Newf(errcode.Conflict, "%s is there already: choose another folder or bucket", path.Base(to))
	}
	o, err := c.s.opened.Object(ctx, c.account.ID, c.bucket.ID, from)
	if errors.Is(err, buckets.ErrNoObject) {
		return nil // another operator was faster
	} else if err != nil {
		return err
	}
	made, err := c.copy(ctx, &o, to, m)
	if err != nil {
		return err
	}
	if !m.keep {
		err = c.remove(ctx, &o, &made, m)
	}
	if err == nil {
		c.done++
	}
	return err
}

// copy writes a copy of an object with all that belongs to it, or returns the copy that an interrupted move has written.
func (c *chosen) copy(ctx context.Context, o *buckets.Object, to string, m move) (buckets.Object, error) {
	put := buckets.PutRequest{Size: o.Length, Object: buckets.Object{
		Name: to, Creator: o.Creator, ContentType: o.ContentType, Headers: o.Headers, Roles: o.Roles, Properties: buckets.Properties{Tags: o.Tags, Extra: o.Extra},
	}}
	put.Condition.NoneMatch.Any = !m.replace
	body := c.s.opened.Open(ctx, c.account.ID, c.bucket.ID, o, buckets.Span{Length: o.Length})
	defer func() { _ = body.Close() }() // it was only read
	w, err := c.s.opened.PutObject(ctx, c.account.ID, m.bucket.BucketRef, put, newSummed(body, o.Checksum.Algorithm))
	if errors.Is(err, buckets.ErrPrecondition) {
		there, same, failed := c.copied(ctx, o, to, m)
		if failed != nil || same {
			return there, failed
		}
	}
	if err != nil {
		return buckets.Object{}, uploadError(to, nil, err)
	}
	return w.Object, nil
}

// copied reads the target of a move, and reports whether it is a copy of an object with all that belongs to it.
func (c *chosen) copied(ctx context.Context, o *buckets.Object, to string, m move) (there buckets.Object, same bool, err error) {
	there, err = c.s.opened.Object(ctx, c.account.ID, m.bucket.ID, to)
	if errors.Is(err, buckets.ErrNoObject) {
		return there, false, nil // it was deleted meanwhile
	}
	if err != nil || there.Length != o.Length || !sameMetadata(&there, o) || there.Checksum.Algorithm != o.Checksum.Algorithm {
		return there, false, err
	}
	if o.MD5 != nil {
		return there, bytes.Equal(there.MD5, o.MD5), nil
	}
	// It was uploaded in parts, and a copy has none.
	body := c.s.opened.Open(ctx, c.account.ID, c.bucket.ID, o, buckets.Span{Length: o.Length})
	defer func() { _ = body.Close() }() // it was only read
	sum := md5.New()                    //nolint:gosec // as above
	_, err = io.Copy(sum, body)
	return there, bytes.Equal(there.MD5, sum.Sum(nil)), err
}

// sameMetadata compares all that clients store with a body.
func sameMetadata(a, b *buckets.Object) bool {
	return a.ContentType == b.ContentType && a.Creator == b.Creator && maps.Equal(a.Headers, b.Headers) && slices.Equal(a.Roles, b.Roles) &&
		maps.Equal(a.Tags, b.Tags) && bytes.Equal(a.Extra, b.Extra)
}

// remove deletes the original of a copy unless it was overwritten. If its metadata changed after it was read, the copy gets the change.
func (c *chosen) remove(ctx context.Context, o, made *buckets.Object, m move) error {
	d := buckets.Delete{Name: o.Name}
	d.Condition.Match.Tags = []string{string(o.ID)}
	old, err := c.s.opened.TakeObject(ctx, c.account.ID, c.bucket.BucketRef, d)
	switch {
	case errors.Is(err, buckets.ErrPrecondition):
		return errcode.Newf(errcode.Conflict, "%s was changed meanwhile: it was copied, and the original stays", o.Name)
	case errors.Is(err, buckets.ErrNoObject):
		return nil // another operator was faster
	case err != nil || sameMetadata(&old, o):
		return err
	}
	u := buckets.Update{Name: made.Name, ContentType: &old.ContentType, Headers: map[string]string{}, Roles: &old.Roles, Tags: &old.Tags, Extra: &old.Extra}
	maps.Copy(u.Headers, old.Headers)
	if old.Extra == nil {
		old.Extra = json.RawMessage("null")
	}
	u.Condition.Match.Tags = []string{string(made.ID)}
	// The original is gone, so the end of the request must not stop this.
	_, err = c.s.opened.UpdateObject(context.WithoutCancel(ctx), c.account.ID, m.bucket.BucketRef, u)
	return about(made.Name, err)
}

// summed is a body whose sums are computed as it is read.
type summed struct {
	io.Reader
	md5       hash.Hash
	checksum  hash.Hash // nil: none
	algorithm checksum.Algorithm
}

// newSummed returns a body with the checksum of an algorithm, or without if it is "". The checksum of a copy is computed again, because the
// checksum of an original with parts would be wrong for it.
func newSummed(body io.Reader, algorithm string) *summed {
	c := &summed{md5: md5.New()} //nolint:gosec // as above
	sums := []io.Writer{c.md5}
	if a, ok := checksum.ParseAlgorithm(algorithm); ok {
		c.algorithm, c.checksum = a, a.New()
		sums = append(sums, c.checksum)
	}
	c.Reader = io.TeeReader(body, io.MultiWriter(sums...))
	return c
}

// Sums implements buckets.Source.
func (c *summed) Sums() buckets.Sums {
	s := buckets.Sums{MD5: c.md5.Sum(nil)}
	if c.checksum != nil {
		s.Checksum = buckets.Checksum{Algorithm: c.algorithm.String(), Value: checksum.Of(c.algorithm, c.checksum).String()}
	}
	return s
}
