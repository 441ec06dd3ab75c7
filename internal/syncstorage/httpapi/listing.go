package httpapi

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

func (h *Handler) list(x *exchange) error {
	form, ok := negotiate(x.in.Header)
	if !ok {
		return errAccept
	}
	q, err := x.listing()
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, listMemory); err != nil {
		return err
	}
	l, err := h.Service.List(x.in.Context(), x.owner, q, x.idle)
	if err != nil {
		return err
	}
	defer l.Close()
	x.modified(l.Modified)
	x.records(l.Records)
	if l.More {
		x.out.Header().Set("X-Weave-Next-Offset", l.Next.Token())
	}
	return form.send(x, l, q.Full)
}

// listMemory is charged before a listing is read, when nobody knows how large it is:
// what is gathered, and a buffer for that.
const listMemory = ss.GatherMax + ss.GatherMax*9/8 + 4*pieceBytes

// idle waits for what others have, without a slot and without memory.
func (x *exchange) idle(wait func() error) error {
	web.ReleaseMemory(x.out, listMemory)
	if err := web.WithoutSlot(x.out, x.in, wait); err != nil {
		return err
	}
	return web.ChargeMemory(x.out, x.in, listMemory)
}

// listing reads what a listing is asked for. Unknown arguments are ignored.
func (x *exchange) listing() (*ss.Query, error) {
	v := x.query
	q := &ss.Query{Collection: x.ask.Collection, If: x.ask.If, Now: x.ask.Now, Full: v.Has("full")}
	var err error
	if v.Has("ids") {
		q.IDs = splitIDs(v.Get("ids"))
	}
	if q.Newer, err = bound(v, "newer"); err != nil {
		return nil, err
	}
	if q.Older, err = bound(v, "older"); err != nil {
		return nil, err
	}
	if v.Has("sort") {
		var ok bool
		if q.Sort, ok = ss.ParseSort(v.Get("sort")); !ok {
			return nil, fault.New(fault.Invalid, "sort is not newest, oldest or index")
		}
	}
	if v.Has("limit") {
		n, err := strconv.ParseUint(v.Get("limit"), 10, 32)
		if err != nil {
			return nil, fault.New(fault.Invalid, "limit is not a number of records")
		}
		q.Limit = ss.Some(int(min(n, math.MaxInt32))) // as good as none, and fits every engine
	}
	if v.Has("offset") {
		if q.Offset, err = ss.ParseOffset(v.Get("offset")); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// bound reads newer or older.
func bound(v url.Values, name string) (ts ss.Optional[ss.Timestamp], err error) {
	if !v.Has(name) {
		return ts, nil
	}
	t, ok := ss.ParseTimestamp(v.Get(name))
	if !ok {
		return ts, fault.Newf(fault.Invalid, "%s is not a number of seconds", name)
	}
	return ss.Some(t), nil
}

// splitIDs reads a list of ids; one without any is not nil.
func splitIDs(s string) []string {
	list := []string{}
	for id := range strings.SplitSeq(s, ",") {
		if id = strings.TrimSpace(id); id != "" {
			list = append(list, id)
		}
	}
	return list
}

// send answers with the records. One listing that is in memory goes out whole and with
// its length, unless most of its characters have to be escaped; a streamed one as the
// buffer fills. Its error is the store's, or the client's who does not take the answer;
// in both cases part of it may be out already.
func (f layout) send(x *exchange, l *ss.Listing, full bool) error {
	size := streamBytes
	switch {
	case l.Gathered && full:
		size = bufferFor(l.Memory)
	case l.Gathered:
		size = bufferFor(l.Records * (ss.MaxIDLength + len(`"",`)))
	}
	memory := listMemory
	keep := func(n int) error { // so much of the memory from here on
		change := int64(n - memory)
		memory = n
		if change > 0 {
			return web.ChargeMemory(x.out, x.in, change)
		}
		web.ReleaseMemory(x.out, -change)
		return nil
	}
	e := newEncoder(x.out, size)
	defer e.close()
	if err := keep(l.Memory + cap(e.b)); err != nil {
		return err
	}
	x.out.Header().Set("Content-Type", f.media)
	e.literal(f.open)
	between, largest := "", 0
	for r, err := range l.Items {
		if err != nil {
			return fmt.Errorf("read a listing: %w", err)
		}
		if n := len(r.Payload); n > largest && !l.Gathered {
			largest = n
			if err := keep(l.Memory + cap(e.b) + streamCopies*largest); err != nil {
				return err
			}
		}
		e.literal(between)
		between = f.between
		if full {
			e.record(r)
		} else {
			e.id(r.ID)
		}
		e.literal(f.after)
		if e.err != nil {
			return fault.Wrap(fault.Unavailable, "the client does not take the listing", e.err)
		}
	}
	e.literal(f.end)
	if !e.sent {
		l.Close() // all is in the buffer, and the client may take its time
		if err := keep(cap(e.b)); err != nil {
			return err
		}
		x.out.Header().Set("Content-Length", strconv.Itoa(len(e.b)))
	}
	e.flush() // as in answer
	return nil
}

const (
	// streamBytes is the buffer of a listing that is streamed.
	streamBytes = 256 << 10

	// streamCopies is how often the largest record of a stream is in memory: as the
	// engine has read it, and as the store hands it over.
	streamCopies = 2
)
