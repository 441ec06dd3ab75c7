package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// unauthenticated answers 401 with the cause's text.
func unauthenticated(cause error) error {
	return &authError{refusal{http.StatusUnauthorized, codeUnauthenticated, "", cause.Error(), errcode.Denied}, cause}
}

// authError keeps the cause, so that callers can tell an expired token from a wrong one.
type authError struct {
	refusal
	cause error
}

func (s *authError) Unwrap() []error { return []error{&s.refusal, s.cause} }

// claims verifies the client token in Authorization.
func claims(r *http.Request, tokens *bearer.Keyring, now time.Time) (bearer.Claims, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return bearer.Claims{}, unauthenticated(errAuthorization(len(values)))
	}
	c, err := tokens.Parse(values[0], now)
	if err != nil {
		return bearer.Claims{}, unauthenticated(err)
	}
	return c, nil
}

// errAuthorization says whether the header is missing or repeated.
func errAuthorization(headers int) error {
	if headers == 0 {
		return bearer.ErrMissing
	}
	return errManyTokens
}

var errManyTokens = fmt.Errorf("%w, once", bearer.ErrMissing)

// authenticate reads the client token's grant into x.ask.
func (x *exchange) authenticate(tokens *bearer.Keyring, now time.Time) error {
	c, err := claims(x.in, tokens, now)
	if err != nil {
		return err
	}
	grant, err := x.service.ParseGrant(c.Raw)
	if err != nil {
		return unauthenticated(claimError(c.Raw, err))
	}
	web.Identify(x.in, client(grant.Owner.Tenant))
	grant.Token = ext.Token{ID: c.ID, Issued: issued(&c), Ends: c.Ends}
	x.ask.Grant, x.ask.Caller = grant, ext.Caller{Kind: "token", ID: cmp.Or(c.Subject, c.ID)}
	return nil
}

// issued returns when the token was issued or, without iat, became valid.
func issued(c *bearer.Claims) time.Time { return cmp.Or(c.IssuedAt, c.From) }

// client names the tenant in logs and limits.
func client(t ext.TenantID) string { return "ext " + string(t) }

var errClaims = errcode.New(errcode.Denied, "the token's claims are not valid")

// claimError explains why a token's claims are refused.
func claimError(raw json.RawMessage, err error) error {
	var service struct {
		Service any `json:"service"`
	}
	if json.Unmarshal(raw, &service) == nil && service.Service != nil {
		return fmt.Errorf("%w: this is a service token, which only the internal listener accepts", errClaims)
	}
	pointer, _ := ext.PointerOf(err)
	switch claim, inside, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/"); {
	case claim == "ns" && inside != "":
		return fmt.Errorf("%w: a name or an access in ns %w", errClaims, err)
	case claim == "tenant_id", claim == "install_id", claim == "ns":
		return fmt.Errorf("%w: %s %w", errClaims, claim, err)
	}
	return errClaims
}

var serviceName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// ValidService accepts 1 to 64 of a-z, 0-9 and -.
func ValidService(name string) bool { return serviceName.MatchString(name) }

// ParseServiceClaims returns a service token's tenant and name. It rejects client tokens.
func ParseServiceClaims(raw json.RawMessage) (tenant ext.TenantID, service string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return "", "", errClaims
	}
	var name string
	if _, client := members["install_id"]; client {
		return "", "", fmt.Errorf("%w: this is an install token, services need a token with tenant_id and service", errClaims)
	}
	if json.Unmarshal(members["service"], &service) != nil || !ValidService(service) {
		return "", "", fmt.Errorf("%w: service must be 1 to 64 characters from a-z, 0-9 and -", errClaims)
	}
	if json.Unmarshal(members["tenant_id"], &name) != nil {
		return "", "", fmt.Errorf("%w: tenant_id is required: a UUID", errClaims)
	}
	if tenant, err = ext.ParseTenantID(name); err != nil {
		return "", "", fmt.Errorf("%w: tenant_id %w", errClaims, err)
	}
	return tenant, service, nil
}

// mayWriteSchemas reports whether the claim schemas is true.
func mayWriteSchemas(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(raw, &members) == nil && string(members["schemas"]) == "true"
}
