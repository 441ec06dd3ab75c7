package conf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// readFile reports an unreadable file as a problem: it was named, so it must exist.
func (l *loader) readFile(name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		l.problem(origin{name: name}, "", "cannot read the file: "+reason(err), "check its path and permissions")
		return
	}
	l.readTOML(name, data)
}

// readTOML decodes into maps and walks them along the schema, because the decoder would stop at the first wrong type
// and does not know reserved sections.
func (l *loader) readTOML(name string, data []byte) {
	tree := map[string]any{}
	if err := toml.Unmarshal(data, &tree); err != nil {
		at, what := syntaxError(name, err)
		l.problem(at, "", what, "quote strings, and set each key and section once; the rest of the file was not checked")
		return
	}
	f := file{loader: l, name: name, lines: linesOf(data)}
	f.table(nil, l.schema, tree)
	byLine := func(a, b Problem) int { return cmp.Compare(a.line, b.line) }
	slices.SortStableFunc(l.problems, byLine)
	slices.SortStableFunc(l.report.Warnings, byLine)
}

// reason returns an error's text without the path.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}

// syntaxError omits the decoder's text, which describes the parser's state.
func syntaxError(name string, err error) (at origin, what string) {
	at, what = origin{name: name}, "not valid TOML"
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := d.Position()
		at.line = line
		what += fmt.Sprintf(" at column %d", column)
	}
	return at, what
}

// file is a TOML file while it is read.
type file struct {
	*loader
	name  string
	lines map[string]int // line of each key, by joined path
}

func (f *file) origin(path []string) origin {
	return origin{name: f.name, line: f.lines[joined(path)]}
}

// table reads a table in the order of its lines, so that problems are reported in this order.
func (f *file) table(at []string, n *node, t map[string]any) {
	below := func(key string) []string { return append(slices.Clip(at), key) }
	keys := make([]string, 0, len(t))
	for key := range t {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.lines[joined(below(a))], f.lines[joined(below(b))]), cmp.Compare(a, b))
	})
	for _, key := range keys {
		path := below(key)
		f.value(path, n.child(key), t[key])
	}
}

// value reads a setting or a section; n is nil for an unknown key.
func (f *file) value(path []string, n *node, value any) {
	at, dotted := f.origin(path), strings.Join(path, ".")
	inner, isTable := value.(map[string]any)
	switch {
	case n == nil:
		f.problem(at, "", "unknown setting "+dotted, f.nearestPath(path))
	case isTable && n.isLeaf():
		f.problem(at, dotted, "is a setting, not a section: expected "+n.expected(), "")
	case isTable:
		f.table(path, n, inner)
	case !n.isLeaf():
		f.problem(at, dotted, "is a section, not a setting", "write ["+dotted+"] and its settings below it")
	default:
		v, ok := n.fromTOML(value)
		f.set(at, path, n, v, ok)
	}
}

// nearestPath returns advice for an unknown setting.
func (f *file) nearestPath(path []string) string {
	var candidates []string
	for _, p := range f.schema.paths(nil, path) {
		candidates = append(candidates, strings.Join(p, "."))
	}
	asIs := func(s string) string { return s }
	return cmp.Or(didYouMean(strings.Join(path, "."), candidates, asIs), "remove it; holdfast config reference lists the settings")
}

// joined returns a path as a map key.
func joined(path []string) string { return strings.Join(path, "\x00") }

// linesOf returns each key's line. The decoder reports positions only for errors, so this uses its parser.
func linesOf(data []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = note(lines, &p, nil, e.Key())
		case unstable.KeyValue:
			noteValue(lines, &p, table, e)
		}
	}
	return lines
}

// noteValue notes the lines of a key and of those in its inline table.
func noteValue(lines map[string]int, p *unstable.Parser, at []string, e *unstable.Node) {
	path := note(lines, p, at, e.Key())
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	for inner := e.Value().Children(); inner.Next(); {
		noteValue(lines, p, path, inner.Node())
	}
}

// note notes a key's line, and those of the tables that it implies.
func note(lines map[string]int, p *unstable.Parser, at []string, key unstable.Iterator) []string {
	path := slices.Clone(at)
	for key.Next() {
		path = append(path, string(key.Node().Data))
		if _, known := lines[joined(path)]; !known {
			lines[joined(path)] = p.Shape(key.Node().Raw).Start.Line
		}
	}
	return path
}
