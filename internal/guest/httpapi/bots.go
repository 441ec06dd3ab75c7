package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"holdfast/internal/guest/bots"
)

// challengeView is a challenge as clients see it: they append a dot and a text, so that the
// SHA-256 of all of it begins with so many zero bits, and send that as X-Challenge-Token.
type challengeView struct {
	Text string `json:"text"`
	Bits int    `json:"bits"`
}

// evaluate scores the request. It returns nil, or an error that refuses it.
func (x *exchange) evaluate() error {
	if x.Bots == nil {
		return nil
	}
	h := x.in.Header
	return x.Bots.Evaluate(x.ctx(), bots.Request{
		Visitor: x.visitor(), Session: x.session, Anomaly: bots.HeaderAnomaly(h.Get),
		Solution: cmp.Or(h.Get("X-Challenge-Token"), h.Get("X-Recaptcha-Token")),
		Route:    x.in.Method + " " + x.route.template, Trace: traceOf(x.in),
	})
}

// see counts a change or a search that is not scored.
func (x *exchange) see() {
	if x.Bots != nil && !x.action.scored && x.in.Method != http.MethodGet && x.in.Method != http.MethodHead {
		x.Bots.See(x.ctx(), x.visitor(), x.session)
	}
}

// trap counts a visit of the honeypot, which looks as if there were nothing.
func (x *exchange) trap() {
	if x.Bots != nil && x.Bots.IsHoneypot(strings.TrimPrefix(x.at.Path, prefix)) {
		x.Bots.Trap(x.ctx(), x.visitor())
	}
}
