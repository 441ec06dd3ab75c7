package httpapi

import (
	"cmp"
	"net/http"

	"holdfast/internal/guest"
	"holdfast/internal/web"
)

// getAttributes does not transfer the attributes from hot state if the front end already knows them.
func (x *exchange) getAttributes() error {
	tags, err := web.ParseEntityTags(x.in.Header, "If-None-Match")
	if err != nil {
		return err
	}
	known := ""
	if tags != nil {
		known = cmp.Or(append(tags.Strong, tags.Weak...)...)
	}
	a, err := x.Guests.Attributes(x.ctx(), x.session, known)
	if err != nil {
		return err
	}
	if !x.notModified(tags, a.Tag()) {
		x.sendAttributes(a)
	}
	return nil
}

// patchAttributes needs no idempotency key, because reapplying a merge patch has no effect.
func (x *exchange) patchAttributes() error {
	tags, err := ifMatch(x.in.Header)
	if err != nil {
		return err
	}
	c, err := x.Guests.PatchAttributes(x.ctx(), x.session, guest.AttributesPatch{Patch: x.body, Tags: tags})
	if err != nil {
		return err
	}
	if len(c.Members) > 0 {
		x.Telemetry.AttributesChanged(x.traced(), x.session, c)
	}
	x.sendAttributes(c.Attributes)
	return nil
}

// sendAttributes answers with all attributes and their ETag.
func (x *exchange) sendAttributes(a guest.Attributes) {
	x.out.Header().Set("Etag", quoted(a.Tag()))
	send(x.out, answer{Status: http.StatusOK, ContentType: "application/json", Body: append([]byte(a.Object()), '\n')})
}

// ifMatch returns the versions in If-Match. nil means any: a session always has attributes. Weak tags match nothing
// (RFC 9110, section 13.1.1).
func ifMatch(h http.Header) ([]string, error) {
	tags, err := web.ParseEntityTags(h, "If-Match")
	if tags == nil || tags.Any {
		return nil, err
	}
	return append([]string{}, tags.Strong...), nil
}
