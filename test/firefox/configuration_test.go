package firefox

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/firefox/accounts"
)

// TestClientConfiguration signs in with identity.fxaccounts.autoconfig.uri alone, at an address that serves an accounts
// server and Holdfast: the browser takes all addresses from /.well-known/fxa-client-configuration, and syncs. It also
// opens the sign-in page at that address, so Holdfast's own address is of use only behind such a proxy.
func TestClientConfiguration(t *testing.T) {
	t.Parallel()
	account, err := accounts.New()
	if err != nil {
		t.Fatal(err)
	}
	fxa := httptest.NewServer(account)
	t.Cleanup(fxa.Close)
	var both http.ServeMux
	front := httptest.NewServer(&both)
	t.Cleanup(front.Close)
	holdfast := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_SERVER__PUBLIC_URL="+front.URL)
	both.Handle("/", proxyTo(t, fxa.URL))
	for _, path := range []string{"/.well-known/fxa-client-configuration", "/1.0/", "/1.5/"} {
		both.Handle(path, proxyTo(t, holdfast.URL))
	}
	network := &journal{}
	const nowhere = "http://127.0.0.1:1"
	b, err := startBrowser(t, program(t), "A", nowhere, nowhere, network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { network.show(t) })
	b.do(t, "setStringPref", "identity.fxaccounts.autoconfig.uri", front.URL+"/")
	if page := call[string](t, b, "signInPage"); !strings.HasPrefix(page, front.URL+"/?") {
		t.Errorf("the sign-in page is %s, want it at %s", page, front.URL)
	}
	for pref, want := range map[string]string{
		"identity.fxaccounts.auth.uri":           fxa.URL + "/v1",
		"identity.fxaccounts.remote.oauth.uri":   fxa.URL + "/v1",
		"identity.fxaccounts.remote.profile.uri": fxa.URL + "/v1",
		"identity.fxaccounts.remote.root":        front.URL,
		"identity.sync.tokenserver.uri":          front.URL + "/1.0/sync/1.5",
	} {
		if got := call[string](t, b, "pref", pref); got != want {
			t.Errorf("%s is %q, want %q", pref, got, want)
		}
	}
	// With a locked root, the address of Holdfast alone is enough: the sign-in page stays at the accounts server.
	b.do(t, "lockPref", "identity.fxaccounts.remote.root", fxa.URL+"/")
	b.do(t, "setStringPref", "identity.sync.tokenserver.uri", nowhere)
	b.do(t, "setStringPref", "identity.fxaccounts.autoconfig.uri", holdfast.URL)
	if page := call[string](t, b, "signInPage"); !strings.HasPrefix(page, fxa.URL+"/?") {
		t.Errorf("the sign-in page is %s, want it at %s", page, fxa.URL)
	}
	if got := call[string](t, b, "pref", "identity.sync.tokenserver.uri"); got != front.URL+"/1.0/sync/1.5" {
		t.Errorf("the tokenserver is %q", got)
	}
	b.signIn(t, account)
	b.do(t, "addBookmark", "found", "https://example.org/")
	b.sync(t)
	if got := call[string](t, b, "endpoint"); !strings.HasPrefix(got, front.URL+"/1.5/") {
		t.Errorf("the storage is %s, want it at %s", got, front.URL)
	}
	if got := call[map[string]int](t, b, "counts"); got["bookmarks"] == 0 {
		t.Errorf("the server has %v", got)
	}
}

// proxyTo keeps the Host header, as Holdfast's guides require.
func proxyTo(t *testing.T, to string) http.Handler {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
}
