package tokenlib

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/errcode"
)

const master = "0123456789abcdef-master"

var now = time.Unix(1790000000, 0)

// These tokens were made with Python's hmac, hashlib, base64 and json, from the algorithm's description.
const (
	rustToken = "eyJub2RlIjoiaHR0cDovL2xvY2FsaG9zdDo4MDAwIiwiZnhhX2tpZCI6IjAwMDAwMDAwMDIzNDUtdTdzIiwiZnhhX3VpZCI6Ijg2OTJmN2JiZDNlNjQwYThiMGM0YTZmNGM2ZDhjMWFiIiwiaGFzaGVkX2RldmljZV9pZCI6ImQxIiwiaGFzaGVkX2Z4YV91aWQiOiJoMSIsImV4cGlyZXMiOjE3OTAwMDM2MDAsInVpZCI6NDIsInRva2Vuc2VydmVyX29yaWdpbiI6InJ1c3QiLCJzYWx0IjoiYTFiMmMzIn1gjgDtDL15VTDz8iAMuFzn0b6Jdm9wI2TDD4tmakLi1w=="
	rustKey   = "UW746Fy_CuxNeMq9dxuD0H2HNNjT4J7yrKfRX0Qf1lA="
	// {"uid": 7, "salt": "0f0f0f", "expires": 1790003600.5, "node": "https://n.example", "extra": {"a": [1, 2]}, "service_entry": null}.
	pythonToken = "eyJ1aWQiOiA3LCAic2FsdCI6ICIwZjBmMGYiLCAiZXhwaXJlcyI6IDE3OTAwMDM2MDAuNSwgIm5vZGUiOiAiaHR0cHM6Ly9uLmV4YW1wbGUiLCAiZXh0cmEiOiB7ImEiOiBbMSwgMl19LCAic2VydmljZV9lbnRyeSI6IG51bGx9mR_TRA9GHgfupTWnw22l9Cva4LEFxvjSOC3tE9fNnto="
	pythonKey   = "Q01-4WsZXZqbeTfIhPZcPxy80uQUZra2cV1R7rXolAc="
)

var rustClaims = Claims{
	UID: 42, FxAUID: "8692f7bbd3e640a8b0c4a6f4c6d8c1ab", FxAKID: "0000000002345-u7s",
	Node: "http://localhost:8000", Expires: time.Unix(1790003600, 0),
	HashedFxAUID: "h1", HashedDeviceID: "d1", Salt: "a1b2c3", Origin: "rust",
}

