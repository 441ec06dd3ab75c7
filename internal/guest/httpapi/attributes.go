package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/guest"
	"holdfast/internal/web"
)

// getAttributes does not transfer the attributes from hot state if the front end already knows them.
func (x *exchange) getAttributes() error {
	a, err := x.Guests.Attributes(x.ctx(), x.session, strings.Trim(strings.TrimPrefix(x.in.Header.Get("If-None-Match"), "W/"), `"`))
	if err != nil {
		return err
	}
	if matches(x.in.Header.Values("If-None-Match"), entityTag(a)) {
		x.out.Header().Set("Etag", entityTag(a))
		x.out.WriteHeader(http.StatusNotModified)
		return nil
	}
	x.sendAttributes(a)
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

func entityTag(a guest.Attributes) string { return `"` + a.Tag() + `"` }

func (x *exchange) sendAttributes(a guest.Attributes) {
	x.out.Header().Set("Etag", entityTag(a))
	send(x.out, answer{Status: http.StatusOK, ContentType: "application/json", Body: append([]byte(a.Object()), '\n')})
}

// ifMatch returns the versions in If-Match. nil means any. Weak tags match nothing (RFC 9110, section 13.1.1).
func ifMatch(h http.Header) ([]string, error) {
	values := h.Values("If-Match")
	if len(values) == 0 {
		return nil, nil
	}
	tags := []string{}
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		part = strings.TrimSpace(part)
		strong := strings.TrimPrefix(part, "W/")
		switch {
		case part == "*":
			return nil, nil
		case len(strong) < 2 || strong[0] != '"' || strong[len(strong)-1] != '"':
			return nil, web.RefuseFor(guest.BadHeader("expected entity tags in quotes, or *", "If-Match"), http.StatusBadRequest, "invalid", "If-Match: expected entity tags in quotes, or *")
		case strong == part:
			tags = append(tags, part[1:len(part)-1])
		}
	}
	return slices.Clip(tags), nil
}
