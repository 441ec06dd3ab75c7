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

// TokenSource returns a bearer token. It is called for each request, so it should cache the token until it expires. If
// the server refuses a token with 401, the source is called again: RefusedToken then returns that token. The request is
// repeated with another token.
type TokenSource func(context.Context) (string, error)

type refusedKey struct{}

// RefusedToken returns the token that the server has just refused, or "". A TokenSource with a cache calls it, and then
// gets a new token.
func RefusedToken(ctx context.Context) string {
	token, _ := ctx.Value(refusedKey{}).(string)
	return token
}

// StaticToken always returns the same token.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// Client sends requests to a server. It is safe for concurrent use once its fields are set.
type Client struct {
	// HTTP defaults to http.DefaultClient. Its Timeout must be 0, because a timeout would also end exports and waits
	// for changes.
	HTTP *http.Client

	// Retries is the maximum number of retries per request; the default is 4.
	Retries int

	// MaxWait is the maximum wait before a retry; the default is one minute. If the server asks for a longer wait,
	// the error is returned.
	MaxWait time.Duration

	// OnRetry, unless nil, is called when Watch goes on after an error, with the delay until the next request.
	OnRetry func(err error, wait time.Duration)

	base   string
	tokens TokenSource
}

// New returns a client for a base URL without /ext/v1, e.g. https://holdfast.example.org.
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

// Install returns the install with this UUID. The tokens must be valid for this install.
func (c *Client) Install(id string) Install {
	return Install{client: c, path: "/ext/v1/installs/" + url.PathEscape(id)}
}

// call is a request to the server.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	media  string // content type of body; "" for none
	body   []byte

	stream io.Reader // instead of body; it cannot be sent again

	// safe to repeat after an unknown result
	idempotent bool
}

// send sends a request, with retries, and decodes the response's JSON into into, which may be nil.
func (c *Client) send(ctx context.Context, r call, into any) (http.Header, error) {
	for try := 0; ; try++ {
		header, err := c.once(ctx, r, into)
		if err == nil || !c.pause(ctx, err, r.idempotent, try) {
			return header, err
		}
	}
}

// once sends a request a single time.
func (c *Client) once(ctx context.Context, r call, into any) (http.Header, error) {
	resp, err := c.open(ctx, r)
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
			// It is cut off or, with a network's login page, for example, not from the server.
			return nil, &retry.NetworkError{Err: fmt.Errorf("read response: %w", err)}
		}
	}
	return resp.Header, nil
}

// open sends a request and returns a successful response, whose body the caller closes. Other responses become an
// *Error. After a 401 it sends the request again if there is another token.
func (c *Client) open(ctx context.Context, r call) (*http.Response, error) {
	token, err := c.tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("get token: %w", err)
	}
	resp, err := c.request(ctx, r, token)
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.Status != http.StatusUnauthorized || r.stream != nil {
		return resp, err
	}
	next, problem := c.tokens(context.WithValue(ctx, refusedKey{}, token))
	if problem != nil {
		return nil, fmt.Errorf("get token: %w", problem)
	}
	if next == token {
		return nil, err
	}
	return c.request(ctx, r, next)
}

// request sends a request with a token, like open.
func (c *Client) request(ctx context.Context, r call, token string) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	body := r.stream
	if body == nil && r.media != "" {
		body = bytes.NewReader(r.body)
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

// pause waits before a retry, and reports whether to retry. A request rejected with 429 was not executed. After other
// failures it may have been executed, so only idempotent requests are retried.
func (c *Client) pause(ctx context.Context, err error, idempotent bool, try int) bool {
	refused, _ := errors.AsType[*Error](err)
	limited := refused != nil && refused.Code == CodeRateLimited
	if try >= c.Retries || !limited && !(idempotent && isTransient(err)) {
		return false
	}
	return retry.Wait(ctx, try, asked(err), c.MaxWait)
}

// asked returns the delay that the server asked for, or 0.
func asked(err error) time.Duration {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.RetryAfter
	}
	return 0
}

// isTransient reports whether the same request may succeed later.
func isTransient(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return retry.IsTransient(refused.Status) || refused.Status == http.StatusTooManyRequests && refused.Code == CodeRateLimited
	}
	return retry.IsNetwork(err)
}

// Error is an error response.
type Error struct {
	Status int // HTTP status
	ErrorDetail

	// RetryAfter is the wait that the server requested, or 0.
	RetryAfter time.Duration
}

// Error returns the message with its code, and the pointer to the invalid part.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s (%s)", cmp.Or(e.Message, http.StatusText(e.Status)), cmp.Or(string(e.Code), strconv.Itoa(e.Status)))
	if e.Pointer != nil && *e.Pointer != "" {
		text = *e.Pointer + ": " + text
	}
	return text
}

// Is makes errors.Is(err, ext.CodeNotFound) match the code or, if one of several items failed, the cause.
func (e *Error) Is(target error) bool {
	code, ok := target.(ErrorCode)
	return ok && (e.Code == code || e.Cause != nil && *e.Cause == code)
}

// Error makes a code usable as the target of errors.Is.
func (e ErrorCode) Error() string { return string(e) }

// ErrNotModified is returned by Get if the record still has the ETag in IfNoneMatch.
var ErrNotModified = errors.New("the record is not modified")

// readError parses an error response. A response without a code comes from another program, e.g. a proxy.
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
