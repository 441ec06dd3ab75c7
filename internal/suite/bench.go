package suite

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"holdfast/internal/testdb"
)

// BenchmarkRows measures writes, on 16 goroutines, in a table that grows from 10,000 to 10,000,000 rows. fill stores 100
// records for a new owner; write overwrites a record. The writes are spread over at most 2,000 owners. Only
// selected sizes are filled, e.g. `-bench Rows/1000000$`.
func BenchmarkRows(b *testing.B, fill func(owner int) error, write func(ctx context.Context, owner, record int) error) {
	b.Helper()
	const records, goroutines, written = 100, 16, 2000
	owners := 0
	for rows := 10_000; rows <= 10_000_000; rows *= 10 {
		b.Run(strconv.Itoa(rows), func(b *testing.B) {
			old, all := owners, rows/records
			owners = all
			err := errors.Join(testdb.Concurrently(goroutines, func(g int) error {
				for owner := old + g; owner < all; owner += goroutines {
					if err := fill(owner); err != nil {
						return err
					}
				}
				return nil
			})...)
			if err != nil {
				b.Fatal(err)
			}
			some := min(all, written)
			testdb.RunBench(b, goroutines, func(ctx context.Context, _ int64) error {
				return write(ctx, rand.IntN(some)*(all/some), rand.IntN(records))
			})
		})
	}
}

// Text returns letters and digits that no compression shortens. The same seed returns the same text.
func Text(seed, bytes int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r, text := rand.New(rand.NewPCG(uint64(seed), 1)), make([]byte, bytes)
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}
