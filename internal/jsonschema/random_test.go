package jsonschema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"holdfast/internal/canonjson"
	"holdfast/internal/jsonschema"
)

// TestVerdictIsTheLibrarys checks that keywords implemented in this package give the library's results.
func TestVerdictIsTheLibrarys(t *testing.T) {
	t.Parallel()
	valid, invalid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		root, ok := schemas(3).Draw(t, "schema").(map[string]any)
		if !ok {
			return
		}
		root["$defs"] = map[string]any{"x": schemas(1).Draw(t, "x"), "y": schemas(0).Draw(t, "y")}
		document := text(root)
		ours, err := jsonschema.Compile(document)
		if err != nil {
			if strings.Contains(err.Error(), "refers to itself") {
				return
			}
			t.Fatalf("%s: %v", document, err)
		}
		theirs := plain(t, document)
		for i := range 20 {
			value := text(values(3).Draw(t, fmt.Sprint("value ", i)))
			v, err := santhosh.UnmarshalJSON(bytes.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			want, got := theirs.Validate(v), ours.Validate(context.Background(), canonical(t, value))
			if (want == nil) != (got == nil) {
				t.Fatalf("%s on %s: %v; the library says %v", document, value, got, want)
			}
			if want == nil {
				valid++
			} else {
				invalid++
			}
		}
	})
	if valid == 0 || invalid == 0 {
		t.Errorf("%d valid, %d invalid: nothing was tested", valid, invalid)
	}
}

func plain(t fataler, document []byte) *santhosh.Schema {
	t.Helper()
	doc, err := santhosh.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatalf("%v", err)
	}
	c := santhosh.NewCompiler()
	if err := c.AddResource("urn:plain", doc); err != nil {
		t.Fatalf("%v", err)
	}
	schema, err := c.Compile("urn:plain")
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return schema
}

// FuzzValidate checks that no input panics or takes long, and that every document that passes Check compiles.
func FuzzValidate(f *testing.F) {
	for _, c := range keywordCases() {
		f.Add([]byte(c.Schema), []byte(c.Good))
		f.Add([]byte(c.Schema), []byte(c.Bad))
	}
	f.Add([]byte(indistinct), []byte(strings.Repeat(`{"a":`, 31)+`1`+strings.Repeat(`}`, 31)))
	f.Add([]byte(doubled(5, `{"anyOf":[%[1]s,%[1]s]}`)), []byte(`"x"`))
	f.Add([]byte(`{"patternProperties":{"^(a|b){1,20}$":{"pattern":"\\pL"}},"uniqueItems":true}`), []byte(`{"a":"\u00e4"}`))
	f.Fuzz(func(t *testing.T, document, value []byte) {
		if len(document) > 4<<10 || len(value) > 4<<10 {
			return
		}
		began := time.Now()
		checked := jsonschema.Check(document)
		s, err := jsonschema.Compile(document)
		if (checked == nil) != (err == nil) {
			t.Fatalf("Check: %v; Compile: %v", checked, err)
		}
		if err == nil {
			if v, err := canonjson.Parse(value, 16<<10); err == nil {
				if first, second := s.Validate(context.Background(), v), s.Validate(context.Background(), v); !reflect.DeepEqual(first, second) {
					t.Fatalf("%#v, then %#v", first, second)
				}
			}
			if report, err := jsonschema.Compatible(document, document); err != nil || len(report) > 0 {
				t.Fatalf("nothing changed: %v, %v", report, err)
			}
		}
		if took := time.Since(began); took > soon {
			t.Fatalf("took %v", took)
		}
	})
}

func schemas(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if rapid.IntRange(0, 9).Draw(t, "boolean") == 0 {
			return rapid.Bool().Draw(t, "schema")
		}
		schema, family := map[string]any{}, everything
		if rapid.IntRange(0, 2).Draw(t, "family") == 0 {
			family = ofMembers
		}
		for range rapid.IntRange(1, 3).Draw(t, "keywords") {
			keyword := rapid.SampledFrom(family).Draw(t, "keyword")
			if depth > 0 || !slices.Contains(nesting, keyword) {
				schema[keyword] = operand(t, keyword, depth-1)
			}
		}
		return schema
	})
}

// everything lists schema keywords; ofMembers lists keywords that take effect only together.
var (
	everything = strings.Fields(`type enum const required minimum maximum exclusiveMinimum multipleOf minLength maxItems
		uniqueItems minProperties properties additionalProperties patternProperties propertyNames items prefixItems contains
		anyOf allOf oneOf not if then unevaluatedProperties dependentRequired dependentSchemas $ref`)
	ofMembers = strings.Fields(`properties additionalProperties patternProperties required`)
)

var nesting = strings.Fields(`properties additionalProperties patternProperties propertyNames items prefixItems contains
	anyOf allOf oneOf not if then unevaluatedProperties dependentSchemas $ref`)

func operand(t *rapid.T, keyword string, depth int) any {
	small := rapid.IntRange(0, 3)
	name := rapid.SampledFrom([]string{"a", "b"})
	switch keyword {
	case "type":
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"null", "boolean", "integer", "number", "string", "array", "object"}), 1, 4, rapid.ID).Draw(t, "types")
	case "enum":
		return rapid.SliceOfN(values(1), 1, 3).Draw(t, "enum")
	case "const":
		return values(1).Draw(t, "const")
	case "required":
		return rapid.SliceOfNDistinct(name, 1, 2, rapid.ID).Draw(t, "required")
	case "multipleOf":
		return rapid.IntRange(1, 4).Draw(t, "multipleOf")
	case "uniqueItems":
		return rapid.Bool().Draw(t, "uniqueItems")
	case "properties", "dependentSchemas":
		return rapid.MapOfN(name, schemas(depth), 1, 2).Draw(t, keyword)
	case "patternProperties":
		return rapid.MapOfN(rapid.SampledFrom([]string{"^a", "b"}), schemas(depth), 1, 2).Draw(t, keyword)
	case "dependentRequired":
		return map[string]any{name.Draw(t, "of"): []string{name.Draw(t, "needs")}}
	case "prefixItems", "anyOf", "allOf", "oneOf":
		return rapid.SliceOfN(schemas(depth), 1, 2).Draw(t, keyword)
	case "additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "unevaluatedProperties":
		return schemas(depth).Draw(t, keyword)
	case "$ref":
		return rapid.SampledFrom([]string{"#/$defs/x", "#/$defs/y"}).Draw(t, "ref")
	}
	return small.Draw(t, keyword)
}

func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 7
		if depth == 0 {
			kinds = 5
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "boolean")
		case 2:
			return rapid.IntRange(-1, 4).Draw(t, "integer")
		case 3:
			return rapid.SampledFrom([]any{0.5, 2.5}).Draw(t, "fraction")
		case 4:
			return rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "text")
		case 5:
			return rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "array")
		}
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "ab", "c"}), values(depth-1), 0, 3).Draw(t, "object")
	})
}

func text(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
