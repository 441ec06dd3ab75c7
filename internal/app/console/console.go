// Package console serves the operator console on the admin listener, under /console/. It knows no service: services
// contribute pages as values of package service.
package console

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/web"
	"holdfast/internal/web/rate"
)

// Prefix begins all page paths on the admin listener.
const Prefix = "/console/"

// Section is a service, or the server (Name "").
type Section struct {
	Name string // in paths, as in service.Service
	service.Console
}

// Recorder logs operators' changes. The context names the operator (service.WithOperator).
type Recorder interface {
	Add(ctx context.Context, c *service.Change)
}

// Options configure New. Fields are required unless their comment says otherwise.
type Options struct {
	Log         *slog.Logger
	Clock       clock.Clock            // decides when sessions and links expire
	Resolver    *web.Resolver          // finds the client behind proxies in server.trusted_proxies
	IsNear      func(netip.Addr) bool  // addresses besides this machine's that need no TLS; may be nil
	AdminToken  string                 // signs in with all rights
	ViewerToken string                 // read-only role, until SetViewerToken; "": disabled
	Guesses     *rate.Guesses          // limits wrong tokens, also those sent to the rest of the admin listener; nil: no limit
	OwnHost     func(host string) bool // allowed Host headers without a proxy
	Sections    []Section              // the server's section first
	Disabled    []string               // disabled services, for the page "Not found"
	Version     string                 // shown beside the logo
	Changes     Recorder               // may be nil
}

// Console is safe for concurrent use after New. Sections must not change afterwards.
type Console struct {
	Options
	sessions *sessions
	viewer   atomic.Pointer[string] // the current viewer token; "": disabled
}

func New(o Options) *Console {
	c := &Console{Options: o, sessions: newSessions(o.Clock)}
	c.viewer.Store(&o.ViewerToken)
	return c
}

// SetViewerToken also ends the old token's sessions.
func (c *Console) SetViewerToken(token string) {
	if former := c.viewer.Swap(&token); *former != token {
		c.sessions.end(func(s *session) bool { return s.role == viewer })
	}
}

// NewLink returns a one-time admin sign-in path, valid for an hour. It revokes the previous link.
func (c *Console) NewLink() string { return Prefix + "sign-in?link=" + c.sessions.newLink() }

// Owns reports whether a raw path belongs to the console.
func Owns(path string) bool { return path == "/console" || strings.HasPrefix(path, Prefix) }

// Service returns the handler for a web.Mount. The caller passes it only paths for which Owns is true.
func (c *Console) Service() web.Service {
	return web.Service{Name: "console", Serve: c.serve, Error: c.writeError, Route: c.route, Routes: c.routes()}
}

// routes lists all pages and forms. Only pages with actions take a POST.
func (c *Console) routes() (all []web.Route) {
	add := func(path string, isForm bool) {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			if method != http.MethodPost || isForm {
				all = append(all, web.Route{Label: Prefix + path, Method: method})
			}
		}
	}
	for i := range c.Sections {
		for j := range c.Sections[i].Pages {
			page := &c.Sections[i].Pages[j]
			add(strings.TrimPrefix(c.link(&c.Sections[i], page.Path), Prefix), len(page.Actions) > 0)
		}
	}
	add("sign-in", true)
	add("sign-out", true)
	add(choicesPath, false)
	add("static/", false)
	return all
}

// policy is every response's Content-Security-Policy. It allows no inline script or style and no other host, so text
// from users cannot run, even if it should become markup.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// exchange is a request with its response.
type exchange struct {
	*Console
	w       http.ResponseWriter
	r       *http.Request
	origin  web.Origin
	session session // a copy, valid after resume returned true
}

// serve checks the connection before anything else, so that a page on another site cannot reach even the sign-in.
// Only assets and the sign-in work without a session. Errors after the session check become a *problem, whose page
// shows the navigation.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer browsers send no Origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cache-Control", "no-store")
	if at.Err != nil {
		return at.Err
	}
	x := &exchange{Console: c, w: w, r: r, origin: at.Origin}
	if err := x.checkConnection(); err != nil {
		return err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		return web.RefuseMethod(w, http.MethodGet, http.MethodHead, http.MethodPost)
	}
	if r.Method == http.MethodPost {
		if err := x.checkOrigin(); err != nil {
			return err
		}
	}
	path, isBelow := strings.CutPrefix(at.Path, Prefix)
	if !isBelow {
		return x.redirect(Prefix)
	}
	if name, ok := strings.CutPrefix(path, "static/"); ok {
		return x.sendAsset(name)
	}
	if path == "sign-in" {
		return x.signIn()
	}
	if !x.resume() {
		return x.unknown(path)
	}
	serve := x.page
	if path == "sign-out" {
		serve = func(string) error { return x.signOut() }
	}
	if path == choicesPath {
		serve = func(string) error { return x.sendChoices() }
	}
	if err := serve(path); err != nil {
		return &problem{x, path, err}
	}
	return nil
}

