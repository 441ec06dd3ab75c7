package canonjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func rat(t testing.TB, n json.Number) *big.Rat {
	t.Helper()
	if mantissa, _, _ := strings.Cut(strings.ToLower(string(n)), "e"); strings.Trim(mantissa, "-0.") == "" {
		return new(big.Rat) // its exponent may be too large for a Rat
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		t.Fatalf("%s is not a number", n)
	}
	return r
}

func equal(t testing.TB, a, b any) bool {
	t.Helper()
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if _, ok := b[name]; !ok || !equal(t, a[name], b[name]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(x, y any) bool { return equal(t, x, y) })
	case json.Number:
		b, ok := b.(json.Number)
		return ok && rat(t, a).Cmp(rat(t, b)) == 0
	}
	return a == b
}

// refusable reports, independently of the parser, whether a documented reason rejects a text that encoding/json
// accepts.
func refusable(t testing.TB, text []byte) bool {
	t.Helper()
	if !utf8.Valid(text) || brokenEscapes(text) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return refusableHere(t, d, 0)
}

func refusableHere(t testing.TB, d *json.Decoder, depth int) bool {
	t.Helper()
	next := func() json.Token {
		token, err := d.Token()
		if err != nil {
			t.Fatalf("a valid text failed: %v", err)
		}
		return token
	}
	switch token := next().(type) {
	case json.Number:
		return bomb(token)
	case json.Delim:
		if depth == canonjson.MaxDepth {
			return true
		}
		names := map[string]bool{}
		for d.More() {
			if token == '{' {
				name := next().(string)
				if names[name] {
					return true
				}
				names[name] = true
			}
			if refusableHere(t, d, depth+1) {
				return true
			}
		}
		next()
	}
	return false
}

