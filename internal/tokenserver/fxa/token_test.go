package fxa

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"holdfast/internal/tokenserver"
)

func isRefusal(err error) bool {
	var r *tokenserver.Refusal
	return errors.As(err, &r) && r.Reason == tokenserver.BadCredentials
}

func TestAccessTokenClaims(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	s := newStub(t, key)
	c, _ := s.client(t, nil)
	scope := tokenserver.Scope
	for _, tc := range []struct {
		name   string
		change map[string]any
		want   tokenserver.Identity
	}{
		{"as it comes", nil, tokenserver.Identity{FxAUID: "alice", Generation: tokenserver.At(7)}},
		{"no generation", map[string]any{"fxa-generation": nil}, tokenserver.Identity{FxAUID: "alice"}},
		{"generation null", map[string]any{"fxa-generation": json.RawMessage("null")}, tokenserver.Identity{FxAUID: "alice"}},
		{"generation 0 is unknown", map[string]any{"fxa-generation": 0}, tokenserver.Identity{FxAUID: "alice"}},
		{"scopes divided by commas", map[string]any{"scope": "profile," + scope}, tokenserver.Identity{FxAUID: "alice", Generation: tokenserver.At(7)}},
		{"scopes in a list", map[string]any{"scope": []string{"profile", scope}}, tokenserver.Identity{FxAUID: "alice", Generation: tokenserver.At(7)}},
		{"audience of any form", map[string]any{"aud": []string{"a", "b"}}, tokenserver.Identity{FxAUID: "alice", Generation: tokenserver.At(7)}},
		{"expires within the second", map[string]any{"exp": start.Unix() + 1}, tokenserver.Identity{FxAUID: "alice", Generation: tokenserver.At(7)}},
		{"expired", map[string]any{"exp": start.Unix()}, tokenserver.Identity{}},
		{"no expiry", map[string]any{"exp": nil}, tokenserver.Identity{}},
		{"expiry not a number", map[string]any{"exp": "tomorrow"}, tokenserver.Identity{}},
		{"expiry negative", map[string]any{"exp": -1}, tokenserver.Identity{}},
		{"no scope", map[string]any{"scope": nil}, tokenserver.Identity{}},
		{"another scope", map[string]any{"scope": "profile"}, tokenserver.Identity{}},
		{"a longer scope", map[string]any{"scope": scope + ".read"}, tokenserver.Identity{}},
		{"scope not text", map[string]any{"scope": 7}, tokenserver.Identity{}},
		{"scope a list of numbers", map[string]any{"scope": []int{7}}, tokenserver.Identity{}},
		{"no subject", map[string]any{"sub": nil}, tokenserver.Identity{}},
		{"subject not text", map[string]any{"sub": 7}, tokenserver.Identity{}},
		{"generation text", map[string]any{"fxa-generation": "7"}, tokenserver.Identity{}},
		{"generation a fraction", map[string]any{"fxa-generation": 7.5}, tokenserver.Identity{}},
		{"generation too large", map[string]any{"fxa-generation": 1e30}, tokenserver.Identity{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.AccessToken(t.Context(), key.sign(t, "at+jwt", key.kid, with(tc.change)))
			got.ReadsEmail = false // TestAddresses compares it
			if got != tc.want || (err == nil) != (tc.want != tokenserver.Identity{}) || err != nil && !isRefusal(err) {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if s.verdicts.Load() != 0 {
			t.Errorf("%d tokens with a known key were verified remotely", s.verdicts.Load())
		}
		if s.fetches.Load() != 1 {
			t.Errorf("keys were fetched %d times", s.fetches.Load())
		}
	})
}

func TestAccessTokenForm(t *testing.T) {
	t.Parallel()
	key, stranger := testKeys()[0], testKeys()[1]
	s := newStub(t, key)
	c, _ := s.client(t, func(cfg *tokenserver.Config) { cfg.FxAOAuthPrimaryJWK = key.configured(t) })

	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key.key.N.Bytes()}, (&jose.SignerOptions{}).WithType("at+jwt"))
	must(t, err)
	byHMAC, err := jwt.Signed(hmac).Claims(good()).Serialize()
	must(t, err)
	token := key.sign(t, "at+jwt", key.kid, good())
	head, rest, _ := strings.Cut(token, ".")
	_, signature, _ := strings.Cut(rest, ".")
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

	for _, tc := range []struct {
		name, token string
		ok          bool
	}{
		{"typ in capitals", key.sign(t, "AT+JWT", key.kid, good()), true},
		{"typ with application", key.sign(t, "application/at+jwt", key.kid, good()), true},
		{"no name of the key", key.sign(t, "at+jwt", "", good()), true},
		{"another name of the key", key.sign(t, "at+jwt", "renamed", good()), true},
		{"no typ", key.sign(t, "", key.kid, good()), false},
		{"an ID token", key.sign(t, "JWT", key.kid, good()), false},
		{"another key", stranger.sign(t, "at+jwt", key.kid, good()), false},
		{"another key without a name", stranger.sign(t, "at+jwt", "", good()), false},
		{"the public key as an HMAC key", byHMAC, false},
		{"no signature", text(`{"alg":"none","typ":"at+jwt"}`) + "." + rest[:len(rest)-len(signature)], false},
		{"claims changed", head + "." + text(`{"sub":"mallory"}`) + "." + signature, false},
		{"empty", "", false},
		{"too long", strings.Repeat("a", maxToken+1), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.AccessToken(t.Context(), tc.token)
			if (err == nil) != tc.ok || err != nil && !isRefusal(err) {
				t.Errorf("got %v, want ok=%v", err, tc.ok)
			}
		})
	}
	t.Cleanup(func() {
		if n := s.verdicts.Load() + s.fetches.Load(); n != 0 {
			t.Errorf("the accounts server was asked %d times", n)
		}
	})
}

