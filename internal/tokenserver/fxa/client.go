package fxa

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"

	"holdfast/internal/clock"
	"holdfast/internal/tokenserver"
)

const maxResponse = 256 << 10 // bytes

// Client calls Mozilla's accounts server and profile server. It is safe for concurrent use.
type Client struct {
	base    string        // accounts server
	profile string        // profile server; "" if not configured
	timeout time.Duration // per call
	http    *http.Client
	now     clock.Clock
	keys    keySource

	audience, issuer string // for account events; "" if not configured
}

// New returns a client without contacting a server. It returns errcode.Invalid for an invalid configured key.
func New(cfg tokenserver.Config, now clock.Clock) (*Client, error) {
	c := &Client{
		base:     cfg.AccountsServer(),
		profile:  cfg.ProfileServer(),
		timeout:  cfg.FxAOAuthTimeout,
		http:     newHTTP(),
		now:      now,
		audience: cfg.FxAWebhookClientID,
		issuer:   cfg.FxAWebhookIssuer,
	}
	var configured fixedKeys
	for _, k := range []tokenserver.JWK{cfg.FxAOAuthPrimaryJWK, cfg.FxAOAuthSecondaryJWK} {
		if !k.IsSet() {
			continue
		}
		key, err := configuredKey(k)
		if err != nil {
			return nil, err
		}
		configured = append(configured, key)
	}
	c.keys = configured
	if len(configured) == 0 {
		c.keys = &fetchedKeys{fetch: c.fetchKeys, now: now}
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// newHTTP returns a client that uses the environment's proxy and follows no redirects, so tokens reach only the
// configured server.
func newHTTP() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetchKeys fetches the server's public keys. Keys for other purposes are left out.
func (c *Client) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	status, body, err := c.call(ctx, http.MethodGet, c.base+"/v1/jwks", nil, "")
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if status != http.StatusOK || json.Unmarshal(body, &set) != nil {
		return nil, unavailable(fmt.Errorf("no keys from %s/v1/jwks: status %d", c.base, status))
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		if key, err := publicKey(raw); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// remoteVerify asks the accounts server about a token that this server cannot verify, such as an opaque token.
func (c *Client) remoteVerify(ctx context.Context, token string) (tokenserver.Identity, error) {
	question, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		return tokenserver.Identity{}, fmt.Errorf("encode a token: %w", err)
	}
	status, body, err := c.call(ctx, http.MethodPost, c.base+"/v1/verify", question, "")
	switch {
	case err != nil:
		return tokenserver.Identity{}, err
	case isVerdict(status):
		return tokenserver.Identity{}, refused("the accounts server does not know the token")
	case status/100 != 2:
		return tokenserver.Identity{}, unavailable(fmt.Errorf("no result from %s/v1/verify: status %d", c.base, status))
	}
	var answer struct {
		User       string `json:"user"`
		Scope      scopes `json:"scope"`
		Generation int64  `json:"generation"`
		Email      any    `json:"email"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return tokenserver.Identity{}, unavailable(fmt.Errorf("no result from %s/v1/verify: %w", c.base, err))
	}
	return identity(&claims{Subject: answer.User, Scope: answer.Scope, Generation: answer.Generation, Email: answer.Email})
}

// isVerdict reports whether a status means that the token is invalid, rather than that the server is busy or wrong.
func isVerdict(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// Email returns an error without a profile server, or if the user has no address there.
func (c *Client) Email(ctx context.Context, token string) (string, error) {
	if c.profile == "" {
		return "", errNoProfile
	}
	status, body, err := c.call(ctx, http.MethodGet, c.profile+"/v1/email", nil, token)
	if err != nil {
		return "", err
	}
	var answer struct {
		Email string `json:"email"`
	}
	if status != http.StatusOK || json.Unmarshal(body, &answer) != nil || answer.Email == "" {
		return "", errNoProfile
	}
	return answer.Email, nil
}

var errNoProfile = errors.New("no address from the profile server")

// call sends a request and reads the answer, whatever its status. Without an answer it returns ErrAccountsUnavailable.
func (c *Client) call(ctx context.Context, method, url string, body []byte, bearer string) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, unavailable(err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, unavailable(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return 0, nil, unavailable(err)
	}
	if len(answer) > maxResponse {
		return 0, nil, unavailable(fmt.Errorf("the response from %s is larger than %d bytes", url, maxResponse))
	}
	return res.StatusCode, answer, nil
}

// unavailable wraps ErrAccountsUnavailable.
func unavailable(cause error) error {
	return fmt.Errorf("%w: %w", tokenserver.ErrAccountsUnavailable, cause)
}
