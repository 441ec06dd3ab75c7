package buckets

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// moving has an object with everything that clients can store with a body.
type moving struct {
	*testing.T
	*chosen
	m    move
	body string
	full buckets.Object
}

// openMoving stores a body in a bucket "photos" and creates a bucket "archive".
func openMoving(t *testing.T, body string) *moving {
	t.Helper()
	s, _ := openBuckets(t, t.TempDir())
	owner, from, _ := s.stored(t, body)
	a, err := s.opened.Account(t.Context(), firstAccount)
	if err != nil {
		t.Fatal(err)
	}
	to, err := s.opened.CreateBucket(t.Context(), owner, "archive")
	if err != nil {
		t.Fatal(err)
	}
	v := &moving{T: t, chosen: &chosen{s: s, account: a, bucket: buckets.Bucket{BucketRef: from}}, m: move{bucket: to}, body: body}
	v.full = buckets.Object{
		ContentType: "image/png", Creator: owner, Headers: map[string]string{"m-author": "A", "cache-control": "no-store"}, Roles: []string{buckets.NewUUID()},
		Properties: buckets.Properties{Tags: map[string]string{"project": "x"}, Extra: json.RawMessage(`{"a":1}`)},
	}
	return v
}

// put stores an object with the body and a CRC32.
func (v *moving) put(b buckets.BucketRef, name string, o buckets.Object, body string) {
	v.Helper()
	o.Name = name
	if _, err := v.s.opened.PutObject(v.Context(), v.account.ID, b, buckets.PutRequest{Object: o, Size: int64(len(body))}, newSummed(strings.NewReader(body), "CRC32")); err != nil {
		v.Fatal(err)
	}
}

// has checks that a bucket has an object with the body and all metadata.
func (v *moving) has(b buckets.BucketRef, name string, want buckets.Object) {
	v.Helper()
	o, err := v.s.opened.Object(v.Context(), v.account.ID, b.ID, name)
	if err != nil {
		v.Errorf("%s/%s: %v", b.Name, name, err)
		return
	}
	head, err := v.s.head(v.Context(), v.account, buckets.Bucket{BucketRef: b}, &o, o.Length)
	if err != nil || string(head) != v.body || !sameMetadata(&o, &want) || o.Checksum.Algorithm != "CRC32" || o.Checksum.Value == "" {
		v.Errorf("%s/%s: %d bytes, %v, %+v", b.Name, name, len(head), err, o)
	}
}

func (v *moving) gone(b buckets.BucketRef, name string) {
	v.Helper()
	if _, err := v.s.opened.Object(v.Context(), v.account.ID, b.ID, name); !errors.Is(err, buckets.ErrNoObject) {
		v.Errorf("%s/%s: %v", b.Name, name, err)
	}
}

// TestMove: a move keeps the body and everything stored with it, also after an interruption between the copy and the deletion.
func TestMove(t *testing.T) {
	t.Parallel()
	v := openMoving(t, strings.Repeat("a body ", 1000))
	v.put(v.bucket.BucketRef, "a", v.full, v.body)
	if err := v.move(t.Context(), "a", "b", v.m); err != nil {
		t.Fatal(err)
	}
	v.has(v.m.bucket.BucketRef, "b", v.full)
	v.gone(v.bucket.BucketRef, "a")

	v.put(v.bucket.BucketRef, "c", v.full, v.body)
	o, err := v.s.opened.Object(t.Context(), v.account.ID, v.bucket.ID, "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.copy(t.Context(), &o, "d", v.m); err != nil { // and then the server stops
		t.Fatal(err)
	}
	v.has(v.bucket.BucketRef, "c", v.full)
	if err := v.move(t.Context(), "c", "d", v.m); err != nil {
		t.Errorf("the move after the interrupted one: %v", err)
	}
	v.has(v.m.bucket.BucketRef, "d", v.full)
	v.gone(v.bucket.BucketRef, "c")
	if err := v.move(t.Context(), "c", "d", v.m); err != nil || v.done != 2 {
		t.Errorf("the original is moved already: %v, %d done", err, v.done)
	}
}

// TestMoveConflicts: a target that differs in the body, a tag, a header or anything else is a conflict, and both objects stay.
func TestMoveConflicts(t *testing.T) {
	t.Parallel()
	v := openMoving(t, "a body")
	for name, change := range map[string]func(o *buckets.Object){
		"tag":          func(o *buckets.Object) { o.Tags = map[string]string{"project": "y"} },
		"tags":         func(o *buckets.Object) { o.Tags = nil },
		"header":       func(o *buckets.Object) { o.Headers = map[string]string{"m-author": "A"} },
		"content type": func(o *buckets.Object) { o.ContentType = "image/gif" },
		"roles":        func(o *buckets.Object) { o.Roles = nil },
		"properties":   func(o *buckets.Object) { o.Extra = json.RawMessage(`{"a":2}`) },
		"creator":      func(o *buckets.Object) { o.Creator = buckets.AccountID(buckets.NewUUID()) },
	} {
		other := v.full
		change(&other)
		v.put(v.bucket.BucketRef, name, v.full, v.body)
		v.put(v.m.bucket.BucketRef, name, other, v.body)
		if err := v.move(t.Context(), name, name, v.m); errcode.Of(err) != errcode.Precondition {
			t.Errorf("another %s: %v", name, err)
		}
		v.has(v.bucket.BucketRef, name, v.full)
		v.has(v.m.bucket.BucketRef, name, other)
	}
	v.put(v.bucket.BucketRef, "k2", v.full, v.body)
	v.put(v.m.bucket.BucketRef, "k2", v.full, "b body")
	if err := v.move(t.Context(), "k2", "k2", v.m); errcode.Of(err) != errcode.Precondition {
		t.Errorf("another body: %v", err)
	}
	v.has(v.bucket.BucketRef, "k2", v.full)
}

