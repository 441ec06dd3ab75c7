package httpapi

import "net/http"

func (h *Handler) get(x *exchange) error {
	b, err := h.Service.Get(x.in.Context(), x.owner, x.ask, x.route.id)
	if err != nil {
		return err
	}
	x.modified(b.Modified)
	text := make([]byte, 0, 128+len(b.ID)+len(b.Payload)*9/8) // payloads are full of quotes
	return x.answer(http.StatusOK, appendBSO(text, &b))
}

// put writes a record; the body of the answer is the bare stamp.
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
