package httpapi_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
)

type garbage struct {
	ID      *string `json:"batch_id"`
	Expires time.Time
	Garbage []struct {
		ID, Name, Path, Upload string
		BucketID               string `json:"bucket_id"`
		Owner                  string
		ContentLength          int64 `json:"content_length"`
		Sharks                 []struct {
			Datacenter string
			StorageID  string `json:"manta_storage_id"`
		}
		DeletedAt time.Time `json:"deleted_at"`
		record
	}
}

func (a *answer) batch() (b garbage) {
	a.t.Helper()
	a.into(&b)
	return b
}

func (b *garbage) names() (names []string) {
	for i := range b.Garbage {
		names = append(names, b.Garbage[i].Name)
	}
	return names
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testGarbage)
}

func testGarbage(t *testing.T, s *server) {
	gc := s.as(s.other, true)
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, hello+name)
		s.do("DELETE", objects+name, "").is(204)
		s.clock.Advance(time.Second)
	}
	if b := gc.do("POST", batches, "").is(200).batch(); b.ID != nil || len(b.Garbage) > 0 {
		t.Errorf("before the grace period has ended: %+v", b)
	}
	s.clock.Advance(grace)
	gc, s = s.as(s.other, true), s.as(s.main, false)
	one := gc.do("POST", batches+"?limit=2", "").is(201).batch()
	if !slices.Equal(one.names(), []string{"a", "b"}) || !one.Expires.After(s.clock.Now()) {
		t.Fatalf("%+v", one)
	}
	for _, g := range one.Garbage {
		if g.Owner != string(s.main.ID) || g.ContentLength != int64(len(hello)+1) || len(g.Sharks) != 2 || g.Upload != "" {
			t.Errorf("%+v", g)
		}
		for _, folder := range s.folders {
			if _, err := os.Stat(filepath.Join(folder, g.Path)); err != nil {
				t.Error(err)
			}
		}
	}
	two := gc.do("POST", batches, "").is(201).batch()
	if !slices.Equal(two.names(), []string{"c"}) {
		t.Errorf("%+v", two)
	}
	if b := gc.do("POST", batches, "").is(200).batch(); b.ID != nil {
		t.Errorf("garbage was claimed twice: %+v", b)
	}
	at := batches + "/" + *one.ID
	if b := gc.do("GET", at, "").is(200).batch(); *b.ID != *one.ID || !slices.Equal(b.names(), one.names()) {
		t.Errorf("%+v", b)
	}
	// The client may have removed a body.
	if err := os.Remove(filepath.Join(s.folders[0], one.Garbage[0].Path)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		gc.do("DELETE", at, "").is(204)
		if b := gc.do("GET", at, "").is(200).batch(); len(b.Garbage) > 0 {
			t.Errorf("%+v", b)
		}
	}
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	// After the claim expires, another worker gets the remaining garbage and the first worker frees nothing.
	s.clock.Advance(two.Expires.Sub(s.clock.Now()))
	gc = s.as(s.other, true)
	gc.do("DELETE", batches+"/"+*two.ID, "").is(204)
	if n := s.files(); n != 2 {
		t.Errorf("%d files after an expired batch was freed, want 2", n)
	}
	three := gc.do("POST", batches, "").is(201).batch()
	if !slices.Equal(three.names(), []string{"c"}) || *three.ID == *two.ID {
		t.Errorf("%+v", three)
	}
	gc.do("DELETE", batches+"/"+*two.ID, "").is(204)
	gc.do("DELETE", batches+"/"+*three.ID, "").is(204)
	if n := s.files(); n != 0 {
		t.Errorf("%d files, want none", n)
	}
	for _, limit := range []string{"0", "1025", "x"} {
		gc.do("POST", batches+"?limit="+limit, "").fails(400, "LimitConstraintError")
	}
	gc.do("POST", batches, "{}").fails(400, "InvalidArgument")
	for _, bad := range []string{"x", "%00", "00000000-0000-0000-0000-000000000000"} {
		gc.do("GET", batches+"/"+bad, "").fails(400, "InvalidArgument")
		gc.do("DELETE", batches+"/"+bad, "").fails(400, "InvalidArgument")
	}
	gc.do("DELETE", batches+"/"+strings.ToUpper(buckets.NewUUID()), "").is(204)
}

func TestGarbageOfS3(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.asS3("PUT", "/photos/k", hello).is(200)
	s.asS3("PUT", "/photos/k", hello+"2").is(200)
	id := s.upload("/photos/m", hello, hello)
	s.do("DELETE", objects+"m", "").is(204)
	s.clock.Advance(grace)
	gc := s.as(s.main, true)
	b := gc.do("POST", batches, "").is(201).batch()
	if names := b.names(); len(names) != 2 || !slices.Contains(names, "k") || !slices.Contains(names, "m") {
		t.Fatalf("%+v", b)
	}
	for _, g := range b.Garbage {
		if (g.Name == "m") != (g.Upload == id) || (g.Name == "m") != (g.Path == "") {
			t.Errorf("%+v", g)
		}
	}
	if n := s.files(); n != 8 {
		t.Errorf("%d files, want 8", n)
	}
	gc.do("DELETE", batches+"/"+*b.ID, "").is(204)
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	gc.do("GET", objects+"k", "").is(200).says(hello + "2")
}
