package memory_test

import (
	"testing"

	"holdfast/internal/broker"
	"holdfast/internal/broker/memory"
	"holdfast/internal/broker/storetest"
)

func TestBroker(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{Open: func(testing.TB) broker.Broker { return memory.New() }})
}

// TestIsBounded checks that an unread subscription blocks only its own topic.
func TestIsBounded(t *testing.T) {
	t.Parallel()
	b := memory.New()
	storetest.Ensure(t, b, "full", "sub")
	storetest.Ensure(t, b, "other", "sub")
	storetest.Publish(t, b, "full", storetest.Messages(10, 10_000)...)
	if results := b.Publish(t.Context(), "full", storetest.Messages(1, 1)); results[0] == nil {
		t.Error("published to a full subscription")
	}
	storetest.Publish(t, b, "other", storetest.Messages(1, 1)...)
}
