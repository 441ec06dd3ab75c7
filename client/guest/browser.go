package guest

import (
	"context"
	"net/http"
	"net/url"
)

// browser is what the guests of every profile can do.
type browser struct{ transport }

// Begin begins a session, or returns the session of the cookie.
func (b *browser) Begin(ctx context.Context) (Session, error) { return b.begin(ctx) }

// Session returns the session.
func (b *browser) Session(ctx context.Context) (s Session, err error) {
	return s, b.do(ctx, call{method: http.MethodGet, path: "/session", idempotent: true}, &s)
}

// SetPreferences changes those preferences that are not nil.
func (b *browser) SetPreferences(ctx context.Context, p PreferencesPatch) (s Session, err error) {
	return s, b.do(ctx, call{method: http.MethodPatch, path: "/session/preferences", body: p, idempotent: true}, &s)
}

// Clear deletes the data of the session and begins another one.
func (b *browser) Clear(ctx context.Context) error {
	return b.do(ctx, call{method: http.MethodPost, path: "/session/clear", key: NewKey()}, nil)
}

// Attributes returns what the front end keeps with the session, with the entity tag for PatchAttributes.
func (b *browser) Attributes(ctx context.Context) (a Attributes, tag string, err error) {
	return a, tag, b.do(ctx, call{method: http.MethodGet, path: "/session/attributes", tag: &tag, idempotent: true}, &a)
}

// PatchAttributes changes the attributes by RFC 7396: members replace those of the same name, nil removes them. If ifMatch is
// not "", attributes with another entity tag are refused with CodeAttributesChanged; a lost response is not repeated then,
// because the change may have been made.
func (b *browser) PatchAttributes(ctx context.Context, p AttributesPatch, ifMatch string) (a Attributes, tag string, err error) {
	return a, tag, b.do(ctx, call{
		method: http.MethodPatch, path: "/session/attributes", body: p, ifMatch: ifMatch, tag: &tag, idempotent: ifMatch == "",
	}, &a)
}

// SignIn signs a user of the site in: what the guest has is merged with what the user keeps. The site has signed the token.
func (b *browser) SignIn(ctx context.Context, token string) (l Linked, err error) {
	return l, b.do(ctx, call{method: http.MethodPost, path: "/session/link", body: LinkRequest{Token: token}, key: NewKey()}, &l)
}

// SignOut signs the user out in this browser, and begins a session of a guest.
func (b *browser) SignOut(ctx context.Context) error {
	return b.do(ctx, call{method: http.MethodDelete, path: "/session/link", idempotent: true}, nil)
}

// UserSessions returns the sessions of the user who has signed in, at most 100.
func (b *browser) UserSessions(ctx context.Context) ([]UserSession, error) {
	var l UserSessionList
	err := b.do(ctx, call{method: http.MethodGet, path: "/user/sessions", idempotent: true}, &l)
	return l.Items, err
}

// EndUserSession ends a session of the user, such as in a lost phone.
func (b *browser) EndUserSession(ctx context.Context, id string) error {
	return b.do(ctx, call{method: http.MethodDelete, path: "/user/sessions/" + url.PathEscape(id), idempotent: true}, nil)
}

// EndOtherSessions ends all sessions of the user but this one.
func (b *browser) EndOtherSessions(ctx context.Context) error {
	return b.do(ctx, call{method: http.MethodDelete, path: "/user/sessions", idempotent: true}, nil)
}
