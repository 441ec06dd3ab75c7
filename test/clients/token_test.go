package clients

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/test/chromium"
)

// tokenPage stores a token, because browsers refuse cookies from another site.
const tokenPage = `<!doctype html><title>Shop</title><link rel="icon" href="data:,">
<script type="importmap">{"imports":{"@holdfast/ext-storage/guest":"/dist/guest.js"}}</script>
<script type="module">
import { createSiteClient } from "@holdfast/ext-storage/guest";
const tokens = { load: () => localStorage.getItem("guest"), save: (token) => localStorage.setItem("guest", token) };
window.guest = createSiteClient({ baseUrl: "%s", tokens });
</script>`

// tokenSite serves the built package in dir and a page on another site than the server's.
func tokenSite(t *testing.T, dir string) (origin string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin = fmt.Sprint("http://shop.localhost:", l.Addr().(*net.TCPAddr).Port)
	shop := startProfile(t, fmt.Sprintf("user_keys = [%q]\norigins = [%q]", userSecret, origin))
	files := http.FileServer(http.Dir(dir))
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/dist/") {
			files.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, tokenPage, shop.URL)
	}))
	_ = site.Listener.Close()
	site.Listener = l
	site.Start()
	t.Cleanup(site.Close)
	return origin
}

// tokenInPage uses the client in Chromium on a page of another site. The stored token proves the session in other tabs,
// and nowhere else.
func tokenInPage(t *testing.T, dir string) {
	origin := tokenSite(t, dir)
	browser := chromium.Start(t)
	const items = `const items = []; for await (const w of window.guest.wishlist()) items.push(w.itemId); items.sort();`
	const add = `await until(() => window.guest); await Promise.all(arguments[0].map((itemId) => window.guest.addWish({ itemId })));` + items
	page := browser.Open(t, origin+"/")
	if got := chromium.Run[[]string](t, page, add+`return items`, []string{"a", "b", "c"}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the cart has %q", got)
	}
	kept := func(p *chromium.Page) string {
		t.Helper()
		return chromium.Run[string](t, p, `return localStorage.getItem("guest") + document.cookie`)
	}
	first := kept(page)
	tab := browser.Open(t, origin+"/")
	if got := chromium.Run[[]string](t, tab, add+`return items`, []string{"d"}); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("the cart in another tab has %q", got)
	}
	other := browser.Private(t).Open(t, origin+"/")
	if got := chromium.Run[[]string](t, other, add+`return items`, []string{"e"}); !slices.Equal(got, []string{"e"}) {
		t.Errorf("the cart of another browser has %q", got)
	}
	if token := kept(other); !strings.HasPrefix(first, "gms_") || kept(tab) != first || token == first {
		t.Errorf("tokens %q, %q in another tab, %q in another browser", first, kept(tab), token)
	}
	user := chromium.Run[string](t, page, `await window.guest.signIn(arguments[0]); return (await window.guest.session()).userId`, userJWT("u-1"))
	signedIn := kept(page)
	left := chromium.Run[int](t, page, `await window.guest.signOut();`+items+`return items.length`)
	if signedOut := kept(page); user != "u-1" || left != 0 || signedIn == first || signedOut == signedIn || signedOut == first {
		t.Errorf("user %q with token %q, then %d items with %q", user, signedIn, left, signedOut)
	}
	if problems := slices.Concat(page.Problems(), tab.Problems(), other.Problems()); len(problems) > 0 {
		t.Errorf("the pages report %q", problems)
	}
}

func userJWT(user string) string {
	now := time.Now().Unix()
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":%q,"aud":"holdfast-guest","iat":%d,"exp":%d}`, user, now, now+60))
	mac := hmac.New(sha256.New, []byte(userSecret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}
