package maintenance

import (
	"testing"

	"holdfast/internal/buckets"
)

// TestFramingQueue checks that only servers queue bodies: each once, and no deleted bodies.
func TestFramingQueue(t *testing.T) {
	t.Parallel()
	var f framing
	ref := buckets.Reference{Owner: buckets.AccountID(buckets.NewUUID()), Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID())}}
	f.add(ref)
	queue := f.begin()
	f.add(ref)
	f.add(ref)
	f.add(buckets.Reference{Owner: ref.Owner, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID())}, Garbage: true})
	if n := len(queue); n != 1 {
		t.Errorf("%d bodies are queued, want 1", n)
	}
}
