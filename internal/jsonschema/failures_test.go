package jsonschema_test

import (
	"errors"
	"fmt"
	"holdfast/internal/jsonschema"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// told returns a value's failures as location, keyword and bound.
func told(t *testing.T, err error) (all []string) {
	t.Helper()
	refused, ok := errors.AsType[*jsonschema.SchemaError](err)
	if !ok {
		t.Fatalf("%v is not a *SchemaError", err)
	}
	for _, f := range refused.Failures {
		if f.Pointer != f.Location || f.Reason == "" {
			t.Errorf("%+v", f)
		}
		text := strings.TrimRight(f.Location+" "+f.Keyword+" "+f.Bound, " ")
		if f.Missing.Set {
			text += " lacks " + f.Missing.Value
		}
		all = append(all, text)
	}
	return all
}

const order = `{"type":"object","required":["id","lines"],"additionalProperties":false,"properties":{
	"id":{"type":"string","pattern":"^[a-z]+$","maxLength":8},"state":{"enum":["open","done"]},"version":{"const":2},
	"lines":{"type":"array","minItems":1,"uniqueItems":true,"items":{"$ref":"#/$defs/line"}},
	"paid":{"anyOf":[{"type":"null"},{"type":"object","required":["at"],"properties":{"sum":{"exclusiveMinimum":0.5}}}]}},
	"$defs":{"line":{"$id":"line","type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1,"maximum":99,"multipleOf":3}}}}}`

func TestFailures(t *testing.T) {
	t.Parallel()
	long := `{"enum":["` + strings.Repeat("x", 300) + `"]}`
	for _, c := range []struct {
		schema, value string
		want          []string
	}{
		{order, `{"id":"A1234567890","lines":[],"state":"gone","version":1,"more":1,"extra":2}`, []string{
			`/extra additionalProperties`, `/id pattern "^[a-z]+$"`, `/id maxLength 8`, `/lines minItems 1`, `/more additionalProperties`,
			`/state enum ["open","done"]`, `/version const 2`,
		}},
		{order, `{"state":"open","lines":[{"n":3},{"n":-1},{"n":100},{"n":"x"},{}]}`, []string{
			` required ["id","lines"] lacks id`, `/lines/1/n multipleOf 3`, `/lines/1/n minimum 1`, `/lines/2/n multipleOf 3`, `/lines/2/n maximum 99`,
			`/lines/3/n type "integer"`, `/lines/4 required ["n"] lacks n`,
		}},
		{order, `{"id":"a","lines":[{"n":3}],"paid":{"sum":0.5}}`, []string{`/paid required ["at"] lacks at`}},
		{order, `{"id":"a","lines":[{"n":3}],"paid":{"at":1,"sum":0.5}}`, []string{`/paid/sum exclusiveMinimum 0.5`}},
		{long, `1`, []string{` enum`}},
		{`{"items":false}`, `[1,2]`, []string{`/0 items`, `/1 items`}},
		{`{"not":{"type":"null"}}`, `null`, []string{` not`}},
		{`{"unevaluatedProperties":false,"properties":{"a":{"type":"null"}}}`, `{"a":1,"b":1}`, []string{`/a type "null"`}},
		{`{"unevaluatedProperties":false,"properties":{"a":{"type":"null"}}}`, `{"a":null,"b":1,"c":1}`, []string{`/b unevaluatedProperties`, `/c unevaluatedProperties`}},
		{`{"minimum":` + strings.Repeat("9", 300) + `}`, `1`, []string{` minimum`}},
	} {
		s := compile(t, c.schema)
		for range 10 { // the result must be deterministic
			if got := told(t, s.Validate(t.Context(), canonical(t, []byte(c.value)))); !reflect.DeepEqual(got, c.want) {
				t.Fatalf("%s: %q, want %q", c.value, got, c.want)
			}
		}
	}
	many := told(t, compile(t, `{"items":{"type":"null"}}`).Validate(t.Context(), canonical(t, []byte("["+strings.Repeat("1,", 40)+"1]"))))
	if len(many) != jsonschema.MaxSchemaFailures || many[0] != `/0 type "null"` || many[19] != `/19 type "null"` {
		t.Errorf("%d failures: %q", len(many), many)
	}
}

// TestFailuresOfLargeValues checks that failures contain locations even if a value takes too long to explain
// completely.
func TestFailuresOfLargeValues(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(`{"n":3},`, 6_500)
	good := strings.Repeat(`[0],`, 9_000)
	var members, distinct strings.Builder
	for i := range 4_000 {
		fmt.Fprintf(&members, `"m%d":{"a":1},`, i)
		fmt.Fprintf(&distinct, `{"n":%d},`, 3+i)
	}
	for name, c := range map[string]struct {
		schema, value string
		want          []string
	}{
		"items":                {`{"items":` + line + `}`, `[` + lines + `{"n":102},{"n":1},{}]`, []string{`/6500/n maximum 99`, `/6501/n multipleOf 3`, `/6502 required ["n"] lacks n`}},
		"items behind a name":  {`{"properties":{"a":{"properties":{"b":{"items":` + line + `}}}}}`, `{"a":{"b":[` + lines + `{"n":2}]}}`, []string{`/a/b/6500/n multipleOf 3`}},
		"items of a reference": {`{"$ref":"#/$defs/l","$defs":{"l":{"items":{"$ref":"#/$defs/n"}},"n":` + line + `}}`, `[` + lines + `{"n":2}]`, []string{`/6500/n multipleOf 3`}},
		"an alternative":       {`{"anyOf":[{"type":"null"},{"type":"array","items":` + line + `}]}`, `[` + lines + `{"n":2}]`, []string{`/6500/n multipleOf 3`}},
		"allOf":                {`{"allOf":[true,{"items":{"minItems":1}},{"items":{"items":{"maximum":0}}}]}`, `[` + good + `[],[1]]`, []string{`/9000 minItems 1`, `/9001/0 maximum 0`}},
		"then":                 {`{"if":{"type":"array"},"then":{"items":{"items":{"maximum":0},"minItems":1}}}`, `[` + good + `[1]]`, []string{`/9000/0 maximum 0`}},
		"members":              {`{"additionalProperties":{"properties":{"a":{"maximum":1},"b":false},"patternProperties":{"^a":{"minimum":1}}}}`, `{` + members.String() + `"x":{"a":2},"y":{"b":1},"z":{"ab":0}}`, []string{`/x/a maximum 1`, `/y/b properties`, `/z/ab minimum 1`}},
		"its own keywords":     {`{"maxItems":5,"items":` + line + `}`, `[` + lines + `{"n":2}]`, []string{` maxItems 5`, `/6500/n multipleOf 3`}},
		"contains":             {`{"contains":{"required":["x"],"properties":{"x":true}},"items":` + line + `}`, `[` + lines + `{"n":3}]`, []string{` contains`}},
		"no alternative":       {`{"oneOf":[{"items":{"required":["x"]}},{"items":{"required":["y"]}}],"items":` + line + `}`, `[` + lines + `{"n":3}]`, []string{` oneOf`}},
		"everywhere":           {`{"items":{"items":{"type":"null"}}}`, `[` + good + `[1]]`, twenty(`/%d/0 type "null"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, c.schema)
			err := s.Validate(t.Context(), canonical(t, []byte(c.value)))
			if got := told(t, err); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if again := s.Validate(t.Context(), canonical(t, []byte(c.value))); !reflect.DeepEqual(again, err) {
				t.Errorf("%v, then %v", err, again)
			}
		})
	}
}

// TestReasonsOfLargeValues compares the reasons of alternatives in a value that is explained completely and in one that
// takes too long.
func TestReasonsOfLargeValues(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{"anyOf", "oneOf"} {
		schema := compile(t, `{"`+keyword+`":[{"items":{"required":["x"]}},{"items":{"required":["y"]}}],"items":`+line+`}`)
		var reasons []string
		for _, n := range []int{0, 6_500} {
			err := schema.Validate(t.Context(), canonical(t, []byte(`[`+strings.Repeat(`{"n":3},`, n)+`{"n":3}]`)))
			refused, ok := errors.AsType[*jsonschema.SchemaError](err)
			if !ok || len(refused.Failures) == 0 {
				t.Fatalf("%s: %v", keyword, err)
			}
			reasons = append(reasons, refused.Failures[0].Reason)
		}
		if reasons[0] != reasons[1] {
			t.Errorf("%s: %q", keyword, reasons)
		}
	}
}

const line = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1,"maximum":99,"multipleOf":3}}}`

func twenty(format string) (all []string) {
	for i := range jsonschema.MaxSchemaFailures {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

func TestSearchIsBounded(t *testing.T) { //nolint:paralleltest // it measures the allocations of the process
	s := compile(t, `{"items":{"anyOf":[{"minimum":9}`+strings.Repeat(`,{"minimum":10}`, 9)+`]}}`)
	v := canonical(t, []byte("["+strings.Repeat("1,", 6_000)+"1]"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := told(t, s.Validate(t.Context(), v))
	runtime.ReadMemStats(&after)
	if !reflect.DeepEqual(got, twenty("/%d anyOf")) {
		t.Errorf("%q", got)
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 200 {
		t.Errorf("%d MB were allocated", mb)
	} else {
		t.Logf("%d MB were allocated", mb)
	}
}
