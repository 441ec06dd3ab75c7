package guest

import (
	"context"
	"net/http"
	"net/url"
)

// browser has the operations that clients of all profiles share.
type browser struct{ transport }

// UseTokens makes the client identify its session by a token in store instead of a cookie, like an app. Call it
// before the first request.
func (b *browser) UseTokens(store TokenStore) { b.store = store }

// Begin starts a session, or returns the session that the cookie or token already proves.
func (b *browser) Begin(ctx context.Context) (s Session, err error) {
	return s, b.begun.inTurn(ctx, func() error {
		s, err = b.begin(ctx)
		return err
	})
}

// Session returns the session with its preferences. Without a session it starts one.
func (b *browser) Session(ctx context.Context) (s Session, err error) {
	return s, b.do(ctx, call{method: http.MethodGet, path: "/session", idempotent: true}, &s)
}

// SetPreferences changes the preferences that are not nil.
func (b *browser) SetPreferences(ctx context.Context, p PreferencesPatch) (s Session, err error) {
	return s, b.do(ctx, call{method: http.MethodPatch, path: "/session/preferences", body: p, idempotent: true}, &s)
}

// Clear deletes the session's data and starts a new session. The guards are about the wishlist.
func (b *browser) Clear(ctx context.Context, guards ...Guard) error {
	return b.do(ctx, call{method: http.MethodPost, path: "/session/clear", key: NewKey()}.with(guards), nil)
}

// Attributes returns the attributes that the front end stored with the session, and their entity tag for
// PatchAttributes.
func (b *browser) Attributes(ctx context.Context) (a Attributes, tag string, err error) {
	return a, tag, b.do(ctx, call{method: http.MethodGet, path: "/session/attributes", tag: &tag, idempotent: true}, &a)
}

// PatchAttributes merges members into the attributes (RFC 7396); nil removes a member. If ifMatch is set and differs
// from the entity tag, the error has the code CodeAttributesChanged. A request with ifMatch is not retried after a
// lost response, because it may have succeeded.
func (b *browser) PatchAttributes(ctx context.Context, p AttributesPatch, ifMatch string) (a Attributes, tag string, err error) {
	return a, tag, b.do(ctx, call{
		method: http.MethodPatch, path: "/session/attributes", body: p, ifMatch: ifMatch, tag: &tag, idempotent: ifMatch == "",
	}, &a)
}

// SignIn signs in a user of the site with a token that the site signed, and merges the guest's data into the
// user's. The guards are about the guest's wishlist.
func (b *browser) SignIn(ctx context.Context, token string, guards ...Guard) (l Linked, err error) {
	return l, b.do(ctx, call{method: http.MethodPost, path: "/session/link", body: LinkRequest{Token: token}, key: NewKey()}.with(guards), &l)
}

// SignOut signs the user out of this browser and starts a guest session.
func (b *browser) SignOut(ctx context.Context) error {
	return b.do(ctx, call{method: http.MethodDelete, path: "/session/link", idempotent: true}, nil)
}

// UserSessions returns up to 100 sessions of the signed-in user.
func (b *browser) UserSessions(ctx context.Context) ([]UserSession, error) {
	var l UserSessionList
	err := b.do(ctx, call{method: http.MethodGet, path: "/user/sessions", idempotent: true}, &l)
	return l.Items, err
}

// EndUserSession ends one session, e.g. on a lost phone.
func (b *browser) EndUserSession(ctx context.Context, id string) error {
	return b.do(ctx, call{method: http.MethodDelete, path: "/user/sessions/" + url.PathEscape(id), idempotent: true}, nil)
}

// EndOtherSessions ends the user's sessions in all other browsers.
func (b *browser) EndOtherSessions(ctx context.Context) error {
	return b.do(ctx, call{method: http.MethodDelete, path: "/user/sessions", idempotent: true}, nil)
}
