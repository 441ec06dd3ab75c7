package maintenance_test

import (
	"crypto/md5"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/checksum"
)

// putOld stores an object without frames, like an earlier release.
func (s *site) putOld(name, text string) buckets.Object {
	s.t.Helper()
	sum := md5.Sum([]byte(text))
	o := buckets.Object{Name: name, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: int64(len(text)), MD5: sum[:], Sharks: nodeIDs[:2]}}
	w, err := s.store.Put(s.t.Context(), s.owner, s.bucket, buckets.Put{Object: o, Now: 1})
	s.must(err)
	for _, id := range o.Sharks {
		s.must(os.MkdirAll(filepath.Dir(s.file(id, &o)), 0o700))
		s.write(s.file(id, &o), []byte(text))
	}
	return w.Object
}

func (s *site) wantFrames(name, text string) {
	s.t.Helper()
	o := s.row(name)
	if !o.Frames.Set || o.Frames.Value.CRC64NVME != checksum.UpdateCRC64(0, []byte(text)) {
		s.t.Fatalf("%s has the frames %+v", name, o.Frames)
	}
	for _, id := range o.Sharks {
		v, err := s.cluster.Verify(s.t.Context(), s.path(&o), s.reference(&o), id, nil)
		if err != nil || !v.Framed || v.Frames != o.Frames.Value {
			s.t.Errorf("copy of %s on %s: %+v, %v; want %+v", name, id, v, err, o.Frames.Value)
		}
	}
	s.want(name, text)
}

func (s *site) addFrames(o *buckets.Object) error {
	return maintenance.AddFrames(s.t.Context(), s.store, s.cluster, s.reference(o), nil)
}

func TestAddFrames(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		text := large('a') + large('b')
		for name, damage := range map[string]func(o buckets.Object){
			"good":    func(buckets.Object) {},
			"damaged": func(o buckets.Object) { s.flip(o.Sharks[0], &o, rand.IntN(len(text))) },
			"missing": func(o buckets.Object) { s.must(os.Remove(s.file(o.Sharks[1], &o))) },
			"half":    func(o buckets.Object) { s.must(os.Truncate(s.file(o.Sharks[1], &o), 200_000)) },
		} {
			o := s.putOld(name, text)
			damage(o)
			s.want(name, text)
			s.must(s.addFrames(&o))
			s.wantFrames(name, text)
			s.must(s.addFrames(&o)) // with the old row
			s.wantFrames(name, text)
		}
		lost := s.putOld("lost", text)
		for _, id := range lost.Sharks {
			s.flip(id, &lost, 7)
		}
		if err := s.addFrames(&lost); err == nil || s.row("lost").Frames.Set {
			t.Errorf("a body without a good copy: %v, frames %+v", err, s.row("lost").Frames)
		}
		deleted := s.putOld("deleted", text)
		_, err := s.store.Delete(t.Context(), s.owner, s.bucket, buckets.Delete{Name: "deleted", Now: 2})
		s.must(err)
		s.must(s.addFrames(&deleted))
		if _, err := s.cluster.Stat(t.Context(), deleted.Sharks[0], s.path(&deleted)); err != nil {
			t.Error(err)
		}
	})
}

// TestAddFramesToOldRows checks that copies keep frames that a restored database does not know.
func TestAddFramesToOldRows(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		text := large('a')
		o := s.putOld("a", text)
		s.must(s.addFrames(&o))
		files := [][]byte{s.read(s.file(o.Sharks[0], &o)), s.read(s.file(o.Sharks[1], &o))}
		_, err := s.store.Put(t.Context(), s.owner, s.bucket, buckets.Put{Object: o, Now: 3}) // without frames
		s.must(err)
		s.want("a", text)
		s.must(s.addFrames(&o))
		s.wantFrames("a", text)
		for i, id := range o.Sharks {
			if !slices.Equal(s.read(s.file(id, &o)), files[i]) {
				t.Errorf("the copy on %s was changed", id)
			}
		}
	})
}

// TestStoppedAddFrames resumes after the row got frames, but a copy did not.
func TestStoppedAddFrames(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		text := large('a')
		o := s.putOld("a", text)
		s.must(s.addFrames(&o))
		s.write(s.file(o.Sharks[0], &o), []byte(text))
		s.want("a", text)
		s.wantAudit("a copy without frames", maintenance.AuditOptions{Verify: true})
		o = s.row("a")
		s.must(s.addFrames(&o))
		s.wantFrames("a", text)
	})
}

func TestRepairFromPieces(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		text := large('a') + large('b')
		o := s.put("a", text)
		s.flip(o.Sharks[0], &o, 10)
		s.flip(o.Sharks[1], &o, int(blobs.StoredSize(&o.Body))-10)
		s.wantAudit("two damaged copies", maintenance.AuditOptions{Verify: true, Repair: true}, "corrupt "+o.Sharks[0]+" a repaired", "corrupt "+o.Sharks[1]+" a repaired")
		s.wantFrames("a", text)
	})
}

func (s *site) flip(node string, o *buckets.Object, at int) {
	s.t.Helper()
	b := s.read(s.file(node, o))
	b[at] ^= 1
	s.write(s.file(node, o), b)
}
