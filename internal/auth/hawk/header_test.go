package hawk

import (
	"errors"
	"strings"
	"testing"
)

const (
	someMAC  = "6R4rV5iE+NPoym+WwjeHzjAGXUtLNIxmo1vpMofpLAE="
	someHash = "Yi9LfIIFRtBEPt74PVmbTF/xVAwPn7ub15ePICfgnuY="
)

func TestParseHeader(t *testing.T) {
	t.Parallel()
	full := Header{ID: "dh37fgj492je", TS: 1353832234, Nonce: "j4h3g2", Hash: someHash, Ext: "some-app, data", MAC: someMAC}
	short := Header{ID: "a", TS: 0, Nonce: "n", MAC: someMAC}
	for _, c := range []struct {
		name, value string
		want        Header
	}{
		{"as we write it", full.String(), full},
		{"any order, no blanks", `Hawk mac="` + someMAC + `",nonce="n",ts="0",id="a"`, short},
		{"blanks around commas", "Hawk  id=\"a\" ,\tts=\"0\"\t, nonce=\"n\",  mac=\"" + someMAC + "\"  ", short},
		{"scheme in another case", `hawk id="a", ts="0", nonce="n", mac="` + someMAC + `"`, short},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseHeader(c.value)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	t.Parallel()
	const rest = `, ts="1", nonce="n", mac="` + someMAC + `"`
	const head = `Hawk id="a", nonce="n", mac="` + someMAC + `"`
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, value := range map[string]string{
		"empty":                  "",
		"scheme alone":           "Hawk",
		"nothing after scheme":   "Hawk ",
		"another scheme":         "Bearer abc",
		"no blank after scheme":  `Hawk,id="a"` + rest,
		"no id":                  `Hawk ts="1", nonce="n", mac="` + someMAC + `"`,
		"no ts":                  head,
		"no nonce":               `Hawk id="a", ts="1", mac="` + someMAC + `"`,
		"no mac":                 `Hawk id="a", ts="1", nonce="n"`,
		"id twice":               `Hawk id="a", id="a"` + rest,
		"ext twice":              `Hawk id="a", ext="e", ext="e"` + rest,
		"unknown field":          `Hawk id="a", app="x"` + rest,
		"field in upper case":    `Hawk ID="a"` + rest,
		"empty id":               `Hawk id=""` + rest,
		"empty hash":             `Hawk id="a", hash=""` + rest,
		"empty ext":              `Hawk id="a", ext=""` + rest,
		"long id":                `Hawk id="` + long(maxID+1) + `"` + rest,
		"long ext":               `Hawk id="a", ext="` + long(maxExt+1) + `"` + rest,
		"long nonce":             `Hawk id="a", ts="1", nonce="` + long(maxNonce+1) + `", mac="` + someMAC + `"`,
		"long header":            `Hawk id="a"` + strings.Repeat(" ", maxHeader) + rest,
		"no quotes":              `Hawk id=a` + rest,
		"single quotes":          `Hawk id='a'` + rest,
		"open quote":             head + `, ts="1`,
		"text after the quote":   `Hawk id="a"b` + rest,
		"no comma":               `Hawk id="a" ts="1" nonce="n" mac="` + someMAC + `"`,
		"comma at the end":       `Hawk id="a"` + rest + ",",
		"two commas":             `Hawk id="a",` + rest,
		"comma first":            `Hawk ,id="a"` + rest,
		"newline in a value":     "Hawk id=\"a\nb\"" + rest,
		"NUL in a value":         "Hawk id=\"a\x00\"" + rest,
		"DEL in a value":         "Hawk id=\"a\x7f\"" + rest,
		"not ASCII":              `Hawk id="ä"` + rest,
		"backslash":              `Hawk id="a\"` + rest,
		"blank before =":         `Hawk id ="a"` + rest,
		"ts in words":            head + `, ts="now"`,
		"ts negative":            head + `, ts="-1"`,
		"ts with a sign":         head + `, ts="+1"`,
		"ts with a fraction":     head + `, ts="1.5"`,
		"ts with leading zero":   head + `, ts="01"`,
		"ts with too many digit": head + `, ts="1234567890123"`,
		"mac too short":          `Hawk id="a", ts="1", nonce="n", mac="AAAA"`,
		"mac not base64":         `Hawk id="a", ts="1", nonce="n", mac="` + strings.Repeat("!", 44) + `"`,
		"mac base64url":          `Hawk id="a", ts="1", nonce="n", mac="` + strings.Replace(someMAC, "+", "-", 1) + `"`,
		"mac of 33 bytes":        `Hawk id="a", ts="1", nonce="n", mac="` + strings.Repeat("A", 44) + `"`,
		"mac with spare bits":    `Hawk id="a", ts="1", nonce="n", mac="` + strings.Repeat("A", 42) + `B="`,
		"hash too short":         `Hawk id="a", hash="AAAA"` + rest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h, err := ParseHeader(value); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %+v, %v; want ErrMalformed", h, err)
			}
		})
	}
}

// TestParseHeaderQuotesNothing checks that errors, which are logged, contain no value: it may be a password in the wrong
// field.
func TestParseHeaderQuotesNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`Hawk id="hunter2" x`, `Hawk hunter2="a"`, `Basic hunter2`, `Hawk ts="hunter2"`, `Hawk hunter2`} {
		if _, err := ParseHeader(value); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", value, err)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(Header{ID: "a", TS: 1, Nonce: "n", MAC: someMAC}.String())
	f.Add(Header{ID: "a", TS: 1, Nonce: "n", Hash: someHash, Ext: "e", MAC: someMAC}.String())
	f.Add(`Hawk id="a",id="b", ts="01"`)
	f.Add(`Hawk mac="=" ,,`)
	f.Fuzz(func(t *testing.T, value string) {
		h, err := ParseHeader(value)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || h != (Header{}) {
				t.Fatalf("refused with %+v, %v", h, err)
			}
			return
		}
		again, err := ParseHeader(h.String())
		if err != nil || again != h {
			t.Fatalf("%q\nread   %+v\nreread %+v, %v", value, h, again, err)
		}
		if strings.ContainsFunc(h.ID+h.Nonce+h.Hash+h.Ext+h.MAC, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Fatalf("a value could forge a line of the MAC text: %+v", h)
		}
	})
}
