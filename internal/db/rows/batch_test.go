package rows_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/db/rows"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	value := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 100), func(b []byte) any { return b }),
		rapid.Map(rapid.IntRange(30<<10, 200<<10), func(n int) any { return strings.Repeat("x", n) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(t, "columns")
		var want []rows.Row
		var batch rows.Batch
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			row := rows.Row(rapid.SliceOfN(value, columns, columns).Draw(t, "row"))
			want = append(want, row.Clone())
			packed := row.Pack(nil)
			batch.Add(packed)
			clear(packed) // the batch must not share this memory
		}
		if batch.Len() != len(want) {
			t.Fatalf("Len is %d, want %d", batch.Len(), len(want))
		}
		for range 2 {
			var all []rows.Row
			for row := range batch.All() {
				all = append(all, slices.Clone(row))
			}
			if !slices.EqualFunc(all, want, func(a, b rows.Row) bool { return slices.EqualFunc(a, b, equal) }) {
				t.Fatalf("rows: %v, want %v", all, want)
			}
		}
		for range batch.All() {
			break
		}
		batch.Free()
		for row := range batch.All() {
			t.Fatalf("a freed batch has the row %v", row)
		}
	})
}

func equal(a, b any) bool {
	x, isBytes := a.([]byte)
	y, areBytes := b.([]byte)
	if isBytes || areBytes {
		return isBytes && areBytes && bytes.Equal(x, y)
	}
	return a == b
}
