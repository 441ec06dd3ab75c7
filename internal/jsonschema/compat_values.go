package jsonschema

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
)

// values compares the keywords about all values.
func (c *comparison) values(o, n *node, at pointer) {
	was, is := typesOf(o), typesOf(n)
	for _, name := range was {
		if !slices.Contains(is, name) {
			c.add(at.add("type"), Breaking, name+" is no longer allowed")
		}
	}
	for _, name := range is {
		if !slices.Contains(was, name) {
			c.add(at.add("type"), Harmless, name+" is now allowed")
		}
	}
	for _, keyword := range []string{"enum", "const"} {
		c.listed(o, n, keyword, at.add(keyword))
	}
	if o.text("pattern") != n.text("pattern") {
		place := at.add("pattern")
		switch {
		case o.keywords["pattern"] == nil:
			c.add(place, Breaking, "a pattern was added")
		case n.keywords["pattern"] == nil:
			c.add(place, Harmless, "the pattern was removed")
		default:
			c.add(place, Unknown, "the pattern has changed")
		}
	}
}

// typesOf returns the allowed types. Non-integer numbers are a separate type, so that "number" includes "integer".
func typesOf(n *node) []string {
	types := n.strings("type")
	if single := n.text("type"); single != "" {
		types = []string{single}
	}
	if types == nil {
		types = []string{"null", "boolean", "number", "string", "array", "object"}
	}
	if i := slices.Index(types, "number"); i >= 0 {
		types = append(slices.Delete(slices.Clone(types), i, i+1), "a fraction")
		if !slices.Contains(types, "integer") {
			types = append(types, "integer")
		}
	}
	return types
}

// listed compares enum or const.
func (c *comparison) listed(o, n *node, keyword string, at pointer) {
	if _, ok := n.keywords[keyword]; !ok {
		if _, was := o.keywords[keyword]; was && n.keywords["enum"] == nil && !has(n, "const") {
			c.add(at, Harmless, "any value is now allowed")
		}
		return
	}
	is := valuesOf(n, keyword)
	was := valuesOf(o, "enum")
	if has(o, "const") {
		was = valuesOf(o, "const")
	}
	if was == nil {
		c.add(at, Breaking, "only some values are now allowed")
		return
	}
	if lacks(is, was) {
		c.add(at, Breaking, "a value is no longer allowed")
	}
	if lacks(was, is) {
		c.add(at, Harmless, "a value was added")
	}
}

func has(n *node, keyword string) bool {
	_, ok := n.keywords[keyword]
	return ok
}

// valuesOf returns the identities in a keyword, or nil if it is absent.
func valuesOf(n *node, keyword string) []string {
	value, ok := n.keywords[keyword]
	if !ok {
		return nil
	}
	if keyword == "const" {
		return []string{identity(value)}
	}
	all := []string{}
	array, _ := value.([]any)
	for _, v := range array {
		all = append(all, identity(v))
	}
	return all
}

// numbers compares the bounds.
func (c *comparison) numbers(o, n *node, at pointer) {
	c.bound(lowest(o), lowest(n), at.add("minimum"), 1)
	c.bound(highest(o), highest(n), at.add("maximum"), -1)
	for _, what := range []string{"Length", "Items", "Properties"} {
		none := limit{value: new(big.Rat)} // a minimum of 0 is no limit
		c.bound(count(o, "min"+what, none), count(n, "min"+what, none), at.add("min"+what), 1)
		c.bound(count(o, "max"+what, limit{}), count(n, "max"+what, limit{}), at.add("max"+what), -1)
	}
	was, is := number(o, "multipleOf"), number(n, "multipleOf")
	place := at.add("multipleOf")
	switch {
	case is == nil && was != nil:
		c.add(place, Harmless, "any number is now allowed")
	case is == nil:
	case was == nil || !new(big.Rat).Quo(was, is).IsInt():
		c.add(place, Breaking, "only some numbers are now allowed")
	case was.Cmp(is) != 0:
		c.add(place, Harmless, "more numbers are now allowed")
	}
}

// limit is a bound; without a value it bounds nothing.
type limit struct {
	value     *big.Rat
	exclusive bool
}

func number(n *node, keyword string) *big.Rat {
	if v, ok := n.keywords[keyword].(json.Number); ok {
		return fraction(v)
	}
	return nil
}

func count(n *node, keyword string, none limit) limit {
	if v := number(n, keyword); v != nil {
		return limit{value: v}
	}
	return none
}

// lowest returns the lower bound of numbers.
func lowest(n *node) limit {
	return tighter(limit{value: number(n, "minimum")}, limit{number(n, "exclusiveMinimum"), true}, 1)
}

// highest returns the upper bound of numbers.
func highest(n *node) limit {
	return tighter(limit{value: number(n, "maximum")}, limit{number(n, "exclusiveMaximum"), true}, -1)
}

// tighter returns the bound that rejects more; sign is 1 for lower bounds and -1 for upper bounds.
func tighter(a, b limit, sign int) limit {
	if compareLimits(a, b, sign) >= 0 {
		return a
	}
	return b
}

