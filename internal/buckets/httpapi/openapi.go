package httpapi

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API.
//
//go:embed openapi.json
var openAPI []byte

func (x *exchange) document() error { return x.send(http.StatusOK, openAPI) }
