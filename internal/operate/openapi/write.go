package openapi

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object whose members keep their order, so that generated descriptions do not change by themselves.
type object []member

type member struct {
	name  string
	value any
}

// width is the longest line in characters that write fills with a whole value.
const width = 150

// write formats a value as the descriptions in this repository are formatted: on one line if it fits into width, and
// otherwise with a member on each line. v is an object, a []any, or a scalar.
func write(b *bytes.Buffer, v any, indent string) {
	var line bytes.Buffer
	writeLine(&line, v)
	o, isObject := v.(object)
	list, isList := v.([]any)
	if line.Len() <= width || !isObject && !isList {
		b.Write(line.Bytes())
		return
	}
	below := "\n" + indent + "  "
	for i, m := range o {
		b.WriteString(opening("{", i) + below + quoted(m.name) + ": ")
		write(b, m.value, indent+"  ")
	}
	for i, item := range list {
		b.WriteString(opening("[", i) + below)
		write(b, item, indent+"  ")
	}
	if isObject {
		b.WriteString("\n" + indent + "}")
	} else {
		b.WriteString("\n" + indent + "]")
	}
}

// writeLine writes a value on one line.
func writeLine(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteString("{")
		for i, m := range v {
			b.WriteString(separator(i) + quoted(m.name) + ": ")
			writeLine(b, m.value)
		}
		b.WriteString("}")
	case []any:
		b.WriteString("[")
		for i, item := range v {
			b.WriteString(separator(i))
			writeLine(b, item)
		}
		b.WriteString("]")
	default:
		b.WriteString(quoted(v))
	}
}

func opening(bracket string, i int) string {
	if i == 0 {
		return bracket
	}
	return ","
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// quoted returns a scalar as JSON.
func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