// ErrHost rejects an unknown Host header.
var ErrHost = web.Refuse(http.StatusMisdirectedRequest, "unknown-host", "unknown Host header: use localhost or the address in server.admin_listen")

var (
	errConnection = web.Refuse(http.StatusForbidden, "insecure", "the console needs a connection from this machine, or HTTPS through a proxy in server.trusted_proxies: use a tunnel, e.g. ssh -L 8001:127.0.0.1:8001 HOST; for a published container port, see server.console_networks")
	errOrigin     = web.Refuse(http.StatusForbidden, "cross-origin", "the request comes from another site")
	errCSRF       = web.Refuse(http.StatusForbidden, "csrf", "the form is not valid any more: go back, reload the page and try again")
	errRole       = web.Refuse(http.StatusForbidden, "read-only", "your role may not change anything")
	errAccess     = web.Refuse(http.StatusForbidden, "admin-only", "your role may not open this: it needs the admin token")
	errPage       = errcode.New(errcode.NotFound, "no such page")
)

// checkConnection rejects requests without TLS from other networks, and unknown hosts (DNS rebinding).
func (x *exchange) checkConnection() error {
	peer, err := netip.ParseAddrPort(x.r.RemoteAddr)
	if err != nil {
		return errConnection
	}
	forwarded := x.r.Header.Get("Forwarded") + x.r.Header.Get("X-Forwarded-For") + x.r.Header.Get("X-Forwarded-Host") + x.r.Header.Get("X-Forwarded-Proto") + x.r.Header.Get("Via")
	isNear := x.IsNear != nil && x.IsNear(peer.Addr()) && forwarded == ""
	client, known := x.Resolver.Client(x.r)
	if x.Resolver.Trusts(peer.Addr()) && !isNear {
		if x.origin.Scheme == "https" || known && client.IsLoopback() {
			return nil
		}
		return errConnection
	}
	if !x.OwnHost(x.r.Host) {
		return ErrHost
	}
	if x.r.TLS != nil || isNear || client.IsLoopback() && forwarded == "" {
		return nil
	}
	return errConnection
}

// checkOrigin rejects form posts from other sites. It runs besides the CSRF token, because the sign-in form has none.
// Browsers without Sec-Fetch-Site are checked by Origin, which every browser sends with a POST.
func (x *exchange) checkOrigin() error {
	if site := x.r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return errOrigin
	}
	if x.r.Header.Get("Origin") != x.origin.String() {
		return errOrigin
	}
	return nil
}

// isUpdate reports whether htmx refreshes a page, which does not extend the session.
func isUpdate(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("HX-Request") != ""
}

// unknown handles a request without a session. Pages lead to the sign-in, which returns to them (next). An update by
// htmx gets a header that makes the browser load the sign-in, because a redirect would put it into the page. A form
// post is refused, since its values would be lost on the way.
func (x *exchange) unknown(path string) error {
	if x.r.Method == http.MethodPost {
		return errSignedOut
	}
	to := Prefix + "sign-in"
	if path != "" {
		to += "?next=" + url.QueryEscape(path+"?"+x.r.URL.RawQuery)
	}
	if isUpdate(x.r) {
		x.w.Header().Set("HX-Redirect", to)
		x.w.WriteHeader(http.StatusUnauthorized)
		return refused(nil, errSignedOut)
	}
	return x.redirect(to)
}

