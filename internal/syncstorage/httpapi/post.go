package httpapi

import (
	"net/http"
	"strings"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// post answers POST: a list of records, alone or as a part of a batch.
func (h *Handler) post(x *exchange) error {
	d, err := declared(x.in.Header)
	if err != nil {
		return err
	}
	if err := h.Service.CheckDeclared(x.ask.Collection, d); err != nil {
		return err
	}
	batch, err := x.batch()
	if err != nil {
		return err
	}
	items, err := h.items(x)
	if err != nil {
		return err
	}
	p, err := h.Service.Post(x.in.Context(), x.owner, x.ask, batch, items)
	if err != nil {
		return err
	}
	x.modified(p.Modified)
	h.stored(x, p.Written)
	status := http.StatusOK
	if p.Staged {
		status = http.StatusAccepted
	}
	return x.answer(status, appendPosted(nil, &p))
}

// batch reads the parameters batch and commit. batch=true opens a batch.
func (x *exchange) batch() (b ss.BatchQuery, err error) {
	v := x.query
	if b.Batch = v.Has("batch"); b.Batch && !strings.EqualFold(v.Get("batch"), "true") {
		b.ID = v.Get("batch")
	}
	if b.Commit = v.Has("commit"); b.Commit && !strings.EqualFold(v.Get("commit"), "true") {
		return b, errcode.New(errcode.Invalid, "commit must be true")
	}
	return b, nil
}

// items parses the body in the format that Content-Type says.
func (h *Handler) items(x *exchange) ([]ss.Item, error) {
	var read func(*decoder) ([]ss.Item, error)
	switch mediaType(x.in.Header) {
	case typeJSON, typeText:
		read = (*decoder).list
	case typeNewlines:
		read = (*decoder).lines
	default:
		return nil, errMedia
	}
	body, err := h.body(x)
	if err != nil {
		return nil, err
	}
	return read(&decoder{
		body: body, most: listedPerWritten * h.Service.Limits(x.ask.Collection).MaxPostRecords,
		charge: func(n int64) error { return web.ChargeMemory(x.in, n) },
	})
}
