package conf

import (
	"os"
	"reflect"
	"strconv"
	"strings"
)

// Options say where settings come from. The zero value loads only defaults.
type Options struct {
	File string // path of the TOML file; "": none
	// Environ is from os.Environ. HOLDFAST_CONFIG and HOLDFAST_DATA belong to the command line and are skipped.
	Environ []string
	Flags   []Flag // override everything else
	Aliases []Alias
}

// Flag is a command-line flag that sets a setting.
type Flag struct {
	Name  string // as typed: "--listen"
	Path  string // setting: "server.listen"
	Value string
}

// Load overwrites the defaults in dst, a pointer to a struct or a []Section, from file, environment and flags. The
// *Error lists all problems. Settings with problems keep their defaults, so the caller may check the rest of dst, but
// must not use it. The report is always valid.
func Load(dst any, o Options) (Report, error) {
	schema, root := schemaOf(dst)
	l := &loader{Options: o, schema: schema, root: root}
	l.report.File, l.report.origins, l.report.derived = o.File, map[string]string{}, map[string]string{}
	l.report.defaults = map[string]string{}
	schema.eachSetting(root, nil, func(n *node, v reflect.Value, path []string) {
		if n.secret && v.Len() > 0 {
			l.report.defaults[strings.Join(path, ".")] = n.standard(v)
		}
	})

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
		l.set(origin{name: f.Name, text: f.Value}, path, n, value, ok)
	}

	if len(l.problems) > 0 {
		return l.report, &Error{l.problems}
	}
	return l.report, nil
}

// loader fills the settings and collects problems.
type loader struct {
	Options
	schema   *node
	root     reflect.Value // the settings
	report   Report
	problems []Problem

	layer map[string]*node // settings that the current source has set: a source may set a secret only once
}

// maxShown limits the invalid text in an error, in bytes.
const maxShown = 200

// newLayer begins the next source.
func (l *loader) newLayer() { l.layer = map[string]*node{} }

// problem records an error; key is the setting, or "".
func (l *loader) problem(at origin, key, what, fix string) {
	l.problems = append(l.problems, Problem{Where: at.String(), Key: key, What: what, Fix: fix, line: at.line})
}

// warn records a probable mistake with which the server starts.
func (l *loader) warn(at origin, what, fix string) {
	l.report.Warnings = append(l.report.Warnings, Problem{Where: at.String(), What: what, Fix: fix, line: at.line})
}

// note records a known name without effect.
func (l *loader) note(at origin, what string) {
	l.report.Notes = append(l.report.Notes, Problem{Where: at.String(), What: what})
}

// set stores a value. ok is false if its text or type did not fit. Then the error shows the
// text of a variable or flag, unless it is or names a secret. In a file, its line is shown.
func (l *loader) set(at origin, path []string, n *node, value any, ok bool) {
	dotted := strings.Join(path, ".")
	if !ok {
		shown := ""
		if at.line == 0 && !n.secret && n.kind != secretFile {
			shown = " " + strconv.Quote(at.text[:min(len(at.text), maxShown)])
		}
		l.problem(at, dotted, "invalid value"+shown+": expected "+n.expected(), "")
		return
	}
	if n.kind == secretFile {
		if value, ok = l.readSecret(at, dotted, n, value.(string)); !ok {
			return
		}
		dotted = strings.TrimSuffix(dotted, "_file")
	}
	if other := l.layer[dotted]; other != nil && other != n {
		typed, suffix := dotted, "_file"
		if at.line == 0 {
			typed, suffix = strings.TrimSuffix(at.name, "_FILE"), "_FILE"
		}
		l.problem(at, "", typed+" and "+typed+suffix+" are both set", "remove one of them")
		return
	}
	l.layer[dotted] = n
	l.schema.edit(l.root, path, func(field reflect.Value) { store(field, value) })
	l.report.origins[dotted] = at.String()
}

// readSecret reads a secret's file, which may end with a newline. For a list, each line is a secret.
func (l *loader) readSecret(at origin, key string, n *node, name string) (any, bool) {
	data, err := os.ReadFile(name)
	if err != nil {
		l.problem(at, key, "cannot read file "+name+": "+reason(err), "check its path and permissions")
		return nil, false
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if s == "" {
		l.problem(at, key, "file "+name+" is empty", "write the secret into it")
		return nil, false
	}
	if n.typ.Kind() == reflect.Slice {
		return fields(s, "\n"), true
	}
	return s, true
}
