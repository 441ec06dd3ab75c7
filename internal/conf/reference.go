package conf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reference returns Markdown tables of all settings, with the values in dst as defaults, even for secrets, and of the
// variables for Mozilla's server.
func Reference(dst any, aliases ...Alias) string {
	schema, root := schemaOf(dst)
	var b strings.Builder
	eachSection(schema, root, nil, func(s *node, v reflect.Value, path []string) {
		writeTable(&b, s, v, path)
	})
	writeAliases(&b, aliases)
	return strings.TrimLeft(b.String(), "\n")
}

// Example returns a TOML file with every setting commented out at its value in dst.
func Example(dst any) string {
	schema, root := schemaOf(dst)
	var b strings.Builder
	eachSection(schema, root, nil, func(s *node, v reflect.Value, path []string) {
		writeExample(&b, s, v, path)
	})
	return strings.TrimLeft(b.String(), "\n")
}

// Setting is a loaded setting, for people.
type Setting struct {
	Path  string
	Value string // as in the file; for secrets other than their default, only whether set
	Where string // its origin, or the setting that its default follows from

	Secret bool // its text is never shown, other than its default
	Data   any  // the value for JSON, with durations as text; nil for secrets other than their default

	Reloads bool // a running server applies a new value
}

// Settings returns a loaded configuration's settings, without secret values.
func Settings(dst any, r Report) (all []Setting) {
	schema, root := schemaOf(dst)
	schema.eachSetting(root, nil, func(n *node, v reflect.Value, path []string) {
		name := strings.Join(path, ".")
		s := Setting{Path: name, Value: n.literal(v), Where: r.source(name), Secret: n.secret, Data: n.data(v), Reloads: n.reloads}
		if n.secret && v.Len() > 0 && r.defaults[name] == n.standard(v) {
			s.Value, s.Data = n.standard(v), v.Interface()
		}
		all = append(all, s)
	})
	return all
}

// eachSetting visits all settings below a section, in order.
func (n *node) eachSetting(v reflect.Value, path []string, visit func(*node, reflect.Value, []string)) {
	for _, c := range n.children {
		below, in := append(slices.Clip(path), c.key), c.in(v)
		switch {
		case c.kind == section:
			c.eachSetting(in, below, visit)
		case c.kind == named:
			names := in.MapKeys()
			slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, name := range names {
				c.children[0].eachSetting(in.MapIndex(name), append(slices.Clip(below), name.String()), visit)
			}
		case c.kind != secretFile:
			visit(c, in, below)
		}
	}
}

// eachSection visits a named section once, as NAME with a new section's defaults.
func eachSection(n *node, v reflect.Value, path []string, visit func(*node, reflect.Value, []string)) {
	visit(n, v, path)
	for _, c := range n.children {
		below := append(slices.Clip(path), c.key)
		switch c.kind {
		case section:
			eachSection(c, c.in(v), below, visit)
		case named:
			elem := *c.children[0]
			elem.doc = c.doc
			eachSection(&elem, reflect.Zero(elem.typ), append(below, "NAME"), visit)
		}
	}
}

// writeTable writes a section's table in Markdown.
func writeTable(b *strings.Builder, s *node, v reflect.Value, path []string) {
	heading := "[" + strings.Join(path, ".") + "]"
	var rows strings.Builder
	for _, n := range s.children {
		if !n.isLeaf() || n.kind == secretFile {
			continue
		}
		below := append(slices.Clip(path), n.key)
		fmt.Fprintf(&rows, "| `%s` | %s | %s | `%s` | %s |\n",
			n.key, n.typeName(), code(n.standard(n.in(v))), envName(below), cell(n.meaning()))
	}
	if len(path) > 0 && (rows.Len() > 0 || s.doc != "") {
		fmt.Fprintf(b, "\n## %s\n", heading)
	}
	if s.doc != "" {
		fmt.Fprintf(b, "\n%s\n", s.doc)
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| Setting | Type | Default | Variable | Description |\n|---|---|---|---|---|\n%s", rows.String())
	}
}

// writeAliases writes the table with Mozilla's variables.
func writeAliases(b *strings.Builder, aliases []Alias) {
	if len(aliases) == 0 {
		return
	}
	b.WriteString("\n## Variables of Mozilla's server\n\n| Variable | Setting |\n|---|---|\n")
	for _, a := range aliases {
		setting := code(a.Path)
		if a.Path == "" {
			setting = strings.TrimSuffix("ignored: "+cell(a.Note), ": ")
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", a.Env, setting)
	}
}

// writeExample writes a section as TOML comments.
func writeExample(b *strings.Builder, s *node, v reflect.Value, path []string) {
	if len(path) > 0 {
		fmt.Fprintln(b)
		comment(b, s.doc)
		header := "[" + strings.Join(path, ".") + "]"
		if path[len(path)-1] == "NAME" || strings.Contains(header, ".NAME.") {
			header = "#" + header // NAME is a placeholder
		}
		fmt.Fprintln(b, header)
	}
	for _, n := range s.children {
		switch {
		case !n.isLeaf():
		case n.kind == secretFile:
			fmt.Fprintf(b, "#%s = \"\"\n", n.key)
		default:
			comment(b, n.meaning())
			text := n.standard(n.in(v))
			switch {
			case text != "":
			case n.kind == list:
				text = "[]"
			default:
				text = `""`
			}
			fmt.Fprintf(b, "#%s = %s\n", n.key, text)
		}
	}
}

// meaning returns the description for the reference.
func (n *node) meaning() string {
	if !n.reloads {
		return n.doc
	}
	return strings.TrimSpace(n.doc + " Reloadable.")
}

// comment writes an example line, unless it is empty.
func comment(b *strings.Builder, doc string) {
	if doc != "" {
		fmt.Fprintf(b, "# %s\n", doc)
	}
}

// typeName returns the type for the reference.
func (n *node) typeName() string {
	name := [...]string{text: "string", boolean: "boolean", integer: "integer", number: "number", duration: "duration", list: "list of strings"}[n.kind]
	if n.secret {
		name = "secret " + name
	}
	if n.unit != "" {
		name += ", " + n.unit
	}
	return name
}

// code formats a value as Markdown code; "" stays empty.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// cell escapes a text for a Markdown table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
