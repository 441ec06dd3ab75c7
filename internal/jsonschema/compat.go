package jsonschema

import (
	"maps"
	"slices"
	"strconv"
)

// Effect is a change's effect on values accepted by the old schema.
type Effect uint8

// Effects, by severity.
const (
	Harmless Effect = iota // the new schema accepts all
	Unknown                // undecidable from the schemas: validate the values
	Breaking               // the new schema rejects some or all
)

func (e Effect) String() string {
	return [...]string{"harmless", "unknown", "breaking"}[e]
}

// Change is a difference between schemas. Pointer refers to the new document, or to the old one after a removal.
type Change struct {
	Pointer string
	Change  string // e.g. "a required member was added"
	Effect  Effect
}

// Report lists differences in document order.
type Report []Change

// Effect returns the worst effect.
func (r Report) Effect() (worst Effect) {
	for _, c := range r {
		worst = max(worst, c.Effect)
	}
	return worst
}

// Compatible reports whether valid values remain valid, comparing keyword by keyword. A breaking change may be
// harmless in context. Harmless is certain, except that an optional member may be added to an open object, although a
// record may contain that name with another type.
func Compatible(before, after []byte) (Report, error) {
	o, err := parse(before)
	if err != nil {
		return nil, err
	}
	n, err := parse(after)
	if err != nil {
		return nil, err
	}
	c := comparison{before: o, after: n, seen: map[[2]*node]bool{}}
	c.compare(o.nodes[0], n.nodes[0], nil)
	if c.cut {
		c.report = append(c.report, Change{"", "more changes were omitted", c.untold})
	}
	return c.report, nil
}

// Limits for a comparison. With reference cycles, the number of pairs is the product of the cycle lengths.
const (
	maxPairs   = 5_000
	maxChanges = 1_000
)

type comparison struct {
	before, after *document
	seen          map[[2]*node]bool // for recursive schemas
	report        Report

	cut    bool   // changes are missing from the report
	untold Effect // worst effect of changes beyond the limit
}

// add reports a change.
func (c *comparison) add(at pointer, effect Effect, change string) {
	if len(c.report) == maxChanges {
		c.leave(effect)
		return
	}
	c.report = append(c.report, Change{at.String(), change, effect})
}

// leave counts a change that does not fit into the report.
func (c *comparison) leave(effect Effect) { c.cut, c.untold = true, max(c.untold, effect) }

// anything is the schema implied by an absent keyword.
var anything = &node{flat: true}

func orAnything(n *node) *node {
	if n == nil {
		return anything
	}
	return n
}

// compare reports how n differs from o. Keywords are independent, so it suffices that each condition in n follows
// from the same condition in o.
func (c *comparison) compare(o, n *node, at pointer) {
	o = o.target()
	if t := n.target(); t != n {
		n, at = t, t.at
	}
	if c.seen[[2]*node{o, n}] {
		return
	}
	if c.cut || len(c.seen) == maxPairs {
		c.leave(Unknown)
		return
	}
	c.seen[[2]*node{o, n}] = true
	switch {
	case n.open():
		if !o.open() {
			c.add(at, Harmless, "any value is now allowed")
		}
		return
	case o.closed():
		if !n.closed() {
			c.add(at, Harmless, "some values are now allowed")
		}
		return
	case n.closed():
		c.add(at, Breaking, "all values are now rejected")
		return
	}
	c.values(o, n, at)
	c.numbers(o, n, at)
	c.members(o, n, at)
	c.items(o, n, at)
	c.combinations(o, n, at)
}

// target follows references that are the only keyword. Check rejected cycles.
func (n *node) target() *node {
	for n.ref != nil {
		for keyword := range n.keywords {
			if keyword != "$ref" && assertions[keyword] {
				return n
			}
		}
		n = n.ref
	}
	return n
}

// assertions are the keywords that may reject a value.
var assertions = func() map[string]bool {
	all := map[string]bool{}
	for _, p := range schemaKeywords {
		all[p.keyword] = p.reach != onNothing
	}
	for _, keyword := range slices.Concat(counts, []string{
		"$ref", "$dynamicRef", "type", "enum", "const", "required", "dependentRequired", "pattern", "uniqueItems",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	}) {
		all[keyword] = true
	}
	return all
}()

// open reports whether the subschema accepts everything.
func (n *node) open() bool {
	if n.keywords == nil {
		return n.flat
	}
	for keyword := range n.keywords {
		if assertions[keyword] {
			return false
		}
	}
	return true
}

// closed reports whether the subschema is false.
func (n *node) closed() bool { return n.keywords == nil && !n.flat }

// unchanged reports whether two subschemas are the same, with everything that they refer to.
func unchanged(o, n *node, seen map[[2]*node]bool) bool {
	if o == nil || n == nil {
		return o == n
	}
	pair := [2]*node{o, n}
	if seen[pair] {
		return true
	}
	seen[pair] = true
	if o.flat != n.flat || (o.keywords == nil) != (n.keywords == nil) || identity(o.keywords) != identity(n.keywords) {
		return false
	}
	both := func(o, n []*node) bool {
		return slices.EqualFunc(o, n, func(o, n *node) bool { return unchanged(o, n, seen) })
	}
	return unchanged(o.ref, n.ref, seen) && both(o.dynamic, n.dynamic) && both(o.same, n.same) && both(o.inside, n.inside)
}

func alike(o, n *node) bool { return unchanged(o, n, map[[2]*node]bool{}) }

