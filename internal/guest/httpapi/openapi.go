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
	text, err := Describe(x.Guests.Profile())
	if err != nil {
		return err
	}
	web.StaticBody(x.out)
	send(x.out, answer{Status: http.StatusOK, ContentType: "application/json", Body: text})
	return nil
}
