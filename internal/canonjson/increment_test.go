package canonjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

type incrementCase struct {
	name            string
	value, pointer  string
	by, least, most canonjson.Number
	create          bool
	want            string // resulting value, or
	refused         string // pointer and reason
}

const (
	notThere  = "/pointer does not exist in the value: set create to start a missing object member at 0"
	notNumber = "/pointer does not point to a number"
	tooLong   = "/by makes a sum that is out of range: at most 400 digits and an exponent from -308 to 308"
	tooDeep   = "/pointer is too long: the limit is 32 levels"
	tooMuch   = "/max the sum would be greater than max"
	tooLittle = "/min the sum would be less than min"
)

func incrementCases() []incrementCase {
	nines := strings.Repeat("9", 309)
	return []incrementCase{
		{name: "the whole", value: "1", by: "2", want: "3"},
		{name: "a member", value: `{"a":1,"n":41,"z":2}`, pointer: "/n", by: "1", want: `{"a":1,"n":42,"z":2}`},
		{name: "an item", value: `[1,[2,3],4]`, pointer: "/1/0", by: "10", want: `[1,[12,3],4]`},
		{name: "the last item", value: `[1,2]`, pointer: "/1", by: "-2", want: `[1,0]`},
		{name: "escapes in the pointer", value: `{"a/b":{"m~n":{"":1}}}`, pointer: "/a~1b/m~0n/", by: "1", want: `{"a/b":{"m~n":{"":2}}}`},
		{name: "escapes in the value", value: `{"\"\n":[{"\\":1}],"]}":0}`, pointer: "/\"\n/0/\\", by: "1", want: `{"\"\n":[{"\\":2}],"]}":0}`},
		{name: "an index is a name in an object", value: `{"0":1,"-":5}`, pointer: "/0", by: "1", want: `{"0":2,"-":5}`},
		{name: "a dash is a name in an object", value: `{"0":1,"-":5}`, pointer: "/-", by: "1", want: `{"0":1,"-":6}`},

		{name: "exact beyond 2^53", value: "9007199254740993", by: "1", want: "9007199254740994"},
		{name: "exact in decimals", value: "0.1", by: "0.2", want: "0.3"},
		{name: "to nothing", value: "-12.50", by: "12.5", want: "0"},
		{name: "from zero", value: "-0", by: "-1.0", want: "-1"},
		{name: "by zero", value: "1e-300", by: "0", want: "1e-300"},
		{name: "a carry", value: "999.999", by: "0.001", want: "1000"},
		{name: "far apart", value: "1e25", by: "1e-25", want: "1" + strings.Repeat("0", 25) + "." + strings.Repeat("0", 24) + "1"},
		{name: "from an exponent to digits", value: "1e21", by: "1", want: "1" + strings.Repeat("0", 20) + "1"},
		{name: "from digits to an exponent", value: "1" + strings.Repeat("0", 24) + "1", by: "-1", want: "1e25"},
		{name: "the greatest", value: nines, by: "0", want: nines},
		{name: "over the greatest", value: nines, by: "1", refused: tooLong},
		{name: "more digits than allowed", value: "1e308", by: "1e-308", refused: tooLong},
		{name: "under the least", value: "1.1e-308", by: "-1e-308", refused: tooLong},

		{name: "within", value: "5", by: "1", least: "0", most: "10", want: "6"},
		{name: "at most", value: "5", by: "5", most: "10", want: "10"},
		{name: "more", value: "5", by: "5.01", most: "10", refused: tooMuch},
		{name: "at least", value: "5", by: "-5", least: "0", want: "0"},
		{name: "less", value: "5", by: "-5.00000000000000000000000001", least: "0", refused: tooLittle},
		{name: "bounds apply to the sum", value: "500", by: "-495", least: "0", most: "10", want: "5"},
		{name: "out of bounds already", value: "500", by: "-1", most: "10", refused: tooMuch},
		{name: "a negative bound", value: "-5", by: "-5", least: "-1e1", want: "-10"},

		{name: "missing member", value: `{"a":1}`, pointer: "/b", by: "1", refused: notThere},
		{name: "missing way", value: `{"a":1}`, pointer: "/b/c", by: "1", refused: notThere},
		{name: "missing item", value: `[1]`, pointer: "/1", by: "1", refused: notThere},
		{name: "item of an empty array", value: `[]`, pointer: "/0", by: "1", refused: notThere},
		{name: "after the last item", value: `[1]`, pointer: "/-", by: "1", refused: notThere},
		{name: "an index with a zero", value: `[1,2]`, pointer: "/01", by: "1", refused: notThere},
		{name: "an index with a sign", value: `[1,2]`, pointer: "/+1", by: "1", refused: notThere},
		{name: "a very large index", value: `[1,2]`, pointer: "/99999999999999999999", by: "1", refused: notThere},
		{name: "no index", value: `[1,2]`, pointer: "/", by: "1", refused: notThere},
		{name: "a name in an array", value: `[1,2]`, pointer: "/a", by: "1", refused: notThere},
		{name: "through a number", value: `{"a":1}`, pointer: "/a/b", by: "1", refused: notThere},
		{name: "through a string", value: `{"a":"x"}`, pointer: "/a/0", by: "1", refused: notThere},
		{name: "another case of a name", value: `{"a":1}`, pointer: "/A", by: "1", refused: notThere},
		{name: "a string", value: `{"a":"1"}`, pointer: "/a", by: "1", refused: notNumber},
		{name: "null", value: `{"a":null}`, pointer: "/a", by: "1", refused: notNumber},
		{name: "true", value: `true`, by: "1", refused: notNumber},
		{name: "an object", value: `{"a":{}}`, pointer: "/a", by: "1", refused: notNumber},
		{name: "no value", pointer: "/a", by: "1", refused: notThere},
		{name: "deeper than values may be", value: "{}", pointer: strings.Repeat("/a", 33), by: "1", create: true, refused: tooDeep},
		{name: "much deeper", value: "{}", pointer: strings.Repeat("/a", 30_000), by: "1", create: true, refused: tooDeep},

		{name: "create a member", value: `{"a":1,"c":2}`, pointer: "/b", by: "1", create: true, want: `{"a":1,"b":1,"c":2}`},
		{name: "create in an empty object", value: `{}`, pointer: "/b", by: "1.50", create: true, want: `{"b":1.5}`},
		{name: "create objects on the path", value: `[{"a":{"x":1}}]`, pointer: "/0/a/b/0/c", by: "1", create: true, want: `[{"a":{"b":{"0":{"c":1}},"x":1}}]`},
		{name: "create next to escapes", value: `{"\n":1}`, pointer: "/\"\t", by: "1", create: true, want: `{"\n":1,"\"\t":1}`},
		{name: "create at the maximum depth", value: `{}`, pointer: strings.Repeat("/a", 32), by: "1", create: true,
			want: strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)},
		{name: "create an existing member", value: `{"b":1}`, pointer: "/b", by: "1", create: true, want: `{"b":2}`},
		{name: "create a value", pointer: "/a/b", by: "7", create: true, want: `{"a":{"b":7}}`},
		{name: "create a value that is a number", by: "7", create: true, want: `7`},
		{name: "create out of bounds", value: `{}`, pointer: "/b", by: "1", least: "2", create: true, refused: tooLittle},
		{name: "create no item", value: `[1]`, pointer: "/1", by: "1", create: true, refused: notThere},
		{name: "create nothing in a number", value: `{"a":1}`, pointer: "/a/b", by: "1", create: true, refused: notThere},
		{name: "create nothing for null", value: `{"a":null}`, pointer: "/a", by: "1", create: true, refused: notNumber},
		{name: "create nothing for null as a whole", value: `null`, by: "1", create: true, refused: notNumber},
	}
}

