package guest

import (
	"context"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/operate"
)

// tokenOperations declares tokens/create, for booking sites and senders of events.
func (s *Guest) tokenOperations() []operate.Operation {
	return []operate.Operation{operate.NewChange(operate.About{
		Path: "tokens/create", Doc: "Create a service token for the internal listener",
		Group: "Create service tokens for the internal listener", Title: "Service tokens", Button: "Create token",
		More: "With the token a booking site verifies and consumes handoffs on the internal listener. With --tenant it is\n" +
			"limited to the handoffs to this tenant. With --events it allows only to push events, which suspend and\n" +
			"reinstate tenants. A token cannot be revoked by itself: it is valid until it expires, or until the secret\n" +
			"guest.handoff_secret is replaced.",
		Example: "--service booking --ttl 30d",
		Text:    "A booking site verifies and consumes handoffs with its token on the internal listener. It cannot be revoked by itself: it is valid until it expires, or until guest.handoff_secret is replaced.",
	}, s.createToken)}
}

type tokenInput struct {
	Service string `flag:"service" value:"NAME" doc:"service NAME, 1 to 64 characters from a-z, 0-9 and -"`
	Tenant  string `flag:"tenant" value:"UUID" names:"-" doc:"limit to a tenant UUID: consume only its handoffs"`
	Events  bool   `flag:"events" doc:"allow pushing tenant events to /internal/events"`
	operate.Lifetime
}

// Check refuses a token that the server would not accept.
func (in tokenInput) Check() error {
	if _, err := in.claims(); err != nil {
		return err
	}
	return in.Within(maxTTL, "")
}

// claims returns the token's claims: for handoffs, limited to a tenant or not, or for events.
func (in *tokenInput) claims() (claims map[string]any, err error) {
	if _, ok := guest.ParseTenant(in.Tenant); in.Tenant != "" && !ok {
		return nil, &operate.InputError{Input: "tenant", Reason: "must be a UUID, or tnt_ and a ULID"}
	}
	switch {
	case !in.Events:
		claims, err = httpapi.ServiceClaims(in.Service, in.Tenant)
	case in.Tenant != "":
		return nil, &operate.InputError{Input: "tenant", Reason: "must not be given with events"}
	default:
		claims, err = httpapi.EventClaims(in.Service)
	}
	if err != nil {
		err = &operate.InputError{Input: "service", Reason: errcode.Message(err)}
	}
	return claims, err
}

type tokenOutput struct {
	Token string `json:"token" title:"Token" secret:"The token is shown only once."`
}

// Notice is "", so that the token is shown.
func (tokenOutput) Notice() string { return "" }

// createToken only signs: the server keeps no list of tokens.
func (s *Guest) createToken(_ context.Context, in tokenInput) (out tokenOutput, err error) {
	h, err := s.ready()
	if err != nil {
		return out, err
	}
	claims, err := in.claims()
	if err == nil {
		out.Token, err = h.tokens.Sign(claims, h.deps.Clock(), in.TTL)
	}
	return out, err
}
