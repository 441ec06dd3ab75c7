package ext

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// assemble builds a record's value from the form. limit is in bytes. Errors are *service.FieldErrors, or canonjson's
// for the whole value.
func assemble(form url.Values, limit int) (canonjson.Value, error) {
	parts, reasons := map[string]canonjson.Value{}, map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(form)) {
		kind, name, ok := parseField(field)
		if !ok {
			continue
		}
		v, reason := memberOf(kind, form.Get(field), limit)
		if reason != "" {
			reasons[field] = reason
		} else if _, twice := parts[name]; twice && v != "" {
			reasons[field] = "has two fields"
		} else if v != "" {
			parts[name] = v
		}
	}
	if text := form.Get(othersField); strings.TrimSpace(text) != "" {
		v, reason := memberOf(jsonKind, text, limit)
		others := map[string]json.RawMessage{}
		if reason == "" && json.Unmarshal([]byte(v), &others) != nil {
			reason = "expected an object"
		}
		for name, text := range others {
			if _, twice := parts[name]; twice {
				reason = abbreviated(name) + " has a field of its own"
			}
			parts[name] = canonjson.Value(text)
		}
		if reason != "" {
			reasons[othersField] = reason
		}
	}
	if len(reasons) > 0 {
		return "", fieldErrors(reasons)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "encode a record", err)
	}
	return canonjson.Parse(text, limit)
}

// memberOf converts a field's text to a JSON value, or returns the reason why it cannot. Both are "" if the member is
// absent.
func memberOf(kind, text string, limit int) (v canonjson.Value, reason string) {
	mayBeEmpty := kind == stringKind || kind == listKind
	if !mayBeEmpty && text == "" || !mayBeEmpty && kind != textKind && strings.TrimSpace(text) == "" {
		return "", ""
	}
	quote := func(v any) string {
		quoted, _ := json.Marshal(v)
		return string(quoted)
	}
	switch {
	case !utf8.ValidString(text):
		return "", "is not valid UTF-8"
	case kind == numberKind:
		n, err := canonjson.ParseNumber([]byte(strings.TrimSpace(text)))
		if err != nil {
			return "", "expected a number, e.g. 12 or 0.5"
		}
		return canonjson.Value(n), ""
	case kind == secondsKind:
		text = quote(timeOf(text, false))
	case kind == millisKind:
		text = quote(timeOf(text, true))
	case kind == linesKind || kind == listKind:
		list := []string{}
		for _, at := range elementLines(text) {
			list = append(list, strings.Split(text, "\n")[at])
		}
		text = quote(list)
	case kind != jsonKind:
		text = quote(text)
	}
	v, err := canonjson.Parse([]byte(text), limit)
	if err != nil && kind == jsonKind {
		pointer, _ := ext.PointerOf(err)
		return "", strings.TrimSpace(strings.TrimPrefix(placeIn("", text, pointer), ", ") + ": " + err.Error())
	} else if err != nil {
		return "", err.Error()
	}
	return v, ""
}

// browserTime matches times as browsers submit them: without zero seconds or fractions.
var browserTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(\.\d{1,3})?$`)

// timeOf converts a browser's time to its stored form. It keeps other texts, e.g. from browsers without time inputs.
func timeOf(text string, millis bool) string {
	parts := browserTime.FindStringSubmatch(text)
	if parts == nil {
		return text
	}
	seconds, fraction := parts[1], parts[2]
	whole := strings.TrimSuffix(text, seconds+fraction) + cmp.Or(seconds, ":00")
	if millis {
		fraction = cmp.Or(fraction, ".")
		fraction += strings.Repeat("0", len(".000")-len(fraction))
	}
	return whole + fraction + "Z"
}

// elementLines returns the numbers of the lines that are not blank, from 0: the elements of a list.
func elementLines(text string) (at []int) {
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) != "" {
			at = append(at, i)
		}
	}
	return at
}

// propertyOf returns the label of a field for errors.
func propertyOf(field string) string {
	if _, name, ok := parseField(field); ok {
		return name
	}
	return "Other properties"
}

// fieldErrors returns the errors for a form. reasons are by field name; the text above the form lists all, sorted.
func fieldErrors(reasons map[string]string) *service.FieldErrors {
	var lines []string
	for field, reason := range reasons {
		lines = append(lines, propertyOf(field)+": "+reason)
	}
	slices.Sort(lines)
	return &service.FieldErrors{By: reasons, Text: strings.Join(lines, ";\n")}
}
