package canonjson_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

func value(t testing.TB, text string) canonjson.Value {
	t.Helper()
	v, err := canonjson.Parse([]byte(text), anySize)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ target, patch, want string }{
		// RFC 7396, appendix A.
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// RFC 7396, section 3.
		{
			`{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},"tags":["example","sample"],"content":"This will be unchanged"}`,
			`{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}`,
			`{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],"content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}`,
		},
		{`{"b":1,"d":2,"f":3}`, `{"a":4,"c":5,"e":6,"g":7}`, `{"a":4,"b":1,"c":5,"d":2,"e":6,"f":3,"g":7}`},
		{`{"b":1,"d":2,"f":3}`, `{"a":null,"b":null,"f":null,"g":null}`, `{"d":2}`},
		{`{"a":1,"aa":2}`, `{"b":3,"A":4}`, `{"A":4,"a":1,"b":3,"aa":2}`},
		{`{"\n":1,"a":{"\"]}":2}}`, `{"\u000a":3,"a":{"\"]}":null,"x\\":"}"}}`, `{"\n":3,"a":{"x\\":"}"}}`},
		{`{"a":[{"x":null}]}`, `{"b":[null,{"y":null}]}`, `{"a":[{"x":null}],"b":[null,{"y":null}]}`},
		{`{}`, `{}`, `{}`},
		{`{"":1}`, `{"":{"":null}}`, `{"":{}}`},
		{`1`, `{}`, `{}`},
		{`{"n":9007199254740993}`, `{"m":1.10}`, `{"m":1.1,"n":9007199254740993}`},
	} {
		got, err := value(t, tc.target).Merge(value(t, tc.patch), anySize)
		if err != nil || got != value(t, tc.want) {
			t.Errorf("%s with %s is %s, %v; want %s", tc.target, tc.patch, got, err, tc.want)
		}
	}
	if got, err := canonjson.Value("").Merge(`{"a":null,"b":1}`, 100); err != nil || got != `{"b":1}` {
		t.Errorf("an empty value with an object is %s, %v", got, err)
	}
}

func TestMergeLimits(t *testing.T) {
	t.Parallel()
	long := canonjson.Value(`{"a":"` + strings.Repeat("x", 50) + `"}`)
	for _, tc := range []struct {
		patch canonjson.Value
		limit int
		want  error
	}{
		{`{"b":1}`, len(long) + 6, nil},
		{`{"b":1}`, len(long) + 5, canonjson.ErrTooLarge},
		{`{"a":null}`, 2, nil},
		{`{"c":null}`, len(long), nil},
	} {
		if _, err := long.Merge(tc.patch, tc.limit); !errors.Is(err, tc.want) {
			t.Errorf("%s within %d: %v", tc.patch, tc.limit, err)
		}
	}
	// Both are accepted separately, but not together.
	bombs := "[" + strings.Repeat("1e308,", 12*canonjson.ZerosPerByte) + "1]"
	refused := &canonjson.LimitError{}
	_, err := value(t, `{"a":`+bombs+`}`).Merge(value(t, `{"b":{"c":`+bombs+`}}`), 4096)
	if !errors.As(err, &refused) || refused.Pointer != "/b/c/"+strconv.Itoa(107-12*canonjson.ZerosPerByte) || !errcode.Is(err, errcode.TooLarge) {
		t.Errorf("numbers that are long when written out: %v at %q", err, refused.Pointer)
	}
	deep := value(t, strings.Repeat(`{"a":`, canonjson.MaxDepth)+"1"+strings.Repeat("}", canonjson.MaxDepth))
	wide := value(t, strings.Repeat(`{"b":`, canonjson.MaxDepth)+"1"+strings.Repeat("}", canonjson.MaxDepth))
	if got, err := deep.Merge(wide, anySize); err != nil || len(got) != len(deep)+len(wide)-1 {
		t.Errorf("at the maximum depth: %s, %v", got, err)
	}
}
