package jsonschema

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// form says where a keyword contains schemas: in its value, in a list, or in an object's members.
type form uint8

const (
	one form = iota
	list
	dict
)

// reach says which value a keyword's schemas apply to.
type reach uint8

const (
	onNothing reach = iota
	onSame          // applies to the parent's value
	onInside        // applies to parts of that value
)

// schemaKeyword is a keyword that contains schemas.
type schemaKeyword struct {
	keyword string
	form    form
	reach   reach
}

// schemaKeywords lists keywords that contain schemas, in walking order, even from older drafts if the library reads them.
var schemaKeywords = []schemaKeyword{
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

// document is a checked schema document.
type document struct {
	nodes     []*node // root first
	byPointer map[string]*node
	resources map[string]*resource // by absolute URL
	dynamic   map[string][]*node   // by $dynamicAnchor
	pointers  int                  // bytes of all pointers
	patterns  int                  // instructions
	ranges    int                  // in character classes
	longest   int                  // maximum number of subschemas for a value

	expressions map[string]*pattern
}

// node is a subschema.
type node struct {
	at       pointer
	flat     bool           // a boolean schema's value
	keywords map[string]any // nil for a boolean schema
	resource *resource

	same, inside []*node // children that apply to the same value
	ref          *node   // target of $ref
	dynamic      []*node // possible $dynamicRef targets

	pattern int // instructions of the pattern
	names   int // instructions of patternProperties

	inPlace, writtenOut int // see fanout.go; 0 means not counted yet
}

// resource is a subschema with its own URL.
type resource struct {
	url     string
	node    *node
	anchors map[string]*node
}

// walk adds a subschema and everything below it.
func (d *document) walk(schema any, at pointer, in *resource) (*node, error) {
	if len(d.nodes) == MaxSubschemas {
		return nil, at.refuse("exceeds the limit of " + strconv.Itoa(MaxSubschemas) + " subschemas")
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
		return nil, at.refuse("is nested too deeply or under long names: the JSON pointers to all subschemas exceed " + strconv.Itoa(MaxPointers) + " bytes")
	}
	d.nodes = append(d.nodes, n)
	d.byPointer[place] = n
	if err := d.name(n); err != nil {
		return nil, err
	}
	for _, p := range schemaKeywords {
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

// children returns a keyword's subschemas. It skips malformed values: the metaschema was checked, and the rest are
// name lists in `dependencies`.
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

// child returns the subschema at tokens below n, or nil.
func (d *document) child(n *node, tokens ...string) *node {
	if n.keywords == nil {
		return nil
	}
	return d.byPointer[n.at.add(tokens...).String()]
}

// text returns a keyword's string, or "".
func (n *node) text(keyword string) string {
	s, _ := n.keywords[keyword].(string)
	return s
}

// object returns a keyword's object, or nil.
func (n *node) object(keyword string) map[string]any {
	m, _ := n.keywords[keyword].(map[string]any)
	return m
}

// strings returns the strings in a keyword's array.
func (n *node) strings(keyword string) (all []string) {
	array, _ := n.keywords[keyword].([]any)
	for _, v := range array {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// isDialect reports whether $schema names Draft 2020-12.
func isDialect(schema string) bool {
	_, rest, _ := strings.Cut(schema, "://")
	return strings.TrimSuffix(rest, "#") == "json-schema.org/draft/2020-12/schema" &&
		(strings.HasPrefix(schema, "https:") || strings.HasPrefix(schema, "http:"))
}
