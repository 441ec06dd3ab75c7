package buckets

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // S3's ETag is an MD5
	"errors"
	"hash"
	"io"
	"path"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/errcode"
)

// move is where selected objects go: keep copies them, and replace overwrites objects with the same name.
type move struct {
	bucket  buckets.Bucket
	keep    bool
	replace bool
}

// target reads a move's target from a form. The bucket must be the same account's.
func (c *selection) target(ctx context.Context, r *service.PageRequest) (m move, err error) {
	m.bucket, err = c.s.opened.Bucket(ctx, c.account.ID, cmp.Or(r.Value("to-bucket"), c.bucket.Name))
	m.keep, m.replace = r.Value("keep") == "yes", r.Value("replace") == "yes"
	return m, about(r.Value("to-bucket"), err)
}

// did returns the verb for notices.
func (m *move) did() string {
	if m.keep {
		return "copied"
	}
	return "moved"
}

// moveChosen moves or copies the selected objects, and folders with their structure below them.
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

// moveObject moves or copies a single object to a name.
func (s *Buckets) moveObject(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, object, err := s.object(ctx, r)
	if err != nil {
		return o, err
	}
	c := &selection{s: s, account: a, bucket: b}
	m, err := c.target(ctx, r)
	if err == nil {
		err = c.move(ctx, object.Name, r.Value("to"), m)
	}
	o.Notice = m.did() + " object " + object.Name
	o.Next = service.PageLink("objects", "account", a.Name, "bucket", m.bucket.Name, "prefix", folderOf(r.Value("to")))
	return o, err
}

// moveAttempts is how often an object is copied that changes meanwhile.
const moveAttempts = 5

// move copies an object and deletes the original. A repeated move resumes after an interruption.
func (c *selection) move(ctx context.Context, from, to string, m move) error {
	if err := buckets.CheckObjectName(to); err != nil {
		return err
	}
	if m.bucket.ID == c.bucket.ID && to == from {
		return errcode.Newf(errcode.Conflict, "%s is there already: choose another folder or bucket", path.Base(to))
	}
	var made buckets.Object
	for range moveAttempts {
		o, err := c.s.opened.Object(ctx, c.account.ID, c.bucket.ID, from)
		if errors.Is(err, buckets.ErrNoObject) {
			return nil // deleted concurrently
		} else if err != nil {
			return err
		}
		if made, err = c.copy(ctx, &o, to, m, made.ID); err != nil {
			return err
		}
		if !m.keep {
			err = c.s.opened.DeleteObject(ctx, c.account.ID, c.bucket.BucketRef, buckets.Delete{Name: from, Unchanged: &o})
		}
		switch {
		case errors.Is(err, buckets.ErrNoObject):
			return nil // deleted concurrently
		case err == nil:
			c.done++
			return nil
		case !errors.Is(err, buckets.ErrPrecondition):
			return err
		}
	}
	return errcode.Newf(errcode.Conflict, "%s changes all the time: it was copied, and the original stays", from)
}

// copy copies an object with its metadata, or returns the copy that an interrupted move left.
func (c *selection) copy(ctx context.Context, o *buckets.Object, to string, m move, former buckets.ObjectID) (buckets.Object, error) {
	put := buckets.PutRequest{Size: o.Length, Object: buckets.Object{
		Name: to, Creator: o.Creator, ContentType: o.ContentType, Headers: o.Headers, Roles: o.Roles, Properties: buckets.Properties{Tags: o.Tags, Class: o.Class, Extra: o.Extra},
	}}
	if former != "" {
		put.Condition.Match.Tags = []string{string(former)}
	} else {
		put.Condition.NoneMatch.Any = !m.replace
	}
	body := c.s.opened.Open(ctx, c.account.ID, c.bucket.ID, o, buckets.Span{Length: o.Length})
	defer func() { _ = body.Close() }()
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

// copied reports whether the object at the target is an equal copy from an interrupted move, whose original still
// exists.
func (c *selection) copied(ctx context.Context, o *buckets.Object, to string, m move) (there buckets.Object, same bool, err error) {
	there, err = c.s.opened.Object(ctx, c.account.ID, m.bucket.ID, to)
	if errors.Is(err, buckets.ErrNoObject) {
		return there, false, nil // deleted concurrently
	}
	if err != nil || there.Length != o.Length || !there.SameMetadata(o) || there.Checksum.Algorithm != o.Checksum.Algorithm {
		return there, false, err
	}
	if o.MD5 != nil {
		return there, bytes.Equal(there.MD5, o.MD5), nil
	}
	// Multipart objects have no MD5, but copies need one.
	body := c.s.opened.Open(ctx, c.account.ID, c.bucket.ID, o, buckets.Span{Length: o.Length})
	defer func() { _ = body.Close() }()
	sum := md5.New() //nolint:gosec // as above
	_, err = io.Copy(sum, body)
	return there, bytes.Equal(there.MD5, sum.Sum(nil)), err
}

// summed computes a body's sums while it is read.
type summed struct {
	io.Reader
	md5       hash.Hash
	checksum  hash.Hash
	algorithm checksum.Algorithm
}

// newSummed computes an MD5 and, if algorithm is set, that checksum. A multipart object's own checksum does not match
// its copy.
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

// Sums covers the bytes that were read. Call it when the body has ended.
func (c *summed) Sums() buckets.Sums {
	s := buckets.Sums{MD5: c.md5.Sum(nil)}
	if c.checksum != nil {
		s.Checksum = buckets.Checksum{Algorithm: c.algorithm.String(), Value: checksum.Of(c.algorithm, c.checksum).String()}
	}
	return s
}
