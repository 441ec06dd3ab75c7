package ext

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdfast/client/internal/retry"
)

// TokenSource returns the bearer token of a request. The client calls it for each
// request, so it should cache the token until it expires.
type TokenSource func(context.Context) (string, error)

// StaticToken returns a TokenSource that always returns this token.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// Client is a client of one server. It is safe for concurrent use once its
// fields are set.
type Client struct {
	// HTTP sends the requests. New sets it to http.DefaultClient. Do not set its
	// Timeout: it would end exports and requests that wait for changes.
	HTTP *http.Client

	// Retries is the maximum number of retries of a request. New sets it to 4.
	Retries int

	// MaxWait is the longest wait before a retry. If the server asks for a longer
	// one, the error is returned. New sets it to one minute.
	MaxWait time.Duration

	base   string
	tokens TokenSource
}

// New returns a client of the server at a base URL, such as
// https://holdfast.example.org, without /ext/v1. It returns an error if the base
// URL is not valid or tokens is nil.
func New(baseURL string, tokens TokenSource) (*Client, error) {
	base, err := retry.Base(baseURL, "https://holdfast.example.org", "/ext/v1")
	if err != nil {
		return nil, err
	}
	if tokens == nil {
		return nil, errors.New("tokens is nil: expected a TokenSource, such as StaticToken")
	}
	return &Client{HTTP: http.DefaultClient, Retries: 4, MaxWait: time.Minute, base: base, tokens: tokens}, nil
}

// Install returns the install with this UUID, for which the tokens must be valid.
func (c *Client) Install(id string) Install {
	return Install{client: c, path: "/ext/v1/installs/" + url.PathEscape(id)}
}

// call is a request.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	media  string // content type of the body
	body   []byte

	// idempotent requests are safe to repeat if the result of the first is unknown.
	idempotent bool
}

// send sends a request, retries it if that is safe, and decodes the response into
// the value that into points to, unless into is nil.
func (c *Client) send(ctx context.Context, r call, into any) (http.Header, error) {
	for try := 0; ; try++ {
		header, err := c.once(ctx, r, into)
		if err == nil || !c.pause(ctx, err, r.idempotent, try) {
			return header, err
		}
	}
}

// once sends a request without retries.
func (c *Client) once(ctx context.Context, r call, into any) (http.Header, error) {
	resp, err := c.open(ctx, r, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &retry.NetworkError{Err: err}
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
	}
	return resp.Header, nil
}

// open sends a request and returns the response with an unread body, or an *Error
// if the server refused it.
func (c *Client) open(ctx context.Context, r call, body io.Reader) (*http.Response, error) {
	token, err := c.tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("get token: %w", err)
	}
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	if r.media == "" {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	req.Header.Set("Authorization", "Bearer "+token)
	if r.media != "" {
		req.Header.Set("Content-Type", r.media)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, &retry.NetworkError{Err: err}
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readError(resp)
}

// pause waits before a retry and reports whether to retry. The server has not done
// a request that it refused with 429. After other failures it may have, so only
// idempotent requests are retried.
func (c *Client) pause(ctx context.Context, err error, idempotent bool, try int) bool {
	refused, _ := errors.AsType[*Error](err)
	limited := refused != nil && refused.Code == CodeRateLimited
	if try >= c.Retries || !limited && !(idempotent && isTransient(err)) {
		return false
	}
	return c.backOff(ctx, try, err)
}

// backOff waits as long as the server asks for, and at least a time that grows with
// the number of failures. It returns false if ctx ends or the wait exceeds MaxWait.
func (c *Client) backOff(ctx context.Context, failed int, err error) bool {
	var asked time.Duration
	if refused, ok := errors.AsType[*Error](err); ok {
		asked = refused.RetryAfter
	}
	return retry.Wait(ctx, failed, asked, c.MaxWait)
}

// isTransient reports whether a failure may be temporary.
func isTransient(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return retry.IsTransient(refused.Status) || refused.Status == http.StatusTooManyRequests && refused.Code == CodeRateLimited
	}
	return retry.IsNetwork(err)
}

// Error is an error response of the server.
type Error struct {
	Status int
	ErrorDetail

	// RetryAfter is the wait that the server asks for before a retry; 0: none.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s (%s)", cmp.Or(e.Message, http.StatusText(e.Status)), cmp.Or(string(e.Code), strconv.Itoa(e.Status)))
	if e.Pointer != nil && *e.Pointer != "" {
		text = *e.Pointer + ": " + text
	}
	return text
}

// Is makes errors.Is(err, ext.CodeNotFound) compare the code of an error, and the
// cause if one item of several failed.
func (e *Error) Is(target error) bool {
	code, ok := target.(ErrorCode)
	return ok && (e.Code == code || e.Cause != nil && *e.Cause == code)
}

// Error implements error, so that errors.Is accepts a code.
func (e ErrorCode) Error() string { return string(e) }

// ErrNotModified is returned by Get if the record still has the ETag of
// IfNoneMatch.
var ErrNotModified = errors.New("the record is not modified")

// readError reads an error response. One that is not from Holdfast, for example
// from a proxy, has no code.
func readError(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotModified {
		return ErrNotModified
	}
	e := &Error{Status: resp.StatusCode, RetryAfter: retry.After(resp)}
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err == nil {
		var body ErrorBody
		if json.Unmarshal(text, &body) == nil {
			e.ErrorDetail = body.Error
		}
	}
	return e
}
