package httpapi

import (
	_ "embed"
	"net/http"

	"holdfast/internal/web"
)

//go:embed openapi.json
var openAPI []byte

func (x *exchange) document() error {
	web.StaticBody(x.in)
	return x.answer(http.StatusOK, openAPI)
}
