package maintenance_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
)

type lockedVersion struct {
	buckets.Object
	text string
}

// putLocked stores versions with every kind of lock behind newer versions and a delete marker.
func (s *site) putLocked() (all []lockedVersion) {
	s.t.Helper()
	s.must(s.service.LockNewBucket(s.t.Context(), s.owner, s.bucket))
	until := buckets.At(time.Now().Add(time.Hour))
	for i, lock := range []buckets.Lock{{Mode: buckets.Compliance, Until: until}, {Mode: buckets.Governance, Until: until}, {Hold: buckets.HoldOn}} {
		for _, name := range []string{"shown", "hidden"} {
			text := fmt.Sprint(name, i) + large(byte(i))
			w, err := s.service.PutObject(s.t.Context(), s.owner, s.bucket, buckets.PutRequest{
				Object: buckets.Object{Name: name, Properties: buckets.Properties{Lock: lock}}, Size: int64(len(text)),
			}, newSource(text))
			s.must(err)
			all = append(all, lockedVersion{w.Object, text})
		}
	}
	s.upload("parts", "part one", "part two")
	o, err := s.service.UpdateObject(s.t.Context(), s.owner, s.bucket, buckets.Update{Name: "parts", Lock: &buckets.LockChange{Hold: buckets.HoldOn}})
	s.must(err)
	all = append(all, lockedVersion{o, "part onepart two"})
	s.remove("hidden")
	s.remove("parts")
	return all
}

func (s *site) version(v *lockedVersion) buckets.Object {
	s.t.Helper()
	got, err := s.store.Version(s.t.Context(), s.owner, s.bucket.ID, v.Name, v.VersionID())
	s.must(err)
	return got.Object
}

func (s *site) wantLocked(all []lockedVersion, node string) {
	s.t.Helper()
	for i := range all {
		o := s.version(&all[i])
		r := s.service.Open(s.t.Context(), s.owner, s.bucket.ID, &o, buckets.Span{Length: o.Length})
		text, err := io.ReadAll(r)
		s.must(r.Close())
		if err != nil || string(text) != all[i].text || o.Lock != all[i].Lock || o.ID != all[i].ID {
			s.t.Errorf("%s: %.30q, %v, the lock %+v, want %.30q, %+v", all[i].Name, text, err, o.Lock, all[i].text, all[i].Lock)
		}
		if o.Upload == "" && len(o.Sharks) != 2 || slices.Contains(o.Sharks, node) {
			s.t.Errorf("%s is on %v", o.Name, o.Sharks)
		}
	}
}

// TestAuditOfLockedVersions checks that damaged copies are repaired. A version without a good copy keeps its lock.
func TestAuditOfLockedVersions(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		all := s.putLocked()
		for i := range all[:len(all)-1] {
			if o := &all[i].Object; i%2 == 0 {
				s.corrupt(o.Sharks[i%len(o.Sharks)], o)
			} else {
				s.must(os.Remove(s.file(o.Sharks[0], o)))
			}
		}
		s.age()
		found, result := s.audit(maintenance.AuditOptions{Verify: true, Repair: true})
		if len(found) != len(all)-1 || result.Left != 0 {
			t.Errorf("repair: %q, %d are left", found, result.Left)
		}
		s.wantLocked(all, "")
		s.wantFiles()
		s.wantAudit("after the repair", maintenance.AuditOptions{Verify: true, Level: 2})

		lost := &all[0]
		for _, node := range lost.Sharks {
			s.corrupt(node, &lost.Object)
		}
		s.age()
		for range 2 {
			if found, result = s.audit(maintenance.AuditOptions{Verify: true, Repair: true}); len(found) != 2 || result.Left != 2 {
				t.Errorf("without a good copy: %q, %d are left", found, result.Left)
			}
		}
		if o := s.version(lost); o.Lock != lost.Lock || !slices.Equal(o.Sharks, lost.Sharks) {
			t.Errorf("without a good copy: %+v, want %+v", o, lost.Object)
		}
		s.wantLocked(all[1:], "")
		s.wantFiles()
	})
}

// TestDrainOfLockedVersions checks that hidden versions move, too. A version without a good copy keeps its node.
func TestDrainOfLockedVersions(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		all := s.putLocked()
		node := all[0].Sharks[0]
		if d := s.drain(node, maintenance.DrainOptions{}); d.Failed != 0 || !d.Removed || d.Dropped != 0 {
			t.Errorf("%+v", d)
		}
		if left := s.files(node); len(left) > 0 {
			t.Errorf("files on the node: %v", left)
		}
		s.sync()
		s.wantLocked(all, node)
		s.wantFiles()

		s.must(s.store.SetNode(t.Context(), s.node(node)))
		s.sync()
		lost := s.version(&all[1])
		for _, id := range lost.Sharks {
			s.must(os.Remove(s.file(id, &lost)))
		}
		node = lost.Sharks[0]
		for _, o := range []maintenance.DrainOptions{{}, {FewerCopies: true}} {
			if d := s.drain(node, o); d.Failed != 1 || d.Removed || s.state(node) != buckets.NodeDraining {
				t.Errorf("without a good copy: %+v, the node is %s", d, s.state(node))
			}
		}
		if o := s.version(&all[1]); o.Lock != all[1].Lock || !slices.Equal(o.Sharks, lost.Sharks) {
			t.Errorf("without a good copy: %+v, want %+v", o, lost)
		}
		s.wantLocked(slices.Delete(slices.Clone(all), 1, 2), node)
	})
}
