package httpapi

import "holdfast/internal/web"

// body reads the whole body of a request, which its collection's limit bounds:
// half a list of lines would be a list, too. Then it takes a slot for the request.
func (h *Handler) body(x *exchange) ([]byte, error) {
	body, err := web.ReadBody(x.out, x.in, h.Service.Limits(x.ask.Collection).MaxRequestBytes, &bodyErrors)
	if err != nil {
		return nil, err
	}
	return body, h.acquireSlot(x)
}
