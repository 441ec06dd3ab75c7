package console

import (
	"html"
	"strings"
)

// page is HTML that is being written. Text and values of attributes are always escaped;
// names of elements and attributes are constants. html/template would keep the linker
// from leaving out methods that nobody calls: the binary would grow by half.
type page struct{ strings.Builder }

// open writes a start tag. attrs are names and values; a name that ends in ? is a
// boolean attribute, which is written if its value is not "".
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
		p.WriteString(" " + attr + `="` + html.EscapeString(attrs[i+1]) + `"`)
	}
	p.WriteByte('>')
}

// close writes end tags, the innermost first.
func (p *page) close(names ...string) {
	for _, name := range names {
		p.WriteString("</" + name + ">")
	}
}

// text writes text.
func (p *page) text(s string) { p.WriteString(html.EscapeString(s)) }

// element writes an element with a text.
func (p *page) element(name, text string, attrs ...string) {
	p.open(name, attrs...)
	p.text(text)
	p.close(name)
}
