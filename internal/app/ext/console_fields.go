package ext

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
)

// A field name starts with its kind, so parsing the form does not depend on the schema, which may have changed.
const (
	textKind    = "text"    // string; absent if empty
	stringKind  = "string"  // string, may be empty
	numberKind  = "number"  // number; absent if empty
	secondsKind = "seconds" // UTC time, stored with seconds; absent if empty
	millisKind  = "millis"  // UTC time, stored with milliseconds; absent if empty
	linesKind   = "lines"   // nonblank lines, as an array; absent if empty
	listKind    = "list"    // nonblank lines, as an array
	jsonKind    = "json"    // absent if empty
)

var fieldKinds = []string{textKind, stringKind, numberKind, secondsKind, millisKind, linesKind, listKind, jsonKind}

// othersField is the field for properties without a field of their own, as a JSON object.
const othersField = "others"

const (
	mostProperties = 60  // with their own field; the rest go to othersField
	mostChoices    = 100 // in a select
	lineRunes      = 80
	hintRunes      = 300
)

// objectSchema is the part of a JSON Schema that decides the form's fields.
type objectSchema struct {
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Additional json.RawMessage            `json:"additionalProperties"`
}

// property returns a property's schema, which is empty if the schema does not name it.
func (o *objectSchema) property(name string) *property {
	p := &property{name: name, required: slices.Contains(o.Required, name)}
	_ = json.Unmarshal(o.Properties[name], p) // true and false accept every value, or none
	return p
}

// propertyFields returns the fields for a value, which is "" for a new record, or for a resubmitted form if typed is
// not nil. It returns false if the schema or the value is not an object.
func propertyFields(document []byte, value canonjson.Value, typed url.Values) (all []service.Field, ok bool) {
	var schema objectSchema
	if json.Unmarshal(document, &schema) != nil || len(schema.Properties) == 0 || len(schema.Type) > 0 && string(schema.Type) != `"object"` {
		return nil, false
	}
	others := map[string]json.RawMessage{}
	if typed == nil && value != "" && (value[0] != '{' || json.Unmarshal([]byte(value), &others) != nil) {
		return nil, false
	}
	named := map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(typed)) {
		if kind, name, ok := parseField(field); ok {
			named[name] = kind
		}
	}
	columns := schemaColumns(document)
	for _, c := range columns[:min(len(columns), mostProperties)] {
		p := schema.property(c.name)
		if kind, found := named[c.name]; found {
			all = append(all, p.fieldOf(kind, typed.Get(fieldName(kind, c.name))))
		} else {
			all = append(all, p.field(others[c.name], value == "" && typed == nil))
		}
		delete(named, c.name)
		delete(others, c.name)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) { // the schema had these properties when the form was shown
		all = append(all, (&property{name: name}).fieldOf(named[name], typed.Get(fieldName(named[name], name))))
	}
	text := typed.Get(othersField)
	if object, err := json.Marshal(others); err == nil && len(others) > 0 {
		text = indented(string(object))
	}
	if text != "" || len(columns) > mostProperties || string(schema.Additional) != "false" {
		all = append(all, service.Field{Name: othersField, Label: "Other properties", Value: text, Lines: linesOf(text), Optional: true, Help: "A JSON object."})
	}
	return all, true
}

// fieldName escapes the property, because its name may contain any character.
func fieldName(kind, property string) string { return kind + "." + url.QueryEscape(property) }

// parseField parses fieldName. It returns false for the form's other fields.
func parseField(field string) (kind, property string, ok bool) {
	kind, escaped, _ := strings.Cut(field, ".")
	property, err := url.QueryUnescape(escaped)
	return kind, property, err == nil && slices.Contains(fieldKinds, kind)
}

// field returns a form field that preserves the value; it uses JSON if no other kind can. A nil value is absent.
func (p *property) field(value json.RawMessage, isNew bool) service.Field {
	var text string
	var list []string
	isText := len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil
	isNumber := len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
	isList := len(value) > 0 && value[0] == '[' && isTextArray(value) && json.Unmarshal(value, &list) == nil && !slices.ContainsFunc(list, isNoLine)
	switch {
	case p.options(value) != nil:
		return p.fieldOf(jsonKind, string(value))
	case p.is("integer", "number") && (value == nil || isNumber):
		return p.fieldOf(numberKind, string(value))
	case p.isTime() && value == nil:
		return p.fieldOf(secondsKind, "")
	case p.isTime() && isText && isTime(text, time.RFC3339):
		return p.fieldOf(secondsKind, strings.TrimSuffix(text, "Z"))
	case p.isTime() && isText && isTime(text, rfc3339Millis):
		return p.fieldOf(millisKind, strings.TrimSuffix(text, "Z"))
	case p.is("string") && (value == nil || isText && !p.required && text != "" && isShown(text)):
		return p.fieldOf(textKind, text)
	case p.is("string") && isText && p.required && isShown(text):
		return p.fieldOf(stringKind, text)
	case p.isTextList() && (value == nil && !(isNew && p.required) || isList && len(list) > 0 && !p.required):
		return p.fieldOf(linesKind, strings.Join(list, "\n"))
	case p.isTextList() && (value == nil || isList && p.required):
		return p.fieldOf(listKind, strings.Join(list, "\n"))
	}
	return p.fieldOf(jsonKind, indented(string(value)))
}

