//test:unraced compiling gRPC for the race detector takes a minute
//test:check its tests need the Pub/Sub emulator

package pubsub_test

import (
	"testing"

	"holdfast/internal/broker"
	"holdfast/internal/broker/pubsub"
	"holdfast/internal/broker/storetest"
	"holdfast/internal/testdb"
)

func TestBroker(t *testing.T) {
	t.Parallel()
	emulator := testdb.PubSub(t)
	storetest.Run(t, storetest.Harness{MaxBytes: 10_000_000, Open: func(t testing.TB) broker.Broker { return open(t, emulator) }})
}

func open(t testing.TB, emulator string) broker.Broker {
	t.Helper()
	b, err := pubsub.Open(t.Context(), pubsub.Options{Project: "test", Emulator: emulator})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
