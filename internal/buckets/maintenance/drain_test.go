package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
)

func (s *site) drain(id string, o maintenance.DrainOptions) maintenance.Drained {
	s.t.Helper()
	d, err := maintenance.Drain(s.t.Context(), s.during(id), s.node(id), o)
	s.must(err)
	return d
}

// during returns options with which the cluster learns the node's state before the first body moves.
func (s *site) during(string) maintenance.Options {
	o := s.options()
	o.Show = func(maintenance.Step, int64, int64) { s.sync() }
	return o
}

func (s *site) state(id string) buckets.NodeState {
	s.t.Helper()
	all, err := s.store.Nodes(s.t.Context())
	s.must(err)
	for _, n := range all {
		if n.ID == id {
			return n.State
		}
	}
	return ""
}

// fill stores objects, an upload and garbage. It returns the objects.
func (s *site) fill(n int) (texts map[string]string) {
	s.t.Helper()
	texts = map[string]string{}
	for i := range n {
		name := fmt.Sprintf("o%03d", i)
		texts[name] = name
		if i%5 == 0 { // larger than a chunk
			texts[name] += large(byte(i))
		}
		s.put(name, texts[name])
	}
	texts["up"] = "one" + "two" + "three"
	s.upload("up", "one", "two", "three")
	for i := range 5 {
		name := fmt.Sprintf("garbage%d", i)
		s.put(name, name)
		s.remove(name)
	}
	return texts
}

func (s *site) wantAll(texts map[string]string) {
	s.t.Helper()
	for name, text := range texts {
		s.want(name, text)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		texts := s.fill(20)
		stale := s.row("o000")
		node := stale.Sharks[0]
		d := s.drain(node, maintenance.DrainOptions{})
		if d.Moved < 2 || d.Failed != 0 || d.Stray != 0 || !d.Removed || s.state(node) != buckets.NodeRemoved {
			t.Errorf("%+v, the node is %s", d, s.state(node))
		}
		if left := s.files(node); len(left) > 0 {
			t.Errorf("files on the node: %v", left)
		}
		s.sync()
		s.wantAll(texts)
		s.wantFiles()
		for name := range texts {
			if o := s.row(name); o.Upload == "" && len(o.Sharks) != 2 {
				t.Errorf("%s is on %v", name, o.Sharks)
			}
		}
		// This reader read the row before the body moved.
		r := s.service.Open(t.Context(), s.owner, s.bucket.ID, &stale, buckets.Span{Length: stale.Length})
		defer r.Close()
		if n, err := r.Read(make([]byte, 10)); n == 0 || err != nil {
			t.Errorf("read by an old row: %d %v", n, err)
		}
		s.must(s.store.SetNode(t.Context(), s.node(node)))
		if d := s.drain(node, maintenance.DrainOptions{Keep: true}); d.Removed || s.state(node) != buckets.NodeDraining {
			t.Errorf("keep: %+v, the node is %s", d, s.state(node))
		}
	})
}

func TestDrainOfGoneNode(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		texts := s.fill(20)
		node := "west:1"
		s.must(os.RemoveAll(s.dirs[node]))
		d := s.drain(node, maintenance.DrainOptions{})
		if d.Failed != 0 || d.Stray == 0 || !d.Removed {
			t.Errorf("%+v", d)
		}
		s.sync()
		s.wantAll(texts)
		s.wantFiles()
		s.wantAudit("afterwards", maintenance.AuditOptions{Level: 2, Verify: true})
	})
}

// TestDrainOfLastCopy checks that a body without another good copy keeps its row and its node.
func TestDrainOfLastCopy(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		s.put("a", "abc")
		lost := s.put("lost", "lost")
		for _, id := range lost.Sharks {
			s.must(os.Remove(s.file(id, &lost)))
		}
		node := lost.Sharks[0]
		d := s.drain(node, maintenance.DrainOptions{})
		if d.Failed != 1 || d.Removed || len(d.Reasons) != 1 || s.state(node) != buckets.NodeDraining {
			t.Errorf("%+v", d)
		}
		s.remove("lost")
		if d = s.drain(node, maintenance.DrainOptions{}); d.Failed != 0 || !d.Removed {
			t.Errorf("after it was deleted: %+v", d)
		}
	})
}

// TestDrainFewerCopies checks that a drain without a node for the second copy fails, or drops that copy if accepted.
func TestDrainFewerCopies(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		texts := s.fill(5)
		s.drain("east:1", maintenance.DrainOptions{})
		s.sync()
		d := s.drain("east:2", maintenance.DrainOptions{})
		if d.Failed == 0 || d.Removed {
			t.Errorf("%+v", d)
		}
		d = s.drain("east:2", maintenance.DrainOptions{FewerCopies: true})
		if d.Failed != 0 || d.Dropped == 0 || !d.Removed {
			t.Errorf("fewer copies: %+v", d)
		}
		s.sync()
		s.wantAll(texts)
		s.wantFiles()
	})
}

