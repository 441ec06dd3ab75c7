package jsonschema_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/jsonschema"
)

func TestCompatible(t *testing.T) {
	t.Parallel()
	const (
		harmless = jsonschema.Harmless
		unknown  = jsonschema.Unknown
		breaking = jsonschema.Breaking
	)
	for _, c := range []struct {
		before, after string
		effect        jsonschema.Effect
		pointer       string // first change with this effect; "-" without a change
	}{
		{`{"type":"string","title":"a"}`, `{"title":"b","type":["string"],"format":"date"}`, harmless, "-"},
		{`true`, `{}`, harmless, "-"},
		{`false`, `{"type":"string"}`, harmless, ""},
		{`{"type":"string"}`, `false`, breaking, ""},
		{`{"type":"string"}`, `true`, harmless, ""},
		{`{}`, `{"type":"string"}`, breaking, "/type"},
		{`{"type":["string","null"]}`, `{"type":"string"}`, breaking, "/type"},
		{`{"type":"integer"}`, `{"type":"number"}`, harmless, "/type"},
		{`{"type":"number"}`, `{"type":"integer"}`, breaking, "/type"},
		{`{"enum":["a","b"]}`, `{"enum":["b","a","c"]}`, harmless, "/enum"},
		{`{"enum":["a","b"]}`, `{"enum":["a"]}`, breaking, "/enum"},
		{`{"const":1}`, `{"enum":[1.0,2]}`, harmless, "/enum"},
		{`{"const":1}`, `{}`, harmless, ""},
		{`{"properties":{"a/b":{"minLength":1}}}`, `{"properties":{"a/b":{"minLength":2}}}`, breaking, "/properties/a~1b/minLength"},
		{`{"maxLength":9}`, `{"maxLength":10}`, harmless, "/maxLength"},
		{`{"minItems":0,"maxItems":5}`, `{"maxItems":5}`, harmless, "-"},
		{`{"minimum":1}`, `{"exclusiveMinimum":1}`, breaking, "/minimum"},
		{`{"exclusiveMaximum":9007199254740993}`, `{"exclusiveMaximum":9007199254740992}`, breaking, "/maximum"},
		{`{"multipleOf":0.2}`, `{"multipleOf":0.1}`, harmless, "/multipleOf"},
		{`{"multipleOf":0.1}`, `{"multipleOf":0.2}`, breaking, "/multipleOf"},
		{`{"pattern":"a"}`, `{"pattern":"b"}`, unknown, "/pattern"},
		{`{"required":["a"]}`, `{"required":["a","b"]}`, breaking, "/required"},
		{`{"required":["a","b"]}`, `{"required":["b"]}`, harmless, "/required"},
		{`{"properties":{"a":{}}}`, `{"properties":{"a":{},"b":{"type":"string"}}}`, harmless, "/properties/b"},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"null"}}`, `{"properties":{"a":{},"b":{"type":"string"}},"additionalProperties":{"type":"null"}}`, breaking, "/properties/b/type"},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"additionalProperties":false}`, breaking, "/properties/a"},
		{`{"properties":{"a":{"type":"null"}}}`, `{}`, harmless, ""},
		{`{"properties":{"a":{"type":"null"}},"additionalProperties":{"type":"string"}}`, `{"additionalProperties":{"type":"string"}}`, breaking, "/properties/a/type"},
		{`{"properties":{"a":{}},"patternProperties":{"b":{"type":"null"}}}`, `{"patternProperties":{"b":{"type":"null"}}}`, unknown, "/properties/a"},
		{`{"patternProperties":{"b":{"type":"null"}}}`, `{"properties":{"b":{"type":"string"}},"patternProperties":{"b":{"type":"null"}}}`, unknown, "/properties/b"},
		{`{"properties":{"a":{}}}`, `{"properties":{"a":{}},"additionalProperties":false}`, breaking, "/additionalProperties"},
		{`{"patternProperties":{"a":{"type":"null"}}}`, `{"patternProperties":{"b":{"type":"null"}}}`, breaking, "/patternProperties/b"},
		{`{"items":{"type":"null"}}`, `{"items":{"type":["null","string"]}}`, harmless, "/items/type"},
		{`{"items":{"type":"null"}}`, `{"prefixItems":[{"type":"string"}],"items":{"type":"null"}}`, breaking, "/prefixItems/0/type"},
		{`{"uniqueItems":true}`, `{"uniqueItems":false}`, harmless, "/uniqueItems"},
		{`{"contains":{"type":"null"}}`, `{"contains":{"type":"string"}}`, unknown, "/contains"},
		{`{"anyOf":[{"type":"null"}]}`, `{"anyOf":[{"type":"null"},{"type":"string"}]}`, harmless, "/anyOf/1"},
		{`{"anyOf":[{"type":"null"},{"type":"string"}]}`, `{"anyOf":[{"type":"null"}]}`, breaking, "/anyOf/1"},
		{`{"allOf":[{"type":"null"}]}`, `{"allOf":[{"type":"null"},{"minLength":1}]}`, breaking, "/allOf/1"},
		{`{"oneOf":[{"type":"null"}]}`, `{"oneOf":[{"type":"null"},{"type":"string"}]}`, unknown, "/oneOf"},
		{`{"not":{"type":"null"}}`, `{"not":{"type":"string"}}`, unknown, "/not"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{}`, harmless, ""},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}}`, `{"type":"null"}`, harmless, "-"},
		{`{"type":"null"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, breaking, "/$defs/a/type"},
		{`{"items":{"$ref":"#"}}`, `{"items":{"$ref":"#"},"type":"array"}`, breaking, "/type"},
		{`{}`, `{"items":{"$ref":"#"},"type":["array","null"]}`, breaking, "/type"},
		{`{"$ref":"#/$defs/a","unevaluatedProperties":false,"$defs":{"a":{"properties":{"x":true}}}}`,
			`{"$ref":"#/$defs/a","unevaluatedProperties":false,"$defs":{"a":{}}}`, unknown, "/unevaluatedProperties"},
		{`{"oneOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"null"}}}`, `{"oneOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"string"}}}`, unknown, "/oneOf"},
	} {
		report, err := jsonschema.Compatible([]byte(c.before), []byte(c.after))
		if err != nil {
			t.Fatalf("%s, %s: %v", c.before, c.after, err)
		}
		place := "-"
		for _, change := range report {
			if change.Effect == report.Effect() {
				place = change.Pointer
				break
			}
		}
		if report.Effect() != c.effect || place != c.pointer {
			t.Errorf("%s\n%s\n%v at %q, want %v at %q: %v", c.before, c.after, report.Effect(), place, c.effect, c.pointer, report)
		}
	}
	_, err := jsonschema.Compatible([]byte(`{}`), []byte(`{"type":"text"}`))
	refused(t, err, "/type", "")
}

// TestCompatibleIsSound checks that after harmless changes every valid value remains valid, except for members added
// to an open object, which the report names.
func TestCompatibleIsSound(t *testing.T) {
	t.Parallel()
	harmless, passed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		root := func(label string) map[string]any {
			schema, ok := schemas(2).Draw(t, label).(map[string]any)
			if !ok {
				schema = map[string]any{}
			}
			return schema
		}
		defs := map[string]any{"x": schemas(0).Draw(t, "x"), "y": schemas(0).Draw(t, "y")}
		before, after := root("before"), map[string]any{}
		for _, keyword := range slices.Sorted(maps.Keys(before)) {
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
			case 1, 2:
				after[keyword] = operand(t, keyword, 1)
			default:
				after[keyword] = before[keyword]
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "more") == 0 {
			maps.Copy(after, root("more"))
		}
		before["$defs"] = defs
		after["$defs"] = map[string]any{"x": defs["x"], "y": schemas(0).Draw(t, "new y")}
		if rapid.Bool().Draw(t, "same y") {
			after["$defs"] = defs
		}
		oldText, newText := text(before), text(after)
		report, err := jsonschema.Compatible(oldText, newText)
		if err != nil {
			t.Fatalf("%s, %s: %v", oldText, newText, err)
		}
		if report.Effect() != jsonschema.Harmless || strings.Contains(fmt.Sprint(report), "another type") {
			return
		}
		harmless++
		o, n := compile(t, string(oldText)), compile(t, string(newText))
		for i := range 40 {
			value := canonical(t, text(values(2).Draw(t, fmt.Sprint("value ", i))))
			if o.Validate(context.Background(), value) != nil {
				continue
			}
			passed++
			if err := n.Validate(context.Background(), value); err != nil {
				t.Fatalf("%s\npasses %s\nnot    %s: %v\nreport %v", value, oldText, newText, err, report)
			}
		}
	})
	if harmless == 0 || passed == 0 {
		t.Errorf("%d harmless changes, %d values: nothing was tested", harmless, passed)
	}
	t.Logf("%d harmless changes, %d values", harmless, passed)
}

func TestCompatibleEnds(t *testing.T) {
	t.Parallel()
	circle := func(n int, keyword string) string {
		defs := make([]string, n)
		for i := range defs {
			defs[i] = fmt.Sprintf(`"%d":{"properties":{"x":{"$ref":"#/$defs/%d"}},%s}`, i, (i+1)%n, keyword)
		}
		return `{"$ref":"#/$defs/0","$defs":{` + strings.Join(defs, ",") + `}}`
	}
	list := func(n int, format string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(items, ",")
	}
	values, members := `{"additionalProperties":{"enum":[`+list(3_000, "%d")+`]}}`, list(1900, `"%d":{"const":"x"}`)
	for what, c := range map[string]struct {
		before, after string
		effect        jsonschema.Effect
	}{
		"circles":           {circle(990, `"minimum":1`), circle(989, `"minLength":1`), jsonschema.Breaking},
		"circles of others": {circle(990, `"title":"a"`), circle(989, `"title":"b"`), jsonschema.Unknown},
		"values":            {values, `{"properties":{` + members + `}}`, jsonschema.Breaking},
		"members":           {`{"properties":{` + members + `}}`, `{}`, jsonschema.Harmless},
		"names":             {`{"required":[` + list(8000, `"a%d"`) + `]}`, `{"required":[` + list(8000, `"b%d"`) + `]}`, jsonschema.Breaking},
	} {
		for _, document := range []string{c.before, c.after} {
			if err := jsonschema.Check([]byte(document)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		report, err := jsonschema.Compatible([]byte(c.before), []byte(c.after))
		if err != nil || len(report) > 1001 || report.Effect() != c.effect {
			t.Errorf("%s: %d changes, %v, %v; want %v", what, len(report), report.Effect(), err, c.effect)
		}
	}
}
