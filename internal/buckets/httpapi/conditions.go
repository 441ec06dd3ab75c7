package httpapi

import (
	"net/http"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// Conditions declares the conditional headers of a route. The mux refuses others on writes.
func Conditions(r *http.Request, at web.Address) (c web.Conditions) {
	rt, err := parseRoute(at.Path)
	if act := actions[rt.resource][r.Method]; err == nil && act != nil && act.conditions {
		c.Applied = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			c.Applied = append(c.Applied, "If-Range")
		}
	}
	return c
}

// tags parses If-Match or If-None-Match.
func (x *exchange) tags(name string) (buckets.Tags, error) {
	t, err := buckets.ParseTags(x.in.Header[name])
	if err != nil {
		err = web.RefuseFor(err, http.StatusBadRequest, codeInvalid, name+": "+err.Error())
	}
	return t, err
}
