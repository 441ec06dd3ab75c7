package jsonschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const (
	probeTurns  = 6     // per kind of probe
	probeValues = 1_500 // in a broad probe
)

// probes returns values that follow the schema's structure up to the size limit, because small values do not reveal an
// expensive schema. They are broad or deep, and half have invalid leaves, because only failures make the library try
// all alternatives.
func (d *document) probes() (all []any) {
	for turn := range probeTurns {
		for _, invalid := range []bool{false, true} {
			p := prober{document: d, turn: turn, wrong: invalid}
			all = append(all, p.value(d.nodes[:1], 0, probeValues))
			p.narrow = true
			all = append(all, p.value(d.nodes[:1], 0, MaxDepth+1))
		}
	}
	return all
}

type prober struct {
	document *document
	turn     int  // which alternative to take
	narrow   bool // one member or item per value
	wrong    bool // leaves have a type that no subschema allows
}

// value satisfies subschemas that all apply. limit limits its nested values.
func (p *prober) value(nodes []*node, depth, limit int) any {
	nodes = closure(nodes)
	if v, ok := p.given(nodes); ok {
		return v
	}
	members, items := p.members(nodes), itemsOf(nodes)
	if depth == MaxDepth-1 || limit <= 1 || len(members)+len(items) == 0 {
		return p.end(nodes)
	}
	if len(members) == 0 || len(items) > 0 && p.turn%2 == 1 {
		count := 3
		if p.narrow {
			count = 1
		}
		array := make([]any, count)
		for i := range array {
			array[i] = p.value(items, depth+1, p.share(limit, count))
		}
		return array
	}
	names := slices.Sorted(maps.Keys(members))
	if p.narrow {
		names = p.further(members, names)
	}
	object := make(map[string]any, len(names))
	for _, name := range names {
		object[name] = p.value(members[name], depth+1, p.share(limit, len(names)))
	}
	return object
}

// share returns how many nested values a member or item may have.
func (p *prober) share(limit, among int) int {
	if p.narrow {
		return limit - 1
	}
	return (limit - 1) / among
}

// closure returns the nodes with all that apply to the same values.
func closure(nodes []*node) (all []*node) {
	seen := map[*node]bool{}
	for queue := slices.Clone(nodes); len(queue) > 0; {
		n := queue[0]
		queue = queue[1:]
		if !seen[n] {
			seen[n] = true
			all = append(all, n)
			queue = append(queue, n.here()...)
		}
	}
	return all
}

// given returns a value from enum or const, if any.
func (p *prober) given(nodes []*node) (any, bool) {
	var values []any
	for _, n := range nodes {
		if v, ok := n.keywords["const"]; ok {
			values = append(values, v)
		}
		enum, _ := n.keywords["enum"].([]any)
		values = append(values, enum...)
	}
	if len(values) == 0 {
		return nil, false
	}
	return values[p.turn%len(values)], true
}

// members returns the subschemas of each member.
func (p *prober) members(nodes []*node) map[string][]*node {
	members := map[string][]*node{}
	var rest []*node
	for _, n := range nodes {
		for name := range n.object("properties") {
			members[name] = append(members[name], p.document.child(n, "properties", name))
		}
		for name := range n.object("patternProperties") {
			rest = append(rest, p.document.child(n, "patternProperties", name))
		}
		for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
			if child := p.document.child(n, keyword); child != nil && len(child.keywords) > 0 {
				rest = append(rest, child)
			}
		}
	}
	if len(rest) > 0 {
		members["other"] = append(members["other"], rest...)
		for name := range members {
			if name != "other" {
				members[name] = append(members[name], rest...)
			}
		}
	}
	return members
}

// itemsOf returns the subschemas of items.
func itemsOf(nodes []*node) (items []*node) {
	for _, n := range nodes {
		for _, child := range n.inside {
			parent := child.at[len(n.at)]
			if slices.Contains([]string{"prefixItems", "items", "contains", "unevaluatedItems"}, parent) && len(child.keywords) > 0 {
				items = append(items, child)
			}
		}
	}
	return items
}

// further chooses the members of a narrow probe.
func (p *prober) further(members map[string][]*node, names []string) (kept []string) {
	var ways []string
	for _, name := range names {
		below := closure(members[name])
		if _, ok := p.given(below); ok {
			kept = append(kept, name)
		} else if len(p.members(below))+len(itemsOf(below)) > 0 {
			ways = append(ways, name)
		}
	}
	if len(ways) > 0 {
		kept = append(kept, ways[p.turn%len(ways)])
	}
	return kept
}

// end returns a leaf.
func (p *prober) end(nodes []*node) any {
	types, pattern := map[string]bool{}, 0
	for _, n := range nodes {
		for _, name := range append(n.strings("type"), n.text("type")) {
			types[name] = true
		}
		pattern += n.pattern
	}
	switch {
	case p.wrong && !types["boolean"]:
		return true
	case p.wrong:
		return json.Number("0.5")
	case pattern > 0:
		return strings.Repeat("a", 2<<10)
	case types["string"]:
		return "a text"
	case types["integer"], types["number"]:
		return json.Number("1")
	case types["boolean"]:
		return true
	case types["array"]:
		return []any{}
	case types["object"]:
		return map[string]any{}
	}
	return nil
}
