package s3api

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
)

// documents are the XML documents that clients send, by the type that takes them. The type names every element in S3's
// schema, so the decoder refuses all others.
var documents = schemas(
	abacStatus{}, accelerateConfiguration{}, accessControlPolicy{}, bucketConfiguration{}, completion{}, corsConfiguration{}, deletion{}, legalHold{}, lifecycleConfiguration{},
	lockConfiguration{}, loggingStatus{}, notificationConfiguration{}, ownershipControls{}, publicAccess{}, requestPayment{}, retention{}, tagSet{}, versioningConfiguration{},
)

// notApplied takes an element that S3's schema knows and this server does not apply. The decoder refuses a document with
// it, and names the element.
type notApplied struct{}

// element is an element that a document may contain. The field that takes it may carry the tag `s3` with the words
// "required", and "empty" if its text may be empty.
type element struct {
	name     string
	children []*element   // nil: the element contains text
	kind     reflect.Kind // the text's kind
	repeats  bool         // the field is a slice
	typed    bool         // the attribute xsi:type is allowed
	required bool         // a parent without it is malformed
	empty    bool         // its text may be empty
	refused  bool         // the field is notApplied
}

// schemas returns the root elements by type. The field XMLName names the root.
func schemas(all ...any) map[reflect.Type]*element {
	roots := map[reflect.Type]*element{}
	for _, v := range all {
		t := reflect.TypeOf(v)
		name, _ := t.FieldByName("XMLName")
		root := &element{name: name.Tag.Get("xml")}
		root.take(t)
		roots[t] = root
	}
	return roots
}

// take derives the children, or the kind of text, from the field's type.
func (e *element) take(t reflect.Type) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		e.repeats = e.repeats || t.Kind() == reflect.Slice
		t = t.Elem()
	}
	if e.kind = t.Kind(); e.kind != reflect.Struct {
		return
	}
	e.refused = t == reflect.TypeFor[notApplied]()
	e.children = []*element{}
	e.addFields(t)
}

func (e *element) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, attribute, _ := strings.Cut(f.Tag.Get("xml"), ",")
		switch {
		case f.Name == "XMLName":
		case attribute == "attr":
			e.typed = true
		case f.Anonymous:
			e.addFields(f.Type)
		default:
			words := strings.Split(f.Tag.Get("s3"), ",")
			child := &element{name: name, required: slices.Contains(words, "required"), empty: slices.Contains(words, "empty")}
			child.take(f.Type)
			e.children = append(e.children, child)
		}
	}
}

// child returns nil for an element that may not occur here.
func (e *element) child(name string) *element {
	for _, c := range e.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

const (
	maxTag        = 4 << 10  // bytes from "<" to ">"
	maxText       = 16 << 10 // bytes between tags, above a key's size with every byte escaped
	maxAttributes = 8
)

// decodeXML decodes a document into v, whose type is in documents. Nothing in it is ignored: unlike encoding/xml, it
// refuses elements, attributes and namespaces that S3's schema does not know, repeated elements, text beside elements,
// empty values, a document type, and text after the root. An element that is notApplied is errNotImplemented, all else is
// errMalformedXML.
func decodeXML(document io.Reader, v any) error {
	in := bufio.NewReader(document)
	if b, _ := in.Peek(len(byteOrderMark)); string(b) == byteOrderMark {
		_, _ = in.Discard(len(b))
	}
	t := &tokens{raw: xml.NewDecoder(&bounded{Reader: in}), root: documents[reflect.TypeOf(v).Elem()]}
	d := xml.NewTokenDecoder(t)
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
	}
	if t.refused != nil {
		return t.refused
	}
	return errMalformedXML
}

// byteOrderMark may precede a document.
const byteOrderMark = "\ufeff"

// bounded rejects long tags and text before encoding/xml buffers them.
type bounded struct {
	*bufio.Reader
	inTag bool
	n     int // length of the current tag or text
}

// ReadByte is the only method that encoding/xml calls.
func (r *bounded) ReadByte() (byte, error) {
	c, err := r.Reader.ReadByte()
	if err != nil {
		return c, err
	}
	switch r.n++; {
	case c == '<' && !r.inTag:
		r.inTag, r.n = true, 0
	case c == '>' && r.inTag:
		r.inTag, r.n = false, 0
	case r.inTag && r.n > maxTag, !r.inTag && r.n > maxText:
		return 0, errMalformedXML
	}
	return c, nil
}

// tokens checks a document against its schema while encoding/xml reads it. encoding/xml gets the elements without
// prefixes and namespaces.
type tokens struct {
	raw     *xml.Decoder
	root    *element
	begun   bool // something precedes, so an XML declaration is refused
	rooted  bool // the root element has begun
	open    []level
	refused error // the document contains an element that is notApplied
}

// level is an open element.
type level struct {
	tag    xml.Name // with the prefix, which the end tag must repeat
	of     *element
	seen   []*element        // children so far, each once
	filled bool              // text was read
	spaces map[string]string // the namespaces that it declares, by prefix; may be nil
}

