package console

import (
	"html"
	"slices"
	"strings"

	"holdfast/internal/app/service"
)

// page builds HTML. It escapes text and attribute values, and makes invisible characters visible (service.Printable).
// html/template would defeat dead-code elimination and grow the binary by half.
type page struct{ strings.Builder }

// open writes a start tag. attrs are name-value pairs; the boolean attribute "name?" is omitted if its value is "".
func (p *page) open(name string, attrs ...string) {
	p.WriteByte('<')
	p.WriteString(name)
	for i := 0; i+1 < len(attrs); i += 2 {
		attr, isBool := strings.CutSuffix(attrs[i], "?")
		if isBool {
			if attrs[i+1] != "" {
				p.WriteString(" " + attr)
			}
			continue
		}
		value := attrs[i+1]
		if !slices.Contains(exactAttrs, attr) {
			value = service.Printable(value)
		}
		value = strings.ReplaceAll(strings.ToValidUTF8(value, "\ufffd"), "\x00", "\ufffd") // browsers do the same
		p.WriteString(" " + attr + `="` + html.EscapeString(value) + `"`)
	}
	p.WriteByte('>')
}

// exactAttrs are attributes that are not displayed and must keep every character, such as an input's value.
var exactAttrs = []string{"value", "href", "src", "action", "hx-get", "hx-post", "hx-headers"}

func (p *page) close(names ...string) {
	for _, name := range names {
		p.WriteString("</" + name + ">")
	}
}

// text writes text with its line breaks.
func (p *page) text(s string) { p.exact(service.PrintableLines(s)) }

// name writes text on one line: line breaks are escaped, too. It is for names that clients choose.
func (p *page) name(s string) { p.exact(service.Printable(s)) }

// exact writes text with characters that are not visible. It is for text areas, which come back with the form.
func (p *page) exact(s string) { p.WriteString(html.EscapeString(s)) }

// element writes an element that contains text only.
func (p *page) element(name, text string, attrs ...string) {
	p.open(name, attrs...)
	p.text(text)
	p.close(name)
}
