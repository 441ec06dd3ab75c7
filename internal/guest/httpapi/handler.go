package httpapi

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/ident"
	"holdfast/internal/obs"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

type Handler struct {
	Guests    *guest.Service
	Catalogue *catalogue.Service
	Telemetry *telemetry.Service
	Handoffs  *handoffs.Service
	Bots      *bots.Service // nil: no bot scoring

	NestErrors bool          // wrap errors in a member named error
	HotTime    time.Duration // how long a request waits for unresponsive hot state; 0 means 250 ms

	description description
}

type exchange struct {
	*Handler
	in     *http.Request
	out    http.ResponseWriter
	at     web.Address
	route  route
	action *action

	session  guest.ID          // the cookie's, or the owner of the user's list; "" without a session
	cookie   guest.ID          // named by the cookie
	bearer   bool              // authenticated by a token; set no cookie
	user     guest.UserSession // zero if not signed in
	mutation guest.Mutation
	body     canonjson.Value
}

const maxBody = 16 << 10

// maxAttributesPatch leaves space for white space and removed members.
const maxAttributesPatch = 2 * guest.MaxAttributes

// hotTime returns the default if it is not configured.
func (h *Handler) hotTime() time.Duration { return cmp.Or(h.HotTime, 250*time.Millisecond) }

// Serve implements web.Handler.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	w.Header().Set("Cache-Control", "private, no-store")
	h.share(w, r)
	if at.Err != nil {
		return web.RefuseFor(at.Err, http.StatusBadRequest, "invalid", "the Host or a Forwarded header is malformed")
	}
	r = r.WithContext(guest.WithHotTime(r.Context(), h.hotTime()))
	x := &exchange{Handler: h, in: r, out: w, at: at, route: parseRoute(at.Path)}
	methods := methodsOf(x.route, h.Guests.Profile())
	if len(methods) == 0 {
		x.trap()
		return errPath
	}
	if x.preflight(methods) {
		return nil
	}
	if x.action = methods[r.Method]; x.action == nil && r.Method == http.MethodHead && methods[http.MethodGet] != nil {
		x.action = methods[http.MethodGet] // net/http drops the body
	}
	if x.action == nil {
		return web.RefuseMethod(w, allowedMethods(methods)...)
	}
	if err := x.sameSite(); err != nil {
		return err
	}
	if err := x.admit(); err != nil {
		x.bootstrap(err)
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	if err := web.AcquireSlot(r); err != nil {
		return err
	}
	x.see()
	return x.action.serve(x)
}

// allowedMethods adds HEAD to GET, and sorts.
func allowedMethods(methods map[string]*action) []string {
	names := slices.Collect(maps.Keys(methods))
	if methods[http.MethodGet] != nil {
		names = append(names, http.MethodHead)
	}
	slices.Sort(names)
	return names
}

// admit authenticates and limits a request, unless the path is open to all.
func (x *exchange) admit() error {
	if x.action.open {
		return nil
	}
	if err := x.authenticate(); err != nil {
		return err
	}
	return x.limit()
}

// bootstrap starts a session after a change was refused without one, so that a retry succeeds. It does nothing if
// the client may not start sessions.
func (x *exchange) bootstrap(refused error) {
	if !x.action.mutates || !errors.Is(refused, errSession) && !errors.Is(refused, errToken) {
		return
	}
	if r, limited, err := x.Guests.Limit(x.ctx(), guest.ClassBootstrap, "", x.address()); err != nil || limited && !r.Allowed {
		return
	}
	if web.AcquireSlot(x.in) != nil || errors.Is(x.evaluate(), bots.ErrHardBlock) {
		return
	}
	if s, err := x.Guests.Begin(x.ctx(), x.campaign()); err == nil {
		x.start(s)
	}
}

