package openapi

import (
	"bytes"
	"encoding/json"
)

type object []member

type member struct {
	name  string
	value any
}

const width = 150

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
	for i, one := range list {
		b.WriteString(opening("[", i) + below)
		write(b, one, indent+"  ")
	}
	if isObject {
		b.WriteString("\n" + indent + "}")
	} else {
		b.WriteString("\n" + indent + "]")
	}
}

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
		for i, one := range v {
			b.WriteString(separator(i))
			writeLine(b, one)
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

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
