package handoff_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/handoff"
)

const (
	issuer  = "https://guests.example"
	tenantA = "11111111-2222-4333-8444-555555555555" // tenant of claims()
	tenantB = "33333333-2222-4333-8444-555555555555"
)

// jwtVector is the token of whole(claims()) with signer("k1", tenantA). It must never change: it tests receivers
// in other languages, e.g. the TypeScript client.
const (
	jwtVector    = "eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIiwidHlwIjoiaGFuZG9mZitqd3QifQ.eyJpc3MiOiJodHRwczovL2d1ZXN0cy5leGFtcGxlIiwiYXVkIjoiMTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1Iiwic3ViIjoiZ21zXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdCIiwianRpIjoiYmhkXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdDIiwiaWF0IjoxNzkwMDAwMDAwLCJleHAiOjE3OTAwMDA2MDAsInByb3BlcnR5SWQiOiI5OTk5OTk5OS0yMjIyLTQzMzMtODQ0NC01NTU1NTU1NTU1NTUiLCJjaGVja0luIjoiMjAyNi0xMi0zMCIsImNoZWNrT3V0IjoiMjAyNy0wMS0wMiIsImFkdWx0cyI6MiwiY2hpbGRyZW4iOjEsInJvb21zIjoxLCJjdXJyZW5jeSI6IkVVUiIsImxvY2FsZSI6ImRlLUFUIiwiZmluZ2VycHJpbnQiOiJSSVk3QS1tUW0zRUE0RnNDVW1rSm8wYjlkRlVZUDJZWjRQNWhtTWlaZ2VBIiwiaXAiOiJ1NXIxMFpGZG9mdkJNczdRZ1RKZV9OTG1Qa2dFLVdpUTlDNlhPV2R5TjZRIn0.ly9W-cetYZ-cbUCwzatHbOmvVFkTAnh5KZDlRU-NTRzOYz5DqfWGptThmm_O5RTLn-oCPE7PLqPo7FhBZeglCg"
	keySetVector = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","alg":"EdDSA","x":"Oo1ydMv1avgMvMuXt6twT53MsoU2PwnqgEsHbLkfhmM"}]}`
)

// whole returns claims with times in seconds, as in a JWT.
func whole(c handoff.Claims) handoff.Claims {
	c.Minted, c.Expires = c.Minted.Truncate(time.Second), c.Expires.Truncate(time.Second)
	return c
}

