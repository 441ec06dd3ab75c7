package maintenance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/internal/buckets"
)

// TestSorter sorts in memory, in several files, and in more files than are merged at once.
func TestSorter(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1 << 20, 5000, 300} {
		dir := t.TempDir()
		s := newSorter(dir, "bodies")
		s.runSize = size
		var want []string
		for _, i := range rand.Perm(1000) {
			r := buckets.Reference{Name: fmt.Sprintf("line\nfeed\t%d", i), Upload: buckets.UploadID(fmt.Sprint(i)), Body: buckets.Body{Length: int64(i), Sharks: []string{"a:b"}}}
			path := fmt.Sprintf("v2/%03d", i)
			want = append(want, path)
			line, err := encodeLine(path, r)
			if err == nil {
				err = s.add(line)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		wantLines(t, filepath.Join(dir, "bodies"), want)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("files: %v %v", left, err)
		}
	}
}

func wantLines(t *testing.T, file string, want []string) {
	t.Helper()
	offset := int64(0)
	for i, path := range want {
		if i > 0 && i%100 != 0 && i < 990 {
			continue
		}
		in, err := openLines(file, offset)
		if err != nil {
			t.Fatal(err)
		}
		b := &bodies{lines: in}
		var n int64
		err = b.next(func(r *buckets.Reference) bool { n = r.Length; return r.Name != "" })
		if err != nil || b.ended || b.path != path || b.ref.Name != fmt.Sprintf("line\nfeed\t%d", n) || fmt.Sprintf("v2/%03d", n) != path {
			t.Fatalf("line %d at %d: %q %+v %v, want %q", i, offset, b.path, b.ref, err, path)
		}
		for next := i + 1; next < len(want) && next%100 != 0 && next < 990; next++ {
			if err := in.next(); err != nil {
				t.Fatal(err)
			}
		}
		offset = in.offset
		in.close()
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	f := newFilter()
	for i := range 1000 {
		f.add(fmt.Sprint("in", i))
	}
	wrong := 0
	for i := range 1000 {
		if !f.has(fmt.Sprint("in", i)) {
			t.Fatalf("%d is not found", i)
		}
		if f.has(fmt.Sprint("out", i)) {
			wrong++
		}
	}
	if wrong > 10 {
		t.Errorf("%d of 1000 are found", wrong)
	}
}
