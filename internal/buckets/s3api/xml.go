package s3api

import (
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"strconv"
	"unicode/utf8"

	"holdfast/internal/buckets"
)

const (
	xmlHeader    = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	xmlNamespace = "http://s3.amazonaws.com/doc/2006-03-01/"
	xmlTime      = "2006-01-02T15:04:05.000Z"
)

// document builds an XML document. encoding/xml would replace control characters, which
// a key may have; S3 writes them as character references.
type document struct {
	b    []byte
	open []string
}

// newDocument begins a document with its root element.
func newDocument(root string) *document {
	d := &document{b: []byte(xmlHeader)}
	d.b = append(d.b, '<')
	d.b = append(d.b, root...)
	d.b = append(d.b, ` xmlns="`+xmlNamespace+`">`...)
	d.open = append(d.open, root)
	return d
}

// begin opens an element.
func (d *document) begin(name string) {
	d.b = append(d.b, '<')
	d.b = append(d.b, name...)
	d.b = append(d.b, '>')
	d.open = append(d.open, name)
}

// end closes the element that was opened last.
func (d *document) end() {
	name := d.open[len(d.open)-1]
	d.open = d.open[:len(d.open)-1]
	d.close(name)
}

// text adds an element with text.
func (d *document) text(name, value string) {
	d.b = append(append(append(d.b, '<'), name...), '>')
	d.b = appendText(d.b, value)
	d.close(name)
}

func (d *document) close(name string) { d.b = append(append(append(d.b, "</"...), name...), '>') }

// etag adds the element ETag of an object.
func (d *document) etag(o *buckets.Object) {
	d.b = append(d.b, "<ETag>&quot;"...)
	if o.ETag != "" {
		d.b = appendText(d.b, o.ETag)
	} else {
		d.b = hex.AppendEncode(d.b, o.MD5)
	}
	d.b = append(d.b, "&quot;</ETag>"...)
}

// optional adds an element unless its text is empty.
func (d *document) optional(name, value string) {
	if value != "" {
		d.text(name, value)
	}
}

func (d *document) number(name string, n int64) { d.text(name, strconv.FormatInt(n, 10)) }

func (d *document) flag(name string, v bool) { d.text(name, strconv.FormatBool(v)) }

func (d *document) moment(name string, m buckets.Moment) {
	d.b = append(append(append(d.b, '<'), name...), '>')
	d.b = m.Time().AppendFormat(d.b, xmlTime)
	d.close(name)
}

// bytes closes all elements and returns the document.
func (d *document) bytes() []byte {
	for len(d.open) > 0 {
		d.end()
	}
	return d.b
}

func appendText(b []byte, s string) []byte {
	if isPlain(s) {
		return append(b, s...)
	}
	for _, r := range s {
		switch {
		case r == '&':
			b = append(b, "&amp;"...)
		case r == '<':
			b = append(b, "&lt;"...)
		case r == '>':
			b = append(b, "&gt;"...)
		case r == '"':
			b = append(b, "&quot;"...)
		case r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff:
			b = append(b, "&#x"...)
			b = strconv.AppendInt(b, int64(r), 16)
			b = append(b, ';')
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// isPlain reports whether text is the same in XML.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '&' || c == '<' || c == '>' || c == '"' {
			return false
		}
	}
	return true
}

// sendXML writes an answer with a document.
func sendXML(w http.ResponseWriter, status int, d *document) {
	body := d.bytes()
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away has no effect
}

// urlEncoded is the form of a key with encoding-type=url. Go's escapes differ: spaces
// are %20, which all clients decode, and slashes stay.
func urlEncoded(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/', c == '*':
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

func httpTime(m buckets.Moment) string { return m.Time().UTC().Format(http.TimeFormat) }

// appendXML reads an element of a list, and rejects one that is too long.
func appendXML[T any](list *[]T, most int, d *xml.Decoder, start xml.StartElement) error {
	if len(*list) == most {
		return errMalformedXML
	}
	var one T
	if err := d.DecodeElement(&one, &start); err != nil {
		return err
	}
	*list = append(*list, one)
	return nil
}