func keyring(t testing.TB, masters ...string) *Keyring {
	t.Helper()
	k, err := NewKeyring(masters...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signed returns a token with arbitrary claims, signed with the first secret.
func signed(k *Keyring, payload string) string {
	return encoding.EncodeToString(append([]byte(payload), sign(k.secrets[0].signing, []byte(payload))...))
}

func TestVectors(t *testing.T) {
	t.Parallel()
	k := keyring(t, master)
	token, key, err := k.Mint(rustClaims)
	if token != rustToken || key != rustKey || err != nil {
		t.Errorf("minted\n%s\n%s, %v; want\n%s\n%s", token, key, err, rustToken, rustKey)
	}
	for _, c := range []struct {
		name, token, key string
		want             Claims
	}{
		{"Rust", rustToken, rustKey, rustClaims},
		{"Python", pythonToken, pythonKey, Claims{
			UID: 7, Node: "https://n.example", Expires: time.Unix(1790003601, 0), Salt: "0f0f0f", Origin: "python",
		}},
	} {
		got, key, err := k.Open(c.token, now)
		if err != nil || got != c.want || key != c.key {
			t.Errorf("%s: %+v, %s, %v; want %+v, %s", c.name, got, key, err, c.want, c.key)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	k := keyring(t, master)
	for _, c := range []struct {
		expires string
		now     time.Time
		want    error
	}{
		{"1790000001", now, nil},
		{"1790000001", now.Add(999 * time.Millisecond), nil},
		{"1790000000", now, ErrExpired},
		{"1789999999", now, ErrExpired},
		{"1790000000.49", now, ErrExpired}, // rounds down to now
		{"1790000000.5", now, nil},         // rounds up
		{"1.79000001e9", now, nil},
		{"9007199254740992", now, nil},
		{"1", now, ErrExpired},
	} {
		token := signed(k, `{"uid":7,"salt":"s","expires":`+c.expires+`}`)
		got, key, err := k.Open(token, c.now)
		if !errors.Is(err, c.want) {
			t.Errorf("expires %s at %s: %v, want %v", c.expires, c.now, err, c.want)
		}
		if got.UID != 7 || key == "" {
			t.Errorf("expires %s: claims and key must be returned too, got %+v, %q", c.expires, got, key)
		}
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	k := keyring(t, master)
	token := signed(k, `{"uid":7,"salt":"s","expires":1790000001}`)
	first, key, err := k.Open(token, now)
	if err != nil {
		t.Fatal(err)
	}
	again, sameKey, err := k.Open(token, now)
	if err != nil || again != first || sameKey != key {
		t.Errorf("the second time %+v, %s, %v", again, sameKey, err)
	}
	if late, lateKey, err := k.Open(token, now.Add(time.Hour)); !errors.Is(err, ErrExpired) || late != first || lateKey != key {
		t.Errorf("an hour later %+v, %s, %v", late, lateKey, err)
	}
	other := keyring(t, "another master")
	for range 2 {
		if _, _, err := other.Open(token, now); !errors.Is(err, ErrSignature) {
			t.Errorf("under another secret: %v", err)
		}
	}
	if n := other.cache.Len(); n != 0 {
		t.Errorf("%d bad tokens are cached", n)
	}
	for i := range maxOpened + 10 {
		if _, _, err := k.Open(signed(k, fmt.Sprintf(`{"uid":%d,"salt":"s","expires":1790000001}`, i+1)), now); err != nil {
			t.Fatal(err)
		}
	}
	if n := k.cache.Len(); n != maxOpened {
		t.Errorf("%d tokens are cached, want %d", n, maxOpened)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	k := keyring(t, master)
	raw, err := base64.URLEncoding.DecodeString(rustToken)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(i int) string {
		b := append([]byte(nil), raw...)
		b[i] ^= 1
		return encoding.EncodeToString(b)
	}
	for _, c := range []struct {
		name, token string
		want        error
	}{
		{"empty", "", ErrMalformed},
		{"too long", strings.Repeat("AAAA", maxToken), ErrMalformed},
		{"not base64", "!!!!", ErrMalformed},
		{"standard alphabet", strings.NewReplacer("-", "+", "_", "/").Replace(pythonToken), ErrMalformed},
		{"no padding", strings.TrimRight(rustToken, "="), ErrMalformed},
		{"a line break inside", rustToken[:8] + "\n" + rustToken[8:], ErrMalformed},
		{"spare bits set", strings.TrimSuffix(rustToken, "w==") + "x==", ErrMalformed},
		{"signature alone", encoding.EncodeToString(raw[len(raw)-32:]), ErrMalformed},
		{"claims changed", flipped(10), ErrSignature},
		{"signature changed", flipped(len(raw) - 1), ErrSignature},
		{"cut short", encoding.EncodeToString(raw[:len(raw)-1]), ErrSignature},
		{"another secret", signed(keyring(t, "other"), `{"uid":7,"salt":"s","expires":1790003600}`), ErrSignature},
		{"claims not JSON", signed(k, `hello`), ErrMalformed},
		{"claims a list", signed(k, `[]`), ErrMalformed},
		{"claims null", signed(k, `null`), ErrMalformed},
		{"text after the claims", signed(k, `{"uid":7,"salt":"s","expires":1790003600}x`), ErrMalformed},
		{"no uid", signed(k, `{"salt":"s","expires":1790003600}`), ErrMalformed},
		{"uid null", signed(k, `{"uid":null,"salt":"s","expires":1790003600}`), ErrMalformed},
		{"uid negative", signed(k, `{"uid":-7,"salt":"s","expires":1790003600}`), ErrMalformed},
		{"uid text", signed(k, `{"uid":"7","salt":"s","expires":1790003600}`), ErrMalformed},
		{"uid fraction", signed(k, `{"uid":7.5,"salt":"s","expires":1790003600}`), ErrMalformed},
		{"uid too large", signed(k, `{"uid":9223372036854775808,"salt":"s","expires":1790003600}`), ErrMalformed},
		{"no salt", signed(k, `{"uid":7,"expires":1790003600}`), ErrMalformed},
		{"no expiry", signed(k, `{"uid":7,"salt":"s"}`), ErrMalformed},
		{"expiry text", signed(k, `{"uid":7,"salt":"s","expires":"1790003600"}`), ErrMalformed},
		{"expiry huge", signed(k, `{"uid":7,"salt":"s","expires":1e300}`), ErrMalformed},
		{"expiry NaN, as Python writes it", signed(k, `{"uid":7,"salt":"s","expires":NaN}`), ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, key, err := k.Open(c.token, now)
			if !errors.Is(err, c.want) || !errcode.Is(err, errcode.Denied) || got != (Claims{}) || key != "" {
				t.Errorf("got %+v, %q, %v; want %v alone", got, key, err, c.want)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before, during, after := keyring(t, "old"), keyring(t, "new", "old"), keyring(t, "new")
	claims := Claims{UID: 7, Expires: now.Add(time.Hour)}
	oldToken, oldKey, err := before.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	newToken, newKey, err := during.Mint(claims)
	if err != nil {
		t.Fatal(err)
	}
	if _, key, err := during.Open(oldToken, now); err != nil || key != oldKey {
		t.Errorf("the old token during the change: %s, %v; want %s", key, err, oldKey)
	}
	if _, key, err := after.Open(newToken, now); err != nil || key != newKey {
		t.Errorf("the new token after the change: %s, %v; want %s", key, err, newKey)
	}
	if _, _, err := after.Open(oldToken, now); !errors.Is(err, ErrSignature) {
		t.Errorf("the old token after the change: %v", err)
	}
}

func TestMint(t *testing.T) {
	t.Parallel()
	k := keyring(t, master)
	good := Claims{UID: 1, Expires: now.Add(time.Hour)}
	one, _, err := k.Mint(good)
	if err != nil {
		t.Fatal(err)
	}
	if two, _, _ := k.Mint(good); two == one {
		t.Error("two tokens with the same claims have the same salt")
	}
	if c, _, err := k.Open(one, now); err != nil || len(c.Salt) != 2*saltBytes {
		t.Errorf("%+v, %v", c, err)
	}
	for name, bad := range map[string]Claims{
		"no uid":    {Expires: now},
		"no expiry": {UID: 1},
		"too long":  {UID: 1, Expires: now, Node: strings.Repeat("x", maxToken)},
	} {
		if token, key, err := k.Mint(bad); !errors.Is(err, ErrMalformed) || token != "" || key != "" {
			t.Errorf("%s: %q, %q, %v", name, token, key, err)
		}
	}
}

func TestKeyringRefusesEmptySecrets(t *testing.T) {
	t.Parallel()
	for _, masters := range [][]string{nil, {""}, {"a", ""}} {
		if _, err := NewKeyring(masters...); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %v", masters, err)
		}
	}
}

func TestKeyringPrintsNoSecret(t *testing.T) {
	t.Parallel()
	k := keyring(t, "hunter2")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != "tokenlib.Keyring(1 secrets)" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(rustToken, []byte(`{"uid":7,"salt":"s","expires":1790003600.5}`))
	f.Add(pythonToken, []byte(`{"expires":1e9,"salt":"\u00e4","uid":1,"node":"<&>","tokenserver_origin":""}`))
	f.Add("AA==", []byte(`[1]`))
	k := keyring(f, master)
	f.Fuzz(func(t *testing.T, token string, payload []byte) {
		if c, key, err := k.Open(token, now); err == nil && token != rustToken && token != pythonToken {
			t.Fatalf("an unsigned token is accepted: %q %+v %s", token, c, key)
		}
		c, _, err := k.Open(signed(k, string(payload)), time.Time{})
		if err != nil {
			if c != (Claims{}) || (!errors.Is(err, ErrMalformed)) {
				t.Fatalf("refused with %+v, %v", c, err)
			}
			return
		}
		again, key, err := k.Mint(c)
		if errors.Is(err, ErrMalformed) {
			return // only the compact form was short enough
		}
		reopened, rekey, err := k.Open(again, time.Time{})
		if c.Origin == "" {
			c.Origin = "python"
		}
		if err != nil || reopened != c || rekey != key {
			t.Fatalf("%s\nclaims   %+v\nreopened %+v, %v", payload, c, reopened, err)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	b.ReportAllocs()
	k := keyring(b, master)
	r := hawk.Request{Method: "PUT", Target: "/1.5/42/storage/bookmarks/abcdefghijkl", Host: "sync.example.org", Port: 443}
	value := hawk.Header{ID: rustToken, TS: now.Unix(), Nonce: "aGVsbG8="}.Sign(rustKey, r).String()
	for b.Loop() {
		h, err := hawk.ParseHeader(value)
		if err != nil {
			b.Fatal(err)
		}
		_, key, err := k.Open(h.ID, now)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Verify(key, r, now, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	k := keyring(b, master)
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.open(rustToken); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cached", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := k.Open(rustToken, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
