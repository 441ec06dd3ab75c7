package canonjson_test

import (
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
)

func TestPointers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]canonjson.Pointer{
		"":            nil,
		"/":           {""},
		"//":          {"", ""},
		"/a/0":        {"a", "0"},
		"/a~1b/m~0n":  {"a/b", "m~n"},
		"/~01":        {"~1"},
		"/é/\" \\":    {"é", `" \`},
		"/c%d/e^f/-1": {"c%d", "e^f", "-1"},
	} {
		p, err := canonjson.ParsePointer(in)
		if err != nil || len(p) != len(want) || strings.Join(p, "\x00") != strings.Join(want, "\x00") || p.String() != in {
			t.Errorf("%q is %q, %v", in, p, err)
		}
	}
	for _, in := range []string{"a", "a/b", "#/a", "/~", "/~2", "/a~", "/~/b", "/\xff"} {
		if p, err := canonjson.ParsePointer(in); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q is %q, %v", in, p, err)
		}
	}
	inner := &canonjson.Error{Pointer: "/a", Reason: "is not there"}
	if outer := inner.Under("/items/3/value"); *outer != (canonjson.Error{Pointer: "/items/3/value/a", Reason: "is not there"}) {
		t.Errorf("the place in the request is %+v", outer)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	v := value(t, `{"a":{"b/c":[1,{"~":"x"}],"":null},"n":2}`)
	for place, want := range map[string]canonjson.Value{
		"": v, "/n": "2", "/a/": "null", "/a/b~1c": `[1,{"~":"x"}]`, "/a/b~1c/1/~0": `"x"`,
		"/a/b~1c/2": "", "/a/b~1c/-": "", "/a/b~1c/00": "", "/b": "", "/n/0": "", "/a/b": "",
	} {
		p, err := canonjson.ParsePointer(place)
		if err != nil {
			t.Fatal(err)
		}
		if got, found := v.Lookup(p); got != want || found != (want != "") {
			t.Errorf("%q: %s, %v; want %s", place, got, found, want)
		}
	}
	if _, found := canonjson.Value("").Lookup(nil); found {
		t.Error("Lookup found something in an empty value")
	}
}
