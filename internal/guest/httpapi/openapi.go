package httpapi

import (
	_ "embed"
	"net/http"

	"holdfast/internal/web"
)

// openAPI describes the API of all three listeners.
//
//go:embed openapi.json
var openAPI []byte

func (x *exchange) document() error {
	web.StaticBody(x.out)
	send(x.out, answer{Status: http.StatusOK, ContentType: "application/json", Body: openAPI})
	return nil
}
