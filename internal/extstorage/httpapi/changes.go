package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

var changesNames = []string{"since", "wait", "limit"}

const defaultChanges = 100

// getChanges answers a public read of the change feed.
func (x *exchange) getChanges() error { return x.changes(x.query) }

// changes waits for changes without occupying its slot. If too many requests wait, it answers immediately without
// changes, and the client may retry.
func (x *exchange) changes(a arguments) error {
	since, wait, limit := a.integer("since", 0, math.MaxInt64), a.integer("wait", 0, int64(ext.MaxWait/time.Second)), a.integer("limit", 0, ext.MaxChanges)
	if !limit.Set {
		limit.Value = defaultChanges
	}
	if err := a.fault(); err != nil {
		return err
	}
	maxChanges := int(limit.Value)
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	feed, err := x.look(ext.Seq(since.Value), maxChanges, 0)
	if err != nil {
		return err
	}
	if len(feed.Changes) > 0 || maxChanges == 0 || wait.Value == 0 {
		return x.sendFeed(feed, ext.Seq(since.Value), maxChanges)
	}
	leave, ok := x.service.EnterWait(x.ask.Grant.Owner)
	if !ok {
		return x.answer(http.StatusOK, appendFeed(&feed))
	}
	defer leave()
	web.ReleaseSlot(x.in)
	from := feed.Last
	ended, err := x.untilEnding(func() (err error) {
		feed, err = x.look(from, maxChanges, time.Duration(wait.Value)*time.Second)
		return err
	})
	if err != nil && !ended {
		return err
	}
	return x.sendFeed(feed, from, maxChanges)
}

// sendFeed answers with changes. While it waits for memory, it drops them, and reads again.
func (x *exchange) sendFeed(feed ext.Feed, since ext.Seq, maxChanges int) (err error) {
	size := sizeOfFeed(&feed)
	for !x.fits(2 * size) {
		feed = ext.Feed{}
		if err := x.await(2 * size); err != nil {
			return err
		}
		if feed, err = x.look(since, maxChanges, 0); err != nil {
			return err
		}
		size = sizeOfFeed(&feed)
	}
	b := appendFeed(&feed)
	x.keep(cap(b))
	return x.answer(http.StatusOK, b)
}

// look reads changes, and waits for the first for up to wait. The time limit starts after the wait.
func (x *exchange) look(since ext.Seq, maxChanges int, wait time.Duration) (feed ext.Feed, err error) {
	d := x.timeout
	if d > 0 {
		d += wait
	}
	err = x.within(d, func() (err error) {
		feed, err = x.service.Changes(x.ctx(), x.ask, since, maxChanges, wait)
		return err
	})
	if err != nil {
		return ext.Feed{Last: since}, err
	}
	return feed, nil
}

var errEnding = errcode.New(errcode.Unavailable, "the server is shutting down: retry")

// untilEnding runs fn until it returns or the server shuts down, so that waiting clients do not delay the shutdown.
func (x *exchange) untilEnding(fn func() error) (ended bool, err error) {
	whole := x.in
	ctx, cancel := context.WithCancelCause(whole.Context())
	defer cancel(nil)
	defer context.AfterFunc(web.ShuttingDown(ctx), func() { cancel(errEnding) })()
	x.in = whole.WithContext(ctx)
	err = fn()
	x.in = whole
	return err != nil && errors.Is(context.Cause(ctx), errEnding), err
}

// appendFeed returns the answer's body: the changes, and the number to continue after.
func appendFeed(feed *ext.Feed) []byte {
	b := append(make([]byte, 0, 64+192*len(feed.Changes)), '{')
	b = appendList(append(b, `"changes":`...), feed.Changes, func(b []byte, c *ext.Change) []byte {
		b = appendInt(key(append(b, '{'), "seq"), c.Seq)
		b = appendPlace(appendString(key(b, "op"), c.Op), c.Namespace, c.Key)
		b = appendInt(key(b, "revision"), c.Revision)
		return append(appendMoment(key(b, "at"), c.At), '}')
	})
	return append(appendInt(key(b, "nextSince"), feed.Last), '}')
}
