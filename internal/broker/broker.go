// Package broker publishes events to message brokers and receives events from them.
//
// A Broker stores a topic's messages for each subscription until acknowledged. Delivery is at least once. Messages
// with the same key are published in order, and delivered in order until one is redelivered. After that the order
// depends on the broker, so consumers must not rely on it.
package broker

import (
	"context"
	"errors"
	"time"
)

// Broker is a message broker. It is safe for concurrent use.
type Broker interface {
	// Ensure creates a topic and a subscription, which gets messages published after its creation.
	Ensure(ctx context.Context, topic, subscription string) error

	// Publish returns a result for each message, nil if stored. Messages with the same key are stored in order: after
	// a failure, their successors fail, too.
	Publish(ctx context.Context, topic string, messages []Message) []error

	// Subscribe calls handle for each message until ctx ends (returning nil) or the subscription fails. handle must
	// call Ack or Nack; otherwise the message is redelivered. Calls run concurrently, except for messages with the
	// same key, and end before Subscribe returns.
	Subscribe(ctx context.Context, topic, subscription string, handle func(context.Context, *Delivery)) error

	Close() error
}

// Message is an event with its ordering key; "" means no order.
type Message struct {
	Key string
	Event
}

// Delivery is a message that a subscription got.
type Delivery struct {
	Message

	Ack    func() // the message was processed
	Nack   func() // deliver the message again
	Extend func() // delays redelivery while processing takes longer
}

// AckWait is the processing time before redelivery, unless Extend is called.
const AckWait = 30 * time.Second

// PermanentError means that retrying to publish a message is useless.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// ErrPredecessor means that an earlier message with the same key was not published.
var ErrPredecessor = errors.New("a message before it with the same key was not published")

// Failed repeats an error n times.
func Failed(n int, err error) []error {
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}
