package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// Sink receives events. Publish returns nil when all are stored safely.
//
// For rejected events it returns a *RefusedError. The others are safe, except those behind a rejected event in its
// stream, which are sent again after it. Rejected events are retried with backoff, then become dead letters.
//
// After any other error all events are sent again. The relay then tries a few individually, to tell an unavailable
// sink from a sink that fails for an event without naming it: an event that fails alone counts as rejected if others
// succeed.
//
// The context ends before another process may take over. A relay makes one call at a time; relays that share a sink call
// it concurrently. Publish does not change events.
type Sink interface {
	Publish(ctx context.Context, events []Event) error
}

// RefusedError lists the events rejected by a sink.
type RefusedError struct {
	Refusals []Refusal
}

// Refusal is a rejected event.
type Refusal struct {
	Index     int // in the batch
	Err       error
	Permanent bool // retrying is useless, so the event becomes a dead letter at once
}

func (e *RefusedError) Error() string {
	if len(e.Refusals) == 0 {
		return "the sink refused events without naming them"
	}
	return fmt.Sprintf("the sink refused %d events: %v", len(e.Refusals), e.Refusals[0].Err)
}

// result lists a batch's accepted and refused events.
type result struct {
	taken   []Event
	refused []refused
}

type refused struct {
	event     Event
	reason    string
	permanent bool
}

// publish sends a batch, and finds out which events the sink rejects. Its error means that the sink is unavailable.
func (r *Relay) publish(ctx context.Context, events []Event) (result, error) {
	err := r.call(ctx, events)
	if err == nil {
		r.works = true
		return result{taken: events}, nil
	}
	if no, ok := errors.AsType[*RefusedError](err); ok {
		if res, valid := split(events, no); valid {
			r.works = true
			return res, nil
		}
	}
	if ctx.Err() != nil {
		return result{}, err
	}
	res := r.isolate(ctx, events, err)
	// One success shows that the event is at fault, not the sink.
	if !r.works && len(res.taken) == 0 {
		return result{}, &sinkError{err}
	}
	r.works = len(res.taken) > 0
	return res, nil
}

// sinkError is an error from the sink, not from the box.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// call converts the sink's panics to errors, because the server has other work.
func (r *Relay) call(ctx context.Context, events []Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.o.Sink.Publish(ctx, events)
}

// split returns valid = false if the RefusedError lists no event, or an unknown event.
func split(events []Event, no *RefusedError) (res result, valid bool) {
	refusals := make(map[int]Refusal, len(no.Refusals))
	for _, n := range no.Refusals {
		if n.Index < 0 || n.Index >= len(events) {
			return res, false
		}
		refusals[n.Index] = n
	}
	waits := map[stream]bool{}
	for i, e := range events {
		s := stream{e.Owner, e.Stream}
		n, refusal := refusals[i]
		switch {
		case waits[s]:
		case refusal:
			waits[s] = true
			res.refused = append(res.refused, refused{e, reasonOf(n.Err), n.Permanent})
		default:
			res.taken = append(res.taken, e)
		}
	}
	return res, len(refusals) > 0
}

type stream struct{ owner, name string }

const (
	// maxAlone is how many events are sent alone to find those that the sink rejects.
	maxAlone       = 16
	maxAloneFailed = 4 // failures without a success before the sink counts as unavailable
)

// isolate sends events one by one after a batch failed. It takes one for each stream, because later ones must wait.
func (r *Relay) isolate(ctx context.Context, events []Event, cause error) (res result) {
	if len(events) == 1 {
		res.refused = []refused{{event: events[0], reason: reasonOf(cause)}}
		return res
	}
	seen := map[stream]bool{}
	for _, e := range events {
		s := stream{e.Owner, e.Stream}
		if seen[s] {
			continue
		}
		if len(seen) == maxAlone || len(res.taken) == 0 && len(res.refused) == maxAloneFailed {
			break
		}
		seen[s] = true
		err := r.call(ctx, []Event{e})
		if ctx.Err() != nil {
			break // canceled by the relay, not by the sink
		}
		if err == nil {
			res.taken = append(res.taken, e)
		} else {
			res.refused = append(res.refused, refused{event: e, reason: reasonOf(err)})
		}
	}
	return res
}

// maxReason is how many bytes of a refusal's reason are stored.
const maxReason = 1024

func reasonOf(err error) string {
	if err == nil {
		return "no reason given"
	}
	// PostgreSQL text must be UTF-8 without NUL.
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ToValidUTF8(text, "")
}