// compareLimits returns 1 if a is tighter than b.
func compareLimits(a, b limit, sign int) int {
	switch {
	case a.value == nil && b.value == nil:
		return 0
	case a.value == nil:
		return -1
	case b.value == nil:
		return 1
	}
	if c := a.value.Cmp(b.value); c != 0 {
		return c * sign
	}
	switch {
	case a.exclusive == b.exclusive:
		return 0
	case a.exclusive:
		return 1
	}
	return -1
}

func (c *comparison) bound(was, is limit, at pointer, sign int) {
	switch order := compareLimits(is, was, sign); {
	case order > 0:
		c.add(at, Breaking, "the bound is tighter")
	case order < 0:
		c.add(at, Harmless, "the bound is wider")
	}
}

// combinations compares references and the keywords that combine schemas.
func (c *comparison) combinations(o, n *node, at pointer) {
	switch {
	case n.ref != nil && o.ref != nil:
		c.compare(o.ref, n.ref, n.ref.at)
	case n.ref != nil:
		c.compare(o, n.ref, n.ref.at) // the schema moved to a definition
	case o.ref != nil:
		c.add(at.add("$ref"), Harmless, "a condition was removed")
	}
	c.list(o, n, "allOf", at)
	c.list(o, n, "anyOf", at)
	was, is := o.object("dependentSchemas"), n.object("dependentSchemas")
	for _, name := range union(was, is) {
		place := at.add("dependentSchemas", name)
		if _, ok := is[name]; !ok {
			c.add(place, Harmless, "a condition was removed")
			continue
		}
		c.compare(orAnything(c.before.child(o, "dependentSchemas", name)), c.after.child(n, "dependentSchemas", name), place)
	}
	c.whole(o, n, at, "oneOf")
	c.whole(o, n, at, "not")
	c.whole(o, n, at, "if", "then", "else")
	c.whole(o, n, at, "dependencies")
	c.whole(o, n, at, "$dynamicRef")
	for _, keyword := range []string{"unevaluatedProperties", "unevaluatedItems"} {
		is := c.after.child(n, keyword)
		switch {
		case is == nil && has(o, keyword):
			c.add(at.add(keyword), Harmless, "a condition was removed")
		case is == nil || is.open():
		case !has(o, keyword):
			c.add(at.add(keyword), Breaking, "a condition was added")
		case !alike(o, n): // unevaluated members depend on all other keywords
			c.add(at.add(keyword), Unknown, "the keyword may now apply to other members or items")
		}
	}
}

// list compares allOf or anyOf item by item.
func (c *comparison) list(o, n *node, keyword string, at pointer) {
	was, _ := o.keywords[keyword].([]any)
	is, _ := n.keywords[keyword].([]any)
	all := keyword == "allOf"
	for i := range max(len(was), len(is)) {
		place := at.add(keyword, strconv.Itoa(i))
		before, after := c.before.child(o, keyword, strconv.Itoa(i)), c.after.child(n, keyword, strconv.Itoa(i))
		switch {
		case before != nil && after != nil:
			c.compare(before, after, place)
		case after == nil && (all || len(is) == 0):
			c.add(place, Harmless, "a condition was removed")
		case after == nil:
			c.add(place, Breaking, "an alternative was removed")
		case !all && len(was) > 0:
			c.add(place, Harmless, "an alternative was added")
		case all && after.open():
		default:
			c.add(place, Breaking, "a condition was added")
		}
	}
}

// whole reports keywords that are only compared for equality.
func (c *comparison) whole(o, n *node, at pointer, keywords ...string) {
	was, is := sub(o, keywords), sub(n, keywords)
	first := at.add(keywords[0])
	switch {
	case len(was) == 0 && len(is) == 0:
	case len(is) == 0:
		c.add(first, Harmless, "a condition was removed")
	case len(was) == 0:
		c.add(first, Breaking, "a condition was added")
	case !c.sameUnder(o, n, keywords):
		c.add(first, Unknown, "a condition has changed")
	}
}

// sub returns some keywords.
func sub(n *node, keywords []string) map[string]any {
	some := map[string]any{}
	for _, keyword := range keywords {
		if v, ok := n.keywords[keyword]; ok {
			some[keyword] = v
		}
	}
	return some
}

func (c *comparison) sameUnder(o, n *node, keywords []string) bool {
	if identity(sub(o, keywords)) != identity(sub(n, keywords)) {
		return false
	}
	seen := map[[2]*node]bool{}
	for _, keyword := range keywords {
		if keyword == "$dynamicRef" {
			return slices.EqualFunc(o.dynamic, n.dynamic, func(o, n *node) bool { return unchanged(o, n, seen) })
		}
		was, is := under(o, keyword), under(n, keyword)
		if !slices.EqualFunc(was, is, func(o, n *node) bool { return unchanged(o, n, seen) }) {
			return false
		}
	}
	return true
}

func under(n *node, keyword string) (some []*node) {
	for _, nodes := range [][]*node{n.same, n.inside} {
		for _, child := range nodes {
			if child.at[len(n.at)] == keyword {
				some = append(some, child)
			}
		}
	}
	return some
}
