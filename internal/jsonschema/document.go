package jsonschema

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// form is the structure of a keyword's value.
type form uint8

const (
	one  form = iota // a schema
	list             // an array of schemas
	dict             // an object of schemas
)

// reach tells which value a subschema applies to.
type reach uint8

const (
	onNothing reach = iota // none: it is a definition or an annotation
	onSame                 // the same value as its parent
	onInside               // values nested in that value
)

// place is a keyword that contains schemas.
type place struct {
	keyword string
	form    form
	reach   reach
}

// places lists the keywords that contain schemas, in the order in which the
// document is walked. It includes those of older drafts that the library also
// reads in this one.
var places = []place{
	{"$defs", dict, onNothing},
	{"definitions", dict, onNothing},
	{"contentSchema", one, onNothing},
	{"additionalItems", one, onNothing},
	{"allOf", list, onSame},
	{"anyOf", list, onSame},
	{"oneOf", list, onSame},
	{"not", one, onSame},
	{"if", one, onSame},
	{"then", one, onSame},
	{"else", one, onSame},
	{"dependentSchemas", dict, onSame},
	{"dependencies", dict, onSame},
	{"properties", dict, onInside},
	{"patternProperties", dict, onInside},
	{"additionalProperties", one, onInside},
	{"propertyNames", one, onInside},
	{"unevaluatedProperties", one, onInside},
	{"prefixItems", list, onInside},
	{"items", one, onInside},
	{"contains", one, onInside},
	{"unevaluatedItems", one, onInside},
}

// document is a schema document with resolved subschemas and references.
type document struct {
	nodes     []*node // the root is first
	byPointer map[string]*node
	resources map[string]*resource // by absolute URL
	dynamic   map[string][]*node   // by the name of their $dynamicAnchor
	pointers  int                  // bytes of all pointers
	patterns  int                  // instructions of all regular expressions
	ranges    int                  // ranges of their character classes
	longest   int                  // maximum number of subschemas that apply to one value

	expressions map[string]*pattern // regular expressions by their text
}

// node is one subschema: a boolean, or an object of keywords.
type node struct {
	at       pointer
	flat     bool           // the value of a boolean schema
	keywords map[string]any // nil for a boolean schema
	resource *resource

	same, inside []*node // subschemas by the value they apply to
	ref          *node   // the target of $ref
	dynamic      []*node // one of these is the target of $dynamicRef

	pattern int // instructions of `pattern`
	names   int // instructions of `patternProperties`

	inPlace, writtenOut int // see fanout.go; 0 until counted
}

// resource is a schema resource: what an $id names, or the whole document.
type resource struct {
	url     string
	node    *node
	anchors map[string]*node
}

// walk adds the schema at a pointer, and all below it, to d. It follows neither
// references nor unknown keywords.
func (d *document) walk(schema any, at pointer, in *resource) (*node, error) {
	if len(d.nodes) == MaxSubschemas {
		return nil, at.refuse("is one subschema too many: the limit is " + strconv.Itoa(MaxSubschemas))
	}
	n := &node{at: at, resource: in}
	switch schema := schema.(type) {
	case bool:
		n.flat = schema
	case map[string]any:
		n.keywords = schema
	default:
		return nil, at.refuse("must be a schema: a JSON object or a boolean")
	}
	place := at.String()
	if d.pointers += len(place); d.pointers > MaxPointers {
		return nil, at.refuse("is nested under too many or too long names: the pointers to all subschemas may have " + strconv.Itoa(MaxPointers) + " bytes")
	}
	d.nodes = append(d.nodes, n)
	d.byPointer[place] = n
	if err := d.name(n); err != nil {
		return nil, err
	}
	for _, p := range places {
		value, ok := n.keywords[p.keyword]
		if !ok {
			continue
		}
		children, err := d.children(value, p.form, at.add(p.keyword), n.resource)
		if err != nil {
			return nil, err
		}
		switch p.reach {
		case onSame:
			n.same = append(n.same, children...)
		case onInside:
			n.inside = append(n.inside, children...)
		}
	}
	return n, nil
}

// children walks the schemas of one keyword, those of an object by name. It skips
// malformed values: the metaschema has checked the document before, and the rest
// are arrays of names in `dependencies`.
func (d *document) children(value any, f form, at pointer, in *resource) (nodes []*node, err error) {
	add := func(schema any, at pointer) {
		if err != nil {
			return
		}
		var n *node
		n, err = d.walk(schema, at, in)
		nodes = append(nodes, n)
	}
	switch value := value.(type) {
	case []any:
		for i, schema := range value {
			if f == list {
				add(schema, at.add(strconv.Itoa(i)))
			}
		}
	case map[string]any:
		if f == one {
			add(value, at)
			break
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if _, names := value[name].([]any); !names {
				add(value[name], at.add(name))
			}
		}
	case bool:
		if f == one {
			add(value, at)
		}
	}
	return nodes, err
}

// child returns the subschema under a keyword of n, or nil.
func (d *document) child(n *node, tokens ...string) *node {
	if n.keywords == nil {
		return nil
	}
	return d.byPointer[n.at.add(tokens...).String()]
}

// text returns the string under a keyword, or "".
func (n *node) text(keyword string) string {
	s, _ := n.keywords[keyword].(string)
	return s
}

// object returns the object under a keyword, or nil.
func (n *node) object(keyword string) map[string]any {
	m, _ := n.keywords[keyword].(map[string]any)
	return m
}

// strings returns the strings of the array under a keyword.
func (n *node) strings(keyword string) (all []string) {
	array, _ := n.keywords[keyword].([]any)
	for _, v := range array {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// isDialect reports whether a $schema is that of Draft 2020-12.
func isDialect(schema string) bool {
	_, rest, _ := strings.Cut(schema, "://")
	return strings.TrimSuffix(rest, "#") == "json-schema.org/draft/2020-12/schema" &&
		(strings.HasPrefix(schema, "https:") || strings.HasPrefix(schema, "http:"))
}
