package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/test/binary"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// accounts is an accounts server with a signing key and a request log.
type accounts struct {
	*httptest.Server
	signer jose.Signer
}

func newAccounts(t *testing.T) *accounts {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jwks", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"},
		}})
	})
	a := &accounts{Server: httptest.NewServer(mux), signer: signer}
	t.Cleanup(a.Close)
	return a
}

// signIn requests a storage token like Firefox. keys selects the account's key set.
func (a *accounts) signIn(t *testing.T, s *binary.Server, account string, keys byte) (binary.Credentials, binary.Answer) {
	t.Helper()
	token, err := jwt.Signed(a.signer).Claims(map[string]any{
		"sub": account, "scope": "https://identity.mozilla.com/apps/oldsync", "exp": time.Now().Add(time.Hour).Unix(),
		"fxa-generation": 1000 * int(keys),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, s.URL+"/1.0/sync/1.5", nil)
	if err != nil {
		t.Fatal(err)
	}
	state := make([]byte, 16)
	state[0] = keys
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-KeyID", fmt.Sprintf("%d-%s", 1000*int(keys), base64.RawURLEncoding.EncodeToString(state)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := binary.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
	var c binary.Credentials
	if got.Status == http.StatusOK {
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatal(err)
		}
	}
	return c, got
}
