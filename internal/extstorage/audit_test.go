//test:unraced the race detector makes it ten times as slow

package extstorage_test

import (
	"encoding/json"
	"maps"
	"testing"

	ext "holdfast/internal/extstorage"
)

func TestAuditPayload(t *testing.T) {
	t.Parallel()
	for _, key := range []ext.Key{"plain", `"},{\u0022'`, "ü€\u2028<&>"} {
		for kind, word := range map[ext.OpKind]string{ext.Put: "put", ext.Delete: "delete"} {
			w := ext.Write{
				Ops:    []ext.Op{{Kind: ext.Check}, {Kind: kind, Namespace: "log", Key: key, Schema: 3}},
				Caller: ext.Caller{Kind: "token", ID: "\x00\xff\""},
			}
			var got map[string]any
			if err := json.Unmarshal(w.AuditPayload(1, 17), &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"operation": word, "namespace": "log", "key": string(key), "schemaVersion": 3.0,
				"caller": "token", "callerId": "\x00\ufffd\"", "revision": 17.0,
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	if op := (ext.Op{Namespace: "log", Key: "a"}); op.AuditKey() != "log/a" {
		t.Errorf("the event is about %s", op.AuditKey())
	}
}
