package httpapi

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// list answers GET for a collection.
func (h *Handler) list(x *exchange) error {
	form, ok := negotiate(x.in.Header)
	if !ok {
		return errAccept
	}
	q, err := x.listing()
	if err != nil {
		return err
	}
	l, e, err := h.open(x, q)
	if err != nil {
		return err
	}
	defer l.Close()
	defer e.close()
	x.modified(l.Modified)
	x.records(l.Records)
	if l.More {
		x.out.Header().Set("X-Weave-Next-Offset", l.Next.Token())
	}
	return form.send(x, l, e, q.Full)
}

// open charges the request for the page's memory. While it waits for memory, it gives up its slot.
func (h *Handler) open(x *exchange, q *ss.Query) (*ss.Listing, *encoder, error) {
	var charged int64
	idle := func(wait func() error) error {
		web.ReleaseMemory(x.in, charged)
		if err := web.WithoutSlot(x.in, wait); err != nil {
			return err
		}
		return web.ChargeMemory(x.in, charged)
	}
	for {
		l, err := h.Service.List(x.in.Context(), x.owner, q, idle)
		if err != nil {
			return nil, nil, err
		}
		e := newEncoder(x.out, bufferOf(l, q.Full))
		need := int64(l.Memory + cap(e.b))
		if need <= charged || web.TryChargeMemory(x.in, need-charged) {
			web.ReleaseMemory(x.in, charged-need)
			return l, e, nil
		}
		e.close()
		l.Close()
		if err := web.ChargeMemory(x.in, need-charged); err != nil {
			return nil, nil, err
		}
		charged = need
	}
}

// bufferOf returns the encoder's buffer for a page.
func bufferOf(l *ss.Listing, full bool) int {
	switch {
	case !l.Gathered:
		return streamBytes
	case full:
		return bufferFor(l.Memory)
	default:
		return bufferFor(l.Records * (ss.MaxIDLength + len(`"",`)))
	}
}

// listing reads the query's parameters.
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
			return nil, errcode.New(errcode.Invalid, "sort must be newest, oldest or index")
		}
	}
	if v.Has("limit") {
		n, err := strconv.ParseUint(v.Get("limit"), 10, 32)
		if err != nil {
			return nil, errcode.New(errcode.Invalid, "limit must be a whole number")
		}
		q.Limit = ss.Some(int(min(n, math.MaxInt32))) // no effective limit, supported by every engine
	}
	if v.Has("offset") {
		if q.Offset, err = ss.ParseOffset(v.Get("offset")); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// bound reads a parameter in seconds.
func bound(v url.Values, name string) (ts ss.Optional[ss.Timestamp], err error) {
	if !v.Has(name) {
		return ts, nil
	}
	t, ok := ss.ParseTimestamp(v.Get(name))
	if !ok {
		return ts, errcode.Newf(errcode.Invalid, "%s must be a decimal number of seconds", name)
	}
	return ss.Some(t), nil
}

// splitIDs ignores empty elements. The result is never nil, since nil means all records.
func splitIDs(s string) []string {
	list := []string{}
	for id := range strings.SplitSeq(s, ",") {
		if id = strings.TrimSpace(id); id != "" {
			list = append(list, id)
		}
	}
	return list
}

// send encodes and sends the page.
func (f layout) send(x *exchange, l *ss.Listing, e *encoder, full bool) error {
	x.out.Header().Set("Content-Type", f.media)
	e.literal(f.open)
	between, largest := "", 0
	for r, err := range l.Items {
		if err != nil {
			return fmt.Errorf("read a list: %w", err)
		}
		if n := len(r.Payload); n > largest && !l.Gathered {
			if err := web.ChargeMemory(x.in, int64(streamCopies*(n-largest))); err != nil {
				return err
			}
			largest = n
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
			return errcode.Wrap(errcode.Unavailable, "the client stopped reading the list", e.err)
		}
	}
	e.literal(f.end)
	if !e.sent {
		l.Close() // the buffer contains everything, and the client may be slow
		web.ReleaseMemory(x.in, int64(l.Memory))
		x.out.Header().Set("Content-Length", strconv.Itoa(len(e.b)))
	}
	e.flush()
	return nil
}

const (
	streamBytes = 256 << 10

	// streamCopies is how many copies of a stream's largest record are in memory: in the engine and in the store.
	streamCopies = 2
)