func signer(t testing.TB, id, tenant string) *handoff.Signer {
	t.Helper()
	s, err := handoff.NewSigner(handoff.SignerOptions{ID: id, Seed: digest(id + tenant), Issuer: issuer, Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(t testing.TB, s *handoff.Signer) string {
	t.Helper()
	token, err := s.Sign(whole(claims()))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func keySet(t testing.TB, signers ...*handoff.Signer) *handoff.KeySet {
	t.Helper()
	text, err := handoff.FormatKeySet(signers)
	if err != nil {
		t.Fatal(err)
	}
	s, err := handoff.ParseKeySet(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expected(after time.Duration) handoff.Expected {
	return handoff.Expected{Issuer: issuer, Tenant: tenantA, Now: whole(claims()).Minted.Add(after)}
}

func TestJWTVector(t *testing.T) {
	t.Parallel()
	s := signer(t, "k1", tenantA)
	set, err := handoff.FormatKeySet([]*handoff.Signer{s})
	if err != nil || string(set) != keySetVector {
		t.Errorf("%s %v", set, err)
	}
	if token := signed(t, s); token != jwtVector {
		t.Fatalf("%s", token)
	}
	got, id, err := keySet(t, s).Verify(jwtVector, expected(0))
	if err != nil || id != "k1" || !reflect.DeepEqual(got, whole(claims())) {
		t.Errorf("%+v %s %v", got, id, err)
	}
	if id, ok := handoff.KeyID(jwtVector); !ok || id != "k1" {
		t.Errorf("key ID %q", id)
	}
}

func TestJWTTimes(t *testing.T) {
	t.Parallel()
	s := signer(t, "k1", tenantA)
	token := signed(t, s)
	for after, want := range map[time.Duration]error{
		-31 * time.Second: handoff.ErrNotYetValid, -30 * time.Second: nil, 0: nil,
		10*time.Minute - time.Millisecond: nil, 10 * time.Minute: handoff.ErrExpired, 24 * time.Hour: handoff.ErrExpired,
	} {
		c, _, err := keySet(t, s).Verify(token, expected(after))
		own, errOwn := s.Verify(token, expected(after).Now)
		if !errors.Is(err, want) || !errors.Is(errOwn, want) || err != nil && want == nil || c.ID != claims().ID || own.ID != c.ID {
			t.Errorf("after %v: %v, %v, want %v", after, err, errOwn, want)
		}
	}
}

// TestEveryByteOfJWTCounts also checks parts of a token.
func TestEveryByteOfJWTCounts(t *testing.T) {
	t.Parallel()
	s := signer(t, "k1", tenantA)
	token, set := signed(t, s), keySet(t, s)
	refused := func(changed, what string) {
		t.Helper()
		_, _, err1 := set.Verify(changed, expected(0))
		_, err2 := s.Verify(changed, expected(0).Now)
		if err1 == nil || err2 == nil {
			t.Fatalf("%s is accepted", what)
		}
	}
	for i := range token {
		for bit := range 8 {
			changed := []byte(token)
			changed[i] ^= 1 << bit
			refused(string(changed), "a flipped bit")
		}
		refused(token[:i], "a truncated token")
		refused(token[i+1:], "the end of a token")
	}
	for _, changed := range []string{token + ".", token + "=", token + "\n", " " + token, token + "." + token, strings.ToUpper(token), strings.Repeat("a", 4000)} {
		refused(changed, changed)
	}
}

func forged(token, header string, sign func(signed []byte) []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + strings.Split(token, ".")[1]
	return text + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(text)))
}

// TestAlgorithmConfusion checks that no header makes a verifier use another algorithm or key.
func TestAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	s, own := signer(t, "k1", tenantA), ed25519.NewKeyFromSeed(digest("attacker"))
	token, set := signed(t, s), keySet(t, s)
	public := ed25519.NewKeyFromSeed(digest("k1" + tenantA)).Public().(ed25519.PublicKey)
	macs := map[string]func([]byte) []byte{
		"no signature":           func([]byte) []byte { return nil },
		"zeros":                  func([]byte) []byte { return make([]byte, ed25519.SignatureSize) },
		"HMAC of the public key": func(b []byte) []byte { h := hmac.New(sha256.New, public); h.Write(b); return h.Sum(nil) },
		"HMAC, twice": func(b []byte) []byte {
			h := hmac.New(sha256.New, public)
			h.Write(b)
			return append(h.Sum(nil), h.Sum(nil)...)
		},
		"another key": func(b []byte) []byte { return ed25519.Sign(own, b) },
	}
	jwk := base64.RawURLEncoding.EncodeToString(own.Public().(ed25519.PublicKey))
	for _, header := range []string{
		`{"alg":"none","kid":"k1","typ":"handoff+jwt"}`, `{"alg":"None","kid":"k1","typ":"handoff+jwt"}`, `{"alg":"","kid":"k1","typ":"handoff+jwt"}`,
		`{"alg":"HS256","kid":"k1","typ":"handoff+jwt"}`, `{"alg":"HS512","kid":"k1","typ":"handoff+jwt"}`, `{"alg":"RS256","kid":"k1","typ":"handoff+jwt"}`,
		`{"alg":"ES256","kid":"k1","typ":"handoff+jwt"}`, `{"alg":"eddsa","kid":"k1","typ":"handoff+jwt"}`, `{"alg":["EdDSA"],"kid":"k1","typ":"handoff+jwt"}`,
		`{"ALG":"EdDSA","kid":"k1","typ":"handoff+jwt"}`, `{"kid":"k1","typ":"handoff+jwt"}`, `{"alg":null,"kid":"k1","typ":"handoff+jwt"}`,
		`{"alg":"EdDSA","kid":"k1","typ":"handoff+jwt"}`, `{"alg":"EdDSA","kid":"k2","typ":"handoff+jwt"}`, `{"alg":"EdDSA","kid":"../k1","typ":"handoff+jwt"}`,
		`{"alg":"EdDSA","typ":"handoff+jwt"}`, `{"alg":"EdDSA","kid":"k1"}`, `{"alg":"EdDSA","kid":"k1","typ":"JWT"}`, `null`, `[]`, `"EdDSA"`, `{`,
		`{"alg":"EdDSA","kid":"k1","typ":"handoff+jwt","jwk":{"kty":"OKP","crv":"Ed25519","x":"` + jwk + `"}}`,
		`{"alg":"EdDSA","kid":"k1","typ":"handoff+jwt","jku":"https://attacker.example/jwks.json"}`,
	} {
		for what, sign := range macs {
			changed := forged(token, header, sign)
			_, _, err1 := set.Verify(changed, expected(0))
			_, err2 := s.Verify(changed, expected(0).Now)
			if err1 == nil || err2 == nil {
				t.Errorf("%s with %s is accepted", header, what)
			}
		}
	}
	right := ed25519.NewKeyFromSeed(digest("k1" + tenantA))
	for header, want := range map[string]error{ // signed with the right key
		`{"alg":"HS256","kid":"k1","typ":"handoff+jwt"}`:                              handoff.ErrAlgorithm,
		`{"alg":"none","kid":"k1","typ":"handoff+jwt"}`:                               handoff.ErrAlgorithm,
		`{"alg":"EdDSA","kid":"k1","typ":"handoff+jwt","crit":["b64"],"b64":false}`:   handoff.ErrMalformed,
		`{"alg":"EdDSA","kid":"k1","typ":"JWT"}`:                                      handoff.ErrMalformed,
		`{"alg":"EdDSA","kid":"k1","typ":"handoff+jwt","later":"ignored"}`:            nil,
		`{"alg":"EdDSA","kid":"k2","typ":"handoff+jwt"}`:                              handoff.ErrUnknownKey,
		`{"alg":"EdDSA","kid":"` + strings.Repeat("k", 33) + `","typ":"handoff+jwt"}`: handoff.ErrMalformed,
	} {
		_, _, err := set.Verify(forged(token, header, func(b []byte) []byte { return ed25519.Sign(right, b) }), expected(0))
		if !errors.Is(err, want) || err != nil && want == nil {
			t.Errorf("%s: %v, want %v", header, err, want)
		}
	}
	hmacToken, _, err := ring(t, handoff.Key{ID: "k1", Secret: public, State: handoff.Active}).Sign(claims())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := set.Verify(hmacToken, expected(0)); !errors.Is(err, handoff.ErrAlgorithm) {
		t.Errorf("a token of a ring with the public key: %v", err)
	}
	if _, _, err := ring(t, key("k1", handoff.Active)).Verify(token, minted); !errors.Is(err, handoff.ErrMalformed) {
		t.Errorf("a JWT in a ring: %v", err)
	}
}

func TestOtherTenants(t *testing.T) {
	t.Parallel()
	a, b := signer(t, "k1", tenantA), signer(t, "k2", tenantB)
	if _, err := b.Sign(whole(claims())); !errors.Is(err, handoff.ErrTenant) {
		t.Errorf("a key signs for another tenant: %v", err)
	}
	// A tenant forges another tenant's token with its own private key, and either key ID.
	for _, id := range []string{"k1", "k2"} {
		thief, err := handoff.NewSigner(handoff.SignerOptions{ID: id, Seed: digest("k2" + tenantB), Issuer: issuer, Tenant: tenantA})
		if err != nil {
			t.Fatal(err)
		}
		token := signed(t, thief)
		if _, _, err := keySet(t, a).Verify(token, expected(0)); !errors.Is(err, handoff.ErrSignature) && !errors.Is(err, handoff.ErrUnknownKey) {
			t.Errorf("kid %s: %v", id, err)
		}
		if _, err := a.Verify(token, expected(0).Now); err == nil {
			t.Errorf("kid %s is accepted by the signer", id)
		}
	}
	token := signed(t, a)
	for want, e := range map[error]handoff.Expected{
		handoff.ErrIssuer: {Issuer: "https://other.example", Tenant: tenantA, Now: minted}, handoff.ErrTenant: {Issuer: issuer, Tenant: tenantB, Now: minted},
	} {
		if c, _, err := keySet(t, a).Verify(token, e); !errors.Is(err, want) || c.ID != "" {
			t.Errorf("%+v %v, want %v", c, err, want)
		}
	}
	if _, _, err := keySet(t).Verify(token, expected(0)); !errors.Is(err, handoff.ErrUnknownKey) {
		t.Errorf("a revoked key: %v", err)
	}
}

// TestCanonicalPayload checks that a signer accepts only its own encoding of claims, because another encoding
// means a stolen key or a defect.
func TestCanonicalPayload(t *testing.T) {
	t.Parallel()
	s, private := signer(t, "k1", tenantA), ed25519.NewKeyFromSeed(digest("k1"+tenantA))
	parts := strings.Split(signed(t, s), ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(payload) + " ", strings.Replace(string(payload), `{`, `{"later":1,`, 1)} {
		body := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(text))
		token := body + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(body)))
		if _, err := s.Verify(token, expected(0).Now); !errors.Is(err, handoff.ErrMalformed) {
			t.Errorf("%s: %v", text, err)
		}
		if _, _, err := keySet(t, s).Verify(token, expected(0)); err != nil { // sites accept claims of later releases
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, change := range [][2]string{
		{`"adults":2`, `"adults":"2"`}, {`"adults":2`, `"adults":2.5`}, {`"adults":2`, `"adults":100`}, {`"iat":1790000000`, `"iat":-1`},
		{`"exp":1790000600`, `"exp":9223372036854775807`}, {`"iat":1790000000`, `"iat":1e300`}, {`"exp":1790000600`, `"exp":1790001801`},
		{`"aud":"` + tenantA + `"`, `"aud":["` + tenantA + `"]`}, {`"fingerprint":"`, `"fingerprint":"=`}, {`"jti":"`, `"jti":" `}, {`{"iss"`, `[{"iss"`},
	} {
		text := strings.Replace(string(payload), change[0], change[1], 1)
		if text == string(payload) {
			t.Fatalf("no %s in %s", change[0], payload)
		}
		body := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(text))
		token := body + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(body)))
		if c, _, err := keySet(t, s).Verify(token, expected(0)); err == nil || c.ID != "" {
			t.Errorf("%s is accepted: %+v", change[1], c)
		}
	}
}