// brokenEscapes finds \u0000 and lone surrogates in valid JSON.
func brokenEscapes(text []byte) bool {
	for s := string(text); ; {
		_, after, ok := strings.Cut(s, `\`)
		if !ok {
			return false
		}
		s = after[1:]
		if after[0] != 'u' {
			continue
		}
		switch code := strings.ToLower(after[1:5]); {
		case code == "0000", code >= "dc00" && code <= "dfff":
			return true
		case code >= "d800" && code <= "dbff":
			rest, ok := strings.CutPrefix(after[5:], `\u`)
			if low := strings.ToLower(rest[:min(4, len(rest))]); !ok || low < "dc00" || low > "dfff" {
				return true
			}
			s = rest[4:]
		}
	}
}

func bomb(n json.Number) bool {
	s := strings.ToLower(strings.TrimPrefix(string(n), "-"))
	mantissa, exponent, _ := strings.Cut(s, "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return false
	}
	leading := len(whole+fraction) - len(digits)
	e, ok := new(big.Int).SetString("0"+strings.TrimLeft(exponent, "+-"), 10)
	if !ok {
		return true
	}
	if strings.HasPrefix(exponent, "-") {
		e.Neg(e)
	}
	e.Add(e, big.NewInt(int64(len(whole)-leading-1)))
	return e.CmpAbs(big.NewInt(canonjson.MaxExponent)) > 0 || len(strings.TrimRight(digits, "0")) > canonjson.MaxDigits
}

func ordered(t testing.TB, text string) bool {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	type level struct {
		object, value bool
		last          *string
	}
	levels := []level{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		l := &levels[len(levels)-1]
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if l.object && !l.value {
			name := token.(string)
			if l.last != nil && (len(name) < len(*l.last) || len(name) == len(*l.last) && name <= *l.last) {
				return false
			}
			l.last, l.value = &name, true
			continue
		}
		l.value = false
		if delim, ok := token.(json.Delim); ok {
			levels = append(levels, level{object: delim == '{'})
		}
	}
}

var seeds = []string{
	`{"a":1,"b":[true,false,null,"x"],"c":{"d":1.50,"":-0}}`, `[1e308,1E-5,0.1e1,12345678901234567890123]`,
	`"\u00e9\ud83d\ude00\/\b\f\n\r\t\"\\\u001f"`, `{"b":1,"a":2,"aa":3,"a":4}`, `["\u0000"]`, `["\ud800"]`, "\"\xff\"",
	`[1e309]`, `[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]`, ` { } `, `01`, `1 2`, `{"a":}`, `"`, `"\ud83d\u00`,
	`{"\n":1,"n":2,"\u006e":3}`, `{"x":{"a":{"b":1}},"y":[{"b":1,"a":[]}]}`, `-0.0000000000000000000000012e2`, `{"a":null,"b":{"c":null}}`, `-0E10000000000000000000`,
	`{"title":"Goodbye!","author":{"familyName":null},"phoneNumber":"+01-123-456-7890","tags":["example"]}`,
}

func FuzzValue(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > anySize/1024 {
			return // so numbers never exceed the limit of zeros
		}
		v, err := canonjson.Parse(text, anySize)
		if err != nil {
			refused, ok := errors.AsType[*canonjson.Error](err)
			if !ok {
				t.Fatalf("%q: %v is no *ValidationError", text, err)
			}
			if _, err := canonjson.ParsePointer(refused.Pointer); err != nil {
				t.Fatalf("%q is refused at %q, which is not a pointer", text, refused.Pointer)
			}
			if json.Valid(text) && !refusable(t, text) {
				t.Fatalf("%q is refused without a reason: %s at %q", text, refused, refused.Pointer)
			}
			return
		}
		if !json.Valid(text) || refusable(t, text) {
			t.Fatalf("%q should be refused, and is %q", text, v)
		}
		if !equal(t, decode(t, string(text)), decode(t, string(v))) {
			t.Fatalf("%q became %q, which is a different value", text, v)
		}
		if !ordered(t, string(v)) {
			t.Fatalf("the members of %q are not sorted", v)
		}
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(v)) != nil || compact.String() != string(v) {
			t.Fatalf("%q has white space", v)
		}
		if again, err := canonjson.Parse([]byte(v), anySize); err != nil || again != v {
			t.Fatalf("%q read again is %q, %v", v, again, err)
		}
	})
}

// mergeModel is the pseudocode in RFC 7396, section 2.
func mergeModel(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = mergeModel(merged[name], value)
		}
	}
	return merged
}

func FuzzMerge(f *testing.F) {
	for i, s := range seeds {
		f.Add([]byte(s), []byte(seeds[len(seeds)-1-i]))
		f.Add([]byte(s), []byte(`{"a":null,"b":{"c":{"d":null,"e":1}},"x":{"a":{"c":2}}}`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a)+len(b) > anySize/1024 {
			return
		}
		target, err1 := canonjson.Parse(a, anySize)
		patch, err2 := canonjson.Parse(b, anySize)
		if err1 != nil || err2 != nil {
			return
		}
		merged, err := target.Merge(patch, anySize)
		if err != nil {
			t.Fatalf("%q with %q: %v", target, patch, err)
		}
		want := mergeModel(decode(t, string(target)), decode(t, string(patch)))
		if !equal(t, decode(t, string(merged)), want) {
			t.Fatalf("%q with %q is %q, want %v", target, patch, merged, want)
		}
		if again, err := canonjson.Parse([]byte(merged), anySize); err != nil || again != merged {
			t.Fatalf("%q is not canonical: %q, %v", merged, again, err)
		}
		// Merging the patch again changes nothing.
		if twice, err := merged.Merge(patch, anySize); err != nil || twice != merged {
			t.Fatalf("%q with %q again is %q, %v", merged, patch, twice, err)
		}
	})
}

// incrementModel adds to the number at the path, and reports whether a number was there.
func incrementModel(t testing.TB, v any, names canonjson.Pointer, by canonjson.Number, create bool) (any, bool) {
	t.Helper()
	if len(names) == 0 {
		n, ok := v.(json.Number)
		if !ok {
			return nil, false
		}
		sum := new(big.Rat).Add(rat(t, n), rat(t, json.Number(by)))
		return json.Number(sum.RatString()), true
	}
	var ok bool
	switch v := v.(type) {
	case map[string]any:
		inner, there := v[names[0]]
		switch {
		case !there && !create:
			return nil, false
		case !there && len(names) > 1:
			inner = map[string]any{}
		case !there:
			inner = json.Number("0")
		}
		v[names[0]], ok = incrementModel(t, inner, names[1:], by, create)
		return v, ok
	case []any:
		for i := range v {
			if names[0] == strconv.Itoa(i) {
				v[i], ok = incrementModel(t, v[i], names[1:], by, create)
				return v, ok
			}
		}
	}
	return nil, false
}

func FuzzIncrement(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), "/b", []byte("1"), true)
		f.Add([]byte(s), "/author/count", []byte("-0.5"), true)
		f.Add([]byte(s), "/x/a/b", []byte("1e20"), false)
		f.Add([]byte(s), "/1", []byte("1"), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, place string, by []byte, create bool) {
		before, err1 := canonjson.Parse(text, anySize)
		n, err2 := canonjson.ParseNumber(by)
		pointer, err3 := canonjson.ParsePointer(place)
		if err1 != nil || err2 != nil || err3 != nil || len(text)+len(place) > anySize/1024 {
			return
		}
		in := canonjson.Increment{Pointer: pointer, By: n, Create: create}
		after, sum, err := in.Apply(before, anySize)
		want, ok := incrementModel(t, decode(t, string(before)), pointer, n, create)
		if err != nil {
			// The model ignores these errors: depth, U+0000 in a new name, and digits.
			other := len(pointer) > canonjson.MaxDepth || depth(before)+len(pointer) > canonjson.MaxDepth || strings.Contains(place, "\x00") ||
				strings.HasPrefix(err.Error(), "would be a number")
			if ok && !other || !errcode.Is(err, errcode.Invalid) {
				t.Fatalf("%q at %q: %v", before, place, err)
			}
			return
		}
		if !ok || !equal(t, decode(t, string(after)), want) {
			t.Fatalf("%q at %q by %s is %q, want %v", before, place, n, after, want)
		}
		if again, err := canonjson.Parse([]byte(after), anySize); err != nil || again != after {
			t.Fatalf("%q is not canonical: %q, %v", after, again, err)
		}
		if v, same, err := (&canonjson.Increment{Pointer: pointer, By: "0"}).Apply(after, anySize); err != nil || v != after || same != sum {
			t.Fatalf("%q has %s at %q, not %s: %v", after, same, place, sum, err)
		}
	})
}

// depth returns an upper bound for a canonical value's nesting depth.
func depth(v canonjson.Value) int {
	return strings.Count(string(v), "{") + strings.Count(string(v), "[")
}
