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
	"holdfast/internal/replica"
)

// moving is an object with everything that clients can store with a body.
type moving struct {
	*testing.T
	*selection
	m    move
	body string
	full buckets.Object
}

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
	v := &moving{T: t, selection: &selection{s: s, account: a, bucket: buckets.Bucket{BucketRef: from}}, m: move{bucket: to}, body: body}
	v.full = buckets.Object{
		ContentType: "image/png", Creator: owner, Headers: map[string]string{"m-author": "A", "cache-control": "no-store"}, Roles: []string{buckets.NewUUID()},
		Properties: buckets.Properties{Tags: map[string]string{"project": "x"}, Extra: json.RawMessage(`{"a":1}`)},
	}
	return v
}

func (v *moving) put(b buckets.BucketRef, name string, o buckets.Object, body string) {
	v.Helper()
	o.Name = name
	if _, err := v.s.opened.PutObject(v.Context(), v.account.ID, b, buckets.PutRequest{Object: o, Size: int64(len(body))}, newSummed(strings.NewReader(body), "CRC32")); err != nil {
		v.Fatal(err)
	}
}

func (v *moving) has(b buckets.BucketRef, name string, want buckets.Object) {
	v.Helper()
	o, err := v.s.opened.Object(v.Context(), v.account.ID, b.ID, name)
	if err != nil {
		v.Errorf("%s/%s: %v", b.Name, name, err)
		return
	}
	head, err := v.s.head(v.Context(), v.account, buckets.Bucket{BucketRef: b}, &o, o.Length)
	if err != nil || string(head) != v.body || !o.SameMetadata(&want) || o.Checksum.Algorithm != "CRC32" || o.Checksum.Value == "" {
		v.Errorf("%s/%s: %d bytes, %v, %+v", b.Name, name, len(head), err, o)
	}
}

func (v *moving) gone(b buckets.BucketRef, name string) {
	v.Helper()
	if _, err := v.s.opened.Object(v.Context(), v.account.ID, b.ID, name); !errors.Is(err, buckets.ErrNoObject) {
		v.Errorf("%s/%s: %v", b.Name, name, err)
	}
}

// TestMove checks that a move keeps the body and its metadata, even if interrupted between the copy and the deletion.
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
	if _, err := v.copy(t.Context(), &o, "d", v.m, ""); err != nil { // before the server stops
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

// TestMoveConflicts checks that a target with a different body, tag or header is a conflict, and that both objects
// remain.
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

// whileCopied calls then after each of the next copies to the bucket "archive", before the original is deleted.
func (v *moving) whileCopied(times int, then func()) {
	watch := func(body replica.Body) func(kept bool) {
		if !strings.Contains(body.Name, string(v.m.bucket.ID)) {
			return func(bool) {}
		}
		return func(kept bool) {
			if kept && times > 0 {
				times--
				then()
			}
		}
	}
	v.s.watcher.Store(&watch)
}

// TestMoveMeanwhile checks that a move includes concurrent changes to tags, metadata and the body. The copy never
// replaces another client's object, and an object that keeps changing is not moved.
func TestMoveMeanwhile(t *testing.T) {
	t.Parallel()
	v := openMoving(t, "a body")
	tags, kind, none := map[string]string{"project": "z"}, "image/gif", json.RawMessage("null")
	update := func(u buckets.Update) func() {
		return func() {
			u.Name = "a"
			if _, err := v.s.opened.UpdateObject(t.Context(), v.account.ID, v.bucket.BucketRef, u); err != nil {
				t.Error(err)
			}
		}
	}
	tagged, typed, without := v.full, v.full, v.full
	tagged.Tags, typed.ContentType, without.Extra = tags, kind, nil
	for name, c := range map[string]struct {
		then func()
		want buckets.Object
	}{
		"tags":         {update(buckets.Update{Tags: &tags}), tagged},
		"content type": {update(buckets.Update{ContentType: &kind}), typed},
		"properties":   {update(buckets.Update{Extra: &none}), without},
		"body":         {func() { v.put(v.bucket.BucketRef, "a", tagged, v.body) }, tagged},
	} {
		v.put(v.bucket.BucketRef, "a", v.full, v.body)
		v.whileCopied(1, c.then)
		if err := v.move(t.Context(), "a", name, v.m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		v.gone(v.bucket.BucketRef, "a")
		v.has(v.m.bucket.BucketRef, name, c.want)
	}

	n := 0
	v.put(v.bucket.BucketRef, "a", v.full, v.body)
	v.whileCopied(100, func() {
		n++
		update(buckets.Update{Tags: &map[string]string{"n": strings.Repeat("x", n)}})()
	})
	if err := v.move(t.Context(), "a", "b", v.m); errcode.Of(err) != errcode.Conflict || n != moveAttempts {
		t.Errorf("an object that changes all the time: %v after %d copies", err, n)
	}
	changed := v.full
	changed.Tags = map[string]string{"n": strings.Repeat("x", n)}
	v.has(v.bucket.BucketRef, "a", changed)

	v.whileCopied(1, func() {
		update(buckets.Update{Tags: &tags})()
		v.put(v.m.bucket.BucketRef, "c", v.full, v.body)
	})
	if err := v.move(t.Context(), "a", "c", v.m); errcode.Of(err) != errcode.Precondition {
		t.Errorf("somebody else writes the target: %v", err)
	}
	v.has(v.bucket.BucketRef, "a", tagged)
	v.has(v.m.bucket.BucketRef, "c", v.full)
}

// TestMoveParts checks that the repeated move of a multipart object compares the bodies.
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

// TestMoveTwice checks that concurrent moves of the same objects, to the same or different targets, lose nothing.
func TestMoveTwice(t *testing.T) {
	t.Parallel()
	v := openMoving(t, "a body")
	for _, targets := range [][2]string{{"x", "x"}, {"x", "y"}} {
		for range 20 {
			v.put(v.bucket.BucketRef, "a", v.full, v.body)
			var both sync.WaitGroup
			for _, to := range targets {
				both.Go(func() {
					c := &selection{s: v.s, account: v.account, bucket: v.bucket}
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
