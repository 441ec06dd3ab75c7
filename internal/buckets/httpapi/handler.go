package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// Handler serves the paths for which Owns returns true.
type Handler struct {
	Service *buckets.Service
	Tokens  *bearer.Keyring
	Clock   clock.Clock
	Cores   *sigv4.Cores // compute the MD5 while a body arrives; may be nil

	policies policy.Cache
}

// exchange is a request while it is served. Serve fills the fields from top to bottom.
type exchange struct {
	*Handler
	in  *http.Request
	out http.ResponseWriter
	at  web.Address

	route  route
	act    *action
	query  url.Values
	parsed parsed
	owner  buckets.AccountID // account in the token
	bucket buckets.Bucket    // zero for routes without a bucket
}

// noCache lets browsers store answers but not use them without asking: access may end.
const noCache = "private, no-cache"

// Serve implements web.Handler: route, token, parameters, slot, bucket, policy, operation.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) (err error) {
	w.Header().Set("Cache-Control", noCache)
	if at.Err != nil {
		return errcode.Wrap(errcode.Invalid, "the Host or a Forwarded header is malformed", at.Err)
	}
	x := &exchange{Handler: h, in: r, out: w, at: at}
	if x.route, err = parseRoute(at.Path); err != nil {
		return err
	}
	methods := actions[x.route.resource]
	if len(methods) == 0 {
		return errRoute
	}
	act, ok := methods[r.Method]
	if !ok {
		return methodNotAllowed(w, slices.Sorted(maps.Keys(methods)))
	}
	x.act = act
	if x.route.resource == document {
		return act.serve(x)
	}
	if err := x.authenticate(); err != nil {
		return err
	}
	if err := x.parse(act); err != nil {
		return err
	}
	if err := web.AcquireSlot(r); err != nil {
		return err
	}
	if err := x.resolve(); err != nil {
		return err
	}
	if !act.late {
		if err := x.checkPolicy(); err != nil {
			return err
		}
	}
	return act.serve(x)
}

// parse reads query, names and headers before anything is looked up.
func (x *exchange) parse(act *action) (err error) {
	if x.query, err = parseQuery(x.in.URL.RawQuery, act.params); err != nil {
		return err
	}
	if rt := x.route.resource; rt == object || rt == metadata {
		if err := buckets.CheckObjectName(x.route.object); err != nil {
			return err
		}
	}
	if err := x.parseConditions(); err != nil {
		return err
	}
	if err := x.parseValues(); err != nil {
		return err
	}
	if !act.body {
		err = x.bodiless()
	}
	return err
}

// resolve checks that the account still exists, and finds the bucket.
func (x *exchange) resolve() (err error) {
	if _, err := x.Service.AccountByID(x.ctx(), x.owner); err != nil {
		return err
	}
	if x.route.bucket == "" || x.route.resource == bucket && x.in.Method == http.MethodPut {
		return nil
	}
	if buckets.CheckBucketName(x.route.bucket) != nil {
		return buckets.ErrNoBucket // the database may reject such a name
	}
	x.bucket, err = x.Service.Bucket(x.ctx(), x.owner, x.route.bucket)
	return err
}

// bodiless rejects a body that would be ignored, because the client expects an effect.
func (x *exchange) bodiless() error {
	switch n, err := x.in.Body.Read(make([]byte, 1)); {
	case n > 0:
		return invalid("this request takes no body")
	case err != nil && !isEOF(err):
		return bodyErrors.Of(err)
	}
	return nil
}

func (x *exchange) ctx() context.Context { return x.in.Context() }

// writing adds the client to the context, for events.
func (x *exchange) writing() context.Context {
	return buckets.WithOrigin(x.ctx(), func() buckets.Origin {
		ip, _ := web.ClientIP(x.in)
		return buckets.Origin{Requester: x.owner, IP: ip, Request: x.out.Header().Get("X-Request-Id")}
	})
}

// ready acquires the slot again after ReleaseSlot.
func (x *exchange) ready() error { return web.AcquireSlot(x.in) }

// withSlot runs fn with a slot.
func (x *exchange) withSlot(fn func() error) error { return web.WithSlot(x.in, fn) }

// nothing answers 204.
func (x *exchange) nothing() error {
	x.out.WriteHeader(http.StatusNoContent)
	return nil
}

var errGone = web.Refuse(http.StatusUnauthorized, codeCredentials, "the token's account was deleted")

// isGone reports that the token's account was deleted.
func isGone(err error) bool { return errors.Is(err, buckets.ErrNoAccount) }
