package httpapi

import "net/http"

// deleteAll answers DELETE for everything.
func (h *Handler) deleteAll(x *exchange) error {
	if err := h.Service.DeleteAll(x.in.Context(), x.owner, x.ask.If); err != nil {
		return err
	}
	x.modified(0)
	return x.answer(http.StatusOK, []byte("null"))
}

// deleteCollection answers DELETE for a collection or, with the parameter ids, for some records. The body is the stamp.
func (h *Handler) deleteCollection(x *exchange) error {
	if x.query.Has("ids") {
		w, err := h.Service.DeleteBSOs(x.in.Context(), x.owner, x.ask, splitIDs(x.query.Get("ids")))
		if err != nil {
			return err
		}
		x.modified(w.Modified)
		return x.answer(http.StatusOK, w.Modified.Append(nil))
	}
	w, err := h.Service.DeleteCollection(x.in.Context(), x.owner, x.ask)
	if err != nil {
		return err
	}
	x.modified(w.Previous)
	x.notBefore(w.Modified)
	return x.answer(http.StatusOK, w.Modified.Append(nil))
}

// deleteBSO answers DELETE for a record.
func (h *Handler) deleteBSO(x *exchange) error {
	w, err := h.Service.DeleteBSO(x.in.Context(), x.owner, x.ask, x.route.id)
	if err != nil {
		return err
	}
	x.modified(w.Modified)
	b := w.Modified.Append([]byte(`{"modified":`))
	return x.answer(http.StatusOK, append(b, '}'))
}
