package bearer

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

var now = time.Unix(1_790_000_000, 0)

const secret = "0123456789abcdef0123456789abcdef"

func pemOf(t testing.TB, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pair(t testing.TB, k crypto.Signer) (private, public string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k)
	private = pemOf(t, "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(k.Public())
	return private, pemOf(t, "PUBLIC KEY", der, err)
}

func newEd(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newEC(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func keyring(t testing.TB, o Options) *Keyring {
	t.Helper()
	k, err := NewKeyring(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sign signs with a private key or secret as in RFC 7518 and RFC 8037, using only the standard library.
func sign(t testing.TB, private any, text string) []byte {
	t.Helper()
	switch k := private.(type) {
	case nil:
		return nil
	case []byte:
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(text))
	case *ecdsa.PrivateKey:
		hash := sha256.Sum256([]byte(text))
		r, s, err := ecdsa.Sign(rand.Reader, k, hash[:])
		if err != nil {
			t.Fatal(err)
		}
		both := make([]byte, 64)
		r.FillBytes(both[:32])
		s.FillBytes(both[32:])
		return both
	}
	t.Fatalf("a key of type %T", private)
	return nil
}

func isSigned(public any, text string, signature []byte) bool {
	hash := sha256.Sum256([]byte(text))
	switch k := public.(type) {
	case []byte:
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(text))
		return hmac.Equal(mac.Sum(nil), signature)
	case ed25519.PublicKey:
		return ed25519.Verify(k, []byte(text), signature)
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(k, hash[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	return false
}

func signedBy(t testing.TB, private any, header, payload string) string {
	t.Helper()
	text := encoding.EncodeToString([]byte(header)) + "." + encoding.EncodeToString([]byte(payload))
	return text + "." + encoding.EncodeToString(sign(t, private, text))
}

func signed(t testing.TB, header, payload string) string {
	t.Helper()
	return signedBy(t, []byte(secret), header, payload)
}

// TestVectors verifies RFC 7515, appendix A.1 (a JWT), and RFC 8037, appendix A.4 (plain text).
func TestVectors(t *testing.T) {
	t.Parallel()
	secretBytes, err := encoding.DecodeString("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
	if err != nil {
		t.Fatal(err)
	}
	const hs256 = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	k := keyring(t, Options{Keys: []Key{{Alg: HS256, Text: string(secretBytes)}}})
	c, err := k.Verify(hs256, time.Unix(1300819379, 0))
	if err != nil || c.Issuer != "joe" || c.Expires.Unix() != 1300819380 || !bytes.Contains(c.Raw, []byte(`"http://example.com/is_root":true`)) {
		t.Errorf("HS256: %+v, %v", c, err)
	}
	public, err := encoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(public))
	k = keyring(t, Options{Keys: []Key{{Alg: EdDSA, Text: pemOf(t, "PUBLIC KEY", der, err)}}})
	const ed = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	if _, err := k.Verify(ed, now); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "not valid JSON") {
		t.Errorf("EdDSA: the signature is valid but the payload is not JSON; got %v", err)
	}
	if _, err := k.Verify(strings.Replace(ed, ".hg", ".hh", 1), now); !errors.Is(err, ErrSignature) {
		t.Errorf("EdDSA, changed: %v", err)
	}
}

// TestSignVerify verifies signatures of each key type with the public key and with the standard library.
func TestSignVerify(t *testing.T) {
	t.Parallel()
	edPrivate, edPublic := pair(t, newEd(t))
	ec := newEC(t, elliptic.P256())
	ecPrivate, ecPublic := pair(t, ec)
	der, err := x509.MarshalECPrivateKey(ec)
	for _, c := range []struct{ name, alg, private, public string }{
		{"EdDSA", EdDSA, edPrivate, edPublic},
		{"ES256", ES256, ecPrivate, ecPublic},
		{"ES256, SEC 1", ES256, pemOf(t, "EC PRIVATE KEY", der, err), ecPublic},
		{"HS256", HS256, secret, secret},
	} {
		signer := keyring(t, Options{Keys: []Key{{"k1", c.alg, c.private}}, Issuer: "holdfast", Audience: "ext"})
		token, err := signer.Sign(map[string]any{"tenant_id": "t", "n": json.Number("9007199254740993")}, now, time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		verifier := keyring(t, Options{Keys: []Key{{"k0", HS256, secret + "another"}, {"k1", c.alg, c.public}}, Issuer: "holdfast", Audience: "ext"})
		got, err := verifier.Parse("bearer  "+token, now.Add(59*time.Second))
		want := Claims{
			KeyID: "k1", Issuer: "holdfast", Audience: []string{"ext"}, Expires: now.Add(time.Minute), Ends: now.Add(time.Minute), IssuedAt: now,
			Raw: json.RawMessage(`{"aud":"ext","exp":1790000060,"iat":1790000000,"iss":"holdfast","n":9007199254740993,"tenant_id":"t"}`),
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n%v, %v\n%v", c.name, got, err, want)
		}
		parts := strings.Split(token, ".")
		header, err1 := encoding.DecodeString(parts[0])
		signature, err2 := encoding.DecodeString(parts[2])
		var head map[string]string
		err3 := json.Unmarshal(header, &head)
		if want := map[string]string{"alg": c.alg, "kid": "k1", "typ": "JWT"}; errors.Join(err1, err2, err3) != nil || !maps.Equal(head, want) {
			t.Errorf("%s: the header is %s", c.name, header)
		}
		if !isSigned(verifier.keys[1].verify, parts[0]+"."+parts[1], signature) {
			t.Errorf("%s: the standard library rejects the signature", c.name)
		}
		if c.public == c.private {
			continue
		}
		reader := keyring(t, Options{Keys: []Key{{"k1", c.alg, c.public}}})
		if token, err := reader.Sign(struct{}{}, now, time.Minute); !errcode.Is(err, errcode.Invalid) || token != "" {
			t.Errorf("%s: signed with a public key: %q, %v", c.name, token, err)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claims string
		leeway time.Duration
		at     int64 // seconds from now
		want   error
	}{
		{`"exp":1790000001`, 0, 0, nil},
		{`"exp":1790000000`, 0, 0, ErrExpired},
		{`"exp":1790000000.9`, 0, 0, ErrExpired},
		{`"exp":1790000000`, 5 * time.Second, 4, nil},
		{`"exp":1790000000`, 5 * time.Second, 5, ErrExpired},
		{`"exp":0`, time.Hour, 0, ErrExpired},
		{`"exp":1.79000001e9`, 0, 0, nil},
		{`"exp":9007199254740992`, 0, 0, nil},
		{`"exp":1790000009,"nbf":1790000000`, 0, 0, nil},
		{`"exp":1790000009,"nbf":1790000000`, 0, -1, ErrNotYet},
		{`"exp":1790000009,"nbf":1790000000`, 5 * time.Second, -5, nil},
		{`"exp":1790000009,"nbf":1790000000`, 5 * time.Second, -6, ErrNotYet},
		{`"exp":1790000009,"iat":1790000000`, 0, -1, ErrNotYet},
		{`"exp":1790000009,"iat":1790000000`, 5 * time.Second, -5, nil},
		{`"exp":1789999999,"nbf":1790000005`, 0, 0, ErrExpired},
	} {
		k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}, Leeway: c.leeway})
		token := signed(t, `{"alg":"HS256"}`, "{"+c.claims+"}")
		if _, err := k.Verify(token, now.Add(time.Duration(c.at)*time.Second)); !errors.Is(err, c.want) {
			t.Errorf("%s, leeway %s, at %d: %v, want %v", c.claims, c.leeway, c.at, err, c.want)
		}
	}
}

func TestIssuerAndAudience(t *testing.T) {
	t.Parallel()
	k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}, Issuer: "us", Audience: "ext"})
	for claims, want := range map[string]error{
		`"iss":"us","aud":"ext"`:              nil,
		`"iss":"us","aud":["other","ext"]`:    nil,
		`"iss":"them","aud":"ext"`:            ErrForeign,
		`"iss":"us","aud":"other"`:            ErrForeign,
		`"iss":"us","aud":[]`:                 ErrForeign,
		`"iss":"us"`:                          ErrForeign,
		`"aud":"ext"`:                         ErrForeign,
		`"iss":"US","aud":"ext"`:              ErrForeign,
		`"ISS":"us","AUD":"ext"`:              ErrForeign,
		`"iss":"us","iss":"us","aud":"ext"`:   ErrMalformed,
		`"iss":"us","aud":["ext",null]`:       ErrMalformed,
		`"iss":"us","aud":{"ext":"ext"}`:      ErrMalformed,
		`"iss":null,"aud":"ext"`:              ErrMalformed,
		`"iss":"us","aud":"ext","sub":1`:      ErrMalformed,
		`"iss":"us","aud":"ext","jti":["a"]`:  ErrMalformed,
		`"iss":"us","aud":"ext","nbf":"1"`:    ErrMalformed,
		`"iss":"us","aud":"ext","iat":-1`:     ErrMalformed,
		`"iss":"us","aud":"ext","nbf":1e300`:  ErrMalformed,
		`"iss":"us","aud":"ext","nbf":1e999`:  ErrMalformed,
		`"iss":"us","aud":"ext","nbf":null`:   ErrMalformed,
		`"iss":"us","\u0069ss":"us","aud":""`: ErrMalformed,
	} {
		if _, err := k.Verify(signed(t, `{"alg":"HS256"}`, `{"exp":1790000001,`+claims+"}"), now); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", claims, err, want)
		}
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	ed, other := newEd(t), newEd(t)
	edPrivate, edPublic := pair(t, ed)
	ec := newEC(t, elliptic.P256())
	_, ecPublic := pair(t, ec)
	k := keyring(t, Options{Keys: []Key{{"ed", EdDSA, edPrivate}, {"ec", ES256, ecPublic}, {"hs", HS256, secret}}})
	const claims = `{"exp":1790000060}`
	// by signs with the attacker's key. If private is nil, it omits the signature.
	by := func(private any, header string) string { return signedBy(t, private, header, claims) }
	good := signedBy(t, ed, `{"alg":"EdDSA","kid":"ed"}`, claims)
	if _, err := k.Verify(good, now); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	ecGood := strings.Split(signedBy(t, ec, `{"alg":"ES256","kid":"ec"}`, claims), ".")
	edBytes := ed.Public().(ed25519.PublicKey)
	hs512 := func(header string) string {
		text := encoding.EncodeToString([]byte(header)) + "." + encoding.EncodeToString([]byte(claims))
		mac := hmac.New(sha512.New, []byte(secret))
		mac.Write([]byte(text))
		return text + "." + encoding.EncodeToString(mac.Sum(nil))
	}
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"alg none":                           {by(nil, `{"alg":"none","kid":"ed"}`), ErrSignature},
		"alg none, other case":               {by(nil, `{"alg":"nOnE","kid":"ed"}`), ErrSignature},
		"no alg":                             {by(nil, `{"kid":"ed"}`), ErrSignature},
		"no signature":                       {parts[0] + "." + parts[1] + ".", ErrSignature},
		"HS256 by the public key's PEM":      {by([]byte(edPublic), `{"alg":"HS256","kid":"ed"}`), ErrSignature},
		"HS256 by the public key's bytes":    {by([]byte(edBytes), `{"alg":"HS256","kid":"ed"}`), ErrSignature},
		"HS256 by the key of the other kid":  {by([]byte(edPublic), `{"alg":"HS256","kid":"hs"}`), ErrSignature},
		"HS256 by the EC key's PEM":          {by([]byte(ecPublic), `{"alg":"HS256","kid":"ec"}`), ErrSignature},
		"HS256 by nothing":                   {by([]byte{}, `{"alg":"HS256","kid":"hs"}`), ErrSignature},
		"says EdDSA, is HS256 by the secret": {by([]byte(secret), `{"alg":"EdDSA","kid":"hs"}`), ErrSignature},
		"HS512 by the secret":                {hs512(`{"alg":"HS512","kid":"hs"}`), ErrSignature},
		"ES256 names the EdDSA key":          {by(ed, `{"alg":"ES256","kid":"ed"}`), ErrSignature},
		"another EdDSA key":                  {by(other, `{"alg":"EdDSA","kid":"ed"}`), ErrSignature},
		"key in the header":                  {by(other, `{"alg":"EdDSA","kid":"ed","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+encoding.EncodeToString(other.Public().(ed25519.PublicKey))+`"}}`), ErrSignature},
		"unknown kid":                        {by(ed, `{"alg":"EdDSA","kid":"../ed"}`), ErrSignature},
		"no kid, several keys":               {by(ed, `{"alg":"EdDSA"}`), ErrSignature},
		"kid is a number":                    {by(ed, `{"alg":"EdDSA","kid":1}`), ErrMalformed},
		"kid twice":                          {by(ed, `{"alg":"EdDSA","kid":"hs","kid":"ed"}`), ErrMalformed},
		"alg twice":                          {by(ed, `{"alg":"none","alg":"EdDSA","kid":"ed"}`), ErrMalformed},
		"alg in another case":                {by(ed, `{"ALG":"EdDSA","kid":"ed"}`), ErrSignature},
		"crit":                               {by(ed, `{"alg":"EdDSA","kid":"ed","crit":["b64"],"b64":false}`), ErrMalformed},
		"token for something else":           {by(ed, `{"alg":"EdDSA","kid":"ed","typ":"secevent+jwt"}`), ErrMalformed},
		"typ is a number":                    {by(ed, `{"alg":"EdDSA","kid":"ed","typ":1}`), ErrMalformed},
		"b64 without crit":                   {by(ed, `{"alg":"EdDSA","kid":"ed","b64":false}`), ErrMalformed},
		"header is not UTF-8":                {by(ed, "{\"alg\":\"EdDSA\",\"kid\":\"ed\",\"a\":\"\xff\"}"), ErrMalformed},
		"header is null":                     {by(ed, `null`), ErrMalformed},
		"header is a list":                   {by(ed, `[]`), ErrMalformed},
		"header and more":                    {by(ed, `{"alg":"EdDSA","kid":"ed"}{}`), ErrMalformed},
		"claims of another token":            {parts[0] + "." + encoding.EncodeToString([]byte(`{"exp":1890000060}`)) + "." + parts[2], ErrSignature},
		"header of another token":            {encoding.EncodeToString([]byte(`{"kid":"ed","alg":"EdDSA"}`)) + "." + parts[1] + "." + parts[2], ErrSignature},
		"a fourth part":                      {good + ".", ErrMalformed},
		"five parts, as if encrypted":        {parts[0] + "..." + parts[1] + "." + parts[2], ErrMalformed},
		"two parts":                          {parts[0] + "." + parts[1], ErrMalformed},
		"empty":                              {"", ErrMalformed},
		"dots":                               {"..", ErrMalformed},
		"padded":                             {good + "==", ErrMalformed},
		"a line break inside":                {good[:9] + "\n" + good[9:], ErrMalformed},
		"a line break at the end":            {good + "\r\n", ErrMalformed},
		"standard alphabet":                  {parts[0] + "." + parts[1] + ".+/" + parts[2][2:], ErrMalformed},
		"spare bits of the signature":        {good[:len(good)-1] + next(good[len(good)-1]), ErrMalformed},
		"ES256, zeros":                       {ecGood[0] + "." + ecGood[1] + "." + encoding.EncodeToString(make([]byte, 64)), ErrSignature},
		"ES256, short":                       {ecGood[0] + "." + ecGood[1] + "." + ecGood[2][:80], ErrSignature},
	} {
		got, err := k.Verify(c.token, now)
		if !errors.Is(err, c.want) || !errcode.Is(err, errcode.Denied) || got.Raw != nil {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
	if n := k.cache.Len(); n != 1 {
		t.Errorf("%d tokens are cached, want only the valid one", n)
	}
}

func TestHostileClaims(t *testing.T) {
	t.Parallel()
	k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}})
	deep := func(n int) string {
		return `{"exp":1790000060,"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	for name, payload := range map[string]string{
		"too long":                   `{"exp":1790000060,"a":"` + strings.Repeat("a", maxToken) + `"}`,
		"no expiry":                  `{}`,
		"expiry is null":             `{"exp":null}`,
		"expiry is text":             `{"exp":"1790000060"}`,
		"expiry in another case":     `{"EXP":1790000060}`,
		"expiry too large":           `{"exp":1e300}`,
		"expiry negative":            `{"exp":-1}`,
		"expiry twice":               `{"exp":1,"exp":1790000060}`,
		"a name twice, nested":       `{"exp":1790000060,"ns":[{"a":{"log":"r","log":"rw"}}]}`,
		"a name twice, once escaped": `{"exp":1790000060,"ns":{"log":"r","l\u006fg":"rw"}}`,
		"nested too deep":            deep(canonjson.MaxDepth),
		"not UTF-8":                  "{\"exp\":1790000060,\"a\":\"\xff\"}",
		"claims are null":            `null`,
		"claims are a list":          `[{"exp":1790000060}]`,
		"claims are empty":           ``,
		"claims are truncated":       `{"exp":1790000060`,
	} {
		got, err := k.Verify(signed(t, `{"alg":"HS256"}`, payload), now)
		if !errors.Is(err, ErrMalformed) || !errcode.Is(err, errcode.Denied) || got.Raw != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := k.Verify(signed(t, `{"alg":"HS256"}`, deep(canonjson.MaxDepth-1)), now); err != nil {
		t.Errorf("not nested too deep: %v", err)
	}
}

// next changes the last bit of a base64 letter.
func next(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, c)^1])
}

func TestParseHeader(t *testing.T) {
	t.Parallel()
	k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}})
	token, err := k.Sign(struct{}{}, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const scheme = "Bearer "
	for header, want := range map[string]error{
		scheme + token:               nil,
		"BEARER   " + token + " ":    nil,
		"":                           ErrMissing,
		"Bearer":                     ErrMissing,
		scheme:                       ErrMissing,
		token:                        ErrMissing,
		"Basic " + token:             ErrMissing,
		"Bearer\t" + token:           ErrMissing,
		scheme + token + ",x":        ErrMalformed,
		scheme + token + " " + "x":   ErrMalformed,
		scheme + `"` + token + "\"":  ErrMalformed,
		scheme + scheme + token:      ErrMalformed,
		scheme + token + "\x00":      ErrMalformed,
		scheme + token + ", Basic x": ErrMalformed,
	} {
		if _, err := k.Parse(header, now); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}})
	token, err := k.Sign(struct{}{}, now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := k.Verify(token, now.Add(-time.Second)); !errors.Is(err, ErrNotYet) {
			t.Errorf("too early: %v", err)
		}
		if _, err := k.Verify(token, now); err != nil {
			t.Error(err)
		}
		if _, err := k.Verify(token, now.Add(time.Minute)); !errors.Is(err, ErrExpired) {
			t.Errorf("too late: %v", err)
		}
	}
	other := keyring(t, Options{Keys: []Key{{"", HS256, secret + "other"}}})
	for range 2 {
		if _, err := other.Verify(token, now); !errors.Is(err, ErrSignature) {
			t.Errorf("under another secret: %v", err)
		}
	}
	for i := range maxVerified + 10 {
		token, err := k.Sign(map[string]int{"i": i}, now, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Verify(token, now); err != nil {
			t.Fatal(err)
		}
	}
	if n := k.cache.Len(); n != maxVerified {
		t.Errorf("%d tokens are cached, want %d", n, maxVerified)
	}
}

// TestRotation rotates a key as documented on Options. The two servers are one step apart.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, _ := pair(t, newEd(t))
	after, _ := pair(t, newEC(t, elliptic.P256()))
	a, b := Key{"2026", EdDSA, before}, Key{"2027", ES256, after}
	steps := [][]Key{{a}, {a, b}, {b, a}, {b}}
	for i := range steps[1:] {
		old, young := keyring(t, Options{Keys: steps[i]}), keyring(t, Options{Keys: steps[i+1]})
		for _, by := range []*Keyring{old, young} {
			token, err := by.Sign(struct{}{}, now, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []*Keyring{old, young} {
				if _, err := at.Verify(token, now); err != nil {
					t.Errorf("step %d: %v", i, err)
				}
			}
		}
	}
}

func TestNewKeyringRefuses(t *testing.T) {
	t.Parallel()
	edPrivate, edPublic := pair(t, newEd(t))
	p384, _ := pair(t, newEC(t, elliptic.P384()))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPrivate, _ := pair(t, rsaKey)
	hs := Key{"a", HS256, secret}
	for name, keys := range map[string][]Key{
		"no keys":               nil,
		"no algorithm":          {{"a", "", secret}},
		"none":                  {{"a", "none", secret}},
		"RS256":                 {{"a", "RS256", rsaPrivate}},
		"short secret":          {{"a", HS256, secret[1:]}},
		"PEM as a secret":       {{"a", HS256, edPublic}},
		"cut PEM as a secret":   {{"a", HS256, edPublic[:60]}},
		"secret as PEM":         {{"a", EdDSA, secret}},
		"another kind":          {{"a", ES256, edPrivate}},
		"another curve":         {{"a", ES256, p384}},
		"RSA as EdDSA":          {{"a", EdDSA, rsaPrivate}},
		"broken PEM":            {{"a", EdDSA, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"}},
		"one id twice":          {hs, {"a", EdDSA, edPublic}},
		"one of two without id": {hs, {"", EdDSA, edPublic}},
		"two without id":        {{"", HS256, secret}, {"", EdDSA, edPublic}},
	} {
		k, err := NewKeyring(Options{Keys: keys})
		if !errcode.Is(err, errcode.Invalid) || k != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "AAAA") || strings.Contains(err.Error(), secret[1:])) {
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}, Issuer: "us"})
	for name, claims := range map[string]any{
		"exp":          map[string]int{"exp": 1},
		"iat":          map[string]int{"iat": 1},
		"iss":          map[string]string{"iss": "us"},
		"wrong aud":    map[string]int{"aud": 1},
		"a list":       []int{1},
		"nothing":      nil,
		"no JSON":      func() {},
		"a name twice": json.RawMessage(`{"a":1,"a":2}`),
		"too long":     map[string]string{"a": strings.Repeat("a", maxToken)},
	} {
		if token, err := k.Sign(claims, now, time.Minute); !errcode.Is(err, errcode.Invalid) || token != "" {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
	if _, err := k.Sign(struct{}{}, now, time.Second-1); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("less than a second: %v", err)
	}
	if _, err := k.Sign(map[string]string{"aud": "x"}, now, time.Second); err != nil {
		t.Errorf("aud set by the caller: %v", err)
	}
}

func TestKeyringPrintsNoSecret(t *testing.T) {
	t.Parallel()
	k := keyring(t, Options{Keys: []Key{{"a", HS256, secret}}})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != "bearer.Keyring(1 keys)" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestMaxLifetime(t *testing.T) {
	t.Parallel()
	const leeway, most = 5 * time.Second, time.Hour
	k := keyring(t, Options{Keys: []Key{{"", HS256, secret}}, Leeway: leeway, MaxLifetime: most})
	at := now.Unix()
	for _, c := range []struct {
		name, claims string
		want         error
	}{
		{"maximum", fmt.Sprintf(`{"iat":%d,"exp":%d}`, at, at+3600), nil},
		{"a second more", fmt.Sprintf(`{"iat":%d,"exp":%d}`, at, at+3601), ErrTooLong},
		{"a second more, mostly elapsed", fmt.Sprintf(`{"iat":%d,"exp":%d}`, at-3600, at+1), ErrTooLong},
		{"made in the future", fmt.Sprintf(`{"iat":%d,"exp":%d}`, at+6, at+3600), ErrNotYet},
		{"by nbf", fmt.Sprintf(`{"nbf":%d,"exp":%d}`, at-1, at+3600), ErrTooLong},
		{"iat counts before nbf", fmt.Sprintf(`{"iat":%d,"nbf":%d,"exp":%d}`, at-60, at, at+3600), ErrTooLong},
		{"without a start", fmt.Sprintf(`{"exp":%d}`, at+3600), nil},
		{"without a start, too long", fmt.Sprintf(`{"exp":%d}`, at+3601), ErrTooLong},
		{"for centuries", `{"iat":0,"exp":9007199254740992}`, ErrTooLong},
		{"too long, and expired", fmt.Sprintf(`{"iat":%d,"exp":%d}`, at-7200, at-5), ErrExpired},
	} {
		for _, when := range []string{"first", "remembered"} {
			if _, err := k.Verify(signed(t, `{"alg":"HS256"}`, c.claims), now); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %v", c.name, when, err, c.want)
			}
		}
	}
	if _, err := k.Sign(map[string]any{}, now, most+time.Second); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("signed for too long: %v", err)
	}
	token, err := k.Sign(map[string]any{}, now, most)
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Verify(token, now)
	if err != nil || !c.Ends.Equal(now.Add(most+leeway)) {
		t.Fatalf("it ends %v, %v", c.Ends, err)
	}
	if _, err := k.Verify(token, c.Ends.Add(-time.Nanosecond)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	if _, err := k.Verify(token, c.Ends); !errors.Is(err, ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	k := keyring(f, Options{Keys: []Key{{"", HS256, secret}}})
	good, err := k.Sign(map[string]any{"ns": map[string]string{"log": "r"}}, now, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer "+good, `{"alg":"HS256"}`, `{"exp":1790000060,"aud":["a"],"nbf":1e9}`)
	f.Add("bearer a.b.c", `{"alg":"HS256","typ":"at+JWT","kid":""}`, `{"a":[{"b":null}],"exp":1790000060.5}`)
	f.Add("Bearer "+strings.TrimRight(good, "A"), `{"alg":"none"}`, `{"exp":1790000060,"\u0000":"\ud800"}`)
	f.Fuzz(func(t *testing.T, header, head, payload string) {
		if c, err := k.Parse(header, now); err == nil && !strings.Contains(header, good) {
			t.Fatalf("an unsigned token is accepted: %q %+v", header, c)
		} else if err != nil && !errcode.Is(err, errcode.Denied) {
			t.Fatalf("%q: %v", header, err)
		}
		c, err := k.Verify(signed(t, head, payload), now)
		switch {
		case err == nil:
			accepted(t, k, c, payload)
		case !errcode.Is(err, errcode.Denied) || c.Raw != nil:
			t.Fatalf("%s %s: %v", head, payload, err)
		}
	})
}

func accepted(t *testing.T, k *Keyring, c Claims, payload string) {
	t.Helper()
	// A lenient parser must read the same claims.
	var all map[string]any
	if err := json.Unmarshal(c.Raw, &all); err != nil || string(c.Raw) != payload {
		t.Fatalf("%s: %v", payload, err)
	}
	if exp, ok := all["exp"].(float64); !ok || exp < float64(now.Unix()) || int64(exp) != c.Expires.Unix() {
		t.Fatalf("%s: expires %v", payload, c.Expires)
	}
	if iss, _ := all["iss"].(string); iss != c.Issuer {
		t.Fatalf("%s: issuer %q", payload, c.Issuer)
	}
	// Sign adds these claims.
	for _, name := range []string{"exp", "iat"} {
		delete(all, name)
	}
	again, err := k.Sign(all, now, time.Hour)
	if err != nil {
		return // re-encoded numbers and strings may be longer
	}
	d, err := k.Verify(again, now)
	if err == nil && (d.Subject != c.Subject || d.ID != c.ID || !slices.Equal(d.Audience, c.Audience)) {
		t.Fatalf("%+v became %+v", c, d)
	}
	if err != nil && !errors.Is(err, ErrNotYet) {
		t.Fatalf("%s: signed, then rejected: %v", payload, err)
	}
}

func BenchmarkVerify(b *testing.B) {
	ed, _ := pair(b, newEd(b))
	ec, _ := pair(b, newEC(b, elliptic.P256()))
	keys := map[string]string{EdDSA: ed, ES256: ec, HS256: secret}
	for _, alg := range slices.Sorted(maps.Keys(keys)) {
		k := keyring(b, Options{Keys: []Key{{"k1", alg, keys[alg]}}, Issuer: "holdfast", Audience: "ext", Leeway: 5 * time.Second})
		token, err := k.Sign(map[string]any{
			"tenant_id": "0190b7a2-5d3c-7c11-9e53-0242ac120002", "install_id": "0190b7a2-5d3c-7c11-9e53-0242ac120003",
			"ns": map[string]string{"settings": "rw", "log": "r"},
		}, now, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(alg+"/first", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := k.verify(token); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(alg+"/remembered", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := k.Parse("Bearer "+token, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
