package jsonschema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// assertion is what this package checks itself when a subschema is held against
// a value, before the library goes on: whether steps are left, and the keywords
// by which alternatives are told apart.
//
// The library would check those too, but it also descends into the members of
// an alternative that does not apply, so that a tree of nodes of k kinds costs
// k^depth; and an `enum` of 16,000 numbers is compared one by one, as
// fractions, for every item of an array. Here both end at once.
type assertion struct {
	node     *node
	types    []string            // any of these, or nil for any at all
	values   map[string]struct{} // identities of `enum`, or nil
	constant *string             // identity of `const`, or nil
	required []string
	tags     []tag // of members
	weight   int   // of the subschema's own keywords

	alternative bool // required and tags tell whether it is meant; else the library has them
}

// tag is a member whose subschema is an `enum` or a `const`: in a union it
// tells which alternative is meant.
type tag struct {
	member string
	assert *assertion
}

// asserts makes the assertion of every subschema that has keywords.
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
			continue // the library says of each member what is wrong with it
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

// alternatives are the subschemas of anyOf and oneOf, and those that the same value
// is held against through them.
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
		a.weight += d.longest // the library goes all the way back that led here
	}
	for _, keyword := range []string{"dependentRequired", "dependencies", "patternProperties"} {
		for _, names := range n.object(keyword) {
			array, _ := names.([]any)
			a.weight += 1 + len(array)
		}
	}
	return a
}

// perStep is how many instructions of a regular expression, each on one
// character, take as long as a step.
const perStep = 32

// cost is how many steps it is to hold the subschema against v, without what is
// in v and without the subschemas that it refers to. The divisors are measured.
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

// size is how many values v is.
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

// refusal is why an assertion does not hold: at the value, or at a member of
// it. Mismatched says that the subschema was probably not meant for the value.
type refusal struct {
	member     []string // one or none
	reason     string
	keyword    string
	node       *node // that has the keyword
	mismatched bool
}

func (r *refusal) Error() string { return r.reason }

// errNoSteps ends a validation, fast: every further subschema is refused.
var errNoSteps = errors.New("no steps are left")

// check holds a against v. The error is a *refusal.
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
			return &refusal{member: []string{name}, reason: "is required", keyword: "required", node: a.node}
		}
	}
	return nil
}

var reasonOf = map[string]string{"const": "must equal the value of const", "enum": "must be one of the values of enum"}

// differs is the keyword, `enum` or `const`, of which v is not a value, or "".
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

// is tells whether v is of a type. 1.0 is an integer.
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

// plain tells whether n is written as an integer.
func plain(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") }

// identity is a text that two values share when they are equal: members in
// order, numbers by their value, lengths so that nothing runs together.
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

// exponent is the size of the exponent that a canonical number is written with.
func exponent(n json.Number) int {
	i := strings.IndexByte(string(n), 'e')
	if i < 0 {
		return 0
	}
	e, _ := strconv.Atoi(string(n[i+1:]))
	return max(e, -e)
}
