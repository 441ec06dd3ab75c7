package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdfast/client/internal/retry"
	"holdfast/client/internal/utf8check"
)

// transport sends requests with retries.
type transport struct {
	// HTTP sends the requests. For a Client it has a cookie jar.
	HTTP *http.Client

	// Retries is the maximum number of retries per request; default 4.
	Retries int

	// MaxWait is the maximum delay before a retry, by default one minute. If the server asks for a longer delay, the
	// error is returned.
	MaxWait time.Duration

	base   string
	tokens TokenSource

	store TokenStore // nil if the session is identified by a cookie
	begun *begun     // nil if there are no sessions
}

// call is a request to the server.
type call struct {
	method string
	path   string // escaped, relative to the base path
	query  url.Values
	body   any    // encoded as JSON; nil for none
	key    string // idempotency key, or ""

	solution string // challenge solution, or ""
	ifMatch  string // entity tag, or ""

	ifNoneMatch string // entity tag, or ""

	tag *string // receives the response's entity tag, unless nil

	// idempotent requests are safe to retry without a key.
	idempotent bool

	// public requests need no session. Their responses do not prove that a session exists.
	public bool
}

// begin starts a session.
func (t *transport) begin(ctx context.Context) (s Session, err error) {
	return s, t.send(ctx, call{method: http.MethodPost, path: "/session", idempotent: true}, &s)
}

// do sends a request. If the server requires a session or a solved challenge, do provides it and sends the request
// again.
func (t *transport) do(ctx context.Context, r call, into any) error {
	if r.public {
		return t.try(ctx, r, into)
	}
	return t.begun.inTurn(ctx, func() error { return t.try(ctx, r, into) })
}

// try sends a request, and provides a session or a solved challenge at most once each.
func (t *transport) try(ctx context.Context, r call, into any) error {
	for begun := false; ; {
		err := t.send(ctx, r, into)
		refused, ok := errors.AsType[*Error](err)
		switch {
		case ok && refused.Code == CodeSessionRequired && !begun:
			begun = true
			_, err = t.begin(ctx)
		case ok && refused.Code == CodeChallengeRequired && refused.Challenge != nil && r.solution == "":
			r.solution, err = solve(ctx, refused.Challenge.Text, refused.Challenge.Bits)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// send sends a request with retries and decodes the response's JSON into into, which may be nil.
func (t *transport) send(ctx context.Context, r call, into any) error {
	var body []byte
	if r.body != nil {
		err := utf8check.Check(r.body) // encoding/json would change the text
		if err != nil {
			return fmt.Errorf("holdfast: %w", err)
		}
		if body, err = json.Marshal(r.body); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		err := t.once(ctx, r, body, into)
		if err == nil || try >= t.Retries || !isRetryable(err, r) || !retry.Wait(ctx, try, asked(err), t.MaxWait) {
			return err
		}
	}
}

// once sends a request a single time.
func (t *transport) once(ctx context.Context, r call, body []byte, into any) error {
	req, err := t.request(ctx, r, body)
	if err != nil {
		return err
	}
	resp, err := t.HTTP.Do(req)
	if err != nil {
		return &retry.NetworkError{Err: err}
	}
	defer resp.Body.Close()
	if t.store != nil {
		if err := saveToken(ctx, t.store, resp); err != nil {
			return err
		}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return readError(resp)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return &retry.NetworkError{Err: err}
	}
	if r.tag != nil {
		*r.tag = resp.Header.Get("ETag")
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("read response: %w", err)
		}
	}
	return nil
}

// request builds the HTTP request.
func (t *transport) request(ctx context.Context, r call, body []byte) (*http.Request, error) {
	target := t.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", strconv.Quote(r.key))
	}
	if r.solution != "" {
		req.Header.Set("X-Challenge-Token", r.solution)
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	if r.ifNoneMatch != "" {
		req.Header.Set("If-None-Match", r.ifNoneMatch)
	}
	if t.tokens != nil {
		token, err := t.tokens(ctx)
		if err != nil {
			return nil, fmt.Errorf("get token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if t.store != nil {
		return req, setToken(ctx, t.store, req)
	}
	return req, nil
}

// isRetryable reports whether to send the request again. A rate-limited request was not executed; after other
// failures it may have been executed.
func isRetryable(err error, r call) bool {
	safe := r.idempotent || r.key != ""
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Status {
		case http.StatusTooManyRequests:
			return refused.Code == CodeRateLimited
		case http.StatusConflict:
			return refused.Code == CodeInFlight && safe
		}
		return retry.IsTransient(refused.Status) && safe
	}
	return retry.IsNetwork(err) && safe
}

// asked returns the delay that the server asks for, or 0.
func asked(err error) time.Duration {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.RetryAfter
	}
	return 0
}

// readError reads an error response, which may be nested (guest.nested_errors). Errors from other programs, e.g. a
// proxy, have no code.
func readError(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, ETag: resp.Header.Get("ETag"), RetryAfter: retry.After(resp)}
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err == nil {
		var p Problem
		var nested struct {
			Error *Problem `json:"error"`
		}
		switch {
		case json.Unmarshal(text, &nested) == nil && nested.Error != nil:
			e.Problem = *nested.Error
		case json.Unmarshal(text, &p) == nil:
			e.Problem = p
		}
	}
	return e
}
