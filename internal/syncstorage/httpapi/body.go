package httpapi

import "holdfast/internal/web"

// body reads the whole body of a request, which its collection's limit bounds:
// half a list of lines would be a list, too.
func (h *Handler) body(x *exchange) ([]byte, error) {
	return web.ReadBody(x.out, x.in, h.Service.Limits(x.ask.Collection).MaxRequestBytes, &bodyErrors)
}
