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

// document builds an XML document. encoding/xml would replace control characters in keys; S3 sends them as character
// references.
type document struct {
	b    []byte
	open []string // elements to close, innermost last
}

// newDocument begins a document with S3's namespace.
func newDocument(root string) *document {
	d := &document{}
	d.start(root)
	return d
}

// start writes the XML header and the root element.
func (d *document) start(root string) {
	d.b = append(d.b, xmlHeader...)
	d.b = append(d.b, '<')
	d.b = append(d.b, root...)
	d.b = append(d.b, ` xmlns="`+xmlNamespace+`">`...)
	d.open = append(d.open, root)
}

// begin opens an element, which end closes.
func (d *document) begin(name string) {
	d.b = append(d.b, '<')
	d.b = append(d.b, name...)
	d.b = append(d.b, '>')
	d.open = append(d.open, name)
}

func (d *document) end() {
	name := d.open[len(d.open)-1]
	d.open = d.open[:len(d.open)-1]
	d.close(name)
}

// text writes an element with escaped text.
func (d *document) text(name, value string) {
	d.b = append(append(append(d.b, '<'), name...), '>')
	d.b = appendText(d.b, value)
	d.close(name)
}

func (d *document) close(name string) { d.b = append(append(append(d.b, "</"...), name...), '>') }

// etag writes the quoted entity tag without a copy, because lists have up to 1,000.
func (d *document) etag(o *buckets.Object) {
	d.b = append(d.b, "<ETag>&quot;"...)
	if o.ETag != "" {
		d.b = appendText(d.b, o.ETag)
	} else {
		d.b = hex.AppendEncode(d.b, o.MD5)
	}
	d.b = append(d.b, "&quot;</ETag>"...)
}

// optional writes the element unless the value is "".
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
	d.closeAll()
	return d.b
}

func (d *document) closeAll() {
	for len(d.open) > 0 {
		d.end()
	}
}

// cut shortens s to at most maxBytes bytes at a character boundary, and marks the cut with "...".
func cut(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	for maxBytes > 0 && !utf8.RuneStart(s[maxBytes]) {
		maxBytes--
	}
	return s[:maxBytes] + "..."
}

// appendText escapes like S3: control characters become character references.
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

// isPlain reports ASCII without characters to escape, which nearly all names are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '&' || c == '<' || c == '>' || c == '"' {
			return false
		}
	}
	return true
}

// sendXML sends a short document.
func sendXML(w http.ResponseWriter, status int, d *document) {
	body := d.bytes()
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// urlEncoded encodes a key for encoding-type=url. Spaces become %20, which all clients decode; slashes are not
// encoded.
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

// httpTime formats an HTTP date (RFC 9110, 5.6.7).
func httpTime(m buckets.Moment) string { return m.Time().UTC().Format(http.TimeFormat) }

// appendXML decodes the next list element, and refuses the list beyond most elements before memory is used.
func appendXML[T any](list *[]T, maxElements int, d *xml.Decoder, start xml.StartElement) error {
	if len(*list) == maxElements {
		return errMalformedXML
	}
	var item T
	if err := d.DecodeElement(&item, &start); err != nil {
		return err
	}
	*list = append(*list, item)
	return nil
}