// fieldOf returns the field for a kind that is already chosen, e.g. in a form that is shown again. text is in the
// kind's form.
func (p *property) fieldOf(kind, text string) service.Field {
	f := service.Field{Name: fieldName(kind, p.name), Label: cmp.Or(abbreviated(p.name), strconv.Quote("")), Value: text, Optional: !p.required}
	switch kind {
	case numberKind:
		f.Input = "decimal"
		if p.is("integer") {
			f.Input = "numeric"
		}
	case secondsKind, millisKind:
		f.Input, f.Help = "datetime-local", "UTC."
	case textKind, stringKind:
		p.line(&f)
		f.Optional = f.Optional || kind == stringKind
	case linesKind, listKind:
		f.Lines, f.Help = linesOf(text), "Each line is an element."
		f.Optional = f.Optional || kind == listKind
	default:
		if f.Options = p.options(json.RawMessage(text)); f.Options == nil {
			f.Lines, f.Help = linesOf(text), "JSON."
		}
	}
	f.Help = p.hint(f.Help)
	return f
}

// linesOf returns the height of a text area, in lines.
func linesOf(text string) int { return min(12, 2+strings.Count(text, "\n")) }

// isShown reports whether a browser keeps the text unchanged: it would drop other control characters.
func isShown(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
}

// isNoLine reports whether a text cannot be a line in a text area.
func isNoLine(text string) bool {
	return strings.TrimSpace(text) == "" || strings.Contains(text, "\n") || !isShown(text)
}

// isTextArray rejects null elements, which would decode as strings.
func isTextArray(array json.RawMessage) bool {
	var all []json.RawMessage
	return json.Unmarshal(array, &all) == nil && !slices.ContainsFunc(all, func(e json.RawMessage) bool { return e[0] != '"' })
}

// isTextList reports whether the value is an array of strings.
func (p *property) isTextList() bool {
	var items property
	return p.is("array") && json.Unmarshal(p.Items, &items) == nil && string(items.Type) == `"string"`
}

func (p *property) isTime() bool { return p.is("string") && p.Format == "date-time" }

// rfc3339Millis is JavaScript's time layout.
const rfc3339Millis = "2006-01-02T15:04:05.000Z07:00"

// isTime reports whether formatting the time again yields the same text, so that the editor does not change it.
func isTime(text, layout string) bool {
	at, err := time.Parse(layout, text)
	return err == nil && at.Year() > 0 && at.UTC().Format(layout) == text
}

// emailShape matches addresses that browsers accept as such.
var emailShape = regexp.MustCompile("^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$")

// line sets the input type, unless it rejects the value: browsers would drop the value.
func (p *property) line(f *service.Field) {
	text := f.Value
	_, err := time.Parse(time.DateOnly, text)
	switch {
	case p.Format == "date" && (text == "" || err == nil && !strings.HasPrefix(text, "0000")):
		f.Input = "date"
	case p.Format == "email" && (text == "" || emailShape.MatchString(text)):
		f.Input = "email"
	case p.Format == "date-time":
		f.Help = "E.g. 2026-12-10T15:00:00Z."
	}
	if strings.Contains(text, "\n") || utf8.RuneCountInString(text) > lineRunes {
		f.Lines, f.Input = min(12, 3+strings.Count(text, "\n")), ""
	}
}

// options returns the choices for an enum, a constant or a boolean, or nil if there are too many or value is not among
// them. A choice's value is canonical JSON.
func (p *property) options(value json.RawMessage) (all []service.Option) {
	values := p.Enum
	if len(p.Const) > 0 {
		values = []json.RawMessage{p.Const}
	}
	if values == nil && p.is("boolean") {
		values = []json.RawMessage{json.RawMessage("true"), json.RawMessage("false")}
	}
	if len(values) == 0 || len(values) > mostChoices {
		return nil
	}
	found := len(value) == 0
	if found || !p.required {
		all = append(all, service.Option{Text: "(not set)"})
	}
	for _, text := range values {
		v, err := canonjson.Parse(text, len(text)*2) // a schema is stored as sent
		if err != nil {
			return nil
		}
		o := service.Option{Value: string(v), Text: string(v)}
		var s string
		if json.Unmarshal([]byte(v), &s) == nil && strings.TrimSpace(s) != "" && v != "null" {
			o.Text = s
		}
		o.Text = abbreviated(o.Text)
		all, found = append(all, o), found || bytes.Equal([]byte(v), value)
	}
	if !found {
		return nil
	}
	return all
}

// hint returns the text below a field: whether it is required, the schema's description, and form, the expected form.
func (p *property) hint(form string) string {
	var all []string
	if p.required {
		all = append(all, "Required.")
	}
	description := []rune(cmp.Or(p.Description, p.Title))
	if len(description) > hintRunes {
		description = append(description[:hintRunes], '…')
	}
	return strings.Join(slices.DeleteFunc(append(all, string(description), form), func(s string) bool { return s == "" }), " ")
}
