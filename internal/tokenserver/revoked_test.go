package tokenserver_test

import (
	"fmt"
	"testing"

	"holdfast/internal/tokenserver"
)

func TestRevoked(t *testing.T) {
	t.Parallel()
	var r tokenserver.Revoked
	if r.Has("alice", 1) {
		t.Error("the zero Revoked is not empty")
	}
	r.RevokeAccount("alice")
	r.RevokeUser(&tokenserver.User{UID: 2, Email: "bob@accounts.example"})
	for _, c := range []struct {
		fxaUID string
		uid    int64
		want   bool
	}{{"alice", 1, true}, {"alice", 7, true}, {"bob", 2, true}, {"bob", 3, false}, {"carol", 2, false}, {"", 2, false}} {
		if r.Has(c.fxaUID, c.uid) != c.want {
			t.Errorf("%s, %d: revoked %v", c.fxaUID, c.uid, !c.want)
		}
	}
}

// BenchmarkRevoked measures a lookup among a thousand revoked users. A write does two lookups.
func BenchmarkRevoked(b *testing.B) {
	var r tokenserver.Revoked
	for i := range 1000 {
		r.RevokeAccount(fmt.Sprintf("%032x", i))
		r.RevokeUser(&tokenserver.User{UID: int64(i), Email: fmt.Sprintf("%032x@accounts.example", 5000+i)})
	}
	fxaUID := fmt.Sprintf("%032x", 9999)
	b.ReportAllocs()
	for b.Loop() {
		if r.Has(fxaUID, 77) {
			b.Fatal("revoked")
		}
	}
}
