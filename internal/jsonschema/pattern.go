package jsonschema

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// compilePatterns rejects expressions that are not RE2, or too long together. It also finds their maximum cost per
// character.
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

// patternAt checks an expression and returns its instructions.
func (d *document) patternAt(expression string, at pointer) (int, error) {
	tooWide := at.refuse("is too large: the character classes of all patterns together are limited to " +
		strconv.Itoa(MaxRanges) + " ranges, with repetitions expanded (\\p{L} has about 700)")
	if d.ranges+likelyRanges(expression) > MaxRanges {
		return 0, tooWide
	}
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, at.refuse("is not a valid regular expression: use RE2 syntax, without lookaround, backreferences and \\u escapes")
	}
	count, width := instructions(re), ranges(re)
	if d.patterns += count; d.patterns > MaxPattern {
		return 0, at.refuse("is too large: all patterns together are limited to " +
			strconv.Itoa(MaxPattern) + " instructions, with repetitions expanded")
	}
	if d.ranges += width; d.ranges > MaxRanges {
		return 0, tooWide
	}
	if d.expressions[expression] == nil {
		d.expressions[expression] = &pattern{instructions: count, ranges: width}
	}
	return count, nil
}

// instructions estimates the compiled size, at most MaxPattern+1. An expression of 30 KB can compile to 130 MB.
func instructions(re *syntax.Regexp) int {
	sum := 1
	for _, sub := range re.Sub {
		sum += instructions(sub)
	}
	if re.Op == syntax.OpLiteral {
		sum = len(re.Rune)
	}
	return min(sum*times(re), MaxPattern+1)
}

// times returns how often a repetition is expanded.
func times(re *syntax.Regexp) int {
	switch {
	case re.Op != syntax.OpRepeat:
		return 1
	case re.Max < 0:
		return re.Min + 1
	default:
		return re.Max
	}
}

// ranges returns re's character ranges, at most MaxRanges+1. The class of all letters has about 700.
func ranges(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum += ranges(sub)
	}
	if re.Op == syntax.OpCharClass {
		sum = len(re.Rune) / 2
	}
	return min(sum*times(re), MaxRanges+1)
}

// rangesOfClass is an upper bound for \p{L}, the largest class.
const rangesOfClass = 750

// likelyRanges estimates an upper bound for class ranges before parsing, because they take memory. A wide
// case-insensitive range takes a millisecond, so it counts as the number of ranges that take as long.
func likelyRanges(expression string) int {
	sum := rangesOfClass * (strings.Count(expression, `\p`) + strings.Count(expression, `\P`))
	if !folds.MatchString(expression) {
		return sum
	}
	for rest := expression; ; {
		var found bool
		if _, rest, found = strings.Cut(rest, "-"); !found || sum > MaxRanges {
			return sum
		}
		last, _ := utf8.DecodeRuneInString(rest)
		if strings.HasPrefix(rest, `\x`) || strings.HasPrefix(rest, `\1`) {
			last = lastFolded
		}
		if last >= utf8.RuneSelf {
			sum += int(min(last, lastFolded)) / 6
		}
	}
}

const lastFolded = 0x1e943

var folds = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

type pattern struct {
	instructions, ranges int
}

// maxOnePass limits instructions times ranges for regexp's fastest program (onepass), whose tables take 12 bytes per
// range and instruction.
const maxOnePass = 10_000

// compile compiles an expression so that its programs stay small.
func (p *pattern) compile(expression string) (*regexp.Regexp, error) {
	if p.instructions*p.ranges > maxOnePass {
		// regexp uses onepass only for expressions beginning with ^.
		expression = "(" + expression + ")"
	}
	return regexp.Compile(expression)
}

// counts are the keywords with whole numbers.
var counts = []string{
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
}

// checkCounts rejects overflow: the library takes the low bits of 2^64 and enforces a maximum of zero.
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

// fraction returns the exact number.
func fraction(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic("jsonschema: invalid number: " + string(n))
	}
	return r
}
