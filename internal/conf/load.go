package conf

import (
	"os"
	"reflect"
	"slices"
	"strings"
)

// Options says where a configuration comes from.
type Options struct {
	// File is the TOML file; "" for none.
	File string
	// Environ is the environment as os.Environ gives it. HOLDFAST_CONFIG and
	// HOLDFAST_DATA belong to the command line and are passed over.
	Environ []string
	// Flags are settings given on the command line; they override all others.
	Flags []Flag
	// Aliases are the names of the reference server that are understood.
	Aliases []Alias
	// Reserved are top-level sections that a later release will know. What is
	// set in them has no effect and one warning each.
	Reserved []string
}

// Flag is a setting that was given on the command line.
type Flag struct {
	Name  string // as it was typed: "--listen"
	Path  string // the setting: "server.listen"
	Value string
}

// Load puts file, environment and flags over the defaults that stand in dst, a pointer
// to a struct or a []Section (see the package's comment). The error is an *Error with all that
// is wrong; dst is then good for finding more that is wrong and nothing else:
// what could not be read has its default. The report is valid either way.
func Load(dst any, o Options) (Report, error) {
	schema, root := schemaOf(dst)
	l := &loader{Options: o, schema: schema, root: root, warned: map[string]bool{}}
	l.report.origins = map[string]string{}

	if o.File != "" {
		l.newLayer()
		l.readFile(o.File)
	}
	env := environment(o.Environ)
	l.newLayer()
	l.readAliases(env)
	l.newLayer()
	l.readEnvironment(env)
	l.newLayer()
	for _, f := range o.Flags {
		path := strings.Split(f.Path, ".")
		n := schema.find(path)
		value, ok := n.fromText(f.Value)
		l.set(place{name: f.Name}, path, n, value, ok)
	}

	if len(l.problems) > 0 {
		return l.report, &Error{l.problems}
	}
	return l.report, nil
}

type loader struct {
	Options
	schema   *node
	root     reflect.Value
	report   Report
	problems []Problem
	warned   map[string]bool // reserved sections

	layer map[string]*node // by the path of the field: what set it in this layer
}

func (l *loader) newLayer() { l.layer = map[string]*node{} }

func (l *loader) problem(at place, what, fix string) {
	l.problems = append(l.problems, Problem{Where: at.String(), What: what, Fix: fix, line: at.line})
}

func (l *loader) warn(at place, what, fix string) {
	l.report.Warnings = append(l.report.Warnings, Problem{Where: at.String(), What: what, Fix: fix, line: at.line})
}

func (l *loader) note(at place, what string) {
	l.report.Notes = append(l.report.Notes, Problem{Where: at.String(), What: what})
}

// reserved reports whether a top-level section is a reserved one, and warns of it once.
func (l *loader) reserved(key string, at place) bool {
	if !slices.Contains(l.Reserved, key) {
		return false
	}
	if !l.warned[key] {
		l.warned[key] = true
		l.warn(at, "the section "+key+" is reserved for a later release and has no effect", "")
	}
	return true
}

// set puts the value of the leaf n at its path, or says what should have been
// there when ok is false.
func (l *loader) set(at place, path []string, n *node, value any, ok bool) {
	dotted := strings.Join(path, ".")
	if !ok {
		l.problem(at, dotted+" has a value of the wrong kind or size", "give it "+n.wants())
		return
	}
	if n.kind == secretFile {
		dotted = strings.TrimSuffix(dotted, "_file")
		if value, ok = l.readSecret(at, n, value.(string)); !ok {
			return
		}
	}
	if other := l.layer[dotted]; other != nil && other != n {
		l.problem(at, dotted+" is set in two ways, by itself and by "+dotted+"_file", "keep one of them")
		return
	}
	l.layer[dotted] = n
	l.schema.edit(l.root, path, func(field reflect.Value) { store(field, value) })
	l.report.origins[dotted] = at.String()
}

// readSecret reads the file of a secret: the whole of it but the newline at its
// end, or its lines where the secret is a list.
func (l *loader) readSecret(at place, n *node, name string) (any, bool) {
	data, err := os.ReadFile(name)
	if err != nil {
		l.problem(at, "the file "+name+" cannot be read: "+reason(err), "check its path and permissions")
		return nil, false
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if s == "" {
		l.problem(at, "the file "+name+" is empty", "write the secret into it")
		return nil, false
	}
	if n.typ.Kind() == reflect.Slice {
		return fields(s, "\n"), true
	}
	return s, true
}
