package conf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// kind is a setting's type, or a section's.
type kind uint8

const (
	section kind = iota
	named
	text
	boolean
	integer
	number
	duration
	list
	secretFile // key x_file of secret x
)

// node describes a setting or a section.
type node struct {
	kind      kind
	key       string // in its section
	doc, unit string
	secret    bool // never shown
	reloads   bool // see the tag reload
	typ       reflect.Type
	index     []int         // through embedded structs
	value     reflect.Value // a Section's struct, which has no parent
	children  []*node
}

// Section is a top-level section composed at run time.
type Section struct {
	Key   string
	Doc   string
	Value any
}

// schemaOf accepts a pointer to a struct or a []Section. It panics on an unsupported type, so that the first start
// shows the bug.
func schemaOf(dst any) (*node, reflect.Value) {
	if sections, ok := dst.([]Section); ok {
		root := &node{kind: section}
		for _, s := range sections {
			n, v := schemaOf(s.Value)
			n.key, n.doc, n.value = s.Key, s.Doc, v
			root.children = append(root.children, n)
		}
		return root, reflect.Value{}
	}
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("conf: want a pointer to a struct, got %T", dst))
	}
	return newNode(v.Elem().Type()), v.Elem()
}

// newNode describes a type. It panics on an unsupported one.
func newNode(t reflect.Type) *node {
	n := &node{typ: t}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		n.kind = duration
	case t == reflect.TypeFor[Secret]():
		n.kind, n.secret = text, true
	case t.Kind() == reflect.String:
		n.kind = text
	case t.Kind() == reflect.Bool:
		n.kind = boolean
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		n.kind = integer
	case t.Kind() == reflect.Float64:
		n.kind = number
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		n.kind, n.secret = list, t.Elem() == reflect.TypeFor[Secret]()
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.Struct:
		n.kind, n.children = named, []*node{newNode(t.Elem())}
	case t.Kind() == reflect.Struct:
		n.addFields(t, nil)
	default:
		panic(fmt.Sprintf("conf: unsupported type %s of a setting", t))
	}
	return n
}

// addFields adds the fields of a struct, and those of embedded structs without a tag.
func (n *node) addFields(t reflect.Type, outer []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, index := f.Tag.Get("toml"), append(slices.Clip(outer), i)
		if f.Anonymous && key == "" {
			n.addFields(f.Type, index)
			continue
		}
		if !f.IsExported() || key == "-" {
			continue
		}
		if key == "" || key != strings.ToLower(key) || strings.Contains(key, "__") {
			panic(fmt.Sprintf("conf: %s.%s needs a toml tag in lower case without two underscores in a row", t, f.Name))
		}
		c := newNode(f.Type)
		c.index, c.key = index, key
		c.doc, c.unit = f.Tag.Get("doc"), f.Tag.Get("unit")
		if f.Tag.Get("reload") == "true" {
			c.reload()
		}
		if f.Tag.Get("secret") == "true" {
			if c.kind != text && c.kind != list {
				panic(fmt.Sprintf("conf: %s.%s is not text and cannot be a secret", t, f.Name))
			}
			c.secret = true
		}
		n.children = append(n.children, c)
		if c.secret {
			n.children = append(n.children, &node{kind: secretFile, key: key + "_file", typ: f.Type, index: index})
		}
	}
}

// reload marks a section's settings as reloadable.
func (n *node) reload() {
	n.reloads = true
	for _, c := range n.children {
		c.reload()
	}
}

// child returns the node below with this key, or nil; in a named section any key exists.
func (n *node) child(key string) *node {
	switch n.kind {
	case section:
		for _, c := range n.children {
			if c.key == key {
				return c
			}
		}
	case named:
		if key != "" {
			return n.children[0]
		}
	}
	return nil
}

// find returns the node at a path, or nil.
func (n *node) find(path []string) *node {
	for _, key := range path {
		if n = n.child(key); n == nil {
			return nil
		}
	}
	return n
}

// in returns the node's value in its section's value.
func (n *node) in(v reflect.Value) reflect.Value {
	if n.value.IsValid() {
		return n.value
	}
	return v.FieldByIndex(n.index)
}

// isLeaf reports whether the node is a setting.
func (n *node) isLeaf() bool { return n.kind > named }

// edit changes the value at a path, and creates named sections on the way.
func (n *node) edit(v reflect.Value, path []string, change func(reflect.Value)) {
	switch n.kind {
	case section:
		c := n.child(path[0])
		c.edit(c.in(v), path[1:], change)
	case named: // map values cannot be changed in place
		key := reflect.ValueOf(path[0]).Convert(n.typ.Key())
		elem := reflect.New(n.typ.Elem()).Elem()
		if old := v.MapIndex(key); old.IsValid() {
			elem.Set(old)
		}
		n.children[0].edit(elem, path[1:], change)
		if v.IsNil() {
			v.Set(reflect.MakeMap(n.typ))
		}
		v.SetMapIndex(key, elem)
	default:
		change(v)
	}
}

// at returns the value at a path below v, whose schema is n, or the zero value for an unknown name. It cannot be set.
func (n *node) at(v reflect.Value, path []string) reflect.Value {
	for _, key := range path {
		c := n.child(key)
		if n.kind == named {
			elem := v.MapIndex(reflect.ValueOf(key).Convert(n.typ.Key()))
			if !elem.IsValid() {
				elem = reflect.Zero(n.typ.Elem())
			}
			v = elem
		} else {
			v = c.in(v)
		}
		n = c
	}
	return v
}

// paths takes the names of named sections from at and like, so that two configurations can be compared.
func (n *node) paths(at, like []string) [][]string {
	var all [][]string
	if n.kind == named {
		name := "NAME"
		if len(at) < len(like) && like[len(at)] != "" {
			name = like[len(at)]
		}
		return n.children[0].paths(append(slices.Clip(at), name), like)
	}
	for _, c := range n.children {
		below := append(slices.Clip(at), c.key)
		all = append(all, below)
		all = append(all, c.paths(below, like)...)
	}
	return all
}

// prefix begins all variables.
const prefix = "HOLDFAST_"

// envName returns a setting's variable.
func envName(path []string) string {
	parts := make([]string, len(path))
	for i, key := range path {
		parts[i] = envPart(key)
	}
	return prefix + strings.Join(parts, "__")
}

// envPart spells a key as in variables. Section names may contain characters that shells do not allow.
func envPart(key string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return c - 'a' + 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
			return c
		}
		return '_'
	}, key)
}
