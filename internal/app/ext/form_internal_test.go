package ext

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
)

// submitted returns the values that a browser submits for unchanged fields.
func submitted(fields []service.Field) url.Values {
	form := url.Values{}
	for i := range fields {
		f := &fields[i]
		v := strings.ReplaceAll(strings.ReplaceAll(f.Value, "\r\n", "\n"), "\r", "\n")
		switch {
		case f.Options != nil:
			if !slices.ContainsFunc(f.Options, func(o service.Option) bool { return o.Value == v }) {
				v = f.Options[0].Value
			}
		case f.Lines > 0:
		case f.Input == "date":
			if at, err := time.Parse(time.DateOnly, v); err != nil || at.Year() < 1 {
				v = ""
			}
		case f.Input == "datetime-local":
			if len(v) == len("2006-01-02T15:04") {
				v += ":00"
			}
			if at, err := time.Parse("2006-01-02T15:04:05", v); err != nil || at.Year() < 1 {
				v = ""
			} else {
				v = strings.TrimSuffix(at.Format("2006-01-02T15:04:05.999"), ":00")
			}
		case f.Input == "email":
			v = strings.TrimSpace(strings.ReplaceAll(v, "\n", ""))
		default:
			v = strings.ReplaceAll(v, "\n", "")
		}
		form.Set(f.Name, v)
	}
	return form
}

func jsonValue(t *rapid.T, depth int) any {
	kinds := 8
	if depth == 0 {
		kinds = 6
	}
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "a\nb", "\n", "a\rb", "\t", "2026-12-10", "2026-02-31", "0000-01-01", "2026-12-10T15:00:00Z", "2026-12-10T15:00:07.000Z", "2026-12-10T15:00:00.250Z", "2026-12-10T15:00:00.5Z", "2026-12-10T15:00:00+00:00", "0000-12-10T15:00:00Z", "a@b.example", " a@b ", "null", "\"", "<script>", "\x01", "\u202e", strings.Repeat("long ", 40)}))
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return json.Number(rapid.SampledFrom([]string{"0", "-1", "0.1", "12345678901234567890.000000000000000000001", "1e300", "-2.5e-40", "100"}).Draw(t, "number"))
	case 3, 4, 5:
		return strings.ReplaceAll(texts.Draw(t, "text"), "\x00", "")
	case 6:
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return jsonValue(t, depth-1) }), 0, 3).Draw(t, "array")
	}
	return jsonObject(t, depth-1, 3)
}

var propertyNames = []string{"", "a", "b", "title", "a.b", "text.a", "others", "value", "key", "%", "a b", "a+b", "ü", "<b>", "__proto__", "a\nb", "\u202e"}

func jsonObject(t *rapid.T, depth, most int) map[string]any {
	all := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(propertyNames), 0, most, rapid.ID[string]).Draw(t, "names") {
		all[name] = jsonValue(t, depth)
	}
	return all
}

func jsonText(t *rapid.T, v any) canonjson.Value {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	value, err := canonjson.Parse(text, 1<<20)
	if err != nil {
		t.Skip(err)
	}
	return value
}

func drawSchema(t *rapid.T) []byte {
	properties, required := map[string]any{}, []string{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(propertyNames), 1, 8, rapid.ID[string]).Draw(t, "properties") {
		p := map[string]any{}
		switch rapid.IntRange(0, 4).Draw(t, "schema") {
		case 0:
			p["enum"] = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return jsonValue(t, 1) }), 0, 4).Draw(t, "enum")
		case 1:
			p["const"] = jsonValue(t, 1)
		case 2, 3:
			p["type"] = rapid.SampledFrom([]any{"string", "string", "number", "integer", "boolean", "array", "array", "object", "null", []string{"string", "null"}, []string{"boolean", "null"}, []string{"number", "string"}}).Draw(t, "type")
			p["format"] = rapid.SampledFrom([]string{"date", "date-time", "email", "uri", ""}).Draw(t, "format")
			p["items"] = map[string]any{"type": rapid.SampledFrom([]any{"string", "string", "number", []string{"string", "null"}}).Draw(t, "items")}
		}
		properties[name] = p
		if rapid.Bool().Draw(t, "required") {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "required": required}
	if rapid.Bool().Draw(t, "closed") {
		schema["additionalProperties"] = false
	}
	document, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// TestFormReturnsTheValue checks that an unchanged form submits the same value for any schema, even after another
// client changed the record and the schema.
func TestFormReturnsTheValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value, document := jsonText(t, jsonObject(t, 2, 8)), drawSchema(t)
		fields, ok := propertyFields(document, value, nil)
		if !ok {
			t.Fatalf("no fields for %s by %s", value, document)
		}
		form := submitted(fields)
		if len(form) != len(fields) {
			t.Fatalf("two of %d fields have one name", len(fields))
		}
		if got, err := assemble(form, 1<<20); err != nil || got != value {
			t.Fatalf("%v\n%s\nbecomes\n%s\nby %s in\n%v", err, value, got, document, form)
		}
		again, ok := propertyFields(document, value, form)
		if got := submitted(again); !ok || got.Encode() != form.Encode() {
			t.Fatalf("shown again, the form has\n%s\nnot\n%s", got, form)
		}
		changed, other := canonjson.Value(""), drawSchema(t)
		if rapid.Bool().Draw(t, "stored") {
			changed = jsonText(t, jsonObject(t, 2, 8))
		}
		again, ok = propertyFields(other, changed, form)
		if got, err := assemble(submitted(again), 1<<20); !ok || err != nil || got != value {
			t.Fatalf("%v\n%s\nshown again for %s by %s, becomes\n%s", err, value, changed, other, got)
		}
	})
}

