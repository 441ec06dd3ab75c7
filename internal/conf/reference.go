package conf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reference returns the settings as Markdown: for each section a table with type, default
// (the value in dst, also of secrets), variable and description, and at the end the variables of Mozilla's
// server.
func Reference(dst any, aliases ...Alias) string {
	schema, root := schemaOf(dst)
	var b strings.Builder
	eachSection(schema, root, nil, func(s *node, v reflect.Value, path []string) {
		writeTable(&b, s, v, path)
	})
	writeAliases(&b, aliases)
	return strings.TrimLeft(b.String(), "\n")
}

// Example returns a TOML file in which every setting has its default, the value in dst,
// and is commented out.
func Example(dst any) string {
	schema, root := schemaOf(dst)
	var b strings.Builder
	eachSection(schema, root, nil, func(s *node, v reflect.Value, path []string) {
		writeExample(&b, s, v, path)
	})
	return strings.TrimLeft(b.String(), "\n")
}

// Setting is a setting with its value.
type Setting struct {
	Path  string // such as "server.listen"
	Value string // as in the file; of a secret only whether it is set
	Where string // it was set: as Report.Where returns it

	Reloads bool // a running server applies a new value
}

// Settings returns all settings of a loaded configuration. Values of secrets are left out.
func Settings(dst any, r Report) (all []Setting) {
	schema, root := schemaOf(dst)
	schema.eachSetting(root, nil, func(n *node, v reflect.Value, path []string) {
		name := strings.Join(path, ".")
		all = append(all, Setting{Path: name, Value: n.literal(v), Where: r.Where(name), Reloads: n.reloads})
	})
	return all
}

// eachSetting calls visit for every setting below n.
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

// eachSection calls visit for n and every section below it, parents first. A named
// section is visited once, as NAME with the defaults of a new one.
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

func writeTable(b *strings.Builder, s *node, v reflect.Value, path []string) {
	heading := "[" + strings.Join(path, ".") + "]"
	var rows strings.Builder
	for _, n := range s.children {
		if !n.isLeaf() || n.kind == secretFile {
			continue
		}
		below := append(slices.Clip(path), n.key)
		meaning := n.meaning()
		if n.secret {
			meaning = strings.TrimSpace(meaning + " `" + n.key + "_file` names a file to read it from.")
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | `%s` | %s |\n",
			n.key, n.typeName(), code(n.standard(n.in(v))), envName(below), cell(meaning))
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

// meaning returns the description of a setting.
func (n *node) meaning() string {
	if !n.reloads {
		return n.doc
	}
	return strings.TrimSpace(n.doc + " A reload applies it.")
}

func comment(b *strings.Builder, doc string) {
	if doc != "" {
		fmt.Fprintf(b, "# %s\n", doc)
	}
}

// typeName returns the type and unit of a setting for the reference.
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

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// cell escapes the separators of table cells.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
