//test:unraced the race detector makes it ten times as slow

package nodeclient_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/nodeclient"
)

var now = time.Unix(1790000000, 0)

type minter struct{ keyring *tokenlib.Keyring }

func (m minter) Mint(c tokenserver.Claims) (token, key string, err error) {
	return m.keyring.Mint(tokenlib.Claims{UID: c.UID, FxAUID: c.FxAUID, FxAKID: c.FxAKID, Node: c.Node, Expires: c.Expires})
}

func newPurger(t *testing.T) (*nodeclient.Purger, *tokenlib.Keyring) {
	t.Helper()
	keyring, err := tokenlib.NewKeyring("master")
	if err != nil {
		t.Fatal(err)
	}
	p := nodeclient.New(minter{keyring}, func() time.Time { return now })
	t.Cleanup(p.Close)
	return p, keyring
}

func due(node string) tokenserver.DueUser {
	return tokenserver.DueUser{User: tokenserver.User{
		UID: 42, Email: "alice@accounts.example", ClientState: "aaaa", KeysChangedAt: tokenserver.At(1234), Node: node,
	}}
}

func TestPurgeIsSigned(t *testing.T) {
	t.Parallel()
	p, keyring := newPurger(t)
	var got []string
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		head, err := hawk.ParseHeader(r.Header.Get("Authorization"))
		if err != nil {
			t.Error(err)
		}
		claims, key, err := keyring.Open(head.ID, now)
		if err != nil {
			t.Error(err)
		}
		host, port, err := hawk.HostPort(r.Host, "http")
		if err != nil {
			t.Error(err)
		}
		request := hawk.Request{Method: r.Method, Target: r.RequestURI, Host: host, Port: port}
		if err := head.Verify(key, request, now, time.Minute); err != nil {
			t.Error(err)
		}
		got = append(got, r.Method, r.RequestURI, claims.FxAUID, claims.FxAKID, claims.Node)
		if claims.UID != 42 || !claims.Expires.After(now) {
			t.Errorf("claims %+v", claims)
		}
	}))
	defer node.Close()
	if err := p.Purge(t.Context(), due(node.URL+"/sync")); err != nil {
		t.Fatal(err)
	}
	want := "DELETE /sync/1.5/42 alice 0000000001234-qqo " + node.URL + "/sync"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPurgeAnswers(t *testing.T) {
	t.Parallel()
	p, _ := newPurger(t)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "/200/1.5/42")
		w.WriteHeader(status)
	}))
	defer node.Close()
	for status, ok := range map[string]bool{"200": true, "204": true, "404": true, "307": false, "401": false, "500": false, "503": false} {
		err := p.Purge(t.Context(), due(node.URL+"/"+status))
		if (err == nil) != ok || err != nil && !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("%s: %v", status, err)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, address := range []string{gone.URL, tokenserver.Self, "", "http://[::1"} {
		if err := p.Purge(t.Context(), due(address)); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
