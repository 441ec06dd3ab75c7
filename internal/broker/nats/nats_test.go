//test:unraced the race detector makes it ten times as slow

package nats_test

import (
	"testing"

	"holdfast/internal/broker"
	"holdfast/internal/broker/nats"
	"holdfast/internal/broker/storetest"
	"holdfast/internal/testdb"
)

func TestBroker(t *testing.T) {
	t.Parallel()
	server := testdb.NATS(t)
	storetest.Run(t, storetest.Harness{MaxBytes: 1 << 20, Open: func(t testing.TB) broker.Broker { return open(t, server) }})
}

func open(t testing.TB, server string) broker.Broker {
	t.Helper()
	b, err := nats.Open(nats.Options{URL: "nats://" + server})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
