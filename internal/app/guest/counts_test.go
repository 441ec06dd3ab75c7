package guest_test

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	app "holdfast/internal/app/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/outbox"
	"holdfast/internal/testdb"
)

// TestLimitedCounts checks that the API description names the maximum for each count that stops there.
func TestLimitedCounts(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t)
	limits := map[string]int{"events": outbox.MaxBacklog, "old": retention.MaxCount} // by JSON member
	limited := regexp.MustCompile(`(\d+): at least that many`)
	found := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for _, f := range reflect.VisibleFields(of) {
			if !f.Anonymous && f.Type != of {
				walk(f.Type)
			}
			m := limited.FindStringSubmatch(f.Tag.Get("doc"))
			if m == nil {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			found[name] = true
			if want := strconv.Itoa(limits[name]); m[1] != want {
				t.Errorf("%s of %s: the description says %s, and the count stops at %s", name, of, m[1], want)
			}
		}
	}
	for _, o := range app.New().Service().Operations {
		walk(o.Output())
		if o.Also != nil {
			walk(o.Also.Type)
		}
	}
	if len(found) != len(limits) {
		t.Errorf("found %d members, want %d", len(found), len(limits))
	}
}
