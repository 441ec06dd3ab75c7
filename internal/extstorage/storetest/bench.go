package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

// benchWrite puts n records into the namespace settings, from the first on.
func benchWrite(first, n int, value func(i int) string) ext.Write {
	w := ext.Write{Now: t0, Quota: ext.DefaultQuota(), Caller: ext.Caller{Kind: "token", ID: "bench"}}
	for i := first; i < first+n; i++ {
		w.Ops = append(w.Ops, put("settings", fmt.Sprint(100_000_000_000+i), value(i)))
	}
	return w
}

func benchOwner(n int) ext.Owner {
	return ext.Owner{Tenant: ext.TenantID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)), Install: ext.InstallID(fmt.Sprintf("00000000-0000-4000-9000-%012d", n))}
}

// BenchmarkRows overwrites 150-byte records; see suite.BenchmarkRows. Nothing publishes the audit events.
func BenchmarkRows(b *testing.B, s ext.Store) {
	value := func(int) string { return `"` + strings.Repeat("x", 148) + `"` }
	suite.BenchmarkRows(b, func(owner int) error {
		_, err := s.Apply(b.Context(), benchOwner(owner), benchWrite(0, 100, value))
		return err
	}, func(ctx context.Context, owner, record int) error {
		_, err := s.Apply(ctx, benchOwner(owner), benchWrite(record, 1, value))
		return err
	})
}

// BenchmarkSize writes b.N records, or fewer large records, to an empty store from open. The function that open returns
// reports the bytes per record. An install gets at most 4,000 records.
func BenchmarkSize(b *testing.B, open func(*testing.B) (s ext.Store, report func(records int))) {
	digits := func(text string) string {
		all := make([]string, len(text))
		for i := range text {
			all[i] = fmt.Sprint(text[i] % 10)
		}
		return strings.Join(all, ",")
	}
	object := func(bytes int) func(i int) string {
		const head, tail = `{"enabled":true,"name":"a setting","note":"`, `"}`
		return func(i int) string { return head + suite.Text(i, bytes-len(head)-len(tail)) + tail }
	}
	for name, kind := range map[string]struct {
		share int // writes 1/share as many records
		value func(i int) string
	}{
		"200 B": {1, object(200)}, "1,000 B": {1, object(1000)},
		"64 KiB text":   {40, func(i int) string { return `"` + suite.Text(i, ext.MaxValueBytes-2) + `"` }},
		"64 KiB digits": {40, func(i int) string { return "[" + digits(suite.Text(i, ext.MaxValueBytes/2-1)) + "]" }},
	} {
		b.Run(name, func(b *testing.B) {
			s, report := open(b)
			n := max(1, b.N/kind.share/20) * 20
			for first := 0; first < n; first += 20 {
				if _, err := s.Apply(b.Context(), benchOwner(first/4000), benchWrite(first, 20, kind.value)); err != nil {
					b.Fatal(err)
				}
			}
			report(n)
		})
	}
}

// BenchmarkHot compares puts, increments and merge patches when all goroutines write the same record. The stores share
// a database, like server processes.
func BenchmarkHot(b *testing.B, stores ...ext.Store) {
	o := newOwner()
	for _, goroutines := range []int{1, 64, 240} {
		for name, op := range map[string]func(i int64) ext.Op{
			"put":       func(int64) ext.Op { return put("counters", "hot", `{"n":1}`) },
			"increment": func(int64) ext.Op { return add("counters", "hot", "1") },
			"patch": func(i int64) ext.Op {
				return merge("counters", "hot", canonjson.Value(fmt.Sprintf(`{"m%[1]d":%[1]d}`, i%int64(goroutines))))
			},
		} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", name, goroutines), func(b *testing.B) {
				apply := func(ctx context.Context, i int64, op ext.Op) error {
					_, err := stores[i%int64(len(stores))].Apply(ctx, o, ext.Write{Ops: []ext.Op{op}, Now: t0, Quota: ext.DefaultQuota()})
					return err
				}
				if err := apply(b.Context(), 0, put("counters", "hot", map[bool]string{true: `1`, false: `{"n":1}`}[name == "increment"])); err != nil {
					b.Fatal(err)
				}
				testdb.RunBench(b, goroutines, func(ctx context.Context, i int64) error { return apply(ctx, i, op(i)) })
			})
		}
	}
}