func refusal(err error) string {
	if bound, ok := errors.AsType[*canonjson.BoundError](err); ok {
		return bound.Pointer + " " + bound.Reason
	}
	if refused, ok := errors.AsType[*canonjson.Error](err); ok {
		return refused.Pointer + " " + refused.Reason
	}
	return fmt.Sprint(err)
}

func number(t testing.TB, text canonjson.Number) canonjson.Number {
	t.Helper()
	if text == "" {
		return ""
	}
	n, err := canonjson.ParseNumber([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func TestIncrement(t *testing.T) {
	t.Parallel()
	for _, tc := range incrementCases() {
		pointer, err := canonjson.ParsePointer(tc.pointer)
		if err != nil {
			t.Fatal(err)
		}
		in := canonjson.Increment{Pointer: pointer, By: number(t, tc.by), Min: number(t, tc.least), Max: number(t, tc.most), Create: tc.create}
		before := canonjson.Value("")
		if tc.value != "" {
			before = value(t, tc.value)
		}
		after, sum, err := in.Apply(before, anySize)
		if tc.refused != "" {
			if refusal(err) != tc.refused || after != "" || sum != "" {
				t.Errorf("%s: %s, %s, %v; want %q", tc.name, after, sum, err, tc.refused)
			}
			continue
		}
		if err != nil || after != value(t, tc.want) {
			t.Errorf("%s: %s, %v; want %s", tc.name, after, err, tc.want)
			continue
		}
		zero := canonjson.Increment{Pointer: pointer, By: "0"}
		if again, same, err := zero.Apply(after, anySize); err != nil || again != after || same != sum {
			t.Errorf("%s: the sum is %s, and what is there %s, %v", tc.name, sum, same, err)
		}
	}
}

func TestIncrementLimits(t *testing.T) {
	t.Parallel()
	v := canonjson.Value(`{"n":99}`)
	in := canonjson.Increment{Pointer: canonjson.Pointer{"n"}, By: "1"}
	if got, _, err := in.Apply(v, len(v)+1); err != nil || got != `{"n":100}` {
		t.Errorf("at the limit: %s, %v", got, err)
	}
	if _, _, err := in.Apply(v, len(v)); !errors.Is(err, canonjson.ErrTooLarge) {
		t.Errorf("over it: %v", err)
	}
	in = canonjson.Increment{Pointer: canonjson.Pointer{"a\x00"}, By: "1", Create: true}
	if _, _, err := in.Apply("{}", 100); refusal(err) != "/pointer would make a value that contains an unescaped control character in a string" && refusal(err) != "/pointer would make a value that contains the character U+0000, which cannot be stored" {
		t.Errorf("a name that values may not have: %v", err)
	}
}

func TestParseNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]canonjson.Number{
		"1": "1", "-1.50\n": "-1.5", "1e3": "1000", "-0": "0", "1e308": "1e308", strings.Repeat("1", 309): canonjson.Number(strings.Repeat("1", 309)),
	} {
		if got, err := canonjson.ParseNumber([]byte(in)); err != nil || got != want {
			t.Errorf("%s is %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "null", `"1"`, "[1]", "{}", "true", "1 2", "NaN", "1e309"} {
		if got, err := canonjson.ParseNumber([]byte(in)); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%s is %s, %v", in, got, err)
		}
	}
}

func FuzzAdd(f *testing.F) {
	for _, s := range [][2]string{{"0.1", "0.2"}, {"1e308", "-1e308"}, {"1e-308", "1"}, {"-5", "12e20"}, {"999", "1"}, {"1e25", "-1"}} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, one, other []byte) {
		a, err1 := canonjson.ParseNumber(one)
		b, err2 := canonjson.ParseNumber(other)
		if err1 != nil || err2 != nil {
			return
		}
		x, y := rat(t, json.Number(a)), rat(t, json.Number(b))
		if a.Compare(b) != x.Cmp(y) {
			t.Fatalf("%s against %s: %d", a, b, a.Compare(b))
		}
		want := new(big.Rat).Add(x, y)
		sum, err := a.Add(b)
		if err != nil {
			// The sum is also rejected in plain digits; 400 digits fit before the point and 708 after it.
			if _, again := canonjson.ParseNumber([]byte(want.FloatString(800))); !errcode.Is(again, errcode.Invalid) && !errors.Is(again, canonjson.ErrTooLarge) {
				t.Fatalf("%s + %s is refused: %v", a, b, err)
			}
			return
		}
		if rat(t, json.Number(sum)).Cmp(want) != 0 {
			t.Fatalf("%s + %s is %s", a, b, sum)
		}
		if again, err := canonjson.ParseNumber([]byte(sum)); err != nil || again != sum {
			t.Fatalf("%s + %s is %s, which is spelled %s, %v", a, b, sum, again, err)
		}
	})
}
