package jsonschema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/optional"
)

// assertion runs before the library validates a value by a subschema. It checks whether steps are left, and the
// keywords that tell alternatives apart.
//
// The library also descends into alternatives that do not apply, so a tree with k kinds of nodes costs k^depth, and it
// compares every array item with an `enum` of 16,000 numbers one by one, as fractions. An assertion rejects such values
// immediately.
type assertion struct {
	node     *node               // subschema
	types    []string            // nil allows all
	values   map[string]struct{} // members of `enum`, or nil
	constant *string             // value of `const`, or nil
	required []string
	tags     []tag
	weight   int // cost of its keywords

	alternative bool // also check required and tags, which select the alternative
}

// tag is a member with `enum` or `const`, which selects the alternative in a union.
type tag struct {
	member string
	assert *assertion
}

// asserts returns the assertions of all subschemas that need one.
func (d *document) asserts() map[*node]*assertion {
	all, alternatives := map[*node]*assertion{}, d.alternatives()
	for _, n := range d.nodes {
		if len(n.keywords) > 0 {
			all[n] = d.newAssertion(n)
			all[n].alternative = alternatives[n]
		}
	}
	for _, a := range all {
		if !a.alternative {
			continue // the library reports each invalid member
		}
		properties := a.node.object("properties")
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if member := all[d.child(a.node, "properties", name)]; member != nil && (member.values != nil || member.constant != nil) {
				a.tags = append(a.tags, tag{name, member})
			}
		}
		a.weight += len(a.tags)
	}
	return all
}

// alternatives returns the subschemas that are alternatives, with everything that they apply to the same value.
func (d *document) alternatives() map[*node]bool {
	all := map[*node]bool{}
	var add func(n *node)
	add = func(n *node) {
		if !all[n] {
			all[n] = true
			for _, next := range n.here() {
				add(next)
			}
		}
	}
	for _, n := range d.nodes {
		for _, child := range n.same {
			if parent := child.at[len(n.at)]; parent == "anyOf" || parent == "oneOf" {
				add(child)
			}
		}
	}
	return all
}

func (d *document) newAssertion(n *node) *assertion {
	a := &assertion{node: n, required: n.strings("required"), types: n.strings("type")}
	if single := n.text("type"); single != "" {
		a.types = []string{single}
	}
	if values, ok := n.keywords["enum"].([]any); ok {
		a.values = make(map[string]struct{}, len(values))
		for _, v := range values {
			a.values[identity(v)] = struct{}{}
		}
	}
	if value, ok := n.keywords["const"]; ok {
		constant := identity(value)
		a.constant = &constant
	}
	a.weight = 1 + len(n.same) + len(a.required)
	if n.dynamic != nil {
		a.weight += d.longest // the library walks back the whole path
	}
	for _, keyword := range []string{"dependentRequired", "dependencies", "patternProperties"} {
		for _, names := range n.object(keyword) {
			array, _ := names.([]any)
			a.weight += 1 + len(array)
		}
	}
	return a
}

// perStep is how many regular expression instructions per character take as long as a step.
const perStep = 32

// cost returns the steps that v costs. The divisors are measured.
func (a *assertion) cost(v any) int {
	steps := a.weight
	switch v := v.(type) {
	case map[string]any:
		steps += len(v)
		if a.node.names > 0 {
			for name := range v {
				steps += a.node.names * (1 + len(name)) / perStep
			}
		}
	case []any:
		steps += len(v)
	case string:
		steps += len(v)/256 + a.node.pattern*len(v)/perStep
	case json.Number:
		steps += len(v)/16 + exponent(v)/64
	}
	if a.values != nil || a.constant != nil || a.node.keywords["uniqueItems"] == true {
		steps += size(v)
	}
	return steps
}

// size counts a value and everything in it.
func size(v any) int {
	sum := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			sum += size(member)
		}
	case []any:
		for _, item := range v {
			sum += size(item)
		}
	}
	return sum
}

// refusal explains why an assertion fails.
type refusal struct {
	member     []string // member at fault; at most one
	missing    optional.Of[string]
	reason     string
	keyword    string
	node       *node
	mismatched bool // see failure
}

func (r *refusal) Error() string { return r.reason }

// errNoSteps fails every further subschema, to end a validation quickly.
var errNoSteps = errors.New("no steps are left")

// check returns a *refusal if the value cannot match.
func (a *assertion) check(v any) error {
	if a.types != nil && !slices.ContainsFunc(a.types, func(name string) bool { return is(v, name) }) {
		return &refusal{reason: "must be of type " + strings.Join(a.types, " or "), keyword: "type", node: a.node, mismatched: true}
	}
	if keyword := a.differs(v); keyword != "" {
		return &refusal{reason: reasonOf[keyword], keyword: keyword, node: a.node, mismatched: true}
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for _, t := range a.tags {
		if value, ok := object[t.member]; ok {
			if keyword := t.assert.differs(value); keyword != "" {
				return &refusal{member: []string{t.member}, reason: reasonOf[keyword], keyword: keyword, node: t.assert.node, mismatched: true}
			}
		}
	}
	if !a.alternative {
		return nil
	}
	for _, name := range a.required {
		if _, ok := object[name]; !ok {
			return &refusal{missing: optional.Some(name), reason: lacksRequired, keyword: "required", node: a.node}
		}
	}
	return nil
}

var reasonOf = map[string]string{"const": "must equal the const value", "enum": "must be one of the enum values"}

// differs returns the keyword enum or const if the value is another one.
func (a *assertion) differs(v any) string {
	if a.values == nil && a.constant == nil {
		return ""
	}
	var space [64]byte
	id := identify(space[:0], v)
	if a.constant != nil && *a.constant != string(id) {
		return "const"
	}
	if a.values != nil {
		if _, ok := a.values[string(id)]; !ok {
			return "enum"
		}
	}
	return ""
}

// is reports whether v has a JSON Schema type. 1.0 is an integer.
func is(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	case json.Number:
		return name == "number" || name == "integer" && (plain(v) || fraction(v).IsInt())
	}
	return false
}

func plain(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") }

// identity returns a text that is equal for equal values: 1 and 1.0 are equal.
func identity(v any) string { return string(identify(nil, v)) }

func identify(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, '0')
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return sized(b, 's', v)
	case json.Number:
		if plain(v) && v != "-0" {
			return sized(b, 'n', string(v))
		}
		return sized(b, 'n', fraction(v).RatString())
	case []any:
		b = append(strconv.AppendInt(append(b, '['), int64(len(v)), 10), ':')
		for _, item := range v {
			b = identify(b, item)
		}
	case map[string]any:
		b = append(strconv.AppendInt(append(b, '{'), int64(len(v)), 10), ':')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = identify(sized(b, 'k', name), v[name])
		}
	}
	return b
}

func sized(b []byte, kind byte, text string) []byte {
	b = append(strconv.AppendInt(append(b, kind), int64(len(text)), 10), ':')
	return append(b, text...)
}

func exponent(n json.Number) int {
	i := strings.IndexByte(string(n), 'e')
	if i < 0 {
		return 0
	}
	e, _ := strconv.Atoi(string(n[i+1:]))
	return max(e, -e)
}
