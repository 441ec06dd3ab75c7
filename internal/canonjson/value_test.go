package canonjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

const anySize = 1 << 20

const maxBytes = 65_536

func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"null": "null", " true\n": "true", "\tfalse\r": "false",
		`""`: `""`, "[]": "[]", "{}": "{}", "[ ]": "[]", "{ }": "{}",
		" [ 1 , [ ] , { } ] ": "[1,[],{}]",

		// Members are ordered by length, then by UTF-8 bytes.
		`{"b":1,"a":2}`:                       `{"a":2,"b":1}`,
		`{"aa":1,"b":2,"":3}`:                 `{"":3,"b":2,"aa":1}`,
		`{"é":1,"zz":2,"a":3}`:                `{"a":3,"zz":2,"é":1}`,
		`{"a":1,"B":2}`:                       `{"B":2,"a":1}`,
		`{"x":{"d":1,"c":2},"w":[{"b":1}]}`:   `{"w":[{"b":1}],"x":{"c":2,"d":1}}`,
		`{"ab":1,"\n":2,"\u0001":3}`:          `{"\u0001":3,"\n":2,"ab":1}`,
		`{"\"\"\"":1,"ab":2}`:                 `{"ab":2,"\"\"\"":1}`,
		`{"\\b":1,"\"a":2,"aa":3}`:            `{"\"a":2,"\\b":1,"aa":3}`,
		`{"\ud83d\ude00":1,"\u00e9":2,"e":3}`: `{"e":3,"é":2,"😀":1}`,

		`"\u0041\/\u00e9\ud83d\ude00"`:                 `"A/é😀"`,
		`"\b\f\n\r\t\"\\"`:                             `"\b\f\n\r\t\"\\"`,
		`"\u0008\u000c\u000A\u000d\u0009\u0022\u005C"`: `"\b\f\n\r\t\"\\"`,
		`"\u001F\u0001\u000B"`:                         `"\u001f\u0001\u000b"`,
		`"\u007f\u2028<>&"`:                            "\"\u007f\u2028<>&\"",
		`"\uFFFF\uD7FF\uE000\uDBFF\uDFFF"`:             "\"\uffff\ud7ff\ue000\U0010ffff\"",

		"0": "0", "-0": "0", "0.0": "0", "-0.00": "0", "0e999999999999999999999": "0", "-0E-5": "0",
		"1": "1", "-1": "-1", "1.0": "1", "1e0": "1", "10e-1": "1", "1E+0": "1", "0.1e1": "1", "-1.50": "-1.5",
		"100": "100", "1e2": "100", "0.01": "0.01", "1e-2": "0.01", "123.456e1": "1234.56",
		"9007199254740993":             "9007199254740993",
		"0.1000000000000000055":        "0.1000000000000000055",
		"123456789012345678901":        "123456789012345678901",
		"1e20":                         "100000000000000000000",
		"1e21":                         "1e21",
		"1.5e21":                       "1500000000000000000000",
		"15e21":                        "1.5e22",
		"1e-21":                        "0.000000000000000000001",
		"1e-22":                        "1e-22",
		"-12.5e-25":                    "-1.25e-24",
		"1000e300":                     "1e303",
		"1.7976931348623157e308":       "1.7976931348623157e308",
		"0.001e-305":                   "1e-308",
		"9" + strings.Repeat("0", 308): "9e308",
		"0." + strings.Repeat("0", 400) + "1e400":  "0.1",
		"1" + strings.Repeat("0", 1000) + "e-1000": "1",
		strings.Repeat("7", 309):                   strings.Repeat("7", 309),
		"1." + strings.Repeat("3", 399):            "1." + strings.Repeat("3", 399),
	} {
		got, err := canonjson.Parse([]byte(in), anySize)
		if err != nil || string(got) != want {
			t.Errorf("%.80q is %q, %v; want %q", in, got, err, want)
			continue
		}
		if again, err := canonjson.Parse([]byte(got), anySize); err != nil || again != got {
			t.Errorf("%.80q read again is %q, %v", got, again, err)
		}
		if kept, err := canonjson.Restore([]byte(in)); err != nil || kept != got {
			t.Errorf("%.80q from an engine is %q, %v", in, kept, err)
		}
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

const (
	notJSON   = "is not valid JSON"
	twice     = "is a duplicate name"
	surrogate = "contains an unpaired surrogate in a string"
	digits    = "is a number with more than 400 digits"
	exponent  = "is a number out of range: exponents from -308 to 308 are supported"
	deep      = "is nested too deeply: the limit is 32 levels"
)

func refusals() []struct{ in, pointer, reason string } {
	return []struct{ in, pointer, reason string }{
		{"", "", notJSON},
		{" ", "", notJSON},
		{"nul", "", notJSON},
		{"True", "", notJSON},
		{"NaN", "", notJSON},
		{"'a'", "", notJSON},
		{"[1", "", notJSON},
		{"[1,]", "/1", notJSON},
		{"[,1]", "/0", notJSON},
		{"[1 2]", "", notJSON},
		{`{"a" 1}`, "", notJSON},
		{`{"a":}`, "/a", notJSON},
		{`{"a":1,}`, "", notJSON},
		{`{a:1}`, "", notJSON},
		{`{"a":1]`, "", notJSON},
		{`{"a":[1,2`, "/a", notJSON},
		{`{"a":1`, "", notJSON},
		{"1 2", "", "is followed by extra data after the JSON value"},
		{"{}{}", "", "is followed by extra data after the JSON value"},
		{"1\x00", "", "is followed by extra data after the JSON value"},
		{"\ufeff1", "", notJSON},

		{"01", "", notJSON},
		{"-", "", notJSON},
		{"+1", "", notJSON},
		{".5", "", notJSON},
		{"1.", "", notJSON},
		{"1.e5", "", notJSON},
		{"1e", "", notJSON},
		{"1e+", "", notJSON},
		{"-a", "", notJSON},
		{"0x10", "", "is followed by extra data after the JSON value"},

		{`"a`, "", notJSON},
		{`"\`, "", notJSON},
		{`"\x41"`, "", notJSON},
		{`"\u12"`, "", notJSON},
		{`"\u12g4"`, "", notJSON},
		{"\"a\nb\"", "", "contains an unescaped control character in a string"},
		{"[\"a\x00b\"]", "/0", "contains an unescaped control character in a string"},
		{`["\u0000"]`, "/0", "contains the character U+0000, which cannot be stored"},
		{`{"a\u0000":1}`, "", "contains the character U+0000, which cannot be stored"},
		{`{"a":["\ud800"]}`, "/a/0", surrogate},
		{`"\udc00"`, "", surrogate},
		{`"\ud800\ud800"`, "", surrogate},
		{`"\ud800a"`, "", surrogate},
		{`"\ud800\n"`, "", surrogate},
		{`"\ud800\u12"`, "", surrogate},
		{"[1,\"\xff\"]", "/1", "is not valid UTF-8"},
		{"\"\xed\xa0\x80\"", "", "is not valid UTF-8"},
		{"\"\xc0\x80\"", "", "is not valid UTF-8"},
		{"\"\xf4\x90\x80\x80\"", "", "is not valid UTF-8"},
		{"\"\xe2\x82\"", "", "is not valid UTF-8"},

		{`{"a":1,"a":1}`, "/a", twice},
		{`{"a":1,"b":2,"\u0061":3}`, "/a", twice},
		{`[{"":1,"b":[],"":2}]`, "/0/", twice},
		{`{"x/y":{"m~n":{"k":1,"k":2}}}`, "/x~1y/m~0n/k", twice},
		{`{"\"\n":{"b":1,"a":2,"b":1}}`, "/\"\n/b", twice},

		{nested(33), strings.Repeat("/0", 32), deep},
		{strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), strings.Repeat("/a", 32), deep},
		{strings.Repeat("[", 100_000), strings.Repeat("/0", 32), deep},

		{"[1e131071]", "/0", exponent},
		{`{"n":1e309}`, "/n", exponent},
		{"0.01e-307", "", exponent},
		{"1e99999999999999999999999", "", exponent},
		{"-1e-99999999999999999999999", "", exponent},
		{"0." + strings.Repeat("0", 309) + "1", "", exponent},
		{strings.Repeat("1", 401), "", digits},
		{"1." + strings.Repeat("3", 400), "", digits},
		{"1e100000000" + strings.Repeat("0", 1000), "", exponent},
	}
}

func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for _, tc := range refusals() {
		v, err := canonjson.Parse([]byte(tc.in), anySize)
		refused, ok := errors.AsType[*canonjson.Error](err)
		if !ok || refused.Reason != tc.reason || refused.Pointer != tc.pointer {
			t.Errorf("%.60q is %.60q, %#v; want %q at %q", tc.in, v, err, tc.reason, tc.pointer)
			continue
		}
		if !errcode.Is(err, errcode.Invalid) || refused.Error() != tc.reason {
			t.Errorf("%.60q: code %v, says %q", tc.in, errcode.Of(err), refused)
		}
		if _, err := canonjson.Restore([]byte(tc.in)); !errcode.Is(err, errcode.Internal) {
			t.Errorf("%.60q from an engine: %v", tc.in, err)
		}
	}
	if _, err := canonjson.Parse([]byte(nested(32)), anySize); err != nil {
		t.Errorf("depth 32: %v", err)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return `"` + strings.Repeat("a", n-2) + `"` }
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"at the limit", text(100), nil},
		{"over it", text(101), canonjson.ErrTooLarge},
		{"white space does not count", text(100) + strings.Repeat(" ", 300), nil},
		{"but is read up to a limit", text(100) + strings.Repeat(" ", 301), canonjson.ErrTooLarge},
		{"nor do escapes", `"` + strings.Repeat(`\u00e9`, 49) + `"`, nil},
		{"their characters do", `"` + strings.Repeat(`\u00e9`, 50) + `"`, canonjson.ErrTooLarge},
		{"a text that is too large is not parsed", strings.Repeat("x", 401), canonjson.ErrTooLarge},
		{"nor is the rest after the limit", "[" + strings.Repeat("1,", 60) + "x]", canonjson.ErrTooLarge},
		{"a number counts in its canonical form", "[" + strings.Repeat("1.000,", 48) + "1]", nil},
	} {
		if _, err := canonjson.Parse([]byte(tc.in), 100); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if !errcode.Is(canonjson.ErrTooLarge, errcode.TooLarge) {
		t.Error("the code is not TooLarge")
	}
}

// TestNumbersWrittenOut checks that ten bytes do not expand to a thousand on an engine that writes exponents out.
func TestNumbersWrittenOut(t *testing.T) {
	t.Parallel()
	const limit = 4096
	const most = limit * canonjson.ZerosPerByte / 304 // numbers, each gaining 304 zeros
	repeat := func(item string, n int) string { return "[" + strings.Repeat(item+",", n) + "1]" }
	last := "/" + strconv.Itoa(most)
	for name, tc := range map[string]struct {
		in, pointer string
	}{
		"few":             {repeat("1e308", most), "-"},
		"too many":        {repeat("1e308", most+1), last},
		"small ones":      {repeat("1e-308", most+1), last},
		"with a sign":     {repeat("-1e308", most+1), last},
		"from an engine":  {repeat("1"+strings.Repeat("0", 308), most+1), "too long"},
		"as a member":     {`{"a":` + repeat("1e308", most) + `,"b":{"c":2e308}}`, "/b/c"},
		"with all digits": {repeat("1"+strings.Repeat("2", 308), 13), "-"},
	} {
		_, err := canonjson.Parse([]byte(tc.in), limit)
		refused, ok := errors.AsType[*canonjson.LimitError](err)
		switch {
		case tc.pointer == "-" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.pointer == "-":
		case tc.pointer == "too long" && (!ok || refused.Size != int64(len(tc.in))):
			t.Errorf("%s: %v", name, err)
		case tc.pointer == "too long":
		case !ok || refused.Pointer != tc.pointer || refused.Limit != limit*canonjson.ZerosPerByte || !strings.Contains(err.Error(), "written without exponents"):
			t.Errorf("%s: %#v, want %q", name, err, tc.pointer)
		}
	}
	stored := "[" + strings.Repeat("1"+strings.Repeat("0", 308)+",", 20_000) + "1]"
	if v, err := canonjson.Restore([]byte(stored)); err != nil || len(v) != 20_000*6+3 {
		t.Errorf("the engine's form is %d bytes, %v", len(v), err)
	}
}

// TestRealNumbers checks that lists of measurements, up to the maximum size, are not rejected for their exponents.
func TestRealNumbers(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	for _, number := range []string{
		"6.62607015e-34", "1e-45", "1e38", "-1e-45", "1.17549435e-38", "3.40282347e38", "1.602176634e-19", "1.5e53", "6.02214076e23",
		"1.4e-45", "2.2250738585072014e-160", "1.7976931348623157e160", // doubles with all digits
	} {
		canonical, err := canonjson.ParseNumber([]byte(number))
		if err != nil {
			t.Fatal(err)
		}
		n := limit / (len(canonical) + 1)
		text := "[" + strings.Repeat(number+",", n-2) + number + "]"
		if _, err := canonjson.Parse([]byte(text), limit); err != nil {
			t.Errorf("%d × %s: %v", n, number, err)
		}
	}
	// Hostile numbers cost no more than their length.
	for _, number := range []string{"1e-300000", "1e-308", "1e999999999", "1e-" + strings.Repeat("0", 100_000) + "9"} {
		text := "[" + strings.Repeat(number+",", 4*limit/(len(number)+1)-1) + number + "]"
		if _, err := canonjson.Parse([]byte(text), limit); len(number) < 100 && err == nil {
			t.Errorf("%s is accepted", number)
		}
	}
}

func TestLimitSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		`"` + strings.Repeat("a", 99) + `"`:                     101,
		`"` + strings.Repeat(`\u00e9`, 60) + `"  `:              122,
		`{"b":[1.0, 2],"a":"` + strings.Repeat("a", 200) + `"}`: 218,
		strings.Repeat(" ", 500):                                500,
		`[` + strings.Repeat("1,", 60) + `x]`:                   0,
	} {
		_, err := canonjson.Parse([]byte(text), 100)
		refused, ok := errors.AsType[*canonjson.LimitError](err)
		if !ok || refused.Size != want || refused.Limit != 100 || refused.Unit != "bytes" || refused.Under("/value").Pointer != "/value" {
			t.Errorf("%.30s: %#v, want %d", text, err, want)
		}
	}
}

func TestMarshalJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(struct{ V canonjson.Value }{`{"a":1}`})
	if err != nil || string(got) != `{"V":{"a":1}}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestParsersAreClean(t *testing.T) {
	t.Parallel()
	texts := []string{
		`{"b":{"d":1,"c":[1e100,2]},"a":"\n"}`, `{"b":{"d":1,"c":[1e100,x]},"a":1}`, `[[[[`, `{"a":1,"a":2}`,
		`[1e308,1e308,1e308,1e308]`, `"` + strings.Repeat("long", 200) + `"`, `3.1400`, nested(33), ``,
	}
	type answer struct {
		value canonjson.Value
		err   error
	}
	parse := func(text string) (a answer) {
		a.value, a.err = canonjson.Parse([]byte(text), 500)
		return a
	}
	var first []answer
	for _, text := range texts {
		first = append(first, parse(text))
	}
	for range 1000 {
		i := rand.IntN(len(texts))
		if again := parse(texts[i]); !reflect.DeepEqual(again, first[i]) {
			t.Fatalf("%q: %v, then %v", texts[i], first[i], again)
		}
	}
}

func TestOrderOfMembers(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "aa", "ab", "ba", "", "é", "\n", "\"", "aaa", "\x01", "😀", "zzzz", "\\\\", "A"}
	var want canonjson.Value
	for range 200 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var b bytes.Buffer
		for i, name := range names {
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(map[bool]string{true: "{", false: " , "}[i == 0])
			b.Write(quoted)
			b.WriteString(` : [` + string(quoted) + `]`)
		}
		got, err := canonjson.Parse(append(b.Bytes(), '}'), anySize)
		if want == "" {
			want = got
		}
		if err != nil || got != want {
			t.Fatalf("%s is %q, %v; was %q", b.Bytes(), got, err, want)
		}
	}
}