func TestDrainResumes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		texts := s.fill(40)
		stops := 0
		for {
			ctx, cancel := context.WithCancel(t.Context())
			o := s.options()
			o.Show = func(step maintenance.Step, n, _ int64) {
				s.sync()
				if step == maintenance.Moving && n == 3 {
					cancel()
				}
			}
			d, err := maintenance.Drain(ctx, o, s.node("east:1"), maintenance.DrainOptions{})
			cancel()
			if err == nil {
				if !d.Removed {
					t.Errorf("%+v", d)
				}
				break
			}
			if stops++; !errors.Is(err, context.Canceled) || stops > 20 {
				t.Fatalf("%d: %v", stops, err)
			}
		}
		if stops < 2 {
			t.Errorf("%d stops", stops)
		}
		s.sync()
		s.wantAll(texts)
		s.age()
		s.audit(maintenance.AuditOptions{Repair: true}) // removes unreferenced copies
		s.wantFiles()
		s.wantAll(texts)
	})
}

// TestDrainBesideWrites checks that objects written, overwritten, deleted or collected during a drain keep good
// copies.
func TestDrainBesideWrites(t *testing.T) {
	t.Parallel()
	onEach(t, drainBesideWrites)
}

func drainBesideWrites(t *testing.T, s *site) {
	t.Helper()
	texts := s.fill(30)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	for w := range 3 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("o%03d", (7*i+w)%40)
				text := fmt.Sprint(name, w, i)
				mu.Lock() // texts must hold the last text of each name
				if i%5 == 4 {
					_, err := s.store.Delete(t.Context(), s.owner, s.bucket, buckets.Delete{Name: name, Now: buckets.At(time.Now())})
					if err == nil {
						delete(texts, name)
					}
				} else if _, err := s.service.PutObject(t.Context(), s.owner, s.bucket, buckets.PutRequest{Object: buckets.Object{Name: name}, Size: int64(len(text))}, newSource(text)); err == nil {
					texts[name] = text
				} else if !errors.Is(err, buckets.ErrNodeRemoved) {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	writers.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.service.Collect(t.Context(), time.Now(), 10); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	d := s.drain("east:1", maintenance.DrainOptions{})
	cancel()
	writers.Wait()
	if !d.Removed || d.Failed != 0 {
		t.Errorf("%+v", d)
	}
	s.must(s.store.References(t.Context(), func(r buckets.Reference) error {
		if slices.Contains(r.Sharks, "east:1") {
			t.Errorf("%s is on %v", r.Name, r.Sharks)
		}
		return nil
	}))
	s.sync()
	s.wantAll(texts)
	s.age()
	found, _ := s.audit(maintenance.AuditOptions{Repair: true, Verify: true, Level: 2})
	for _, f := range found {
		if f[:12] != "unreferenced" {
			t.Errorf("found %s", f)
		}
	}
	// A drain may take garbage whose files a collector already removed.
	if _, err := s.service.Collect(t.Context(), time.Now(), 10_000); err != nil {
		t.Error(err)
	}
	s.wantFiles()
	s.wantAll(texts)
}

func TestBackupHolds(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		o := s.put("a", "abc")
		stray := o
		stray.ID = buckets.ObjectID(buckets.NewUUID())
		s.must(os.MkdirAll(filepath.Dir(s.file("west:1", &stray)), 0o700))
		s.write(s.file("west:1", &stray), []byte("x"))
		hold := func() (release func()) {
			s.must(s.store.Hold(t.Context(), "backup", buckets.At(time.Now()), buckets.At(time.Now().Add(time.Hour))))
			return func() { s.must(s.store.Release(t.Context(), "backup")) }
		}
		waits := 0
		options := s.during("west:1")
		release := hold()
		options.Waiting = func(buckets.Moment) {
			waits++
			if now := s.row("a"); !slices.Equal(now.Sharks, o.Sharks) || len(s.files("west:1")) != 2 {
				t.Errorf("changed during the backup: %v %v", now.Sharks, s.files("west:1"))
			}
			release()
		}
		result, err := maintenance.Audit(t.Context(), options, maintenance.AuditOptions{Repair: true}, func(maintenance.Finding) error { return nil })
		if err != nil || result.Left != 0 || waits != 1 || len(s.files("west:1")) != 1 {
			t.Errorf("audit: %+v %v, %d waits", result, err, waits)
		}
		s.put("b", "abc")
		release = hold()
		var once sync.Once
		options.Waiting = func(buckets.Moment) {
			once.Do(func() {
				waits++
				if len(s.files("west:1")) != 2 {
					t.Errorf("removed during the backup: %v", s.files("west:1"))
				}
				release()
			})
		}
		if d, err := maintenance.Drain(t.Context(), options, s.node("west:1"), maintenance.DrainOptions{}); err != nil || !d.Removed || waits != 2 {
			t.Errorf("drain: %+v %v, %d waits", d, err, waits)
		}
	})
}
