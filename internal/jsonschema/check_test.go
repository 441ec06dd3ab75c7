package jsonschema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/jsonschema"
)

func refused(t *testing.T, err error, pointer, words string) {
	t.Helper()
	e, ok := errors.AsType[*jsonschema.Error](err)
	if value, isValue := errors.AsType[*jsonschema.SchemaError](err); isValue {
		e, ok = &jsonschema.Error{Pointer: value.Failures[0].Location, Reason: value.Failures[0].Reason}, true
	}
	if !ok {
		t.Fatalf("%v is no *Error; want one at %q", err, pointer)
	}
	if e.Pointer != pointer || !strings.Contains(e.Reason, words) {
		t.Errorf("refused at %q: %s\nwant at %q: …%s…", e.Pointer, e.Reason, pointer, words)
	}
	if !errcode.Is(err, errcode.Invalid) {
		t.Errorf("coded %v", errcode.Of(err))
	}
}

// doubled returns a schema with n levels, each referring twice to the next level in the given format.
func doubled(n int, format string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/s0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"s%d":`, i)
		fmt.Fprintf(&b, format, fmt.Sprintf(`{"$ref":"#/$defs/s%d"}`, i+1))
		b.WriteByte(',')
	}
	fmt.Fprintf(&b, `"s%d":{"type":"integer"}}}`, n)
	return b.String()
}

func nested(n int) string {
	return strings.Repeat(`{"properties":{"a":`, n) + `true` + strings.Repeat(`}}`, n)
}

type refusal struct{ name, document, pointer, words string }

func refusedPatterns() []refusal {
	return []refusal{
		{"lookahead", `{"properties":{"a":{"pattern":"^(?=x)"}}}`, "/properties/a/pattern", "RE2"},
		{"a back reference", `{"pattern":"(a)\\1"}`, "/pattern", "RE2"},
		{"a bad name", `{"patternProperties":{"(":{}}}`, "/patternProperties/(", "RE2"},
		{"a long pattern", `{"pattern":"` + strings.Repeat(`x{1000}`, 20) + `"}`, "/pattern", "all patterns together are limited to 10000 instructions"},
		{"a wide class, repeated", `{"properties":{"a":{"pattern":"^[a-z\\p{L}]{900}x0"}}}`, "/properties/a/pattern", "500000 ranges"},
		{"a wide class in a name", `{"patternProperties":{"\\P{Lu}{400}(x|\\p{L}{900})":{}}}`, "/patternProperties/\\P{Lu}{400}(x|\\p{L}{900})", "character classes"},
		{"wide classes", `{"allOf":[` + strings.Repeat(`{"pattern":"[\\p{L}x]{300}"},`, 4) + `true]}`, "/allOf/2/pattern", "character classes"},
		{"many classes", `{"pattern":"` + strings.Repeat(`\\pL`, 10_000) + `"}`, "/pattern", "character classes"},
		{"ranges without case", `{"pattern":"(?i)` + strings.Repeat(`[B-𞤀]`, 5_000) + `"}`, "/pattern", "character classes"},
		{"ranges without case, escaped", `{"pattern":"(?si:` + strings.Repeat(`[B-\\x{1e900}]`, 4_000) + `)"}`, "/pattern", "character classes"},
		{"long patterns", `{"allOf":[` + strings.Repeat(`{"pattern":"x{900}"},`, 20) + `true]}`, "/allOf/5/pattern", "all patterns together are limited to 10000 instructions"},
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range append(refusedPatterns(), []refusal{
		{"nothing", ``, "", "not valid JSON"},
		{"half a text", `{"type":`, "/type", "not valid JSON"},
		{"a comma too many", `{"enum":[1,]}`, "/enum/1", "not valid JSON"},
		{"two texts", `{} {}`, "", "followed"},
		{"no UTF-8", "{\"title\":\"\xff\"}", "/title", "UTF-8"},
		{"a string", `"x"`, "", "must be a schema"},
		{"a member twice", `{"properties":{"a":{},"a":{}}}`, "/properties/a", "duplicate name"},
		{"a member twice, escaped", `{"type":"null","\u0074ype":"null"}`, "/type", "duplicate name"},
		{"too long", `{"title":"` + strings.Repeat("x", jsonschema.MaxBytes) + `"}`, "", "the limit is 65536 bytes"},
		{"too deep", strings.Repeat(`{"not":`, 32) + `{}` + strings.Repeat(`}`, 32), strings.Repeat("/not", 32), "nested too deeply"},
		{"too many subschemas", `{"allOf":[` + strings.Repeat(`true,`, jsonschema.MaxSubschemas) + `true]}`, "/allOf/1999", "exceeds the limit of 2000 subschemas"},
		{"long names", `{"properties":{"` + strings.Repeat("x", 50_000) + `":{"allOf":[` + strings.Repeat(`{},`, 1_900) + `{}]}}}`,
			"/properties/" + strings.Repeat("x", 50_000) + "/allOf/19", "the JSON pointers to all subschemas exceed"},
		{"a number bomb", `{"maximum":1e2000000000}`, "/maximum", "exponent"},
		{"a long number", `{"const":` + strings.Repeat("1", 2000) + `}`, "/const", "400 digits"},

		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, "/$schema", "2020-12"},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema"}`, "/$schema", "2020-12"},
		{"a dialect of one's own", `{"$schema":"https://example.org/mine"}`, "/$schema", "2020-12"},
		{"a dialect that is no text", `{"$schema":7}`, "/$schema", "2020-12"},
		{"draft-07 inside", `{"$defs":{"a/b":{"$id":"x","$schema":"http://json-schema.org/draft-07/schema"}}}`, "/$defs/a~1b/$schema", "2020-12"},
		{"recursive reference", `{"items":{"$recursiveRef":"#"}}`, "/items/$recursiveRef", "2020-12"},

		{"an unknown type", `{"properties":{"a":{"type":"text"}}}`, "/properties/a/type", ""},
		{"properties as an array", `{"properties":[]}`, "/properties", "must be of type object"},
		{"items of draft-07", `{"items":[{}]}`, "/items", "must be of type boolean or object"},
		{"enum as a text", `{"$defs":{"x":{"enum":"a"}}}`, "/$defs/x/enum", "must be an array of values"},
		{"required as a boolean", `{"required":true}`, "/required", "must be an array of strings without duplicates"},
		{"a negative count", `{"minLength":-1}`, "/minLength", ""},
		{"half a count", `{"minLength":1.5}`, "/minLength", "must be a whole number of at least 0"},
		{"a count that does not fit", `{"maxItems":18446744073709551616}`, "/maxItems", "at most 2147483647"},
		{"multiple of nothing", `{"multipleOf":0}`, "/multipleOf", ""},

		{"a file", `{"$ref":"file:///etc/passwd"}`, "/$ref", "refers to another document"},
		{"a relative file", `{"items":{"$ref":"other.json"}}`, "/items/$ref", "refers to another document"},
		{"the network", `{"$ref":"https://example.org/s.json#/a"}`, "/$ref", "refers to another document"},
		{"the metaschema", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "/$ref", "refers to another document"},
		{"the network, from an id", `{"$id":"https://example.org/a","$ref":"b"}`, "/$ref", "refers to another document"},
		{"the network, dynamically", `{"$dynamicRef":"https://example.org/s.json#a"}`, "/$dynamicRef", "refers to another document"},
		{"no such definition", `{"$ref":"#/$defs/none"}`, "/$ref", "does not point to a schema"},
		{"no such anchor", `{"$ref":"#none"}`, "/$ref", "does not point to a schema"},
		{"into an enum", `{"enum":[{}],"$ref":"#/enum/0"}`, "/$ref", "does not point to a schema"},
		{"no URL", `{"$ref":"http://[::1"}`, "/$ref", "not a valid URI reference"},
		{"relative to a URN", `{"$id":"urn:a:b","$ref":"c"}`, "/$ref", "not a valid URI reference"},
		{"one id twice", `{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`, "/$defs/b/$id", "is a duplicate"},
		{"the document's own name", `{"$id":"urn:x:y","$defs":{"a":{"$id":"holdfast://schema/document"}}}`, "/$defs/a/$id", "is a duplicate"},
		{"one anchor twice", `{"$defs":{"a":{"$anchor":"x"},"b":{"$dynamicAnchor":"x"}}}`, "/$defs/b/$dynamicAnchor", "is a duplicate"},

		{"itself", `{"$ref":"#"}`, "", "itself"},
		{"itself, around", `{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "/$defs/a", "itself"},
		{"itself, dynamically", `{"$dynamicAnchor":"a","anyOf":[{"$dynamicRef":"#a"}]}`, "", "itself"},
		{"doubled references", doubled(16, `{"anyOf":[%[1]s,%[1]s]}`), "", "more than 1000 subschemas"},
		{"doubled references, under allOf", doubled(24, `{"allOf":[%[1]s,%[1]s]}`), "", "more than 1000 subschemas"},
		{"doubled references, under if", doubled(24, `{"if":%[1]s,"then":%[1]s}`), "", "more than 1000 subschemas"},
		{"doubled references, with members between", doubled(24, `{"anyOf":[{"properties":{"a":%[1]s}},{"properties":{"a":%[1]s}}]}`), "", "more than 50000 subschemas"},
		{"doubled references, of items", doubled(24, `{"prefixItems":[%[1]s],"contains":%[1]s}`), "", "more than 50000 subschemas"},
		{"500 levels", nested(500), strings.Repeat("/properties/a", 16), "nested too deeply"},
		{"2,000 levels", nested(2000), strings.Repeat("/properties/a", 16), "nested too deeply"},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			refused(t, jsonschema.Check([]byte(c.document)), c.pointer, c.words)
			if _, err := jsonschema.Compile([]byte(c.document)); err == nil {
				t.Error("Compile lets it pass")
			}
			if took := time.Since(began); took > soon {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		`true`, `false`, `{}`, ` {"$schema":"https://json-schema.org/draft/2020-12/schema"} `,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema#"}`,
		`{"$id":"https://example.org/a","$ref":"#/$defs/x","$defs":{"x":{"$id":"b","$anchor":"here"},"y":{"$ref":"b#here"}}}`,
		`{"$id":"urn:uuid:0190163d-8694-739b-aea5-966c26f8ad91","items":{"$ref":"#"}}`,
		`{"properties":{"a~/ %":{"type":"null"}},"$ref":"#/properties/a~0~1%20%25"}`,
		`{"items":{"$ref":"#"},"additionalProperties":{"$ref":"#"}}`,
		`{"default":{"$ref":"https://example.org"},"const":{"$schema":"x"},"examples":[{"pattern":"("}],"x-of-mine":{"$id":7}}`,
		`{"properties":{"$ref":{"type":"string"},"pattern":{"const":"("}}}`,
		`{"format":"no such","contentEncoding":"base64","contentSchema":{"type":"null"}}`,
		`{"definitions":{"x":true},"dependencies":{"a":["b"],"c":{"$ref":"#/definitions/x"}}}`,
		doubled(7, `{"anyOf":[%[1]s,%[1]s]}`),
		nested(15),
		`{"maxLength":2147483647,"minimum":-1e300,"multipleOf":0.01}`,
		`{"pattern":"^\\p{L}{1,500}$"}`,
		`{"pattern":"(?i)^[a-zà-ÿ0-9_-]+\\P{L}$","patternProperties":{"(?i)^[\\p{L}\\p{M}' -]{1,100}$":{}}}`,
	} {
		if err := jsonschema.Check([]byte(document)); err != nil {
			e := err.(*jsonschema.Error) //nolint:forcetypeassert // Check returns no other type
			t.Errorf("%s\nrefused at %q: %v", document, e.Pointer, err)
			continue
		}
		if _, err := jsonschema.Compile([]byte(document)); err != nil {
			t.Errorf("%s\ndoes not compile: %v", document, err)
		}
	}
}
