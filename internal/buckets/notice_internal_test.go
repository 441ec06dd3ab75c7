package buckets

import (
	"testing"
	"time"
)

// BenchmarkNotice measures a write to a bucket without notifications.
func BenchmarkNotice(b *testing.B) {
	now := time.Now()
	s := &Service{clock: func() time.Time { return now }}
	s.Note(&Bucket{Owner: "owner", BucketRef: BucketRef{Name: "photos", ID: "id"}}, now)
	of := noticed{"owner", BucketRef{Name: "photos"}, "2026/harbour.jpg"}
	b.ReportAllocs()
	for b.Loop() {
		if n, err := s.notice(b.Context(), of); n != nil || err != nil {
			b.Fatal(n, err)
		}
	}
}
