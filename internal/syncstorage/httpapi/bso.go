package httpapi

import "net/http"

func (h *Handler) get(q *request) error {
	b, err := h.Service.Get(q.Context(), q.owner, q.target, q.route.id)
	if err != nil {
		return err
	}
	read(q, b.Modified, -1)
	return send(q, http.StatusOK, appendBSO(nil, &b))
}

// put writes a record; the body of the answer is the bare stamp.
func (h *Handler) put(q *request) error {
	if t := mediaType(q.Header); t != typeJSON && t != typeText {
		return errMedia
	}
	body, err := h.body(q)
	if err != nil {
		return err
	}
	it, err := newDecoder(body).record(q.route.id)
	if err != nil {
		return err
	}
	w, err := h.Service.Put(q.Context(), q.owner, q.target, it)
	if err != nil {
		return err
	}
	h.written(q, w, w.Modified)
	return send(q, http.StatusOK, w.Modified.Append(nil))
}

func (h *Handler) deleteBSO(q *request) error {
	w, err := h.Service.DeleteBSO(q.Context(), q.owner, q.target, q.route.id)
	if err != nil {
		return err
	}
	h.written(q, w, w.Modified)
	b := append([]byte(nil), `{"modified":`...)
	return send(q, http.StatusOK, append(w.Modified.Append(b), '}'))
}