// TestMoveMeanwhile: an original that is overwritten while it is copied stays, and a tag that is set meanwhile goes to the copy.
func TestMoveMeanwhile(t *testing.T) {
	t.Parallel()
	v := openMoving(t, "a body")
	read := func(name string) (o, made buckets.Object) {
		v.put(v.bucket.BucketRef, name, v.full, v.body)
		o, err := v.s.opened.Object(t.Context(), v.account.ID, v.bucket.ID, name)
		if err == nil {
			made, err = v.copy(t.Context(), &o, name, v.m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return o, made
	}
	o, made := read("a")
	v.put(v.bucket.BucketRef, "a", v.full, v.body)
	if err := v.remove(t.Context(), &o, &made, v.m); errcode.Of(err) != errcode.Conflict {
		t.Errorf("the original was overwritten: %v", err)
	}
	v.has(v.bucket.BucketRef, "a", v.full)

	o, made = read("b")
	changed := v.full
	changed.Tags, changed.Extra = map[string]string{"project": "z"}, nil
	none := json.RawMessage("null")
	if _, err := v.s.opened.UpdateObject(t.Context(), v.account.ID, v.bucket.BucketRef, buckets.Update{Name: "b", Tags: &changed.Tags, Extra: &none}); err != nil {
		t.Fatal(err)
	}
	if err := v.remove(t.Context(), &o, &made, v.m); err != nil {
		t.Error(err)
	}
	v.gone(v.bucket.BucketRef, "b")
	v.has(v.m.bucket.BucketRef, "b", changed)
}

// TestMoveParts: the repeated move of an object that was uploaded in parts compares the bodies.
func TestMoveParts(t *testing.T) {
	t.Parallel()
	v := openMoving(t, strings.Repeat("p", buckets.MinPart)+"end")
	ctx, key := t.Context(), buckets.UploadKey{Owner: v.account.ID, Bucket: v.bucket.BucketRef, Name: "a"}
	upload := func() {
		id, err := v.s.opened.CreateUpload(ctx, key.Owner, key.Bucket, buckets.Upload{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		key.ID = id
		var done buckets.Completion
		for i, body := range []string{v.body[:buckets.MinPart], v.body[buckets.MinPart:]} {
			p, err := v.s.opened.PutPart(ctx, key, buckets.PartRequest{Number: i + 1, Size: int64(len(body))}, text{bytes.NewReader([]byte(body))})
			if err != nil {
				t.Fatal(err)
			}
			done.Parts = append(done.Parts, buckets.PartRef{Number: p.Number, ETag: hex.EncodeToString(p.MD5)})
		}
		if _, err := v.s.opened.CompleteUpload(ctx, key, done); err != nil {
			t.Fatal(err)
		}
	}
	upload()
	keep := v.m
	keep.keep = true
	if err := errors.Join(v.move(ctx, "a", "b", keep), v.move(ctx, "a", "b", v.m)); err != nil {
		t.Errorf("the move after the interrupted one: %v", err)
	}
	v.gone(v.bucket.BucketRef, "a")
	upload()
	other := v.body[1:] + "x"
	v.put(v.m.bucket.BucketRef, "b", buckets.Object{}, other)
	if err := v.move(ctx, "a", "b", v.m); errcode.Of(err) != errcode.Precondition {
		t.Errorf("another body with the same length: %v", err)
	}
	if _, err := v.s.opened.Object(ctx, v.account.ID, v.bucket.ID, "a"); err != nil {
		t.Error(err)
	}
}

// TestMoveTwice: two operators who move the same objects at once, to the same place or to different places, lose nothing.
func TestMoveTwice(t *testing.T) {
	t.Parallel()
	v := openMoving(t, "a body")
	for _, targets := range [][2]string{{"x", "x"}, {"x", "y"}} {
		for range 20 {
			v.put(v.bucket.BucketRef, "a", v.full, v.body)
			var both sync.WaitGroup
			for _, to := range targets {
				both.Go(func() {
					c := &chosen{s: v.s, account: v.account, bucket: v.bucket}
					if err := c.move(context.WithoutCancel(t.Context()), "a", to, v.m); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			v.gone(v.bucket.BucketRef, "a")
			found := 0
			for _, to := range []string{"x", "y"} {
				if _, err := v.s.opened.Object(t.Context(), v.account.ID, v.m.bucket.ID, to); err == nil {
					found++
					v.has(v.m.bucket.BucketRef, to, v.full)
					if err := v.s.opened.DeleteObject(t.Context(), v.account.ID, v.m.bucket.BucketRef, buckets.Delete{Name: to}); err != nil {
						t.Error(err)
					}
				}
			}
			if found == 0 {
				t.Fatal("the object is lost")
			}
		}
	}
}
