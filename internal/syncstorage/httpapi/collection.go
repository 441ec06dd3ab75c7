package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// listing reads the arguments of a listing. Unknown ones are ignored.
func (q *request) listing() (*ss.Query, error) {
	v := q.query
	l := &ss.Query{Collection: q.target.Collection, If: q.target.If, Now: q.target.Now, Full: v.Has("full")}
	var err error
	if v.Has("ids") {
		l.IDs = splitIDs(v.Get("ids"))
	}
	for _, f := range []struct {
		name string
		into *ss.Optional[ss.Timestamp]
	}{{"newer", &l.Newer}, {"older", &l.Older}} {
		if !v.Has(f.name) {
			continue
		}
		ts, ok := ss.ParseTimestamp(v.Get(f.name))
		if !ok {
			return nil, fault.Newf(fault.Invalid, "%s is not a number of seconds", f.name)
		}
		*f.into = ss.Some(ts)
	}
	if v.Has("sort") {
		var ok bool
		if l.Sort, ok = ss.ParseSort(v.Get("sort")); !ok {
			return nil, fault.New(fault.Invalid, "sort is not newest, oldest or index")
		}
	}
	if v.Has("limit") {
		n, err := strconv.ParseUint(v.Get("limit"), 10, 31)
		if err != nil {
			return nil, fault.New(fault.Invalid, "limit is not a number of records")
		}
		l.Limit = ss.Some(int(n))
	}
	if v.Has("offset") {
		if l.Offset, err = ss.ParseOffset(v.Get("offset")); err != nil {
			return nil, err
		}
	}
	return l, nil
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
// not grow with the answer.
const flushAt = 64 << 10

func (h *Handler) list(q *request) error {
	media, ok := negotiate(q.Header)
	if !ok {
		return errAccept
	}
	query, err := q.listing()
	if err != nil {
		return err
	}
	l, err := h.Service.List(q.Context(), q.owner, query)
	if err != nil {
		return err
	}
	defer l.Close()
	read(q, l.Modified, l.Records)
	if l.More {
		q.w.Header().Set("X-Weave-Next-Offset", l.Next.Token())
	}
	q.w.Header().Set("Content-Type", media)
	return writeListing(q.w, l, query.Full, media == typeNewlines)
}

// writeListing streams the records. Once the first part is out, a failure can
// only be told by breaking the connection, which the panic does: a client must
// not take half a list for the whole.
func writeListing(w http.ResponseWriter, l *ss.Listing, full, lines bool) error {
	b := make([]byte, 0, min(flushAt, 256+256*l.Records))
	first, sent := true, false
	if !lines {
		b = append(b, '[')
	}
	for r, err := range l.Items {
		if err != nil {
			if sent {
				panic(http.ErrAbortHandler)
			}
			return fmt.Errorf("list: %w", err)
		}
		if !lines && !first {
			b = append(b, ',')
		}
		first = false
		if full {
			b = appendBSO(b, r)
		} else {
			b = appendString(b, r.ID)
		}
		if lines {
			b = append(b, '\n')
		}
		if len(b) >= flushAt {
			sent = true
			if _, err := w.Write(b); err != nil {
				panic(http.ErrAbortHandler)
			}
			b = b[:0]
		}
	}
	if !lines {
		b = append(b, ']')
	}
	if !sent {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	_, _ = w.Write(b) // a client that went away
	return nil
}

func (h *Handler) post(q *request) error {
	d, err := declared(q.Header)
	if err != nil {
		return err
	}
	if err := h.Service.CheckDeclared(q.target.Collection, d); err != nil {
		return err
	}
	batch, err := q.batch()
	if err != nil {
		return err
	}
	media := mediaType(q.Header)
	if media != typeJSON && media != typeNewlines && media != typeText {
		return errMedia
	}
	body, err := h.body(q)
	if err != nil {
		return err
	}
	var items []ss.Item
	if media == typeNewlines {
		items, err = newDecoder(body).lines()
	} else {
		items, err = newDecoder(body).list()
	}
	if err != nil {
		return err
	}
	p, err := h.Service.Post(q.Context(), q.owner, q.target, batch, items)
	if err != nil {
		return err
	}
	h.written(q, p.Written, p.Modified)
	code := http.StatusOK
	if p.Staged {
		code = http.StatusAccepted
	}
	return send(q, code, appendPosted(nil, &p))
}

// batch reads the arguments batch and commit.
func (q *request) batch() (b ss.BatchQuery, err error) {
	v := q.query
	if b.Batch = v.Has("batch"); b.Batch && !strings.EqualFold(v.Get("batch"), "true") {
		b.ID = v.Get("batch")
	}
	if b.Commit = v.Has("commit"); b.Commit && !strings.EqualFold(v.Get("commit"), "true") {
		return b, fault.New(fault.Invalid, "commit is not true")
	}
	return b, nil
}

// deleteCollection deletes a collection or, with ids, records of it.
func (h *Handler) deleteCollection(q *request) error {
	if q.query.Has("ids") {
		w, err := h.Service.DeleteBSOs(q.Context(), q.owner, q.target, splitIDs(q.query.Get("ids")))
		if err != nil {
			return err
		}
		h.written(q, w, w.Modified)
		return send(q, http.StatusOK, w.Modified.Append(nil))
	}
	w, err := h.Service.DeleteCollection(q.Context(), q.owner, q.target)
	if err != nil {
		return err
	}
	// The addressed resource is the collection, which was modified at Previous
	// before it went; the body has the stamp of the deletion.
	h.written(q, w, w.Previous)
	return send(q, http.StatusOK, w.Modified.Append(nil))
}

func (h *Handler) deleteAll(q *request) error {
	if err := h.Service.DeleteAll(q.Context(), q.owner, q.target.If); err != nil {
		return err
	}
	read(q, 0, -1)
	return send(q, http.StatusOK, []byte("null"))
}
