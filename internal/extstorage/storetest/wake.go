package storetest

import (
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
)

// Woken checks that a relay that runs only when woken publishes every event. published receives install and topic.
func Woken(t *testing.T, s ext.Store, published <-chan [2]string) {
	t.Helper()
	late := time.After(time.Minute)
	for n := range 8 {
		o := ext.Owner{Tenant: "a0000000-0000-4000-8000-00000000000a", Install: ext.InstallID("b0000000-0000-4000-8000-00000000000" + string("0369"[n/2]))}
		op, topic := ext.Op{Namespace: "toys", Key: "bear", Value: `1`, Metadata: `{}`}, ext.AuditPut
		if n%2 == 1 {
			op, topic = ext.Op{Kind: ext.Delete, Namespace: "toys", Key: "bear"}, ext.AuditDelete
		}
		w := ext.Write{Ops: []ext.Op{op}, Now: 1_700_000_000_000, Quota: ext.DefaultQuota(), Caller: ext.Caller{Kind: "token", ID: "1"}}
		if _, err := s.Apply(t.Context(), o, w); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-published:
			if want := [2]string{string(o.Install), topic}; got != want {
				t.Errorf("write %d is published as %v, want %v", n, got, want)
			}
		case <-late:
			t.Fatalf("write %d did not wake the relay", n)
		}
	}
}
