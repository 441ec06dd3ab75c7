package buckets

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
)

// levelOf lists sorted names as a store does.
func levelOf(names []string) func(buckets.Query) (buckets.Page, error) {
	return func(q buckets.Query) (page buckets.Page, err error) {
		for _, name := range names {
			e := buckets.Entry{Object: &buckets.Object{Name: name}}
			if folder, _, ok := strings.Cut(name, "/"); ok {
				e = buckets.Entry{Group: folder + "/"}
			}
			n := len(page.Entries)
			if e.Name() <= q.Start.Name && q.Start.Name != "" || n > 0 && page.Entries[n-1].Name() == e.Name() {
				continue
			}
			if n == q.Limit {
				page.More = true
				break
			}
			page.Entries = append(page.Entries, e)
		}
		return page, nil
	}
}

// pagesOf returns the names on a level's pages, which are fewer than most.
func pagesOf(t *rapid.T, l *level, limit, most int) (names []string) {
	after := ""
	for pages := 0; ; pages++ {
		from, err := parsePosition(after)
		if err != nil || pages > most {
			t.Fatalf("page %d at %q: %v", pages, after, err)
		}
		entries, next, err := l.page(from, limit)
		if err != nil || len(entries) > limit {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		for i := range entries {
			names = append(names, entries[i].Name())
		}
		if next == nil {
			return names
		}
		after = next.String()
	}
}

func foldersFirst(a, b string) int {
	isFolder := func(name string) bool { return strings.HasSuffix(name, "/") }
	switch {
	case isFolder(a) == isFolder(b):
		return 0
	case isFolder(a):
		return -1
	}
	return 1
}

// TestLevels checks that a level's pages contain each entry once, and the subfolders first if they are found.
func TestLevels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e,]{1,2}(/x)?`), 0, 40, rapid.ID).Draw(t, "names")
		slices.Sort(names)
		l := &level{list: levelOf(names), look: rapid.IntRange(1, 60).Draw(t, "look")}
		limit := rapid.IntRange(1, 9).Draw(t, "limit")
		all, err := l.list(buckets.Query{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range all.Entries {
			want = append(want, all.Entries[i].Name())
		}
		got := pagesOf(t, l, limit, len(want)+2)
		if l.look > len(want) {
			slices.SortStableFunc(want, foldersFirst)
		} else {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
	for _, wrong := range []string{"a", "objects", "objects,x,", "objects,5,ab", "objects,-1,"} {
		if _, err := parsePosition(wrong); err == nil {
			t.Errorf("%q is a position", wrong)
		}
	}
}
