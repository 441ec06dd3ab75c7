package jsonschema

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"regexp/syntax"
	"slices"
	"strconv"
)

// compilePatterns refuses regular expressions that are not RE2 or together too
// long, and counts the instructions of each, which is what a character of a
// value may cost.
func (d *document) compilePatterns() error {
	for _, n := range d.nodes {
		if _, ok := n.keywords["pattern"]; ok {
			var err error
			if n.pattern, err = d.patternAt(n.text("pattern"), n.at.add("pattern")); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(n.object("patternProperties"))) {
			count, err := d.patternAt(name, n.at.add("patternProperties", name))
			if err != nil {
				return err
			}
			n.names += count
		}
	}
	return nil
}

func (d *document) patternAt(expression string, at pointer) (int, error) {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, at.refuse("is not a regular expression of RE2, which has neither lookaround nor backreferences nor \\u: " + syntaxReason(err))
	}
	count := instructions(re)
	if d.patterns += count; d.patterns > MaxPattern {
		return 0, at.refuse("makes the regular expressions of the document too long: counted repetitions are written out, and " +
			strconv.Itoa(MaxPattern) + " instructions may come of them")
	}
	return count, nil
}

// syntaxReason is the kind of a syntax error, without the expression.
func syntaxReason(err error) string {
	if e, ok := err.(*syntax.Error); ok { //nolint:errorlint // Parse returns it and nothing else
		return e.Code.String()
	}
	return "syntax error"
}

// instructions is about how many re is compiled to, before that is done: an
// expression of 30 KB can be compiled to 130 MB. At most MaxPattern+1.
func instructions(re *syntax.Regexp) int {
	sum := 1
	for _, sub := range re.Sub {
		sum += instructions(sub)
	}
	switch {
	case re.Op == syntax.OpLiteral:
		sum = len(re.Rune)
	case re.Op == syntax.OpRepeat && re.Max < 0:
		sum *= re.Min + 1
	case re.Op == syntax.OpRepeat:
		sum *= re.Max
	}
	return min(sum, MaxPattern+1)
}

// counts are the keywords whose number the library keeps as an int.
var counts = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
}

// checkCounts refuses numbers that would not fit: the library takes the low
// bits of 2^64 and finds a maximum of zero.
func (d *document) checkCounts() error {
	for _, n := range d.nodes {
		for _, keyword := range counts {
			number, ok := n.keywords[keyword].(json.Number)
			if !ok {
				continue
			}
			if fraction(number).Cmp(big.NewRat(math.MaxInt32, 1)) > 0 {
				return n.at.add(keyword).refuse("must be at most " + strconv.Itoa(math.MaxInt32))
			}
		}
	}
	return nil
}

// fraction is the exact value of a number that decode let in.
func fraction(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic("jsonschema: a number that is none: " + string(n))
	}
	return r
}
