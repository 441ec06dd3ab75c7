//test:unraced the race detector makes it ten times as slow

package handoff_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/handoff"
)

var minted = time.UnixMilli(1_790_000_000_123).UTC()

func digest(s string) []byte {
	d := sha256.Sum256([]byte(s))
	return d[:]
}

func claims() handoff.Claims {
	return handoff.Claims{
		ID: "bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7C", Session: "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B",
		Tenant: "11111111-2222-4333-8444-555555555555", Property: "99999999-2222-4333-8444-555555555555",
		CheckIn: "2026-12-30", CheckOut: "2027-01-02", Adults: 2, Children: 1, Rooms: 1, Currency: "EUR", Locale: "de-AT",
		Fingerprint: digest("fingerprint"), IP: digest("ip"), Minted: minted, Expires: minted.Add(10 * time.Minute),
	}
}

func ring(t testing.TB, keys ...handoff.Key) *handoff.Ring {
	t.Helper()
	r, err := handoff.NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func key(id string, state handoff.State) handoff.Key {
	return handoff.Key{ID: id, Secret: digest(id), State: state}
}

// vector is the token of claims() with key("k1"). It must never change: it tests receivers in other languages.
const vector = "bh1.k1.HmJoZF8wMUo4WlE0WTdONU0zSzJIMUcwRjlFOEQ3Qx5nbXNfMDFKOFpRNFk3TjVNM0sySDFHMEY5RThEN0IkMTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1JDk5OTk5OTk5LTIyMjItNDMzMy04NDQ0LTU1NTU1NTU1NTU1NQoyMDI2LTEyLTMwCjIwMjctMDEtMDIBMgExATEDRVVSBWRlLUFUACBEhjsD6ZCbcQDgWwJSaQmjRv10VRg_Zhng_mGYyJmB4CC7mvXRkV2h-8EyztCBMl780uY-SAT5aJD0Lpc5Z3I3pA0xNzkwMDAwMDAwMTIzDTE3OTAwMDA2MDAxMjM.3E9amq_Z6zG7tXOYlJ4o8io1W_2-HXP6IvuVvFIWWxA"

func TestVector(t *testing.T) {
	t.Parallel()
	r := ring(t, key("k1", handoff.Active))
	token, id, err := r.Sign(claims())
	if err != nil || id != "k1" || token != vector {
		t.Fatalf("%s\n%s %v", token, id, err)
	}
	got, id, err := r.Verify(token, minted)
	if err != nil || id != "k1" || !reflect.DeepEqual(got, claims()) {
		t.Errorf("%+v %s %v", got, id, err)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	r := ring(t, key("k1", handoff.Active))
	token, _, err := r.Sign(claims())
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]error{
		-31 * time.Second: handoff.ErrNotYetValid, -30 * time.Second: nil, 0: nil,
		10*time.Minute - time.Millisecond: nil, 10 * time.Minute: handoff.ErrExpired,
	} {
		if c, _, err := r.Verify(token, minted.Add(after)); !errors.Is(err, want) || err == nil && want != nil || c.ID != claims().ID {
			t.Errorf("after %v: %v, want %v", after, err, want)
		}
	}
}

func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	r := ring(t, key("k1", handoff.Active))
	token, _, err := r.Sign(claims())
	if err != nil {
		t.Fatal(err)
	}
	for i := range token {
		for b := range 256 {
			if byte(b) == token[i] {
				continue
			}
			changed := token[:i] + string([]byte{byte(b)}) + token[i+1:]
			if _, _, err := r.Verify(changed, minted); err == nil {
				t.Fatalf("byte %d as %#x is accepted", i, b)
			}
		}
	}
	for _, changed := range []string{
		"", ".", "...", token + ".", token + "=", token + "\n", " " + token, strings.Replace(token, ".k1.", ".k1.\n", 1), token[:len(token)-1],
		strings.ToUpper(token), strings.Repeat("a", 2000), "bh1.k1..", "bh1.k1.AA.AA",
	} {
		if _, _, err := r.Verify(changed, minted); err == nil {
			t.Errorf("%q is accepted", changed)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	old := ring(t, key("k1", handoff.Active), key("k2", handoff.VerifyOnly))
	now := ring(t, key("k2", handoff.Active), key("k1", handoff.VerifyOnly))
	first, _, err1 := old.Sign(claims())
	second, _, err2 := now.Sign(claims())
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for name, c := range map[string]struct {
		ring  *handoff.Ring
		token string
		want  error
	}{
		"old token, both keys":   {now, first, nil},
		"new token, both keys":   {old, second, nil},
		"old key removed":        {ring(t, key("k2", handoff.Active)), first, handoff.ErrUnknownKey},
		"other secret":           {ring(t, handoff.Key{ID: "k1", Secret: digest("other"), State: handoff.Active}), first, handoff.ErrSignature},
		"key ended before":       {ring(t, handoff.Key{ID: "k1", Secret: digest("k1"), State: handoff.VerifyOnly, NotAfter: minted.Add(-1)}), first, handoff.ErrUnknownKey},
		"key begins later":       {ring(t, handoff.Key{ID: "k1", Secret: digest("k1"), State: handoff.VerifyOnly, NotBefore: minted.Add(1)}), first, handoff.ErrUnknownKey},
		"key is valid just then": {ring(t, handoff.Key{ID: "k1", Secret: digest("k1"), State: handoff.VerifyOnly, NotBefore: minted, NotAfter: minted}), first, nil},
	} {
		if _, _, err := c.ring.Verify(c.token, minted); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, _, err := ring(t, key("k1", handoff.VerifyOnly)).Sign(claims()); !errors.Is(err, handoff.ErrNoActiveKey) {
		t.Errorf("without an active key: %v", err)
	}
}

func TestRings(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string][]handoff.Key{
		"the ID must be":   {key("a.b", handoff.Active)},
		"is used twice":    {key("a", handoff.Active), key("a", handoff.VerifyOnly)},
		"has 31 bytes":     {{ID: "a", Secret: make([]byte, 31), State: handoff.Active}},
		"unknown state":    {{ID: "a", Secret: make([]byte, 32), State: "retired"}},
		"only one may be":  {key("a", handoff.Active), key("b", handoff.Active)},
		"the ID must be 1": {key("", handoff.Active)},
	} {
		if _, err := handoff.NewRing(keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*handoff.Claims){
		"ID:":          func(c *handoff.Claims) { c.ID = "" },
		"session:":     func(c *handoff.Claims) { c.Session = "a b" },
		"tenant:":      func(c *handoff.Claims) { c.Tenant = strings.Repeat("a", 65) },
		"property:":    func(c *handoff.Claims) { c.Property = "ä" },
		"currency:":    func(c *handoff.Claims) { c.Currency = "" },
		"locale:":      func(c *handoff.Claims) { c.Locale = "\x00" },
		"check-in:":    func(c *handoff.Claims) { c.CheckIn = "2026-2-30" },
		"check-out:":   func(c *handoff.Claims) { c.CheckOut = c.CheckIn },
		"check-out: e": func(c *handoff.Claims) { c.CheckOut = "2027-02-30" },
		"adults:":      func(c *handoff.Claims) { c.Adults = 0 },
		"children:":    func(c *handoff.Claims) { c.Children = -1 },
		"rooms:":       func(c *handoff.Claims) { c.Rooms = 100 },
		"campaign:":    func(c *handoff.Claims) { c.Campaign = []byte{1} },
		"fingerprint:": func(c *handoff.Claims) { c.Fingerprint = nil },
		"IP:":          func(c *handoff.Claims) { c.IP = nil },
		"minted:":      func(c *handoff.Claims) { c.Minted = time.Time{} },
		"expires:":     func(c *handoff.Claims) { c.Expires = c.Minted },
		"expires: exp": func(c *handoff.Claims) { c.Expires = c.Minted.Add(handoff.MaxLife + 1) },
	} {
		c := claims()
		change(&c)
		if _, _, err := ring(t, key("k1", handoff.Active)).Sign(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRoundTrip also checks that different claims result in different tokens.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := ring(t, key("k1", handoff.Active))
	text := rapid.StringMatching(`[!-~]{1,40}`)
	rapid.Check(t, func(rt *rapid.T) {
		in := time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "in"), 0).UTC()
		c := handoff.Claims{
			ID: text.Draw(rt, "id"), Session: text.Draw(rt, "session"), Tenant: text.Draw(rt, "tenant"), Property: text.Draw(rt, "property"),
			CheckIn: in.Format(time.DateOnly), CheckOut: in.AddDate(0, 0, rapid.IntRange(1, 400).Draw(rt, "nights")).Format(time.DateOnly),
			Adults: rapid.IntRange(1, 99).Draw(rt, "adults"), Children: rapid.IntRange(0, 99).Draw(rt, "children"), Rooms: rapid.IntRange(1, 99).Draw(rt, "rooms"),
			Currency: text.Draw(rt, "currency"), Locale: text.Draw(rt, "locale"),
			Fingerprint: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "fingerprint"), IP: rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "ip"),
			Minted: minted, Expires: minted.Add(time.Duration(rapid.IntRange(1, 1_800_000).Draw(rt, "life")) * time.Millisecond),
		}
		if rapid.Bool().Draw(rt, "campaign") {
			c.Campaign = rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "digest")
		}
		token, _, err := r.Sign(c)
		if err != nil {
			rt.Fatal(err)
		}
		if got, _, err := r.Verify(token, minted); err != nil || !reflect.DeepEqual(got, c) {
			rt.Fatalf("%+v %v, want %+v", got, err, c)
		}
		other := c
		other.ID, other.Session = c.ID+c.Session[:1], c.Session[1:]+"x" // moves a byte from one field to the next
		if second, _, err := r.Sign(other); err == nil && second == token {
			rt.Fatal("two claims have one token")
		}
	})
}

func FuzzVerify(f *testing.F) {
	r := ring(f, key("k1", handoff.Active))
	token, _, err := r.Sign(claims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(token))
	f.Add([]byte("bh1.k1.AA.AA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := r.Verify(string(text), minted)
		if err == nil && !bytes.Equal(text, []byte(token)) {
			again, _, err := r.Sign(c)
			t.Fatalf("accepted: %q; signed: %q %v", text, again, err)
		}
	})
}
