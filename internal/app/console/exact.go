package console

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// exactMark begins the name of a field whose value is escaped as in a query. Names of other fields do not begin with it.
const exactMark = "*"

// exactInput writes an input that operators do not type, such as a hidden field with an object's name. Browsers send each
// line break in a form as CR LF
// (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#convert-to-a-list-of-name-value-pairs), so a name
// with a line break would become another name. A value with a character that is not displayed is escaped, and restoreExact
// reads it.
func (p *page) exactInput(kind, name, value string, attrs ...string) {
	if service.Printable(value) != value {
		name, value = exactMark+name, url.QueryEscape(value)
	}
	p.open("input", slices.Concat([]string{"type", kind, "name", name, "value", value}, attrs)...)
}

// restoreExact replaces the fields of exactInput by their names and values.
func restoreExact(values url.Values) error {
	for _, marked := range slices.Sorted(maps.Keys(values)) {
		name, ok := strings.CutPrefix(marked, exactMark)
		if !ok {
			continue
		}
		for _, text := range values[marked] {
			value, err := url.QueryUnescape(text)
			if err != nil {
				return errForm
			}
			values.Add(name, value)
		}
		delete(values, marked)
	}
	return nil
}