func TestSigners(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]handoff.SignerOptions{
		"the ID must be": {ID: "a.b", Seed: digest("a"), Issuer: issuer, Tenant: tenantA},
		"has 31 bytes":   {ID: "a", Seed: make([]byte, 31), Issuer: issuer, Tenant: tenantA},
		"issuer:":        {ID: "a", Seed: digest("a"), Tenant: tenantA},
		"tenant:":        {ID: "a", Seed: digest("a"), Issuer: issuer, Tenant: " "},
	} {
		if _, err := handoff.NewSigner(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := signer(t, "k1", tenantA)
	if _, err := s.Sign(claims()); err == nil || !strings.Contains(err.Error(), "whole seconds") {
		t.Errorf("milliseconds: %v", err)
	}
	c := whole(claims())
	c.Rooms = 0
	if _, err := s.Sign(c); err == nil || !strings.HasPrefix(err.Error(), "rooms:") {
		t.Errorf("%v", err)
	}
}

func TestKeySets(t *testing.T) {
	t.Parallel()
	x := base64.RawURLEncoding.EncodeToString(digest("x"))
	good := `{"kty":"OKP","crv":"Ed25519","kid":"a","use":"sig","alg":"EdDSA","x":"` + x + `"}`
	many := strings.Repeat(good+",", 100) + good
	for want, text := range map[string]string{
		"not a JWK Set":                       `{"key":[]}`,
		"not a JWK Set: expected an object":   `[]`,
		"not a JWK Set: expected":             `{"keys":{}}`,
		"not a JWK Set: ":                     `{"keys":[1]}`,
		"not a JWK Set: expected an object w": `{"keys":[]`,
		"more than 65536 bytes":               `{"keys":[]}` + strings.Repeat(" ", handoff.MaxKeySet),
		"has 101 keys":                        `{"keys":[` + many + `]}`,
		"twice":                               `{"keys":[` + good + `,` + good + `]}`,
		"private key":                         `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","d":"AAAA","x":"` + x + `"}]}`,
		"no valid kid":                        `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}]}`,
		"x is not":                            `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAA"}]}`,
		"x is not an":                         `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"` + x + `="}]}`,
	} {
		if _, err := handoff.ParseKeySet([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	s := signer(t, "k1", tenantA)
	own, err := handoff.FormatKeySet([]*handoff.Signer{s})
	if err != nil {
		t.Fatal(err)
	}
	// Other kinds of keys are ignored, whatever their ID.
	for _, other := range []string{
		`{"kty":"oct","kid":"k1","k":"AAAA"}`, `{"kty":"OKP","crv":"X25519","kid":"k1","x":"` + x + `"}`, `{"kty":"RSA","kid":"k1","n":"AQ","e":"AQAB"}`,
		`{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"enc","x":"` + x + `"}`, `{"kty":"OKP","crv":"Ed25519","kid":"k1","alg":"HS256","x":"` + x + `"}`,
	} {
		set, err := handoff.ParseKeySet(bytes.Replace(own, []byte("["), []byte("["+other+","), 1))
		if err != nil {
			t.Fatalf("%s: %v", other, err)
		}
		if _, _, err := set.Verify(signed(t, s), expected(0)); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestJWTRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[!-~]{1,40}`)
	rapid.Check(t, func(rt *rapid.T) {
		in := time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "in"), 0).UTC()
		c := whole(handoff.Claims{
			ID: text.Draw(rt, "id"), Session: text.Draw(rt, "session"), Tenant: text.Draw(rt, "tenant"), Property: text.Draw(rt, "property"),
			CheckIn: in.Format(time.DateOnly), CheckOut: in.AddDate(0, 0, rapid.IntRange(1, 400).Draw(rt, "nights")).Format(time.DateOnly),
			Adults: rapid.IntRange(1, 99).Draw(rt, "adults"), Children: rapid.IntRange(0, 99).Draw(rt, "children"), Rooms: rapid.IntRange(1, 99).Draw(rt, "rooms"),
			Currency: text.Draw(rt, "currency"), Locale: text.Draw(rt, "locale"),
			Fingerprint: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "fingerprint"), IP: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "ip"),
			Minted: minted, Expires: minted.Add(time.Duration(rapid.IntRange(1, 1800).Draw(rt, "life")) * time.Second),
		})
		if rapid.Bool().Draw(rt, "campaign") {
			c.Campaign = rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "digest")
		}
		s := signer(t, "k1", c.Tenant)
		token, err := s.Sign(c)
		if err != nil {
			if strings.Contains(err.Error(), "may have at most") { // JSON escapes some characters
				return
			}
			rt.Fatal(err)
		}
		e := handoff.Expected{Issuer: issuer, Tenant: c.Tenant, Now: c.Minted}
		got, _, err := keySet(t, s).Verify(token, e)
		own, errOwn := s.Verify(token, c.Minted)
		if err != nil || errOwn != nil || !reflect.DeepEqual(got, c) || !reflect.DeepEqual(own, c) {
			rt.Fatalf("%+v %v %v, want %+v", got, err, errOwn, c)
		}
		if _, _, err := keySet(t, signer(t, "k1", "another:"+c.Tenant[:1])).Verify(token, e); !errors.Is(err, handoff.ErrSignature) {
			rt.Fatalf("another key: %v", err)
		}
	})
}

func FuzzVerifyJWT(f *testing.F) {
	s := signer(f, "k1", tenantA)
	token, set := signed(f, s), keySet(f, s)
	f.Add([]byte(token))
	f.Add([]byte("eyJhbGciOiJub25lIn0.e30."))
	f.Add([]byte("bh1.k1.AA.AA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, err1 := set.Verify(string(text), expected(0))
		_, err2 := s.Verify(string(text), expected(0).Now)
		if (err1 == nil || err2 == nil) && !bytes.Equal(text, []byte(token)) {
			t.Fatalf("accepted: %q", text)
		}
	})
}

// FuzzParseKeySet checks that a parsed key set survives formatting, and contains public keys only.
func FuzzParseKeySet(f *testing.F) {
	s := signer(f, "k1", tenantA)
	own, err := handoff.FormatKeySet([]*handoff.Signer{s})
	if err != nil {
		f.Fatal(err)
	}
	token := signed(f, s)
	f.Add(own)
	f.Add([]byte(`{"keys":[{"kty":"oct","kid":"k1","k":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := handoff.ParseKeySet(text)
		if err != nil {
			return
		}
		if !json.Valid(text) || len(text) > handoff.MaxKeySet {
			t.Fatalf("accepted: %q", text)
		}
		if _, _, err := set.Verify(token, expected(0)); err == nil && !bytes.Contains(text, []byte(`Ed25519`)) {
			t.Fatalf("a key of another type verifies: %q", text)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	s, r := signer(b, "k1", tenantA), ring(b, key("k1", handoff.Active))
	c := whole(claims())
	b.Run("hmac", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = r.Sign(c)
		}
	})
	b.Run("ed25519", func(b *testing.B) {
		for b.Loop() {
			_, _ = s.Sign(c)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	s, r := signer(b, "k1", tenantA), ring(b, key("k1", handoff.Active))
	c := whole(claims())
	shared, _, err1 := r.Sign(c)
	own, err2 := s.Sign(c)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	set := keySet(b, s)
	b.Run("hmac", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = r.Verify(shared, minted)
		}
	})
	b.Run("ed25519", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = set.Verify(own, expected(0))
		}
	})
}
