package extstorage_test

import (
	"errors"
	"reflect"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/storetest"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range storetest.DecideCases() {
		var row *ext.Header
		next := ext.Seq(1)
		if c.First != nil {
			e, err := c.First.Decide(nil, storetest.CaseFirst, 0, next, 0)
			if err != nil {
				t.Fatal(err)
			}
			row, next = e.Next, 2
		}
		e, err := c.Second.Decide(row, storetest.CaseSecond, c.Active, next, 0)
		if !same(err, c.Err) {
			t.Errorf("%s: %v, want %v", c.Name, err, c.Err)
		}
		if err != nil || c.Err != nil {
			continue
		}
		if e.Item != c.Item || e.Change != c.Change || ext.DeltaOf(row, e.Next, storetest.CaseFirst) != c.Delta {
			t.Errorf("%s: %+v, want %+v", c.Name, e, c)
		}
		var want *ext.Header
		if r := c.Row; r != nil {
			want = &ext.Header{
				Revision: r.Revision, Seq: r.Seq, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt,
				ValueBytes: int64(len(r.Value)), MetadataBytes: int64(len(r.Metadata)),
			}
		}
		if !reflect.DeepEqual(e.Next, want) {
			t.Errorf("%s: the row is %+v, want %+v", c.Name, e.Next, want)
		}
	}
}

func same(got, want error) bool {
	if w, ok := errors.AsType[*ext.MismatchError](want); ok {
		g, ok := errors.AsType[*ext.MismatchError](got)
		return ok && *g == *w
	}
	return errors.Is(got, want)
}

// TestLedger checks that a write may exceed a quota in between, and that it never fails if it does not add usage.
func TestLedger(t *testing.T) {
	t.Parallel()
	type step struct {
		ns           ext.Namespace
		bytes        int64 // used by the install afterwards
		namespaces   int64
		before, keys int64
	}
	quota := ext.Quota{Bytes: 100, Namespaces: 2, Keys: 3}
	for _, c := range []struct {
		name   string
		before ext.Counters
		steps  []step
		what   string // "" if within the quota
		index  int
		used   int64
	}{
		{"nothing", ext.Counters{Bytes: 500, Namespaces: 9}, nil, "", 0, 0},
		{"to the last", ext.Counters{}, []step{{"s", 100, 2, 2, 3}}, "", 0, 0},
		{"a byte over", ext.Counters{}, []step{{"s", 101, 1, 0, 1}}, "bytes", 0, 101},
		{"a namespace over", ext.Counters{}, []step{{"s", 1, 3, 0, 1}}, "namespaces", 0, 3},
		{"a key over", ext.Counters{}, []step{{"s", 1, 1, 3, 4}}, "keys", 0, 4},
		{"over before and not grown", ext.Counters{Bytes: 500, Namespaces: 9}, []step{{"s", 500, 9, 5, 5}}, "", 0, 0},
		{"over before and shrunk", ext.Counters{Bytes: 500, Namespaces: 9}, []step{{"s", 400, 8, 6, 5}}, "", 0, 0},
		{"over before and grown", ext.Counters{Bytes: 500}, []step{{"s", 501, 1, 1, 1}}, "bytes", 0, 501},
		{"shrunk and grown back", ext.Counters{}, []step{{"s", 9, 1, 5, 4}, {"s", 9, 1, 4, 5}}, "", 0, 0},
		{"shrunk and grown over that", ext.Counters{}, []step{{"s", 9, 1, 5, 4}, {"s", 9, 1, 4, 5}, {"s", 9, 1, 5, 6}}, "keys", 2, 6},
		{"over and back", ext.Counters{}, []step{{"s", 101, 3, 3, 4}, {"s", 99, 2, 4, 3}}, "", 0, 0},
		{"over, back and over", ext.Counters{}, []step{{"s", 101, 1, 0, 0}, {"s", 99, 1, 0, 0}, {"s", 102, 1, 0, 0}, {"s", 103, 1, 0, 0}}, "bytes", 2, 103},
		{"between steps of another namespace", ext.Counters{}, []step{{"t", 1, 1, 0, 1}, {"s", 1, 1, 3, 4}, {"t", 1, 1, 1, 2}, {"s", 1, 1, 4, 4}}, "keys", 1, 4},
		{"a step that leaves the keys", ext.Counters{}, []step{{"s", 1, 1, 0, 0}, {"s", 1, 1, 3, 4}, {"s", 1, 1, 0, 0}}, "keys", 1, 4},
	} {
		l := ext.NewLedger(c.before)
		for _, s := range c.steps {
			l.Note(ext.Counters{Bytes: s.bytes, Namespaces: s.namespaces}, s.ns, s.before, s.keys)
		}
		err := l.Check(quota)
		if c.what == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		item, _ := errors.AsType[*ext.ItemError](err)
		over, ok := errors.AsType[*ext.QuotaError](err)
		if !ok || item == nil || item.Index != c.index || over.What != c.what || over.Used != c.used {
			t.Errorf("%s: %+v of %+v, want %s at %d with %d", c.name, over, item, c.what, c.index, c.used)
		}
	}
}

func TestSuccessor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": "", "a": "b", "az": "a{", "é": "ê", "a\u007f": "a\u0080", "\u07ff": "\u0800", "\ud7ff": "\ue000", "a\uffff": "a\U00010000",
		"\U0010ffff": "", "\U0010ffff\U0010ffff": "", "a\U0010ffff": "b", "a\ud7ff\U0010ffff": "a\ue000",
	} {
		got, ok := ext.Successor(prefix)
		if got != want || ok != (want != "") {
			t.Errorf("behind %q: %q, %v, want %q", prefix, got, ok, want)
		}
	}
}
