package jsonschema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/jsonschema"
)

func canonical(t fataler, text []byte) canonjson.Value {
	t.Helper()
	v, err := canonjson.Parse(text, 1<<20)
	if err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
	return v
}

func compile(t fataler, document string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.Compile([]byte(document))
	if err != nil {
		t.Fatalf("%.300s: %v", document, err)
	}
	return s
}

// keywordCase is an entry of testdata/keywords.json: for every keyword it has a value that matches and, unless the keyword
// only annotates, one that does not. extstorage/httpapi sends the same cases in requests.
type keywordCase struct {
	Schema, Good, Bad json.RawMessage // Bad is nil for an annotation
	At                string          // location of the first failure
	Missing           *string
	Reason            string
}

var keywordCases = sync.OnceValue(func() (all []keywordCase) {
	text, err := os.ReadFile("testdata/keywords.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		panic(err)
	}
	return all
})

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range keywordCases() {
		s := compile(t, string(c.Schema))
		if err := s.Validate(context.Background(), canonical(t, c.Good)); err != nil {
			t.Errorf("%s refuses %s: %v", c.Schema, c.Good, err)
		}
		if c.Bad == nil {
			continue
		}
		bad := canonical(t, c.Bad)
		for range 20 { // the library iterates over maps in random order
			err := s.Validate(context.Background(), bad)
			refused(t, err, c.At, c.Reason)
			wantPlaces(t, bad, c.Missing, err)
		}
		if t.Failed() {
			t.Fatalf("%s on %s", c.Schema, c.Bad)
		}
	}
}

// wantPlaces checks that the value contains the location of each failure, and lacks the members that are reported as
// missing. The first failure must be about missing.
func wantPlaces(t *testing.T, value canonjson.Value, missing *string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*jsonschema.SchemaError](err)
	if !ok {
		t.Fatalf("%v is not a *SchemaError", err)
	}
	for i, f := range refused.Failures {
		at, err := canonjson.ParsePointer(f.Location)
		place, found := value.Lookup(at)
		if err != nil || !found {
			t.Errorf("%.200s contains no %q: %v", value, f.Location, err)
			continue
		}
		if _, found := place.Lookup(canonjson.Pointer{f.Missing.Value}); f.Missing.Set && (found || place[0] != '{') {
			t.Errorf("%s is said to lack %q", place, f.Missing.Value)
		}
		if i == 0 && (f.Missing.Set != (missing != nil) || missing != nil && f.Missing.Value != *missing) {
			t.Errorf("%q lacks %v, want %v", f.Location, f.Missing, missing)
		}
	}
}

// TestEveryKeywordHasACase checks that keywords.json has an entry for each keyword of the dialect, and an invalid value for
// each that may refuse a value.
func TestEveryKeywordHasACase(t *testing.T) {
	t.Parallel()
	used, refuses := map[string]bool{}, map[string]bool{}
	for _, c := range keywordCases() {
		for _, keyword := range jsonschema.KeywordsIn(c.Schema) {
			used[keyword], refuses[keyword] = true, refuses[keyword] || c.Bad != nil
		}
	}
	all := jsonschema.Keywords()
	if len(all) < 40 {
		t.Errorf("the dialect has only %v", all)
	}
	for keyword, asserts := range all {
		if !used[keyword] || asserts && !refuses[keyword] {
			t.Errorf("add a case of the keyword %s to testdata/keywords.json", keyword)
		}
	}
}

// soon allows for a busy machine. An endless validation takes at least 2^24 times longer.
const soon = 30 * time.Second

