package httpapi

import (
	_ "embed"
	"net/http"
	"sync"

	"holdfast/internal/guest"
	"holdfast/internal/web"
)

// openAPI describes the API of all three listeners.
//
//go:embed openapi.json
var openAPI []byte

// description keeps the API description, which is built on first use.
type description struct {
	once sync.Once
	text []byte
	err  error
}

// of returns the description. p must always be the same.
func (d *description) of(p *guest.Profile) ([]byte, error) {
	d.once.Do(func() { d.text, d.err = Describe(p) })
	return d.text, d.err
}

// document answers with the API description.
func (x *exchange) document() error {
	text, err := x.description.of(x.Guests.Profile())
	if err != nil {
		return err
	}
	web.StaticBody(x.in)
	send(x.out, answer{Status: http.StatusOK, ContentType: "application/json", Body: text})
	return nil
}
