package jsonschema

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// failure is one reason why a value does not match. Mismatched says that the
// subschema was probably not meant for the value: it is of another type, or of
// another kind by the member that tells. Left says that a member or an item was
// left over by what else failed, as it is to unevaluatedProperties.
type failure struct {
	at         pointer
	reason     string
	mismatched bool
	level      int // of the value that the subschema is held against: 0 is the whole
	left       bool
}

// explain makes one error of the library's tree of failures. The library walks
// maps, so its order is random: the first place in the value is taken, by
// names and indexes, and there the first reason by the alphabet.
func explain(err error) *Error {
	tree, ok := errors.AsType[*santhosh.ValidationError](err)
	if !ok {
		return &Error{Reason: "does not match the schema"}
	}
	f := first(tree)
	return f.at.refuse(f.reason)
}

// first is the failure that is told of a tree.
func first(e *santhosh.ValidationError) failure {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		// Of the alternatives only the one that was meant says something.
		meant := failures(e.Causes)
		meant = slices.DeleteFunc(meant, func(f failure) bool { return f.mismatched && f.level == len(e.InstanceLocation) })
		if len(meant) == 1 {
			return meant[0]
		}
	case *kind.Contains, *kind.MinContains, *kind.PropertyNames, *kind.Not:
		// What the causes say is about other values than this one.
	default:
		if all := failures(e.Causes); len(all) > 0 {
			return slices.MinFunc(all, compareFailures)
		}
	}
	return leaf(e)
}

func failures(causes []*santhosh.ValidationError) (all []failure) {
	for _, cause := range causes {
		all = append(all, first(cause))
	}
	return all
}

// compareFailures puts first what is told first.
func compareFailures(a, b failure) int {
	if a.left != b.left {
		if b.left {
			return -1
		}
		return 1
	}
	if c := len(b.at) - len(a.at); a.left && c != 0 {
		return c // what is left over deep inside makes everything around it left over
	}
	if c := slices.CompareFunc(a.at, b.at, compareTokens); c != 0 {
		return c
	}
	return strings.Compare(a.reason, b.reason)
}

// compareTokens orders indexes by number, and names as text.
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

// leaf is a failure that has no cause of its own.
func leaf(e *santhosh.ValidationError) failure {
	f := failure{at: slices.Clone(e.InstanceLocation)}
	switch k := e.ErrorKind.(type) {
	case *kind.Format:
		if r, ok := errors.AsType[*refusal](k.Err); ok {
			return failure{at: f.at.add(r.member...), reason: r.reason, mismatched: r.mismatched, level: len(f.at)}
		}
		f.reason = "does not match the schema"
	case *kind.FalseSchema:
		f.reason = "is not allowed"
		f.left = strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties") || strings.HasSuffix(e.SchemaURL, "/unevaluatedItems")
	case *kind.AdditionalProperties:
		f.at, f.reason = f.at.add(slices.Min(k.Properties)), "is not allowed by additionalProperties"
	case *kind.PropertyNames:
		f.at, f.reason = f.at.add(k.Property), "has a name that propertyNames does not allow"
	default:
		f.reason = reason(k)
	}
	return f
}

// reason says what a keyword wants, in words that hold nothing of the value.
func reason(k santhosh.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type: // of the metaschema, as the next three: assertions have their own
		return "must be " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "must be one of the values of enum"
	case *kind.Const:
		return "must be the value of const"
	case *kind.Required:
		return "lacks a required member"
	case *kind.Not:
		return "matches a schema that not forbids"
	case *kind.AnyOf:
		return "matches none of anyOf"
	case *kind.OneOf:
		if k.Subschemas == nil {
			return "matches none of oneOf"
		}
		return "matches more than one of oneOf"
	case *kind.MinProperties:
		return "must have at least " + strconv.Itoa(k.Want) + " members"
	case *kind.MaxProperties:
		return "must have at most " + strconv.Itoa(k.Want) + " members"
	case *kind.MinItems:
		return "must have at least " + strconv.Itoa(k.Want) + " items"
	case *kind.MaxItems:
		return "must have at most " + strconv.Itoa(k.Want) + " items"
	case *kind.MinLength:
		return "must have at least " + strconv.Itoa(k.Want) + " characters"
	case *kind.MaxLength:
		return "must have at most " + strconv.Itoa(k.Want) + " characters"
	case *kind.UniqueItems:
		return "must not have equal items"
	case *kind.Contains, *kind.MinContains:
		return "has too few items that match contains"
	case *kind.MaxContains:
		return "has too many items that match contains"
	case *kind.DependentRequired, *kind.Dependency:
		return "lacks a member that another one requires"
	case *kind.RefCycle:
		return "refers to itself without end"
	default:
		if path := k.KeywordPath(); len(path) > 0 {
			return "does not match " + path[0] // a keyword of the draft
		}
		return "does not match the schema"
	}
}