const formSchema = `{"type":"object","required":["title","price","kind","open","tags"],"additionalProperties":false,"properties":{
	"title":{"type":"string","description":"Shown to guests."},"price":{"type":"number"},"nights":{"type":"integer"},"kind":{"enum":["room","suite",3]},
	"open":{"type":"boolean"},"paid":{"type":["boolean","null"]},"day":{"type":"string","format":"date"},"mail":{"type":"string","format":"email"},
	"at":{"type":"string","format":"date-time"},"guests":{"type":"array","items":{"type":"string"}},"tags":{"type":"array","items":{"type":"string"}},"any":true}}`

// TestFormFields checks the input for each property type. A value that the input cannot show becomes JSON.
func TestFormFields(t *testing.T) {
	t.Parallel()
	describe := func(value canonjson.Value) string {
		fields, ok := propertyFields([]byte(formSchema), value, nil)
		if !ok {
			return "JSON"
		}
		var all []string
		for _, f := range fields {
			how := f.Input
			if f.Lines > 0 {
				how = fmt.Sprint("lines", f.Lines)
			}
			if f.Options != nil {
				how = fmt.Sprint("choice", len(f.Options))
			}
			if !f.Optional {
				how += "!"
			}
			all = append(all, f.Name+" "+how)
		}
		return strings.Join(all, ", ")
	}
	for value, want := range map[canonjson.Value]string{
		"": "text.title !, number.price decimal!, json.kind choice4!, json.open choice3!, list.tags lines2, seconds.at datetime-local, json.any lines2, text.day date, text.mail email, json.paid choice3, lines.guests lines2, number.nights numeric",
		`{"title":"","price":"cheap","kind":"room","open":true,"at":"","day":"2026-02-31","mail":"a b","paid":null,"guests":["a","b"],"nights":1.5}`: "string.title , json.price lines2!, json.kind choice3!, json.open choice2!, lines.tags lines2!, json.at lines2, json.any lines2, text.day , text.mail , json.paid lines2, lines.guests lines3, number.nights numeric",
		`[]`: "JSON", `"a"`: "JSON",
	} {
		if got := describe(value); got != want {
			t.Errorf("%s has\n%s\nwant\n%s", value, got, want)
		}
	}
	for _, document := range []string{``, `true`, `{}`, `{"type":"string"}`, `{"type":["object","null"],"properties":{"a":true}}`, `{"type":"object"}`, `{"properties":1}`} {
		if _, ok := propertyFields([]byte(document), "", nil); ok {
			t.Errorf("%s has fields", document)
		}
	}
	fields, _ := propertyFields([]byte(formSchema), "", nil)
	if f := fields[0]; f.Label != "title" || f.Help != "Required. Shown to guests." {
		t.Errorf("the title: %+v", f)
	}
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form url.Values
		want string
	}{
		{url.Values{}, `{}`},
		{url.Values{"text.a": {""}, "number.b": {" "}, "json.c": {"\n"}, "others": {" "}}, `{}`},
		{url.Values{"text.a": {" "}, "string.b": {""}, "number.c": {" 1.50 "}, "json.d": {`{"x": [1.0]}`}, "others": {`{"e":2}`}}, `{"a":" ","b":"","c":1.5,"d":{"x":[1]},"e":2}`},
		{url.Values{"number.a": {"12345678901234567890.5"}, "text.a.b+c%00": {""}}, `{"a":12345678901234567890.5}`},
		{url.Values{"seconds.a": {"2026-12-10T15:00"}, "seconds.b": {"2026-12-10T15:00:07.5"}, "seconds.c": {"soon"}, "seconds.d": {""}}, `{"a":"2026-12-10T15:00:00Z","b":"2026-12-10T15:00:07.5Z","c":"soon"}`},
		{url.Values{"millis.a": {"2026-12-10T15:00"}, "millis.b": {"2026-12-10T15:00:07.5"}}, `{"a":"2026-12-10T15:00:00.000Z","b":"2026-12-10T15:00:07.500Z"}`},
		{url.Values{"lines.a": {" x \n\n\"y\"\n \n"}, "lines.b": {"\n"}, "list.c": {" "}, "list.d": {"z"}}, `{"a":[" x ","\"y\""],"c":[],"d":["z"]}`},
		{url.Values{"number.a": {"1,5"}}, "a: expected a number, e.g. 12 or 0.5"},
		{url.Values{"number.a": {`"1"`}}, "a: expected a number, e.g. 12 or 0.5"},
		{url.Values{"json.a": {"{\n\"b\":01}"}}, "a: /b, line 2: "},
		{url.Values{"json.a": {"["}}, "a: /0, line 1: is not valid JSON"},
		{url.Values{"others": {"[]"}}, "Other properties: expected an object"},
		{url.Values{"text.a": {"1"}, "others": {`{"a":2}`}}, "Other properties: a has a field of its own"},
		{url.Values{"text.a": {"1"}, "number.a": {"2"}}, "a: has two fields"},
		{url.Values{"text.a": {"\xff"}, "text.b": {"\x00"}}, "a: is not valid UTF-8;\nb: "},
		{url.Values{"text.a": {strings.Repeat("x", 100)}}, "a: has 102 bytes: the limit is 80"},
		{url.Values{"text.a": {strings.Repeat("x", 50)}, "text.b": {strings.Repeat("x", 50)}}, "has 115 bytes: the limit is 80"},
	} {
		v, err := assemble(c.form, 80)
		got := string(v)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s becomes %s, want %s", html.EscapeString(c.form.Encode()), got, c.want)
		}
	}
}
