package console

import (
	"net/http"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
	"holdfast/internal/web/rate"
)

// cookieName adds a prefix over TLS that makes browsers reject cookies set by sibling hosts.
func (x *exchange) cookieName() string {
	if x.origin.Scheme == "https" {
		return "__Host-holdfast-console"
	}
	return "holdfast-console"
}

// setCookie deletes the cookie if value is "". The cookie has no lifetime of its own: the server ends the session.
func (x *exchange) setCookie(value string) {
	cookie := &http.Cookie{ //nolint:gosec // Secure is set over TLS; connections from this machine have no TLS
		Name: x.cookieName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: x.origin.Scheme == "https",
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(x.w, cookie)
}

// resume finds the session of the request's cookie. Only pages show its notice, not pictures.
func (x *exchange) resume() (ok bool) {
	cookie, err := x.r.Cookie(x.cookieName())
	if err != nil {
		return false
	}
	isPage := x.r.Method == http.MethodGet && x.r.Header.Get("Sec-Fetch-Dest") != "image"
	x.session, ok = x.sessions.find(cookie.Value, isPage, isUpdate(x.r))
	return ok
}

// signIn shows the sign-in page, or checks the token that was sent. Wrong tokens count against the network of the
// client, and after too many even the right one is refused to that address (rate.Guesses).
func (x *exchange) signIn() error {
	network := x.Resolver.Network(x.r)
	if x.r.Method != http.MethodPost {
		if link := x.r.URL.Query().Get("link"); link != "" {
			return x.followLink(link, network)
		}
		return x.sendSignIn(http.StatusOK, "", x.r.URL.Query().Get("next"))
	}
	if err := x.readForm(maxSignIn); err != nil {
		return err
	}
	next, token := x.r.PostForm.Get("next"), strings.TrimSpace(x.r.PostForm.Get("token"))
	isAdmin, isViewer := rate.Same(token, x.AdminToken), rate.Same(token, *x.viewer.Load())
	if ok, state := x.Guesses.Allow(rate.Guesser{Address: x.Resolver.Address(x.r), Network: network}, isAdmin || isViewer); !ok {
		state.SetHeaders(x.w.Header())
		x.Log.Warn("console sign-in refused", "reason", "too many attempts", "client_address", network)
		return x.sendSignIn(http.StatusTooManyRequests, "Too many wrong tokens. Wait a minute.", next)
	}
	switch {
	case isAdmin:
		return x.begin(admin, network, next)
	case isViewer:
		return x.begin(viewer, network, next)
	}
	x.Log.Warn("console sign-in refused", "reason", "wrong token", "client_address", network)
	return refused(x.sendSignIn(http.StatusForbidden, "The token is wrong.", next), errWrongToken)
}

// followLink signs in with a link from NewLink, which is then used up. HEAD does not use it up, because it shows
// nothing. If the link is not valid but the browser is signed in, it leads to the overview: browsers repeat requests.
func (x *exchange) followLink(link, network string) error {
	if err := (&web.Conditions{}).Check(x.r.Header); err != nil { // following a link uses it up
		return err
	}
	if x.r.Method == http.MethodGet && x.sessions.takeLink(link) {
		return x.begin(admin, network, "")
	}
	if x.resume() {
		return x.redirect(Prefix)
	}
	x.Log.Warn("console sign-in refused", "reason", "used or expired link", "client_address", network)
	return refused(x.sendSignIn(http.StatusForbidden, "The link was used or replaced, or it has expired. Sign in with the token, or restart the server for a new link.", ""), errUsedLink)
}

var (
	errWrongToken = errcode.New(errcode.Denied, "the console's sign-in got a token that is neither the admin token nor the viewer token")
	errUsedLink   = errcode.New(errcode.Denied, "the console's sign-in link was used or replaced, or it has expired")
	errSignedOut  = web.Refuse(http.StatusForbidden, "signed-out", "your session has expired: sign in and try again")
)

// refused returns the reason of a page that was sent with status 401 or 403, for the log, or the error from sending it.
func refused(err, reason error) error {
	if err != nil {
		return err
	}
	return &web.Answered{Err: reason}
}

// begin starts a session and leads to the page next, which a client may have chosen: it must be a console page,
// otherwise the overview is shown.
func (x *exchange) begin(r role, network, next string) error {
	cookie, s := x.sessions.begin(r, network)
	x.Log.Info("console sign-in", "who", s.name(), "client_address", network)
	x.setCookie(cookie)
	path, query, _ := strings.Cut(next, "?")
	if section, page := x.find(path); section == nil || page == nil {
		return x.redirect(Prefix)
	}
	return x.redirect(Prefix + path + "?" + query)
}

// signOut ends this session only; the page Sessions ends others.
func (x *exchange) signOut() error {
	if err := x.readPost(); err != nil {
		return err
	}
	id := x.session.id
	x.sessions.end(func(s *session) bool { return s.id == id })
	x.setCookie("")
	x.Log.Info("console sign-out", "who", x.session.name())
	return x.redirect(Prefix + "sign-in")
}
