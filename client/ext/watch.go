package ext

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"time"

	"holdfast/client/internal/retry"
)

// watchWait is shorter than usual proxy timeouts.
const watchWait = 30 * time.Second

// watchGrace is the time for a response beyond watchWait, after which its connection counts as lost: a computer that
// slept does not learn that its connection is gone. It doubles with each failure, for networks that are slow.
const watchGrace = 15 * time.Second

// Watch yields changes after a number until ctx is done. It goes on after outages, with growing delays: lost
// connections, the statuses 408, 425, 429 and 5xx, responses that are not from the server, and a TokenSource that
// fails with a [net.Error]. Other errors end it: the error of ctx, other errors of the TokenSource, a new token that is
// refused, and refusals such as CHANGES_EXPIRED, which also follows a restore of the server. To continue later, pass
// the Seq of the last change.
func (i Install) Watch(ctx context.Context, since int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for failed := 0; ; {
			began := time.Now()
			list, err := i.poll(ctx, since, watchGrace<<min(failed, 5))
			early := err == nil && list.NextSince == since && time.Since(began) < watchWait/2
			switch {
			case err != nil && (ctx.Err() != nil || !isOutage(err)):
				yield(Change{}, errors.Join(err, ctx.Err()))
				return
			case err != nil || early: // early: the server is shutting down, or too many requests wait
				wait := retry.Rest(failed, asked(err))
				failed++
				if err != nil && i.client.OnRetry != nil {
					i.client.OnRetry(err, wait)
				}
				retry.Pause(ctx, wait)
				continue
			}
			failed = 0
			for _, change := range list.Changes {
				if !yield(change, nil) {
					return
				}
			}
			since = list.NextSince
		}
	}
}

// poll waits for changes once.
func (i Install) poll(ctx context.Context, since int64, grace time.Duration) (list ChangeList, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchWait+grace)
	defer cancel()
	if _, err = i.client.once(ctx, i.changes(ChangesQuery{Since: since, Wait: watchWait}), &list); err != nil {
		return list, err
	}
	if list.Changes == nil || list.NextSince < since {
		return list, &retry.NetworkError{Err: fmt.Errorf("the response has no changes after %d: it is not from Holdfast", since)}
	}
	return list, nil
}

// isOutage reports whether the same request may succeed later without the caller's help.
func isOutage(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return refused.Status >= http.StatusInternalServerError
	}
	_, network := errors.AsType[net.Error](err)
	return network || retry.IsNetwork(err)
}
