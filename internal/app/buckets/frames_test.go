package buckets

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/optional"
)

// TestReadBodiesGetFrames: a body of an earlier release gets its frames after a client has read it,
// once, and not before.
func TestReadBodiesGetFrames(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, _ := openBuckets(t, data)
	text := strings.Repeat("a body of an earlier release ", 20_000)
	owner, b, path := s.stored(t, text)
	get := func() buckets.Object {
		o, err := s.store.Get(t.Context(), owner, b.ID, "k")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	old := get()
	old.Frames = optional.Of[buckets.Frames]{}
	if _, err := s.store.Put(t.Context(), owner, b, buckets.Put{Object: old}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(data, Name, filepath.FromSlash(path))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() {
		o := get()
		r := s.opened.Open(t.Context(), owner, b.ID, &o, buckets.Span{From: 100_000, Length: 5})
		got, err := io.ReadAll(r)
		if err != nil || string(got) != text[100_000:100_005] {
			t.Fatalf("read %q, %v", got, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read() // in a command, it stays as it is
	queue := s.framing.begin()
	read()
	read()
	if n := len(queue); n != 1 {
		t.Fatalf("%d bodies are queued, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	one := make(chan buckets.Reference)
	go func() {
		defer close(ended)
		s.frame(ctx, one)
	}()
	one <- <-queue
	one <- buckets.Reference{Garbage: true} // when it is taken, the first one is done
	cancel()
	<-ended
	o := get()
	info, err := os.Stat(file)
	if err != nil || !o.Frames.Set || info.Size() == int64(len(text)) {
		t.Errorf("frames %+v, %v bytes, %v", o.Frames, info.Size(), err)
	}
	read()
}
