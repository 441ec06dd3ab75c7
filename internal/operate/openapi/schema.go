package openapi

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/operate"
)

// inputSchema describes an input's value. A body member may also be null, and carries its own description; a
// parameter's is outside the schema.
func inputSchema(in *operate.Input, isMember bool) object {
	if in.Schema != "" {
		return object{{"$ref", "#/components/schemas/" + in.Schema}}
	}
	kind := "string"
	switch {
	case in.IsBool():
		kind = "boolean"
	case in.IsNumber():
		kind = "integer"
	case in.IsWords():
		kind = "array"
	}
	s := object{{"type", kind}}
	if isMember {
		s = object{{"type", []any{kind, "null"}}, {"description", sentence(in.Doc)}}
	}
	if in.IsWords() {
		return append(s, member{"items", object{{"type", "string"}}})
	}
	if in.Subject && !in.IsNumber() {
		return append(s, member{"minLength", 1})
	}
	if in.Kind == reflect.Int64 {
		s = append(s, member{"format", "int64"})
	}
	if in.Least != "" && in.IsNumber() {
		s = append(s, member{"minimum", json.Number(in.Least)})
	}
	if in.Kind == reflect.Int64 {
		s = append(s, member{"maximum", json.Number("9223372036854775807")})
	}
	if in.Name == "limit" {
		s = append(s, member{"maximum", operate.MaxLimit})
	}
	if in.Enum != nil {
		var all []any
		for _, v := range in.Enum {
			all = append(all, v)
		}
		if isMember {
			all = append(all, nil)
		}
		s = append(s, member{"enum", all})
	}
	switch {
	case in.IsBool():
		return append(s, member{"default", in.Default == "true"})
	case in.IsNumber() && in.Default != "":
		return append(s, member{"default", json.Number(in.Default)})
	case in.Default != "":
		return append(s, member{"default", in.Default})
	}
	return s
}

// resultSchema describes the successful answer.
func resultSchema(o *operate.Operation) object {
	if o.Background {
		return schema(reflect.TypeFor[operate.RunDetail]())
	}
	row := schema(o.Output())
	if o.Kind != operate.List {
		return row
	}
	var required []any
	properties := object{}
	add := func(name string, s object) {
		required, properties = append(required, name), append(properties, member{name, s})
	}
	if o.Also != nil {
		add(o.Also.Name, schema(o.Also.Type))
	}
	rows := object{{"type", "array"}}
	if o.Input("limit") != nil {
		rows = append(rows, member{"maxItems", operate.MaxLimit})
	}
	add(o.RowsMember(), append(rows, member{"items", row}))
	if o.IsPaged() {
		kind := "string"
		if o.Input("after").IsNumber() {
			kind = "integer"
		}
		add("next", object{{"type", []any{kind, "null"}}, {"description", "Pass as after to get the next page; null: this is the last page."}})
	}
	return object{{"type", "object"}, {"required", required}, {"additionalProperties", false}, {"properties", properties}}
}

// schema describes a Go type's JSON. It panics on a kind that no result needed yet.
func schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{{"type", "string"}, {"format", "date-time"}}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{{"type", "object"}, {"additionalProperties", true}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schema(t.Elem())
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int64:
		return object{{"type", "integer"}}
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Slice:
		return object{{"type", "array"}, {"items", schema(t.Elem())}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", schema(t.Elem())}}
	case reflect.Struct:
		return structSchema(t)
	}
	panic("no JSON schema of " + t.String() + ": add its kind to this function")
}

// structSchema describes a struct by its tags. Fields with the tag local are left out.
func structSchema(t reflect.Type) object {
	required, properties := []any{}, object{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, isLocal := f.Tag.Lookup("local"); isLocal || f.Anonymous || name == "" || name == "-" {
			continue
		}
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
		s := schema(f.Type)
		if f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit") {
			s[0].value = []any{s[0].value, "null"}
		}
		properties = append(properties, member{name, described(s, f.Tag)})
	}
	return object{{"type", "object"}, {"required", required}, {"additionalProperties", false}, {"properties", properties}}
}

// described adds the tags doc, least, enum and example to a field's schema.
func described(s object, tags reflect.StructTag) object {
	if doc := tags.Get("doc"); doc != "" {
		s = append(s, member{"description", sentence(doc)})
	}
	if least := tags.Get("least"); least != "" {
		s = append(s, member{"minimum", json.Number(least)})
	}
	if values := tags.Get("enum"); values != "" {
		var all []any
		for v := range strings.SplitSeq(values, ",") {
			all = append(all, v)
		}
		s = append(s, member{"enum", all})
	}
	if example := tags.Get("example"); example != "" {
		var v any = example
		if n, err := strconv.Atoi(example); err == nil && s[0].value == "integer" {
			v = n
		}
		s = append(s, member{"examples", []any{v}})
	}
	return s
}