// redirect sends 303, so that a browser loads the page with GET after a form post and a reload does not repeat the
// post.
func (x *exchange) redirect(to string) error {
	x.w.Header().Set("Location", to)
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// page returns the section's page at a path below the section, or nil.
func (s *Section) page(path string) *service.Page {
	at := slices.IndexFunc(s.Pages, func(pg service.Page) bool { return pg.Path == path })
	if at < 0 {
		return nil
	}
	return &s.Pages[at]
}

// find returns the page at a path below Prefix, or nil, nil.
func (c *Console) find(path string) (*Section, *service.Page) {
	for i := range c.Sections {
		s := &c.Sections[i]
		for j := range s.Pages {
			if c.link(s, s.Pages[j].Path) == Prefix+path {
				return s, &s.Pages[j]
			}
		}
	}
	return nil, nil
}

// route returns a label for metrics from a bounded set: client paths must not become labels.
func (c *Console) route(path string) string {
	below := strings.TrimPrefix(path, Prefix)
	if section, _ := c.find(below); section != nil || slices.Contains([]string{"sign-in", "sign-out", choicesPath}, below) {
		return path
	}
	if strings.HasPrefix(below, "static/") {
		return Prefix + "static/"
	}
	return "other"
}

// page serves a page, or runs its action on POST. errPage means no such page, errAccess a page that the role may not
// open.
func (x *exchange) page(path string) error {
	section, page := x.find(path)
	if section == nil {
		return errPage
	}
	if !x.mayOpen(page) {
		return errAccess
	}
	if x.r.Method == http.MethodPost {
		return x.act(section, page)
	}
	if isUpdate(x.r) && path == searchPath {
		return x.suggest()
	}
	r := &service.PageRequest{Values: x.r.URL.Query()}
	if err := restoreExact(r.Values); err != nil {
		return err
	}
	if page.Send != nil {
		return x.sendFile(page, r)
	}
	view, err := page.Show(x.r.Context(), r)
	if err != nil {
		return err
	}
	return x.sendView(http.StatusOK, shown{section, page, view, r.Values, nil, false})
}

// mayOpen reports whether the session's role may see a page or get its file.
func (x *exchange) mayOpen(page *service.Page) bool {
	return x.session.role == admin || page.Access == operate.ForViewers
}

// uploadHeader marks requests from the upload script, which sends each file separately and needs no page after
// success.
const uploadHeader = "X-Upload"

// act runs the action in a form post's parameter "do" and decides how the operator goes on: the form again with
// the error and the typed values, a view (e.g. a new secret), or a redirect to the form's page with a notice. The
// role and the CSRF token are checked before the action runs; the confirmation may be typed as Printable shows it.
// Every action that may change something is recorded, also if it failed, unless its operation records it
// (service.Action.Recorded).
func (x *exchange) act(section *Section, page *service.Page) error {
	name := x.r.URL.Query().Get("do")
	at := slices.IndexFunc(page.Actions, func(a service.Action) bool { return a.Name == name })
	if at < 0 {
		return errPage
	}
	action := &page.Actions[at]
	if x.session.role != admin && !action.Reads {
		return errRole
	}
	r := &service.PageRequest{}
	var err error
	if action.Uploads {
		err = x.readUpload(r, action.Memory)
	} else {
		err = x.readPost()
		r.Values = x.r.PostForm
	}
	if err != nil {
		return err
	}
	form := page // the form may be on a different page than the action
	if shown := section.page(r.Value("return-page")); r.Values.Has("return-page") && shown != nil && shown.Show != nil && x.mayOpen(shown) {
		form = shown
	}
	if confirm, typed := r.Value("confirm-with"), r.Value("confirm"); typed != confirm && typed != service.Printable(confirm) {
		return x.again(section, form, r, &failure{action.Name, errcode.Newf(errcode.Invalid, "nothing was changed: type %s to confirm", confirm), "", r.Values})
	}
	outcome, err := action.Run(x.operator(), r)
	if !action.Reads && !action.Recorded {
		x.record(section, page, action, r, err)
	}
	switch {
	case action.Reads && x.r.Header.Get("HX-Request") != "":
		x.sendCheck(outcome.Notice, err)
		return nil
	case outcome.View != nil:
		return x.sendOutcome(section, page, outcome.View, &failure{action.Name, err, "", r.Values})
	case err != nil || action.Reads && outcome.Next == "":
		typed := r.Values
		if outcome.Typed != nil {
			typed = outcome.Typed
		}
		return x.again(section, form, r, &failure{action.Name, err, outcome.Notice, typed})
	}
	if x.r.Header.Get(uploadHeader) != "" {
		x.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	x.sessions.note(x.session.id, outcome.Notice)
	back := form.Path
	if values := r.Value("return-to"); values != "" {
		back += "?" + values
	}
	return x.redirect(x.link(section, cmp.Or(outcome.Next, back)))
}

// sendOutcome shows an action's own view, which is not stored: the page cannot be loaded again.
func (x *exchange) sendOutcome(section *Section, page *service.Page, view *service.View, f *failure) error {
	back, err := url.ParseQuery(f.values.Get("return-to"))
	if err != nil {
		return errForm
	}
	if f.err == nil {
		return x.sendView(http.StatusOK, shown{section, page, view, back, nil, true})
	}
	return x.sendResult(shown{section, page, view, back, f, true})
}

// sendResult shows a page with an action's result.
func (x *exchange) sendResult(s shown) error {
	code := http.StatusOK
	if s.failed != nil && s.failed.err != nil {
		code = status(s.failed.err)
	}
	err := x.sendView(code, s)
	if code == http.StatusForbidden {
		return refused(err, s.failed.err)
	}
	return err
}

// failure is an action's result that is shown with its form.
type failure struct {
	action string     // name of the action, which finds the form
	err    error      // nil after an action that only reads
	notice string     // shown if err is nil
	values url.Values // as typed
}

// again shows the form's page with an error or a notice, and the form with the typed values. Internal errors are
// returned instead, so that they are logged and get the error page. If the page cannot be shown any more, e.g. after
// its subject was deleted, again returns the action's error.
func (x *exchange) again(section *Section, page *service.Page, r *service.PageRequest, f *failure) error {
	if f.err != nil && errcode.Of(f.err) == errcode.Internal && !isUsage(f.err) {
		return f.err
	}
	back, err := url.ParseQuery(r.Value("return-to"))
	if err != nil {
		return errForm
	}
	view, err := page.Show(x.r.Context(), &service.PageRequest{Values: back, Typed: f.values})
	if err != nil { // the page's subject was deleted
		return cmp.Or(f.err, err)
	}
	return x.sendResult(shown{section, page, view, back, f, false})
}

// isUsage reports an error in an operation's input.
func isUsage(err error) bool {
	_, ok := errors.AsType[*service.UsageError](err)
	return ok
}

// status returns the HTTP status for an error. Errors without a code are internal.
func status(err error) int {
	if refusal, ok := errors.AsType[*web.Refusal](err); ok {
		return refusal.Status
	}
	if isUsage(err) {
		return http.StatusBadRequest
	}
	switch errcode.Of(err) {
	case errcode.NotFound:
		return http.StatusNotFound
	case errcode.Conflict, errcode.Precondition:
		return http.StatusConflict
	case errcode.Invalid:
		return http.StatusBadRequest
	case errcode.TooLarge:
		return http.StatusRequestEntityTooLarge
	case errcode.Quota:
		return http.StatusInsufficientStorage
	case errcode.Denied:
		return http.StatusForbidden
	case errcode.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Message returns an error's text for operators. Internal errors, whose text may come from a library, are only in the
// log.
func Message(err error) string {
	if refusal, ok := errors.AsType[*web.Refusal](err); ok {
		return refusal.Message
	}
	if isUsage(err) {
		return err.Error()
	}
	if errcode.Of(err) == errcode.Internal && errcode.Fix(err) == "" {
		return "internal error: see the server log"
	}
	if text := errcode.ForOperator(err); text != "" {
		return text
	}
	if coded, ok := errors.AsType[errcode.Coder](err); ok {
		return coded.Error() // the text is for clients
	}
	return err.Error()
}

// link returns the absolute path for a link within a section; see service.PageLink. A guide's path is absolute already;
// see service.GuideLink.
func (c *Console) link(section *Section, to string) string {
	if strings.HasPrefix(to, service.GuidePrefix) {
		return to
	}
	if section.Name == "" {
		return Prefix + to
	}
	return Prefix + section.Name + "/" + to
}

// record adds an action to the log of changes. Only values that Action.Logged names are recorded; others may be
// secrets.
func (x *exchange) record(section *Section, page *service.Page, action *service.Action, r *service.PageRequest, err error) {
	c := service.Change{Service: cmp.Or(section.Name, "server"), Page: page.Path, Action: action.Name, Err: err}
	for _, name := range action.Logged {
		c.What = append(c.What, service.Named{Name: name, Value: r.Value(name)})
	}
	if x.Changes != nil {
		x.Changes.Add(x.operator(), &c)
	}
}

// operator returns a context that names the session and the network for audits and the log of changes.
func (x *exchange) operator() context.Context {
	return service.WithOperator(x.r.Context(), x.session.name(), x.Resolver.Network(x.r))
}
