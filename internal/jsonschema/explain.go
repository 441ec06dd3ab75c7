package jsonschema

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"holdfast/internal/optional"
)

// failure explains why a value does not match. missing is the name of a member that the object at `at` lacks. mismatched means that the subschema was probably not meant for the
// value, because its type or selecting member differs. left means that the member or item is unevaluated, possibly
// because of another failure.
type failure struct {
	at         pointer // of a value that exists
	missing    optional.Of[string]
	reason     string
	keyword    string
	node       *node // nil for the metaschema
	mismatched bool
	level      int // length of the location of the whole value
	left       bool
}

// explain picks the first location, and there the alphabetically first reason, because the library walks maps in
// random order.
func explain(err error) *Error {
	var none *document
	first := none.failures(err)[0]
	if len(first.at) > 0 {
		if expected, ok := expectedOf[first.at[len(first.at)-1]]; ok {
			return first.at.refuse("must be " + expected)
		}
	}
	return first.at.refuse(first.reason)
}

// expectedOf describes the expected value of a keyword. The metaschema's own reasons are about the metaschema, e.g.
// "must match one of anyOf".
var expectedOf = func() map[string]string {
	m := map[string]string{
		"type":       "null, boolean, object, array, number, integer or string, or an array of them without duplicates",
		"multipleOf": "a number greater than 0",
		"required":   "an array of strings without duplicates",
		"enum":       "an array of values",
	}
	for _, keyword := range counts {
		m[keyword] = "a whole number of at least 0"
	}
	for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		m[keyword] = "a number"
	}
	return m
}()

// failures returns the reasons in the library's error.
func (d *document) failures(err error) []failure {
	if tree, ok := errors.AsType[*santhosh.ValidationError](err); ok {
		return sorted(d.leaves(tree))
	}
	return []failure{{reason: noReason}}
}

const noReason = "does not match the schema"

// sorted orders failures and removes repetitions.
func sorted(all []failure) []failure {
	slices.SortFunc(all, compareFailures)
	all = slices.CompactFunc(all, func(a, b failure) bool { return compareFailures(a, b) == 0 })
	if !all[0].left {
		all = slices.DeleteFunc(all, func(f failure) bool { return f.left })
	}
	return all[:min(len(all), MaxSchemaFailures)]
}

// leaves returns the failures that explain an error: for alternatives, those of the intended one.
func (d *document) leaves(e *santhosh.ValidationError) (all []failure) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		// Only the intended alternative explains the failure.
		meant := 0
		for _, alternative := range e.Causes {
			reasons := d.leaves(alternative)
			if first := slices.MinFunc(reasons, compareFailures); first.mismatched && first.level == len(e.InstanceLocation) {
				continue
			}
			meant++
			all = reasons
		}
		if meant == 1 {
			return all
		}
	case *kind.Contains, *kind.MinContains, *kind.PropertyNames, *kind.Not:
		// The causes are about other values.
	default:
		for _, cause := range e.Causes {
			all = append(all, d.leaves(cause)...)
		}
		if len(all) > 0 {
			return all
		}
	}
	return d.leaf(e)
}

func compareFailures(a, b failure) int {
	if a.left != b.left {
		if b.left {
			return -1
		}
		return 1
	}
	if c := len(b.at) - len(a.at); a.left && c != 0 {
		return c // an unevaluated value makes everything around it unevaluated
	}
	return cmp.Or(
		slices.CompareFunc(a.at, b.at, compareTokens), strings.Compare(a.reason, b.reason), strings.Compare(a.missing.Value, b.missing.Value),
	)
}