func TestSteps(t *testing.T) {
	t.Parallel()
	var numbers, records, words strings.Builder
	for i := range 8_000 {
		fmt.Fprintf(&numbers, ",%d", i)
	}
	for range 1_200 {
		records.WriteString(`,{"a":1,"b":[1,2,3],"c":"a text that somebody wrote"}`)
	}
	for i := range 5_000 {
		fmt.Fprintf(&words, `,"w%d"`, i)
	}
	deep := strings.Repeat(`{"a":`, 31) + `1` + strings.Repeat(`}`, 31)
	large := `[1e300` + strings.Repeat(`,1e300`, 230) + `]`
	larger := `[1e300` + strings.Repeat(`,1e300`, 1_770) + `]` // the largest value
	long := `[1` + strings.Repeat(`,123456789012345678901`, 2_900) + `]`
	for _, c := range []struct{ name, schema, value, refuses string }{
		{"the largest plain value", `{"items":{"type":["object","integer"],"properties":{"a":{"type":"integer"},"b":{"items":{"minimum":0}},"c":{"maxLength":100}}}}`, `[0` + records.String() + `]`, ""},
		{"an enum of many numbers", `{"items":{"enum":[-1` + numbers.String() + `]}}`, `[0` + numbers.String() + `]`, ""},
		{"many required members", `{"items":{"required":["w"` + words.String() + `]}}`, `[{}` + strings.Repeat(`,{}`, 20_000) + `]`, "too many steps"},
		{"many large numbers", `{"items":{"anyOf":[{"multipleOf":1}` + strings.Repeat(`,{"multipleOf":7}`, 90) + `]}}`, large, ""},
		{"the most large numbers", `{"items":{"anyOf":[{"multipleOf":1}` + strings.Repeat(`,{"multipleOf":7}`, 90) + `]}}`, larger, ""},
		{"large numbers that match no alternative", `{"items":{"anyOf":[{"type":"null"}` + strings.Repeat(`,{"multipleOf":7}`, 90) + `]}}`, larger, "too many steps"},
		{"many long numbers", `{"items":{"anyOf":[{"type":"null"}` + strings.Repeat(`,{"multipleOf":7}`, 90) + `]}}`, long, "too many steps"},
		{"unique objects", `{"uniqueItems":true}`, `[[]` + words.String() + `]`, ""},
		{"a tree of indistinct alternatives", `{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#"}}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`, deep, "too many steps"},
		{"a tree under not", `{"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"contains":{"$ref":"#/$defs/t"}}},"not":{"$ref":"#/$defs/t"}}`, strings.Repeat(`[`, 31) + `1` + strings.Repeat(`]`, 31), "too many steps"},
		{"a long way back", chain(200), strings.Repeat(`[`, 31) + `1` + strings.Repeat(`,1]`, 31), "too many steps"},
		{"a slow pattern", `{"items":{"pattern":"(.{0,400}a){2}$"}}`, `["` + strings.Repeat("xa", 30_000) + `"]`, "too many steps"},
		{"slow names", `{"patternProperties":{"(.{0,400}a){2}$":{}}}`, `{"` + strings.Repeat("xa", 30_000) + `":1}`, "too many steps"},
		{"a union by a tag", `{"$defs":{"n":{"oneOf":[
			{"type":"object","properties":{"op":{"const":"neg"},"a":{"$ref":"#/$defs/n"}},"required":["op"]},
			{"type":"object","properties":{"op":{"const":"not"},"a":{"$ref":"#/$defs/n"}},"required":["op"]},
			{"type":"object","properties":{"op":{"const":"abs"},"a":{"$ref":"#/$defs/n"}},"required":["op"]},
			{"type":"number"}]}},"$ref":"#/$defs/n"}`, strings.Repeat(`{"op":"not","a":`, 31) + `1` + strings.Repeat(`}`, 31), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, c.schema)
			began := time.Now()
			err := s.Validate(context.Background(), canonical(t, []byte(c.value)))
			took := time.Since(began)
			t.Logf("%v, %d steps: %v", took, s.Spent(), err)
			if took > soon {
				t.Errorf("took %v", took)
			}
			switch {
			case c.refuses == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refuses != "" && (err == nil || !strings.Contains(err.Error(), c.refuses)):
				t.Errorf("%v; want …%s…", err, c.refuses)
			}
		})
	}
}

// chain returns a schema with n consecutive in-place references, each next to a dynamic reference.
func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/s0","$defs":{"x":{"$dynamicAnchor":"x"}`)
	for i := range n {
		fmt.Fprintf(&b, `,"s%d":{"allOf":[{"$dynamicRef":"#x"},{"$ref":"#/$defs/s%d"}]}`, i, i+1)
	}
	fmt.Fprintf(&b, `,"s%d":{"items":{"$ref":"#/$defs/s0"}}}}`, n)
	return b.String()
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"items":{"maximum":100}}`)
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 100 {
				value := "[" + strings.Repeat("0,", i) + strconv.Itoa(100+g%2) + "]"
				if err := s.Validate(context.Background(), canonjson.Value(value)); (err != nil) != (g%2 == 1) {
					t.Errorf("%s: %v", value, err)
				}
			}
		})
	}
	all.Wait()
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}
