package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	ss "holdfast/internal/syncstorage"
)

// BenchmarkLargePost measures the memory of a large POST, which httpapi charges to requests.
func BenchmarkLargePost(b *testing.B) {
	be := newBench(b, 1, false)
	us := make([]ss.Update, 20)
	for i := range us {
		us[i] = ss.Update{ID: fmt.Sprint(i), Payload: ss.Some(bytes.Repeat([]byte("x"), 100<<10))}
	}
	b.ReportAllocs()
	run(b, 1, func(ctx context.Context, user, _ int64) error {
		_, err := be.store.Post(ctx, ss.Owner{UID: user}, ss.Write{Collection: "bookmarks", Now: now()}, us)
		return err
	})
}
