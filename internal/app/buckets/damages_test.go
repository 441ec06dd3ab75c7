package buckets

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// TestDamageIsMarkedAndLost checks that a read marks a damaged copy. Without another copy, the object is reported as
// lost until it is deleted.
func TestDamageIsMarkedAndLost(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var later atomic.Int64
	s, _ := openBucketsAt(t, data, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	owner, b, path := s.stored(t, strings.Repeat("a body ", 50_000))
	file := filepath.Join(data, Name, filepath.FromSlash(path))
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	body[len(body)/2] ^= 1
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := s.opened.Object(t.Context(), owner, b.ID, "k")
	if err != nil {
		t.Fatal(err)
	}
	r := s.opened.Open(t.Context(), owner, b.ID, &o, buckets.Span{Length: o.Length})
	if _, err := io.Copy(io.Discard, r); err == nil {
		t.Fatal("a wrong body was read")
	}
	_ = r.Close()
	if err := s.maintenance.StoreReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	says := func() (all string) {
		t.Helper()
		found, err := s.inspectDamages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			all += string(f.State) + " " + f.Says + "\n"
		}
		return all
	}
	want := func(got, text string) {
		t.Helper()
		if !strings.Contains(got, text) {
			t.Errorf("%s\nwant %s", got, text)
		}
	}
	want(says(), "ok 1 damaged copy; servers repair them from good copies; no pass over all copies has started yet")
	repair := func(after time.Duration) {
		t.Helper()
		later.Store(int64(after))
		defer later.Store(0)
		if _, err := s.maintenance.RepairDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	repair(0)
	name := firstAccount + "/photos/k (body " + string(o.ID) + ")"
	want(says(), "WRONG "+name+": no good copy is left\nWRONG 1 body without a good copy")
	listed, err := s.listDamages(t.Context(), operate.Page[string]{Limit: 10})
	if err != nil || len(listed) != 1 || listed[0].Object != name || listed[0].State.Cell().State != service.Wrong {
		t.Errorf("the list: %+v, %v", listed, err)
	}
	if err := s.opened.DeleteObject(t.Context(), owner, b, buckets.Delete{Name: "k"}); err != nil {
		t.Fatal(err)
	}
	repair(time.Hour)
	want(says(), "ok no damaged copies are known")
}