// members compares the keywords about objects.
func (c *comparison) members(o, n *node, at pointer) {
	c.names(o.strings("required"), n.strings("required"), at.add("required"))
	was, is := o.object("dependentRequired"), n.object("dependentRequired")
	for _, name := range union(was, is) {
		c.names(texts(was[name]), texts(is[name]), at.add("dependentRequired", name))
	}
	rest := func(d *document, n *node) *node { return orAnything(d.child(n, "additionalProperties")) }
	oRest, nRest := rest(c.before, o), rest(c.after, n)
	for _, name := range union(o.object("properties"), n.object("properties")) {
		place := at.add("properties", name)
		was, is := c.before.child(o, "properties", name), c.after.child(n, "properties", name)
		switch {
		case was != nil && is != nil:
			c.compare(was, is, place)
		case was == nil:
			c.memberAdded(o, is, oRest, place)
		default:
			c.memberRemoved(n, was, nRest, place)
		}
	}
	patterns := union(o.object("patternProperties"), n.object("patternProperties"))
	for _, pattern := range patterns {
		was, is := c.before.child(o, "patternProperties", pattern), c.after.child(n, "patternProperties", pattern)
		place := at.add("patternProperties", pattern)
		switch {
		case was != nil && is != nil:
			c.compare(was, is, place)
		case was == nil && is.open():
			c.add(place, Harmless, "a pattern for members was added")
		case was == nil:
			c.add(place, Breaking, "members that match a pattern now have a schema")
		case nRest.open() && len(n.object("properties")) == len(o.object("properties")):
			c.add(place, Harmless, "members that match a pattern no longer have a schema")
		default:
			c.add(place, Unknown, "members that match a pattern have a different schema")
		}
	}
	if !nRest.closed() || !oRest.closed() {
		c.rest(oRest, nRest, at.add("additionalProperties"))
	}
	c.compare(orAnything(c.before.child(o, "propertyNames")), orAnything(c.after.child(n, "propertyNames")), at.add("propertyNames"))
}

// rest compares the schemas of members without their own.
func (c *comparison) rest(o, n *node, at pointer) {
	if n.closed() {
		c.add(at, Breaking, "additional members are no longer allowed")
		return
	}
	c.compare(o, n, at)
}

// memberAdded reports a member that got its own schema; rest is the schema that applied to it before.
func (c *comparison) memberAdded(o, is, rest *node, at pointer) {
	switch {
	case len(o.object("patternProperties")) > 0:
		c.add(at, Unknown, "a member was added that a pattern may already match")
	case rest.closed():
		c.add(at, Harmless, "an optional member was added")
	case is.closed():
		c.add(at, Breaking, "a member is no longer allowed")
	case rest.open():
		c.add(at, Harmless, "an optional member was added; records may already have a member with this name and another type")
	default:
		c.add(at, Harmless, "an optional member was added")
		c.compare(rest, is, at)
	}
}

// memberRemoved reports a member that lost its own schema; rest is the schema that applies to it now.
func (c *comparison) memberRemoved(n, was, rest *node, at pointer) {
	switch {
	case was.closed():
		c.add(at, Harmless, "a member is no longer forbidden")
	case len(n.object("patternProperties")) > 0:
		c.add(at, Unknown, "a member was removed that may match a pattern")
	case rest.closed():
		c.add(at, Breaking, "a member was removed, and additional members are not allowed")
	default:
		c.add(at, Harmless, "a member no longer has its own schema")
		c.compare(was, rest, at)
	}
}

// names compares lists of required members.
func (c *comparison) names(was, is []string, at pointer) {
	if lacks(was, is) {
		c.add(at, Breaking, "a required member was added")
	}
	if lacks(is, was) {
		c.add(at, Harmless, "a member is no longer required")
	}
}

// lacks reports whether a text is missing from there.
func lacks(there, texts []string) bool {
	known := make(map[string]bool, len(there))
	for _, text := range there {
		known[text] = true
	}
	return slices.ContainsFunc(texts, func(text string) bool { return !known[text] })
}

// items compares the keywords about arrays.
func (c *comparison) items(o, n *node, at pointer) {
	was, _ := o.keywords["prefixItems"].([]any)
	is, _ := n.keywords["prefixItems"].([]any)
	item := func(d *document, n *node, i int) *node {
		if child := d.child(n, "prefixItems", strconv.Itoa(i)); child != nil {
			return child
		}
		return orAnything(d.child(n, "items"))
	}
	for i := range max(len(was), len(is)) {
		c.compare(item(c.before, o, i), item(c.after, n, i), at.add("prefixItems", strconv.Itoa(i)))
	}
	c.compare(orAnything(c.before.child(o, "items")), orAnything(c.after.child(n, "items")), at.add("items"))
	if is := n.keywords["uniqueItems"] == true; is != (o.keywords["uniqueItems"] == true) {
		c.toggled(is, at.add("uniqueItems"), "unique items")
	}
	c.whole(o, n, at, "contains", "minContains", "maxContains")
}

func (c *comparison) toggled(is bool, at pointer, condition string) {
	if is {
		c.add(at, Breaking, condition+" are now required")
	} else {
		c.add(at, Harmless, condition+" are no longer required")
	}
}

func union(a, b map[string]any) []string {
	all := map[string]any{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func texts(v any) (all []string) {
	array, _ := v.([]any)
	for _, item := range array {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
