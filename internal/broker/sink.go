package broker

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
)

// Sink publishes an outbox's events to a topic.
type Sink struct {
	Broker Broker
	Topic  string // created if missing
	Source string // CloudEvents source

	ensured bool // only Publish uses it, which is not called concurrently
}

// Publish creates the topic if missing, even if the broker lost it.
func (s *Sink) Publish(ctx context.Context, events []outbox.Event) error {
	if !s.ensured {
		if err := s.Broker.Ensure(ctx, s.Topic, ""); err != nil {
			return err
		}
		s.ensured = true
	}
	messages := make([]Message, len(events))
	for i := range events {
		messages[i] = ToMessage(s.Source, &events[i])
	}
	results := s.Broker.Publish(ctx, s.Topic, messages)
	for _, err := range results {
		if errcode.Is(err, errcode.NotFound) {
			s.ensured = false
		}
	}
	return refusals(results)
}

// refusals treats the broker as unavailable if all events failed, unless a reason is permanent.
func refusals(results []error) error {
	var refused outbox.RefusedError
	permanent := false
	for i, err := range results {
		if err != nil {
			_, no := errors.AsType[*PermanentError](err)
			permanent = permanent || no
			refused.Refusals = append(refused.Refusals, outbox.Refusal{Index: i, Err: err, Permanent: no})
		}
	}
	switch {
	case len(refused.Refusals) == 0:
		return nil
	case len(refused.Refusals) == len(results) && !permanent:
		return results[0]
	}
	return &refused
}

// ToMessage converts an outbox event, keyed by its stream.
func ToMessage(source string, e *outbox.Event) Message {
	key, id := e.Owner, e.Name
	if e.Stream != "" {
		key += "/" + e.Stream
	}
	if id == "" {
		id = key + "/" + strconv.FormatInt(e.Seq, 10)
	}
	extensions := map[string]string{}
	if len(e.Headers) > 0 {
		// Headers that are not an object of strings are dropped.
		_ = json.Unmarshal(e.Headers, &extensions)
	}
	for name := range extensions {
		if !isExtension(name) {
			delete(extensions, name)
		}
	}
	extensions[PartitionKey], extensions[Sequence] = key, strconv.FormatInt(e.Seq, 10)
	if e.Class != "" {
		extensions[Retention] = e.Class
	}
	return Message{Key: key, Event: Event{
		ID: id, Source: source, Type: e.Topic, Subject: e.Key, Time: e.At, Extensions: extensions, Data: e.Payload,
	}}
}
