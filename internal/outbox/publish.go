package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// Sink receives events. Publish returns nil when all of them are stored safely.
//
// A sink that rejects some of the events returns a *RefusedError. The others are safe,
// except those that follow a rejected one in its stream, which are sent again after
// it. Rejected events are retried after pauses and then set aside.
//
// After any other error all events are sent again, no matter how many of them the sink
// has stored. The relay then tries a few of them one by one, to tell an unavailable
// sink from one that fails for an event without naming it: an event that fails alone
// counts as rejected if the sink accepts others.
//
// The context ends before another process may take over. A sink that continues after
// that may publish at the same time as the other process.
type Sink interface {
	Publish(ctx context.Context, events []Event) error
}

// RefusedError lists the events that a sink has rejected.
type RefusedError struct {
	Refusals []Refusal
}

// Refusal is one rejected event.
type Refusal struct {
	Index     int // in the events that were published
	Err       error
	Permanent bool // trying again is useless, so it is set aside at once
}

func (e *RefusedError) Error() string {
	if len(e.Refusals) == 0 {
		return "the sink refused events without naming them"
	}
	return fmt.Sprintf("the sink refused %d of the events: %v", len(e.Refusals), e.Refusals[0].Err)
}

// result is the outcome for some events.
type result struct {
	taken   []Event
	refused []refused
}

// refused is an event with its refusal.
type refused struct {
	event     Event
	reason    string
	permanent bool
}

// publish sends events to the sink.
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
	// One success shows that the failure is of the event and not of the sink: when a sink
	// becomes unavailable, only a few events count as rejected.
	if !r.works && len(res.taken) == 0 {
		return result{}, &sinkError{err}
	}
	r.works = len(res.taken) > 0
	return res, nil
}

// sinkError means that the sink accepts no events.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// call calls the sink. A panic of the sink is returned as an error, because the
// server has others to serve.
func (r *Relay) call(ctx context.Context, events []Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.o.Sink.Publish(ctx, events)
}

// split partitions events by the error of the sink. valid is false if it names none of
// them.
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

// stream is an ordering key.
type stream struct{ owner, name string }

// Limits of isolate.
const (
	maxAlone       = 16 // events that are tried
	maxAloneFailed = 4  // failures without a success, after which the sink counts as unavailable
)

// isolate publishes the first event of each of some streams alone. cause is the error
// of the sink for all of them.
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
			break // canceled: not an answer of the sink
		}
		if err == nil {
			res.taken = append(res.taken, e)
		} else {
			res.refused = append(res.refused, refused{event: e, reason: reasonOf(err)})
		}
	}
	return res
}

// maxReason is the maximum length of an error that is stored with an event, in bytes.
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
