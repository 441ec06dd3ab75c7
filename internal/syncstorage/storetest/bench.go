package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
)

// benchRecords returns n updates from the first record on.
func benchRecords(first, n int, payload func(i int) string) (all []ss.Update) {
	for i := first; i < first+n; i++ {
		all = append(all, ss.Update{ID: fmt.Sprint(100_000_000_000 + i), Payload: ss.Some([]byte(payload(i)))})
	}
	return all
}

// BenchmarkRows overwrites 150-byte records; see suite.BenchmarkRows.
func BenchmarkRows(b *testing.B, s ss.Store) {
	payload := func(int) string { return strings.Repeat("x", 150) }
	write := func(owner int) (ss.Owner, ss.Write) {
		return ss.Owner{UID: int64(1 + owner)}, ss.Write{Collection: "bookmarks", Now: t0}
	}
	suite.BenchmarkRows(b, func(owner int) error {
		o, w := write(owner)
		_, err := s.Post(b.Context(), o, w, benchRecords(0, 100, payload))
		return err
	}, func(ctx context.Context, owner, record int) error {
		o, w := write(owner)
		_, err := s.Put(ctx, o, w, benchRecords(record, 1, payload)[0])
		return err
	})
}

// BenchmarkSize writes b.N records per payload size and up to 100 more, or fewer large records, to an empty store from open. The
// function that open returns reports the bytes per record. A user gets at most 4,000 records.
func BenchmarkSize(b *testing.B, open func(*testing.B) (s ss.Store, report func(records int))) {
	for _, size := range []int{200, 500, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d B", size), func(b *testing.B) {
			s, report := open(b)
			n := (b.N*1000/max(size, 1000)/100 + 1) * 100
			for first := 0; first < n; first += 100 {
				_, err := s.Post(b.Context(), ss.Owner{UID: int64(1 + first/4000)}, ss.Write{Collection: "forms", Now: t0},
					benchRecords(first, 100, func(i int) string { return suite.Text(i, size) }))
				if err != nil {
					b.Fatal(err)
				}
			}
			report(n)
		})
	}
}