// Token implements xml.TokenReader.
func (t *tokens) Token() (xml.Token, error) {
	for {
		token, err := t.raw.RawToken()
		if err != nil {
			return nil, err
		}
		begun := t.begun
		t.begun = true
		switch v := token.(type) {
		case xml.StartElement:
			return t.begin(v)
		case xml.EndElement:
			return t.end(v)
		case xml.CharData:
			if err := t.text(v); err != nil {
				return nil, err
			}
			if len(t.open) > 0 {
				return v, nil
			}
		case xml.Directive:
			return nil, errMalformedXML
		case xml.ProcInst:
			if begun && strings.EqualFold(v.Target, "xml") {
				return nil, errMalformedXML
			}
		}
	}
}

// begin checks an opened element, and returns it without its prefix and namespace declarations.
func (t *tokens) begin(tag xml.StartElement) (xml.Token, error) {
	l := level{tag: tag.Name}
	var in *level
	if n := len(t.open); n > 0 {
		in = &t.open[n-1]
		l.of = in.of.child(tag.Name.Local)
	} else if !t.rooted && tag.Name.Local == t.root.name {
		l.of = t.root
	}
	if l.of == nil || len(tag.Attr) > maxAttributes {
		return nil, errMalformedXML
	}
	own, err := t.attributes(&l, tag.Attr)
	if err != nil {
		return nil, err
	}
	if space, ok := t.space(&l, tag.Name.Space); !ok || space != "" && space != xmlNamespace {
		return nil, errMalformedXML
	}
	if l.of.refused {
		t.refused = errNotImplemented("the element " + l.of.name)
		return nil, t.refused
	}
	if in != nil {
		known := slices.Contains(in.seen, l.of)
		switch {
		case known && !l.of.repeats:
			return nil, errMalformedXML
		case !known:
			in.seen = append(in.seen, l.of)
		}
	}
	t.rooted = true
	t.open = append(t.open, l)
	return xml.StartElement{Name: xml.Name{Local: l.of.name}, Attr: own}, nil
}

// attributes notes the namespaces that l declares, and returns the attribute xsi:type where S3's schema allows it. All others
// are refused.
func (t *tokens) attributes(l *level, all []xml.Attr) (own []xml.Attr, err error) {
	for _, a := range all {
		prefix, declares := a.Name.Local, a.Name.Space == "xmlns"
		if a.Name.Space == "" && a.Name.Local == "xmlns" {
			prefix, declares = "", true
		}
		if !declares {
			own = append(own, a)
			continue
		}
		if _, twice := l.spaces[prefix]; twice {
			return nil, errMalformedXML
		}
		if l.spaces == nil {
			l.spaces = map[string]string{}
		}
		l.spaces[prefix] = a.Value
	}
	for i := range own {
		name := &own[i].Name
		space, ok := t.space(l, name.Space)
		if !ok || !l.of.typed || space != schemaXSI || name.Local != "type" || i > 0 {
			return nil, errMalformedXML
		}
		name.Space = space
	}
	return own, nil
}

// space returns a prefix's namespace inside l, which is not open yet. ok is false if nothing declares it.
func (t *tokens) space(l *level, prefix string) (space string, ok bool) {
	if space, ok = l.spaces[prefix]; ok {
		return space, true
	}
	for _, outer := range slices.Backward(t.open) {
		if space, ok = outer.spaces[prefix]; ok {
			return space, true
		}
	}
	return "", prefix == ""
}

// text refuses text beside elements, and words that are no boolean in XML Schema.
func (t *tokens) text(s []byte) error {
	trimmed := bytes.TrimSpace(s)
	if len(t.open) == 0 {
		if len(trimmed) > 0 {
			return errMalformedXML
		}
		return nil
	}
	l := &t.open[len(t.open)-1]
	switch l.of.kind {
	case reflect.String:
		l.filled = l.filled || len(s) > 0
	case reflect.Struct:
		if len(trimmed) > 0 {
			return errMalformedXML
		}
	case reflect.Bool:
		if word := strings.ToLower(string(trimmed)); len(trimmed) > 0 && word != "true" && word != "false" && word != "0" && word != "1" {
			return errMalformedXML
		}
		fallthrough
	default:
		l.filled = l.filled || len(trimmed) > 0
	}
	return nil
}

// end checks that a closed element is complete.
func (t *tokens) end(tag xml.EndElement) (xml.Token, error) {
	n := len(t.open)
	if n == 0 || t.open[n-1].tag != tag.Name {
		return nil, errMalformedXML
	}
	l := t.open[n-1]
	t.open = t.open[:n-1]
	if l.of.kind != reflect.Struct && !l.filled && !l.of.empty {
		return nil, errMalformedXML
	}
	for _, c := range l.of.children {
		if c.required && !slices.Contains(l.seen, c) {
			return nil, errMalformedXML
		}
	}
	return xml.EndElement{Name: xml.Name{Local: l.of.name}}, nil
}