// sameSite rejects changes that another site makes a browser send: SameSite=Lax allows other hosts of the same site,
// and old browsers do not know it. The profile's origins are allowed.
func (x *exchange) sameSite() error {
	if x.in.Method == http.MethodGet || x.in.Method == http.MethodHead || slices.Contains(x.Guests.Profile().AllowedOrigins(), x.in.Header.Get("Origin")) {
		return nil
	}
	if site := x.in.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return errCrossSite
	}
	if origin := x.in.Header.Get("Origin"); origin != "" {
		o, err := web.ParseOrigin(origin)
		if err != nil || o != x.at.Origin {
			return errCrossSite
		}
	}
	return nil
}

// authenticate finds the session. An old cookie is replaced by the answer.
func (x *exchange) authenticate() error {
	for _, c := range x.proofs() {
		session, old, ok := x.Guests.VerifyCookie(c.Value)
		if !ok {
			continue
		}
		old = old || c.Name != x.cookieName()
		x.session, x.cookie = session, session
		if known, err := x.identifyUser(); err != nil {
			return err
		} else if !known {
			x.session, x.cookie = "", ""
			continue
		}
		renew := x.Guests.Saw(session, !x.action.public)
		web.Identify(x.in, string(x.session))
		if old || renew {
			x.setCookie(session)
		}
		return nil
	}
	switch {
	case x.action.begins || x.action.public || x.action.lenient:
		return nil
	case x.bearer:
		return errToken
	}
	return errSession
}

// identifyUser returns false if the user's session has ended.
func (x *exchange) identifyUser() (known bool, err error) {
	if !strings.HasPrefix(string(x.cookie), guest.UserSessionPrefix) {
		return true, nil
	}
	if x.user, known, err = x.Guests.UserSession(x.ctx(), x.cookie); err != nil || !known {
		return false, err
	}
	x.session = x.user.List
	x.Guests.Saw(x.session, false)
	return true, nil
}

// proofs returns possible session proofs: an app's bearer token, or the cookies. Among cookies with the same name,
// only validly signed cookies count. A profile with a domain also accepts earlier host cookies, and replaces them.
func (x *exchange) proofs() []*http.Cookie {
	scheme, token, _ := strings.Cut(x.in.Header.Get("Authorization"), " ")
	hasToken := strings.EqualFold(scheme, "Bearer")
	if x.bearer = hasToken || x.in.Header.Get("X-Session-Mode") == "bearer"; x.bearer {
		return []*http.Cookie{{Name: x.cookieName(), Value: strings.TrimSpace(token)}} //nolint:gosec // it is not sent
	}
	all := x.in.CookiesNamed(x.cookieName())
	if x.Guests.Profile().Domain() != "" && x.at.Scheme == "https" {
		all = append(all, x.in.CookiesNamed(hostCookie)...)
	}
	return all
}

const (
	hostCookie  = "__Host-gms"   // browsers refuse it from other hosts and over plain HTTP
	siteCookie  = "__Secure-gms" // domain cookie; browsers refuse it over plain HTTP
	plainCookie = "gms"
)

// cookieName depends on scheme and profile: browsers accept the prefix __Host- only without a domain, and over HTTPS.
func (x *exchange) cookieName() string {
	switch {
	case x.at.Scheme != "https":
		return plainCookie
	case x.Guests.Profile().Domain() != "":
		return siteCookie
	}
	return hostCookie
}

// start sends a new session's cookie and publishes the start.
func (x *exchange) start(s guest.Session) {
	x.setCookie(s.ID)
	x.Telemetry.Started(x.traced(), s)
}

