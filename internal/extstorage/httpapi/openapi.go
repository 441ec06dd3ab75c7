package httpapi

import (
	_ "embed"
	"net/http"
)

// openAPI describes the service's protocol, of all three listeners.
//
//go:embed openapi.json
var openAPI []byte

func (x *exchange) document() error { return x.answer(http.StatusOK, openAPI) }
