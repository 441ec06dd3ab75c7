package ext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// shownFailures is how many violations of a schema an error lists.
const shownFailures = 5

// fieldNames are the labels of the editor's fields, by JSON member.
var fieldNames = map[string]string{"value": "value", "metadata": "metadata", "ttlSeconds": "seconds until it expires", "key": "key"}

// explainDraft makes an error about a record refer to the form that was sent: to its fields, or to the line of the text
// that was typed. Other errors stay.
func explainDraft(r *service.PageRequest, err error) error {
	if _, ok := errors.AsType[*service.FieldErrors](err); ok {
		return err
	}
	if refused, ok := errors.AsType[*ext.SchemaError](err); ok {
		if !r.Values.Has("value") {
			return explainFields(r, refused)
		}
		var failures []string
		for _, f := range refused.Failures[:min(len(refused.Failures), shownFailures)] {
			failures = append(failures, placeIn("value", r.Value("value"), f.Location)+": "+f.Message())
		}
		if more := len(refused.Failures) - shownFailures; more > 0 {
			failures = append(failures, fmt.Sprintf("and %d more", more))
		}
		return errcode.New(errcode.Invalid, strings.Join(failures, ";\n"))
	}
	pointer, ok := ext.PointerOf(err)
	if !ok {
		return plain(err)
	}
	member, below, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if below != "" {
		below = "/" + below
	}
	field, known := fieldNames[member]
	if !known {
		return explained(err)
	}
	where := field
	if _, large := errors.AsType[*ext.LimitError](err); !large && (member == "value" || member == "metadata") {
		where = placeIn(field, r.Value(member), below)
	}
	return errcode.Newf(errcode.Of(err), "%s: %v", where, err)
}

// isRequired is the text beside an empty field that the schema requires.
const isRequired = "is required"

// explainFields assigns a schema's violations to the fields of their properties. Violations of the whole object come
// first in the text.
func explainFields(r *service.PageRequest, refused *ext.SchemaError) error {
	reasons := map[string]string{}
	var whole []string
	for _, f := range refused.Failures {
		path, err := canonjson.ParsePointer(f.Location)
		if f.Missing.Set {
			path = append(path, f.Missing.Value) // the form has a field for it
		}
		if err != nil || len(path) == 0 {
			whole = append(whole, f.Reason)
			continue
		}
		field, reason := othersField, f.Reason
		if f.Missing.Set {
			reason = isRequired
		}
		for name := range r.Values {
			if kind, property, ok := parseField(name); ok && property == path[0] {
				field, reason = name, placeInField(kind, r.Value(name), path[1:])+reason
				break
			}
		}
		if field == othersField {
			reason = path.String() + ": " + reason
		}
		if reasons[field] == "" {
			reasons[field] = reason
		}
	}
	all := fieldErrors(reasons)
	all.Text = strings.Join(append(whole, strings.Split(all.Text, ";\n")...), ";\n")
	return all
}

// placeInField returns where in a field's text the error is, e.g. "line 3: ", or "" if it concerns the whole field.
// path begins below the field's property.
func placeInField(kind, text string, path canonjson.Pointer) string {
	if len(path) == 0 {
		return ""
	}
	if kind == linesKind || kind == listKind {
		lines := elementLines(text)
		if at, err := strconv.Atoi(path[0]); err == nil && at >= 0 && at < len(lines) {
			return fmt.Sprintf("line %d: ", lines[at]+1)
		}
	}
	return strings.TrimPrefix(placeIn("", text, path.String()), " ") + ": "
}

// placeIn returns the field, the JSON pointer and the line in the text that was typed.
func placeIn(field, text, pointer string) string {
	where := field
	if pointer != "" {
		where += " " + pointer
	}
	if line := lineOf(text, pointer); line > 0 {
		where += ", line " + strconv.Itoa(line)
	}
	return where
}

// lineOf returns the line of a syntax error, or the line where the pointer's value begins, from 1. It returns 0 if the
// text has another error.
func lineOf(text, pointer string) int {
	var all json.RawMessage
	at := 0
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		syntax, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return 0
		}
		at = max(0, int(syntax.Offset)-1)
	} else if path, err := canonjson.ParsePointer(pointer); err == nil {
		at = offsetOf([]byte(text), path)
	}
	return 1 + strings.Count(text[:min(at, len(text))], "\n")
}

// offsetOf returns the byte offset where the value at path begins. For a missing member it returns the offset of the
// last value on the path that exists. text must be valid JSON.
func offsetOf(text []byte, path canonjson.Pointer) int {
	d := json.NewDecoder(bytes.NewReader(text))
	next := func() int {
		at := int(d.InputOffset())
		return at + len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n,:"))
	}
	at := next()
	for len(path) > 0 {
		open, err := d.Token()
		if err != nil || open != json.Delim('{') && open != json.Delim('[') {
			return at
		}
		found := false
		for i := 0; d.More() && !found; i++ {
			name, value := strconv.Itoa(i), json.RawMessage(nil)
			if open == json.Delim('{') {
				token, err := d.Token()
				if err != nil {
					return at
				}
				name, _ = token.(string)
			}
			if found = name == path[0]; found {
				at = next()
			} else if d.Decode(&value) != nil {
				return at
			}
		}
		if !found {
			return at
		}
		path = path[1:]
	}
	return at
}
