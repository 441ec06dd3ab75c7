package httpapi

import (
	_ "embed"
	"net/http"

	"holdfast/internal/web"
)

//go:embed openapi.json
var openAPI []byte

// document returns openapi.json.
func (x *exchange) document() error {
	web.StaticBody(x.in)
	return x.send(http.StatusOK, openAPI)
}
