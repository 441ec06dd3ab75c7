package fxa

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"holdfast/internal/clock"
	"holdfast/internal/tokenserver"
)

// maxResponse bounds what is read of an answer, in bytes. A set of keys has
// some hundreds.
const maxResponse = 256 << 10

// Client is a tokenserver.Verifier that trusts one accounts server.
type Client struct {
	base    string // without a slash at its end
	timeout time.Duration
	http    *http.Client
	now     clock.Clock
	keys    keySource

	audience, issuer string // of event tokens; "" refuses them all
}

// New makes a client from the settings. A configured key that is none is an
// error; the accounts server is not contacted.
func New(cfg tokenserver.Config, now clock.Clock) (*Client, error) {
	c := &Client{
		base:     strings.TrimRight(cfg.FxAOAuthServerURL, "/"),
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

// Close gives back idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// newHTTP is a client that goes through the proxy of the environment and
// follows no redirect: tokens go to the configured server and nowhere else.
func newHTTP() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetchKeys gets the accounts server's keys. Those that are no RSA key for
// signatures are left out; there may be none.
func (c *Client) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	status, body, err := c.call(ctx, http.MethodGet, "/v1/jwks", nil)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if status != http.StatusOK || json.Unmarshal(body, &set) != nil {
		return nil, away(fmt.Errorf("no keys from %s/v1/jwks: status %d", c.base, status))
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		if key, err := publicKey(raw); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// remoteVerify has the accounts server judge a token.
func (c *Client) remoteVerify(ctx context.Context, token string) (tokenserver.Identity, error) {
	question, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		return tokenserver.Identity{}, fmt.Errorf("encode a token: %w", err)
	}
	status, body, err := c.call(ctx, http.MethodPost, "/v1/verify", question)
	switch {
	case err != nil:
		return tokenserver.Identity{}, err
	case isVerdict(status):
		return tokenserver.Identity{}, refused("the accounts server does not know the token")
	case status/100 != 2:
		return tokenserver.Identity{}, away(fmt.Errorf("no result from %s/v1/verify: status %d", c.base, status))
	}
	var answer struct {
		User       string `json:"user"`
		Scope      scopes `json:"scope"`
		Generation int64  `json:"generation"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return tokenserver.Identity{}, away(fmt.Errorf("no result from %s/v1/verify: %w", c.base, err))
	}
	return identity(answer.User, answer.Scope, answer.Generation)
}

// isVerdict reports whether a status says that the token is bad, and not that
// the server is busy or is not what we think it is.
func isVerdict(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// call makes a request and reads the answer. A failure is
// tokenserver.ErrAccountsAway.
func (c *Client) call(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, away(err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, away(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return 0, nil, away(err)
	}
	if len(answer) > maxResponse {
		return 0, nil, away(fmt.Errorf("the response of %s%s has more than %d bytes", c.base, path, maxResponse))
	}
	return res.StatusCode, answer, nil
}

// away says that it is not the token's fault.
func away(cause error) error { return fmt.Errorf("%w: %w", tokenserver.ErrAccountsAway, cause) }
