package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

type Handler struct {
	Service *ext.Service
	Tokens  *bearer.Keyring
	Clock   clock.Clock

	Rates   *Rates
	Timeout time.Duration // per request, without body and requested waits; 0 means no limit
}

type exchange struct {
	in      *http.Request
	out     http.ResponseWriter
	service *ext.Service
	rates   *Rates
	timeout time.Duration

	route  route
	path   string // raw, without the public prefix
	target string // path from the client; "" without a resource
	query  *query // nil unless the action takes one
	body   []byte
	ask    ext.Request

	schemas bool
	charged int64
}

// Serve implements web.Handler. If it returns an error after an export began, close the connection.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	greet(w)
	if preflight(w, r) {
		return nil
	}
	if at.Err != nil {
		return errcode.Wrap(errcode.Invalid, "the Host or a Forwarded header is malformed", at.Err)
	}
	target, _, _ := strings.Cut(at.Target, "?")
	x := &exchange{
		in: r, out: w, service: h.Service, rates: h.Rates, timeout: h.Timeout,
		route: parseRoute(at.Path), path: at.Path, target: target,
	}
	act, err := x.action()
	if err != nil {
		return err
	}
	if x.route.resource == document {
		return act.serve(x)
	}
	x.ask.Slot = x
	if err := x.authenticate(h.Tokens, h.Clock()); err != nil {
		return err
	}
	if install, err := ext.ParseInstallID(x.route.install); err != nil || install != x.ask.Grant.Owner.Install {
		return errInstall
	}
	if err := x.rates.take(w, x.ask.Grant.Owner, act.cost); err != nil {
		return err
	}
	return x.serve(act)
}

// serve reads, authenticates and limits a request before act runs.
func (x *exchange) serve(act *action) (err error) {
	if x.query, err = parseQuery(x.in.URL.RawQuery, act.params); err != nil {
		return err
	}
	if err := x.parsePath(); err != nil {
		return err
	}
	if x.in.Method != http.MethodGet && x.in.Method != http.MethodHead {
		if _, err := x.precondition(ext.Optional[int64]{}); err != nil {
			return err
		}
	}
	if act.media != "" {
		if err := x.hasMedia(act.media); err != nil {
			return err
		}
	}
	if act.stream {
		return act.serve(x)
	}
	if act.media != "" {
		if x.body, err = x.readBody(act.limit); err != nil {
			return err
		}
	} else if err := x.bodiless(); err != nil {
		return err
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	return x.within(time.Duration(max(act.times, 1))*x.timeout, func() error { return act.serve(x) })
}

// Without implements ext.Slot.
func (x *exchange) Without(wait func() error) error { return web.WithoutSlot(x.in, wait) }

// parsePath checks names in the path.
func (x *exchange) parsePath() error {
	rt := &x.route
	if rt.hasNamespace {
		if _, err := ext.ParseNamespace(string(rt.namespace)); err != nil {
			return under("/namespace", err)
		}
	}
	if rt.hasKey {
		if _, err := ext.ParseKey(string(rt.key)); err != nil {
			return under("/key", err)
		}
	}
	return nil
}

// within runs fn with a time limit; 0: none. A late answer is errcode.Unavailable.
func (x *exchange) within(d time.Duration, fn func() error) error {
	if d <= 0 {
		return fn()
	}
	whole := x.in
	ctx, cancel := context.WithTimeout(whole.Context(), d)
	defer cancel()
	x.in = whole.WithContext(ctx)
	err := fn()
	x.in = whole
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errcode.Is(err, errcode.Unavailable) && isOurs(err) {
		err = errcode.Wrap(errcode.Unavailable, "the request timed out on the server: retry", err)
	}
	return err
}

func (x *exchange) ctx() context.Context { return x.in.Context() }

// answer sends a JSON body.
func (x *exchange) answer(status int, body []byte) error {
	web.SendJSONLine(x.out, status, body)
	return nil
}

// nothing answers 204.
func (x *exchange) nothing() error {
	x.out.WriteHeader(http.StatusNoContent)
	return nil
}
