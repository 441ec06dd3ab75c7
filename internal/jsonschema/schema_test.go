package jsonschema_test

import (
	"context"
	"fmt"
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

// validity contains a valid value for every keyword and, unless pointer is "-", an invalid value.
var validity = []struct{ schema, good, bad, pointer, reason string }{
	{`true`, `[]`, ``, "-", ""},
	{`{}`, `[]`, ``, "-", ""},
	{`{"not":false}`, `1`, ``, "-", ""},
	{`{"properties":{"a":false}}`, `{"b":1}`, `{"a":1}`, "/a", "is not allowed"},
	{`{"type":"string"}`, `""`, `1`, "", "must be of type string"},
	{`{"type":["null","array"]}`, `[]`, `{}`, "", "must be of type null or array"},
	{`{"type":"integer"}`, `1.0`, `1.5`, "", "must be of type integer"},
	{`{"type":"integer"}`, `10e-1`, `1e-1`, "", "must be of type integer"},
	{`{"type":"number"}`, `1`, `"1"`, "", "must be of type number"},
	{`{"type":"boolean"}`, `false`, `null`, "", "must be of type boolean"},
	{`{"const":{"a":[1,null,true]}}`, `{"a":[1.0,null,true]}`, `{"a":[1,null]}`, "", "must equal the const value"},
	{`{"enum":["a",1,{"x":{"y":2},"z":[]}]}`, `{"z":[],"x":{"y":2e0}}`, `{"z":[],"x":{"y":3}}`, "", "must be one of the enum values"},
	{`{"enum":[[[1],2]]}`, `[[1],2]`, `[[1,2]]`, "", "must be one of the enum values"},
	{`{"const":{"a":{"b":1}}}`, `{"a":{"b":1}}`, `{"a":{},"b":1}`, "", "must equal the const value"},
	{`{"enum":[0]}`, `-0`, `false`, "", "must be one of the enum values"},
	{`{"required":["a","b"]}`, `{"a":1,"b":1}`, `{"a":1}`, "/b", "is required"},
	{`{"required":["a"]}`, `[]`, `{}`, "/a", "is required"},
	{`{"additionalProperties":false,"properties":{"a":true}}`, `{"a":1}`, `{"z":1,"c":1}`, "/c", "is not allowed by additionalProperties"},
	{`{"additionalProperties":{"type":"null"}}`, `{"a":null}`, `{"a/b":1}`, "/a~1b", "must be of type null"},
	{`{"patternProperties":{"^x":{"type":"null"}}}`, `{"x":null,"y":1}`, `{"x1":1}`, "/x1", "must be of type null"},
	{`{"propertyNames":{"maxLength":1}}`, `{"a":1}`, `{"a":1,"bc":2}`, "/bc", "has a name not allowed by propertyNames"},
	{`{"minProperties":1}`, `{"a":1}`, `{}`, "", "must have at least 1 member"},
	{`{"maxProperties":1}`, `{"a":1}`, `{"a":1,"b":2}`, "", "must have at most 1 member"},
	{`{"dependentRequired":{"a":["b"]}}`, `{"b":1}`, `{"a":1}`, "", "is missing a member that another member requires"},
	{`{"dependentSchemas":{"a":{"maxProperties":1}}}`, `{"a":1}`, `{"a":1,"b":1}`, "", "must have at most 1 member"},
	{`{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}`, `{"a":1}`, `{"a":1,"b":1}`, "/b", "is not allowed"},
	{`{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true,"z":{"type":"null"}}}]}`, `{"a":1,"z":null}`, `{"a":1,"z":1}`, "/z", "must be of type null"},
	{`{"items":{"type":"integer"}}`, `[1]`, `[1,2,"x",3,4,5,6,7,8,9,"y"]`, "/2", "must be of type integer"},
	{`{"prefixItems":[true,{"const":1}],"items":false}`, `[0,1]`, `[0,1,2]`, "/2", "is not allowed"},
	{`{"contains":{"const":1}}`, `[0,1]`, `[0]`, "", "has too few items that match the contains schema"},
	{`{"contains":{"const":1},"maxContains":1}`, `[1]`, `[1,1]`, "", "has too many items that match the contains schema"},
	{`{"unevaluatedItems":false,"prefixItems":[true]}`, `[1]`, `[1,2]`, "/1", "is not allowed"},
	{`{"uniqueItems":true}`, `[1,"1",[1]]`, `[1,1.0]`, "", "must not contain duplicate items"},
	{`{"minItems":1}`, `[1]`, `[]`, "", "must have at least 1 item"},
	{`{"maxItems":1}`, `[1]`, `[1,2]`, "", "must have at most 1 item"},
	{`{"minLength":2}`, `"äö"`, `"ä"`, "", "must have at least 2 characters"},
	{`{"maxLength":2}`, `"äö"`, `"äöü"`, "", "must have at most 2 characters"},
	{`{"pattern":"^a"}`, `"ab"`, `"ba"`, "", "does not match pattern"},
	{`{"minimum":1.5}`, `1.5`, `1.4999999999999999999999`, "", "must be at least 1.5"},
	{`{"maximum":9007199254740993}`, `9007199254740993`, `9007199254740994`, "", "must be at most 9007199254740993"},
	{`{"const":9007199254740993}`, `9007199254740993`, `9007199254740992`, "", "must equal the const value"},
	{`{"exclusiveMinimum":1e300}`, `10e300`, `1e300`, "", "must be greater than 1e300"},
	{`{"exclusiveMaximum":0}`, `-1e-300`, `0`, "", "must be less than 0"},
	{`{"multipleOf":0.1}`, `0.3`, `0.35`, "", "must be a multiple of 0.1"},
	{`{"multipleOf":0.01}`, `4.35`, `4.355`, "", "must be a multiple of 0.01"},
	{`{"allOf":[{"minimum":1},{"minimum":2}]}`, `2`, `1`, "", "must be at least 2"},
	{`{"anyOf":[{"type":"null"},{"minimum":2}]}`, `2`, `1`, "", "must be at least 2"},
	{`{"anyOf":[{"maximum":0},{"minimum":2}]}`, `2`, `1`, "", "must match at least one schema in anyOf"},
	{`{"oneOf":[{"type":"null"},{"type":"array"}]}`, `[]`, `1`, "", "must match exactly one schema in oneOf"},
	{`{"oneOf":[{"minimum":0},{"minimum":1}]}`, `0`, `1`, "", "must match only one schema in oneOf"},
	{`{"not":{"required":["a"]}}`, `{}`, `{"a":1}`, "", "must not match the schema in not"},
	{`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{"a":1,"b":1}`, `{"a":1}`, "/b", "is required"},
	{`{"if":true,"then":{"type":"null"}}`, `null`, `1`, "", "must be of type null"},
	{`{"items":{"$ref":"#"},"type":["array","null"]}`, `[[null,[]]]`, `[[null,[7]]]`, "/0/1/0", "must be of type array or null"},
	{`{"$ref":"#it","$defs":{"a":{"$id":"x","$defs":{"b":{"$anchor":"it"}}},"b":{"$anchor":"it","type":"null"}}}`, `null`, `1`, "", "must be of type null"},
	{`{"$ref":"x#it","$defs":{"a":{"$id":"x","$defs":{"b":{"$anchor":"it","type":"null"}}}}}`, `null`, `1`, "", "must be of type null"},
	{`{"$id":"https://a.example/tree","$dynamicAnchor":"node","$ref":"t","unevaluatedProperties":false,
	  "$defs":{"t":{"$id":"t","$dynamicAnchor":"node","properties":{"kids":{"items":{"$dynamicRef":"#node"}}}}}}`,
		`{"kids":[{"kids":[]}]}`, `{"kids":[{"kinds":[]}]}`, "/kids/0/kinds", "is not allowed"},
	// Annotations do not validate.
	{`{"format":"date-time","contentEncoding":"base64","contentMediaType":"application/json","contentSchema":false}`, `"x"`, ``, "-", ""},
	{`{"type":"array"}`, `[]`, `"x"`, "", "must be of type array"},
	{`{"type":"object"}`, `{}`, `[]`, "", "must be of type object"},
	// The error describes the closest alternative.
	{`{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"null"}}},{"properties":{"kind":{"enum":["b","c"]},"x":{"type":"string"}}}]}`,
		`{"kind":"c","x":""}`, `{"kind":"b","x":1}`, "/x", "must be of type string"},
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range validity {
		s := compile(t, c.schema)
		if err := s.Validate(context.Background(), canonical(t, []byte(c.good))); err != nil {
			t.Errorf("%s refuses %s: %v", c.schema, c.good, err)
		}
		if c.pointer == "-" {
			continue
		}
		for range 20 { // the library iterates over maps in random order
			refused(t, s.Validate(context.Background(), canonical(t, []byte(c.bad))), c.pointer, c.reason)
		}
		if t.Failed() {
			t.Fatalf("%s on %s", c.schema, c.bad)
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
