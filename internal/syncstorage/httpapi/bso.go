package httpapi

import (
	"net/http"
	"strconv"

	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// get answers GET for a record.
func (h *Handler) get(x *exchange) error {
	b, err := h.Service.Get(x.in.Context(), x.owner, x.ask, x.route.id)
	if err != nil {
		return err
	}
	if len(b.Payload) > smallPayload {
		return h.getLarge(x, b)
	}
	x.modified(b.Modified)
	text := make([]byte, 0, 128+len(b.ID)+len(b.Payload)*9/8)
	return x.answer(http.StatusOK, appendBSO(text, &b))
}

// smallPayload is the size up to which a response is free: it takes less memory than its connection.
const smallPayload = 2 << 10

// getLarge charges the request for the record's memory before encoding it. If memory is short, it drops the record,
// waits and reads it again.
func (h *Handler) getLarge(x *exchange, b ss.BSO) error {
	e := newEncoder(x.out, bufferFor(len(b.Payload)))
	for charged := 0; ; {
		need := len(b.Payload) + cap(e.b)
		if need <= charged || web.TryChargeMemory(x.in, int64(need-charged)) {
			break
		}
		e.close()
		b.Payload = nil
		if err := web.ChargeMemory(x.in, int64(need-charged)); err != nil {
			return err
		}
		charged = need
		var err error
		if b, err = h.Service.Get(x.in.Context(), x.owner, x.ask, x.route.id); err != nil {
			return err
		}
		e = newEncoder(x.out, bufferFor(len(b.Payload)))
	}
	defer e.close()
	x.modified(b.Modified)
	payload := len(b.Payload)
	x.out.Header().Set("Content-Type", typeJSON)
	e.record(&b)
	if !e.sent {
		b.Payload = nil // the client may be slow
		web.ReleaseMemory(x.in, int64(payload))
		x.out.Header().Set("Content-Length", strconv.Itoa(len(e.b)))
	}
	e.flush()
	return nil
}

// put answers PUT for a record.
func (h *Handler) put(x *exchange) error {
	if t := mediaType(x.in.Header); t != typeJSON && t != typeText {
		return errMedia
	}
	body, err := h.body(x)
	if err != nil {
		return err
	}
	it, err := (&decoder{body: body}).record(x.route.id)
	if err != nil {
		return err
	}
	w, err := h.Service.Put(x.in.Context(), x.owner, x.ask, it)
	if err != nil {
		return err
	}
	x.modified(w.Modified)
	h.stored(x, w)
	return x.answer(http.StatusOK, w.Modified.Append(nil))
}
