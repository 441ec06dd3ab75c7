package tokenserver

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestParseKeyID(t *testing.T) {
	t.Parallel()
	good := func(at int64, state string) *KeyID { return &KeyID{At(at), state} }
	for _, c := range []struct {
		in     string
		want   *KeyID
		reason Reason // if want is nil
	}{
		{"1234-qqo", good(1234, "aaaa"), 0},
		{"0000000001234-u7s", good(1234, "bbbb"), 0},
		{"1234--_-_", good(1234, "fbffbf"), 0},
		{"1234-", good(1234, ""), 0},
		{"0-qqo", good(0, "aaaa"), 0},
		{"+5-qqo", good(5, "aaaa"), 0},
		{"1234-AAAAAAAAAAAAAAAAAAAAAA", good(1234, strings.Repeat("00", 16)), 0},
		{"9223372036854775807-qqo", good(9223372036854775807, "aaaa"), 0},
		{"", nil, BadCredentials},
		{"1234", nil, BadCredentials},
		{"-qqo", nil, BadCredentials},
		{"-5-qqo", nil, BadCredentials},
		{"abc-qqo", nil, BadCredentials},
		{"1.5-qqo", nil, BadCredentials},
		{"1_0-qqo", nil, BadCredentials},
		{" 1234-qqo", nil, BadCredentials},
		{"9223372036854775808-qqo", nil, BadCredentials},
		{"1234-qqo=", nil, BadCredentials},
		{"1234-q", nil, BadCredentials},
		{"1234-qqp", nil, BadCredentials}, // unused bits are set
		{"1234-q+o", nil, BadCredentials},
		{"1234-!!", nil, BadCredentials},
		{"1234-AAAAAAAAAAAAAAAAAAAAAAA", nil, BadCredentials},
		{"1234-q\u00e4o", nil, BadKeyID},
		{"\xff", nil, BadKeyID},
	} {
		got, err := ParseKeyID(c.in)
		var refusal *Refusal
		switch {
		case c.want != nil && (err != nil || got != *c.want):
			t.Errorf("%q: %+v, %v; want %+v", c.in, got, err, *c.want)
		case c.want == nil && (!errors.As(err, &refusal) || refusal.Reason != c.reason):
			t.Errorf("%q: %+v, %v; want %s", c.in, got, err, c.reason)
		}
	}
}

func TestKeyIDString(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]KeyID{
		"0000000002345-u7s":             {At(2345), "bbbb"},
		"0000000000000-":                {},
		"9223372036854775807-u7s":       {At(9223372036854775807), "bbbb"},
		"0000000000001-bm90IGhleA":      {At(1), "not hex"},
		"1790000000123-AAAAAAAAAAAAAAA": {At(1790000000123), strings.Repeat("0", 22)},
	} {
		if got := k.String(); got != want {
			t.Errorf("%+v: %q, want %q", k, got, want)
		}
	}
}

func TestValidClientState(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"aaaa": true, "A-Z._09": true, strings.Repeat("a", 32): true,
		"": false, strings.Repeat("a", 33): false, "a b": false, "a\n": false, "ä": false, "a/b": false, "a+b": false,
	} {
		if got := ValidClientState(in); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func FuzzParseKeyID(f *testing.F) {
	for _, seed := range []string{"1234-qqo", "0000000001234-", "-", "+1--_", "9223372036854775808-AA", "1-\r\nAA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKeyID(s)
		if err != nil {
			if _, ok := errors.AsType[*Refusal](err); !ok {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if _, err := hex.DecodeString(k.ClientState); err != nil || len(k.ClientState) > maxClientState || k.ClientState != "" && !ValidClientState(k.ClientState) {
			t.Errorf("%q: client state %q", s, k.ClientState)
		}
		if again, err := ParseKeyID(k.String()); err != nil || again != k {
			t.Errorf("%q reads as %+v and its text %q as %+v, %v", s, k, k.String(), again, err)
		}
	})
}
