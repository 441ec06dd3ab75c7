package httpapi

import (
	_ "embed"
	"net/http"

	"holdfast/internal/web"
)

//go:embed openapi.json
var openAPI []byte

// document answers with the API description, without a token.
func (x *exchange) document() error {
	web.StaticBody(x.in)
	return x.answer(http.StatusOK, openAPI)
}