// compareTokens compares indexes as numbers.
func compareTokens(a, b string) int {
	if len(a) != len(b) && isIndex(a) && isIndex(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func isIndex(token string) bool {
	_, err := strconv.Atoi(token)
	return err == nil
}

// leaf converts an error without causes.
func (d *document) leaf(e *santhosh.ValidationError) []failure {
	f := failure{at: slices.Clone(e.InstanceLocation), node: d.nodeAt(e.SchemaURL)}
	switch k := e.ErrorKind.(type) {
	case *kind.Format:
		if r, ok := errors.AsType[*refusal](k.Err); ok {
			return []failure{{
				at: f.at.add(r.member...), missing: r.missing, reason: r.reason, keyword: r.keyword, node: r.node, mismatched: r.mismatched, level: len(f.at),
			}}
		}
		f.reason = noReason
	case *kind.FalseSchema:
		f.reason = "is not allowed"
		if f.node != nil {
			f.keyword, f.node = f.node.under(), nil
		}
		f.left = strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties") || strings.HasSuffix(e.SchemaURL, "/unevaluatedItems")
	case *kind.AdditionalProperties:
		f.keyword, f.reason = "additionalProperties", "is not allowed by additionalProperties"
		return f.each(k.Properties, func(f *failure, name string) { f.at = f.at.add(name) })
	case *kind.Required:
		if f.node == nil { // failure in the metaschema
			f.reason = "is missing a required member"
			break
		}
		f.keyword, f.reason = "required", lacksRequired
		return f.each(k.Missing, (*failure).lack)
	case *kind.DependentRequired:
		f.keyword, f.reason = "dependentRequired", lacksDependent
		return f.each(k.Missing, (*failure).lack)
	case *kind.Dependency:
		f.keyword, f.reason = "dependencies", lacksDependent
		return f.each(k.Missing, (*failure).lack)
	case *kind.PropertyNames:
		f.keyword = "propertyNames"
		f.at, f.reason = f.at.add(k.Property), "has a name not allowed by propertyNames"
	default:
		f.keyword = keywordOf(k)
		f.reason = reason(k, f.number())
	}
	return []failure{f}
}

// Reasons for an object that lacks a member. SchemaFailure.Message puts the name after them.
const (
	lacksRequired  = "lacks a required member"
	lacksDependent = "lacks a member that another member requires"
)

// lack says that the object at f.at lacks the member.
func (f *failure) lack(name string) { f.missing = optional.Some(name) }

// each returns the failure for each member, changed by its name.
func (f *failure) each(names []string, by func(f *failure, name string)) []failure {
	all := make([]failure, len(names))
	for i, name := range names {
		all[i] = *f
		by(&all[i], name)
	}
	return all
}

// nodeAt returns the subschema with this URL.
func (d *document) nodeAt(url string) *node {
	if d == nil {
		return nil
	}
	n, _ := d.target(d.nodes[0].resource, url)
	return n
}

// under returns the keyword that contains the subschema.
func (n *node) under() string {
	for i := len(n.at) - 1; i >= max(len(n.at)-2, 0); i-- {
		if slices.ContainsFunc(schemaKeywords, func(p schemaKeyword) bool { return p.keyword == n.at[i] }) {
			return n.at[i]
		}
	}
	return ""
}

// keywordOf returns the keyword that failed, or "".
func keywordOf(k santhosh.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Not:
		return "not"
	case *kind.RefCycle:
		return "$ref"
	case *kind.Schema, *kind.Group, *kind.Reference:
		return ""
	default:
		path := k.KeywordPath()
		if len(path) == 0 {
			return ""
		}
		return path[0]
	}
}

// Maximum bytes of a reported bound, and of a number in a sentence.
const (
	maxBound  = 256
	maxInText = 32
)

// bound returns the keyword's value as JSON, if it is short.
func (f *failure) bound() string {
	if f.node == nil || slices.ContainsFunc(schemaKeywords, func(p schemaKeyword) bool { return p.keyword == f.keyword }) {
		return ""
	}
	value, ok := f.node.keywords[f.keyword]
	if !ok {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil || len(text) > maxBound {
		return ""
	}
	return string(text)
}

// number returns the keyword's number for a sentence, if it is short.
func (f *failure) number() string {
	if f.node == nil {
		return ""
	}
	n, _ := f.node.keywords[f.keyword].(json.Number)
	if len(n) > maxInText {
		return ""
	}
	return string(n)
}

// reason returns the reason for an error of the library.
func reason(k santhosh.ErrorKind, bound string) string {
	if bound != "" {
		switch k.(type) {
		case *kind.Minimum:
			return "must be at least " + bound
		case *kind.Maximum:
			return "must be at most " + bound
		case *kind.ExclusiveMinimum:
			return "must be greater than " + bound
		case *kind.ExclusiveMaximum:
			return "must be less than " + bound
		case *kind.MultipleOf:
			return "must be a multiple of " + bound
		}
	}
	switch k := k.(type) {
	case *kind.Type:
		return "must be of type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "must be one of the enum values"
	case *kind.Const:
		return "must equal the const value"
	case *kind.Not:
		return "must not match the schema in not"
	case *kind.AnyOf:
		return noAlternative("anyOf")
	case *kind.OneOf:
		if k.Subschemas == nil {
			return noAlternative("oneOf")
		}
		return "must match only one schema in oneOf"
	case *kind.MinProperties:
		return "must have at least " + plural(k.Want, "member")
	case *kind.MaxProperties:
		return "must have at most " + plural(k.Want, "member")
	case *kind.MinItems:
		return "must have at least " + plural(k.Want, "item")
	case *kind.MaxItems:
		return "must have at most " + plural(k.Want, "item")
	case *kind.MinLength:
		return "must have at least " + plural(k.Want, "character")
	case *kind.MaxLength:
		return "must have at most " + plural(k.Want, "character")
	case *kind.UniqueItems:
		return "must not contain duplicate items"
	case *kind.Contains, *kind.MinContains:
		return "has too few items that match the contains schema"
	case *kind.MaxContains:
		return "has too many items that match the contains schema"
	case *kind.RefCycle:
		return "refers to itself in an endless loop"
	default:
		if path := k.KeywordPath(); len(path) > 0 {
			return "does not match " + path[0]
		}
		return noReason
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
