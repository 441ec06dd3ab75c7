package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

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
	l, err := h.Service.List(x.in.Context(), x.owner, q, func(wait func() error) error { return web.WithoutSlot(x.out, x.in, wait) })
	if err != nil {
		return err
	}
	defer l.Close()
	x.modified(l.Modified)
	x.records(l.Records)
	if l.More {
		x.out.Header().Set("X-Weave-Next-Offset", l.Next.Token())
	}
	return form.send(x.out, l, q.Full)
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

// flushAt is how much of a listing is encoded before it is sent on: memory does
// not grow with the answer. One that is in memory already goes out whole and
// with its length, unless its characters have to be escaped one and all.
const (
	flushAt         = 256 << 10
	flushGatheredAt = 4 << 20
)

// buffers are for listings under way, and used again.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// send streams the records. Its error is the store's, or the client's who does
// not take the answer; in both cases part of it may be out already.
func (f layout) send(w http.ResponseWriter, l *ss.Listing, full bool) error {
	w.Header().Set("Content-Type", f.media)
	buffer := buffers.Get().(*[]byte)
	b := append((*buffer)[:0], f.open...)
	defer func() {
		if *buffer = b; cap(b) <= 4*flushAt { // as much as most answers need
			buffers.Put(buffer)
		}
	}()
	most := flushAt
	if l.Gathered {
		most = flushGatheredAt
	}
	between, sent := "", false
	for r, err := range l.Items {
		if err != nil {
			return fmt.Errorf("read a listing: %w", err)
		}
		b = append(b, between...)
		between = f.between
		if full {
			b = appendBSO(b, r)
		} else {
			b = appendString(b, r.ID)
		}
		b = append(b, f.after...)
		if len(b) < most {
			continue
		}
		sent = true
		if _, err := w.Write(b); err != nil {
			return fault.Wrap(fault.Unavailable, "the client does not take the listing", err)
		}
		b = b[:0]
	}
	b = append(b, f.end...)
	if !sent {
		l.Close() // all is in b, and the client may take its time
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	_, _ = w.Write(b) // as in answer
	return nil
}
