package ext

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

const (
	// shownColumns is how many columns a table shows by itself; the operator may choose up to mostColumns. Longer texts
	// than cellRunes runes are cut.
	shownColumns = 8
	mostColumns  = 32
	cellRunes    = 60
)

// column is a property of the values, shown as a table column.
type column struct {
	name     string
	isNumber bool
	isTime   bool
}

// property is the part of a property's JSON Schema that decides its column and its form field. A schema may be true or
// false, and then everything is empty.
type property struct {
	Type        json.RawMessage   `json:"type"`
	Format      string            `json:"format"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Items       json.RawMessage   `json:"items"`
	Title       string            `json:"title"`
	Description string            `json:"description"`

	// name is the property's name, and required says that the object's schema requires it.
	name     string
	required bool
}

// is reports whether all types that the schema allows, besides null, are in types. It returns false for a schema
// without a type.
func (p *property) is(types ...string) bool {
	var all []string
	if json.Unmarshal(p.Type, &all) != nil {
		all = make([]string, 1)
		_ = json.Unmarshal(p.Type, &all[0])
	}
	all = slices.DeleteFunc(all, func(t string) bool { return t == "null" })
	return len(all) > 0 && !slices.ContainsFunc(all, func(t string) bool { return !slices.Contains(types, t) })
}

// schemaColumns returns the properties that a JSON Schema names, required properties first and in their order. It
// returns nil if the schema names none.
func schemaColumns(document []byte) (all []column) {
	var names struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(document, &names) != nil { // the document is true or false
		return nil
	}
	for name, text := range names.Properties {
		var p property
		_ = json.Unmarshal(text, &p) // true and false accept every value, or none
		all = append(all, column{name, p.is("number", "integer"), p.is("string") && p.Format == "date-time"})
	}
	rank := func(c column) int {
		at := slices.Index(names.Required, c.name)
		if at < 0 {
			at = len(names.Required)
		}
		return at
	}
	slices.SortFunc(all, func(a, b column) int { return cmp.Or(rank(a)-rank(b), compareNames(a.name, b.name)) })
	return all
}

// compareNames orders names as canonical JSON does.
func compareNames(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// members returns a value's members, or nil if the value is not an object.
func members(rec *ext.Record) (all map[string]json.RawMessage) {
	if strings.HasPrefix(string(rec.Value), "{") {
		_ = json.Unmarshal([]byte(rec.Value), &all)
	}
	return all
}

// recordColumns returns the columns for values without a schema: the most frequent members first.
func recordColumns(values []map[string]json.RawMessage) (all []column) {
	uses := map[string]int{}
	for _, v := range values {
		for name := range v {
			uses[name]++
		}
	}
	for name := range uses {
		all = append(all, column{name: name})
	}
	slices.SortFunc(all, func(a, b column) int {
		return cmp.Or(uses[b.name]-uses[a.name], compareNames(a.name, b.name))
	})
	for i := range all {
		all[i].infer(values)
	}
	return all
}

// infer sets isNumber if all values that are present are numbers.
func (c *column) infer(values []map[string]json.RawMessage) {
	c.isNumber = false
	for _, v := range values {
		switch text := v[c.name]; {
		case len(text) == 0 || text[0] == 'n': // missing, or null
		case text[0] == '-' || text[0] >= '0' && text[0] <= '9':
			c.isNumber = true
		default:
			c.isNumber = false
			return
		}
	}
}

// chosenColumns parses the names that the operator typed: a line in CSV, so that a name may contain a comma.
func chosenColumns(text string) (names []string, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	names, err = r.Read()
	if err == nil {
		_, err = r.Read()
	}
	if err != io.EOF || len(names) > mostColumns {
		return nil, errcode.Newf(errcode.Invalid, "columns: expected at most %d names, e.g. title, \"a, b\"", mostColumns)
	}
	return names, nil
}

// chooseColumns returns the columns to show, and how many others there are. They come from the operator, or else from
// the active schema, or else from the records on the page.
func chooseColumns(chosen string, document []byte, values []map[string]json.RawMessage) (shown []column, hidden int, err error) {
	known := schemaColumns(document)
	if len(known) == 0 {
		known = recordColumns(values)
	}
	if chosen == "" {
		n := min(len(known), shownColumns)
		return known[:n], len(known) - n, nil
	}
	names, err := chosenColumns(chosen)
	for _, name := range names {
		c := column{name: name}
		if at := slices.IndexFunc(known, func(k column) bool { return k.name == name }); at >= 0 {
			c = known[at]
		} else {
			c.infer(values)
		}
		shown = append(shown, c)
	}
	return shown, 0, err
}

// cell shows a member. An empty text means that the record lacks the member; null is shown as null.
func (c *column) cell(text json.RawMessage) service.Cell {
	if len(text) == 0 {
		return service.Cell{}
	}
	if text[0] != '"' {
		return service.TextCell(abbreviated(string(text)))
	}
	var s string
	_ = json.Unmarshal(text, &s)
	if c.isTime {
		if at, err := time.Parse(time.RFC3339, s); err == nil {
			return service.TimeCell(at)
		}
	}
	return service.TextCell(abbreviated(s))
}

// abbreviated cuts a text after cellRunes runes.
func abbreviated(text string) string {
	n := 0
	for i := range text {
		if n == cellRunes {
			return text[:i] + "…"
		}
		n++
	}
	return text
}
