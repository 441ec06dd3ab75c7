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
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// TokenSource gives the bearer token of a request. It is asked for each one, so
// it should keep a token for as long as that is good.
type TokenSource func(context.Context) (string, error)

// StaticToken is a token that stays the same.
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

	// MaxWait is the longest wait before a retry. If the server asks for more, the
	// error is returned. New sets it to one minute.
	MaxWait time.Duration

	base   string
	tokens TokenSource
}

// New returns a client of the server at a base URL, such as
// https://holdfast.example.org, without /ext/v1.
func New(baseURL string, tokens TokenSource) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("base URL %q: expected http:// or https://, a host and no query, such as https://holdfast.example.org", baseURL)
	}
	if before, _, found := strings.Cut(baseURL, "/ext/v1"); found {
		return nil, fmt.Errorf("base URL %q: remove /ext/v1 and what follows; expected %s", baseURL, before)
	}
	if tokens == nil {
		return nil, errors.New("tokens is nil: expected a TokenSource, such as StaticToken")
	}
	return &Client{HTTP: http.DefaultClient, Retries: 4, MaxWait: time.Minute, base: strings.TrimRight(baseURL, "/"), tokens: tokens}, nil
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
	media  string // of the body
	body   []byte

	// again says that it does no harm when the request is done twice, so that it
	// may be repeated when it is not known what it came to.
	again bool
}

// send makes a request, repeats it where that is safe, and decodes the answer
// into what into points to, unless that is nil.
func (c *Client) send(ctx context.Context, r call, into any) (http.Header, error) {
	for try := 0; ; try++ {
		header, err := c.once(ctx, r, into)
		if err == nil || !c.pause(ctx, err, r.again, try) {
			return header, err
		}
	}
}

// once makes a request.
func (c *Client) once(ctx context.Context, r call, into any) (http.Header, error) {
	resp, err := c.open(ctx, r, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &networkError{err}
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("the answer: %w", err)
		}
	}
	return resp.Header, nil
}

// open makes a request and returns the answer with its body still to be read; an
// answer that is an error is an *Error.
func (c *Client) open(ctx context.Context, r call, body io.Reader) (*http.Response, error) {
	token, err := c.tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("the token: %w", err)
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
		return nil, &networkError{err}
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readError(resp)
}

// pause waits before a request is repeated that failed; false when it is not to
// be. A request that was limited was not done. Of one that met a server or a
// network in trouble it is not known, so only one that may be done twice is
// repeated.
func (c *Client) pause(ctx context.Context, err error, again bool, try int) bool {
	refused, _ := errors.AsType[*Error](err)
	limited := refused != nil && refused.Code == CodeRateLimited
	if try >= c.Retries || !limited && !(again && isTrouble(err)) {
		return false
	}
	return c.rest(ctx, try, err)
}

// How long to wait before a request is repeated, where the server does not say.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// rest waits as long as the server has asked for, and the longer the more often
// something has failed before; false when ctx ends or it would be too long.
func (c *Client) rest(ctx context.Context, failed int, err error) bool {
	wait := min(leastPause<<min(failed, 10), mostPause)
	wait = wait/2 + rand.N(wait/2)
	if refused, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, refused.RetryAfter)
	}
	if wait > c.MaxWait || ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isTrouble reports whether a request failed in a way that may pass.
func isTrouble(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Status {
		case http.StatusTooManyRequests:
			return refused.Code == CodeRateLimited
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	_, network := errors.AsType[*networkError](err)
	return network
}

// networkError is a request that got no answer, or not all of it.
type networkError struct{ error }

func (e *networkError) Unwrap() error { return e.error }

// Error is an answer that is an error, as the server tells it.
type Error struct {
	Status int
	ErrorDetail

	// RetryAfter is how long the server asks to wait; 0 when it does not.
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

// Is lets errors.Is(err, ext.CodeNotFound) find out what an error is, also that
// of an item of several.
func (e *Error) Is(target error) bool {
	code, ok := target.(ErrorCode)
	return ok && (e.Code == code || e.Cause != nil && *e.Cause == code)
}

// Error implements error, for errors.Is.
func (e ErrorCode) Error() string { return string(e) }

// ErrNotModified is the answer to a Get whose IfNoneMatch names the record as it
// is.
var ErrNotModified = errors.New("the record is not modified")

// readError reads an answer that is an error. What does not come from the
// server, but from a proxy before it, has no code.
func readError(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotModified {
		return ErrNotModified
	}
	e := &Error{Status: resp.StatusCode}
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err == nil {
		var body ErrorBody
		if json.Unmarshal(text, &body) == nil {
			e.ErrorDetail = body.Error
		}
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