// setCookie sends a session cookie. An app gets the cookie's value as a token.
func (x *exchange) setCookie(session guest.ID) {
	x.Guests.Saw(session, true)
	if x.bearer {
		x.out.Header().Set("X-Session-Token", x.Guests.SignCookie(session))
		return
	}
	cookie := &http.Cookie{ //nolint:gosec // Secure is not possible over plain HTTP, on one machine
		Name: x.cookieName(), Value: x.Guests.SignCookie(session), Path: "/", Domain: x.Guests.Profile().Domain(), MaxAge: int(guest.SessionLife.Seconds()),
		Secure: x.at.Scheme == "https", HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	x.out.Header().Set("Set-Cookie", cookie.String())
}

// read reads the body, if the action takes any.
func (x *exchange) read() (err error) {
	maxBytes := cmp.Or(x.action.most, maxBody)
	if x.action.body {
		if x.body, err = readJSON(x.out, x.in, maxBytes, x.action.patch); err != nil {
			return err
		}
	} else if text, err := web.ReadBody(x.out, x.in, int64(maxBytes), problem.BodyErrors(maxBytes)); err != nil {
		return err
	} else if len(text) > 0 {
		return web.Refuse(http.StatusBadRequest, "invalid", "this request takes no body")
	}
	if !x.action.mutates {
		return nil
	}
	key, err := idempotencyKey(x.in.Header)
	if errors.Is(err, errNoKey) && x.action.keyless {
		key, err = ident.New(), nil
	}
	if err != nil {
		return err
	}
	x.mutation = guest.Mutation{Session: x.session, Route: x.in.Method + " " + x.route.template, Key: key, Digest: web.Fingerprint(x.in, x.at.Path, x.body, x.action.conditions...), Trace: traceOf(x.in), Profile: x.Guests.Profile()}
	x.mutation.Guard, err = guard(x.in.Header)
	return err
}

// readJSON reads a body with a limit in bytes. With patch, the type must be that of a merge patch.
func readJSON(w http.ResponseWriter, r *http.Request, maxBytes int, patch bool) (canonjson.Value, error) {
	text, err := web.ReadBody(w, r, int64(maxBytes), problem.BodyErrors(maxBytes))
	if err != nil {
		return "", err
	}
	if kind := mediaType(r.Header.Get("Content-Type")); kind != "application/json" && (!patch || kind != "application/merge-patch+json") {
		return "", errMediaType
	}
	return canonjson.Parse(text, maxBytes)
}

// idempotencyKey reads the header, as a quoted string (draft-ietf-httpapi-idempotency-key-header) or plain text,
// or the header's older name.
func idempotencyKey(h http.Header) (key string, err error) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, value := range h.Values(name) {
			value, ok := unquote(strings.TrimSpace(value))
			if !ok {
				return "", web.RefuseFor(guest.ErrKey, http.StatusBadRequest, "idempotency-key-invalid", name+": the quoted text is malformed: expected e.g. \"a-new-key\", or the key without quotes")
			}
			if key != "" && key != value {
				return "", web.Refuse(http.StatusBadRequest, "idempotency-key-invalid", "the request has two different idempotency keys")
			}
			if err := guest.CheckKey(value); err != nil {
				return "", web.Refuse(http.StatusBadRequest, "idempotency-key-invalid", errcode.Message(err))
			}
			key = value
		}
	}
	if key == "" {
		return "", errNoKey
	}
	return key, nil
}

var errNoKey = web.Refuse(http.StatusBadRequest, "idempotency-key-missing", "this request needs the header Idempotency-Key, a new text for each change, such as a UUID")

// unquote returns the content of a quoted string (RFC 9651, section 3.3.3), or plain text as it is. It returns false for
// a string with a quote that is not escaped, or without its last quote.
func unquote(s string) (text string, ok bool) {
	in, quoted := strings.CutPrefix(s, `"`)
	if !quoted {
		return s, true
	}
	var b strings.Builder
	for in != "" && in[0] != '"' {
		if in[0] == '\\' && len(in) > 1 {
			in = in[1:]
		}
		b.WriteByte(in[0])
		in = in[1:]
	}
	return b.String(), in == `"`
}

// mediaType ignores parameters such as charset.
func mediaType(header string) string {
	kind, _, _ := strings.Cut(header, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

func (x *exchange) ctx() context.Context { return x.in.Context() }

// traceOf returns the trace context that the request brought or the server began.
func traceOf(r *http.Request) guest.Trace {
	parent, state := obs.TraceContext(r)
	return guest.Trace{Parent: parent, State: state}
}
