package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"holdfast/internal/guest/bots"
)

// challengeView is a challenge for clients. They return it as X-Challenge-Token, with a dot and a text appended, so
// that the token's SHA-256 starts with the required number of zero bits.
type challengeView struct {
	Text string `json:"text"`
	Bits int    `json:"bits"`
}

// evaluate scores the request. It returns bots' errors: a challenge, or a refusal.
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

// see counts a change that is not scored: the cadence covers all changes.
func (x *exchange) see() {
	if x.Bots != nil && !x.action.scored && x.in.Method != http.MethodGet && x.in.Method != http.MethodHead {
		x.Bots.See(x.ctx(), x.visitor(), x.session)
	}
}

// trap counts a visit to the honeypot, which is a path like any other unknown path.
func (x *exchange) trap() {
	if x.Bots != nil && x.Bots.IsHoneypot(strings.TrimPrefix(x.at.Path, prefix)) {
		x.Bots.Trap(x.ctx(), x.visitor())
	}
}
