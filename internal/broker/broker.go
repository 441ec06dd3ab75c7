// Package broker publishes events to message brokers and receives events from them.
//
// A Broker stores messages of a topic for each of its subscriptions until they are
// acknowledged. Every message is delivered at least once. Messages with one key are
// published in order, and delivered in this order unless one of them is delivered again:
// brokers differ in what comes after it then, so consumers must not rely on that.
//
// Package memory is a broker in the process, pubsub the driver of Google Pub/Sub, and nats
// that of NATS JetStream. The suite in storetest defines the contract.
package broker

import (
	"context"
	"errors"
	"time"
)

// Broker is a message broker. It is safe for concurrent use.
type Broker interface {
	// Ensure creates a topic, and a subscription of it unless that is "", if they do not
	// exist. A subscription gets the messages that are published after it was created.
	Ensure(ctx context.Context, topic, subscription string) error

	// Publish publishes messages and returns a result for each, in their order: nil if the
	// broker has stored it. Messages with one key are stored in order: if one of them
	// fails, its successors fail, too. A *PermanentError means that trying again is
	// useless.
	Publish(ctx context.Context, topic string, messages []Message) []error

	// Subscribe calls handle for each message of a subscription until ctx ends, which
	// returns nil, or the subscription fails. handle must call Ack or Nack; a message
	// for which it does neither is delivered again. It is called concurrently, except for
	// messages with one key. Subscribe returns after all calls of handle have returned.
	Subscribe(ctx context.Context, topic, subscription string, handle func(context.Context, *Delivery)) error

	// Close disconnects.
	Close() error
}

// Message is an event with its ordering key. Messages with an empty key have no order.
type Message struct {
	Key string
	Event
}

// Delivery is a message that a subscription got.
type Delivery struct {
	Message

	Ack    func() // the message is processed
	Nack   func() // deliver the message again
	Extend func() // processing takes longer: do not deliver it again yet
}

// AckWait is how long a message may be processed until it is delivered again, unless
// Extend is called.
const AckWait = 30 * time.Second

// PermanentError is the error of a message that no retry can publish.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// ErrPredecessor is the error of a message that was not published because one before it
// with the same key was not.
var ErrPredecessor = errors.New("a message before it with the same key was not published")

// Failed returns n times an error, the result of Publish if nothing was published.
func Failed(n int, err error) []error {
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}