func TestSecondaryKey(t *testing.T) {
	t.Parallel()
	first, second := testKeys()[0], testKeys()[1]
	c, _ := newStub(t).client(t, func(cfg *tokenserver.Config) {
		cfg.FxAOAuthPrimaryJWK, cfg.FxAOAuthSecondaryJWK = first.configured(t), second.configured(t)
	})
	for _, k := range []signer{first, second} {
		if _, err := c.AccessToken(t.Context(), k.sign(t, "at+jwt", k.kid, good())); err != nil {
			t.Errorf("signed by %s: %v", k.kid, err)
		}
	}
}

func TestConfiguredKeyMustBeValid(t *testing.T) {
	t.Parallel()
	whole := testKeys()[0].configured(t)
	for name, change := range map[string]func(*tokenserver.JWK){
		"another type":       func(k *tokenserver.JWK) { k.KTY = "EC" },
		"no modulus":         func(k *tokenserver.JWK) { k.N = "" },
		"modulus not base64": func(k *tokenserver.JWK) { k.N = "!!" },
		"for encryption":     func(k *tokenserver.JWK) { k.Use = "enc" },
		"another algorithm":  func(k *tokenserver.JWK) { k.Alg = "PS256" },
	} {
		k := whole
		change(&k)
		cfg := tokenserver.DefaultConfig()
		cfg.FxAOAuthSecondaryJWK = k
		if _, err := New(cfg, time.Now); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestErrorsQuoteNoToken(t *testing.T) {
	t.Parallel()
	key := testKeys()[1]
	s := newStub(t, testKeys()[0])
	c, _ := s.client(t, nil)
	for _, token := range []string{
		"opaque-secret-token", key.sign(t, "at+jwt", "unknown", good()), key.sign(t, "JWT", "", good()),
	} {
		_, err := c.AccessToken(t.Context(), token)
		if err == nil {
			t.Fatal("accepted")
		}
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(err.Error(), part) {
				t.Errorf("the error quotes the token: %v", err)
			}
		}
	}
}

func FuzzClaims(f *testing.F) {
	for _, seed := range []string{
		`{"sub":"alice","exp":1800000000,"scope":"https://identity.mozilla.com/apps/oldsync","fxa-generation":7}`,
		`{"sub":"a","sub":"b"}`, `{"scope":["a","b c,d"]}`, `[]`, `null`, `{"exp":1e400}`, `{"fxa-generation":-9223372036854775808}`,
	} {
		f.Add([]byte(seed))
	}
	key := testKeys()[0]
	c, _ := newStub(f).client(f, func(cfg *tokenserver.Config) { cfg.FxAOAuthPrimaryJWK = key.configured(f) })
	sig, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key.key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	must(f, err)
	f.Fuzz(func(t *testing.T, payload []byte) {
		signed, err := sig.Sign(payload)
		must(t, err)
		token, err := signed.CompactSerialize()
		must(t, err)
		id, err := c.AccessToken(t.Context(), token)
		switch {
		case err != nil && !isRefusal(err) && len(token) <= maxToken:
			t.Errorf("claims %q: %v", payload, err)
		case err == nil && (id.FxAUID == "" || id.Generation.Known && id.Generation.Value <= 0):
			t.Errorf("claims %q are accepted as %+v", payload, id)
		}
	})
}
