package jsonschema

import (
	"maps"
	"slices"
	"strconv"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// search finds the invalid parts of a value that takes more than maxExplain steps to explain. It validates parts by
// the subschema meant for them, descends into invalid parts, and explains them once they are small enough.
type search struct {
	schema   *Schema
	instance *instance
	opposite santhosh.Schema
	left     int // steps
	found    []failure
}

// search explains why a large value does not match.
func (s *Schema) search(i *instance, v any) []failure {
	e := &search{schema: s, instance: i, opposite: *i.opposite, left: MaxSteps}
	e.opposite.Ref = nil
	e.descend(i.whole, v, nil)
	return sorted(e.found)
}

func (e *search) done() bool { return e.left < 0 || len(e.found) >= MaxSchemaFailures }

// within runs fn with at most so many steps, and reports whether they sufficed.
func (e *search) within(limit int, fn func()) bool {
	last := limit >= e.left
	limit = min(limit, e.left)
	e.instance.steps = limit
	fn()
	enough := e.instance.steps >= 0
	if e.left -= limit - max(e.instance.steps, 0); last && !enough {
		e.left = -1
	}
	return enough
}

// refuses reports whether sub rejects v. It uses `not`, under which the library builds no reasons.
func (e *search) refuses(sub *santhosh.Schema, v any) bool {
	e.opposite.Not = sub
	var err error
	return e.within(e.left, func() { err = e.opposite.Validate(v) }) && err == nil
}

// enter explains a part, or searches in it if that takes too long.
func (e *search) enter(sub *santhosh.Schema, v any, at pointer) {
	var err error
	if e.within(maxExplain, func() { err = sub.Validate(v) }) && err != nil {
		e.add(at, err)
		return
	}
	e.descend(sub, v, at)
}

func (e *search) add(at pointer, err error) {
	for _, f := range e.schema.document.failures(err) {
		f.at = at.add(f.at...)
		e.found = append(e.found, f)
	}
}

// descend explains a value by its own keywords, its alternatives and its parts.
func (e *search) descend(sub *santhosh.Schema, v any, at pointer) {
	before := len(e.found)
	e.own(sub, v, at)
	e.inPlace(sub, v, at)
	e.parts(sub, v, at)
	if len(e.found) == before {
		e.found = append(e.found, failure{at: at, reason: noReason})
	}
}

// own checks the keywords about the value itself.
func (e *search) own(sub *santhosh.Schema, v any, at pointer) {
	if e.done() {
		return
	}
	alone := *sub
	alone.Ref, alone.DynamicRef, alone.Not, alone.If, alone.Then, alone.Else = nil, nil, nil, nil, nil, nil
	alone.AllOf, alone.AnyOf, alone.OneOf, alone.DependentSchemas, alone.Dependencies = nil, nil, nil, nil, nil
	alone.Properties, alone.PatternProperties, alone.AdditionalProperties, alone.UnevaluatedProperties = nil, nil, nil, nil
	alone.PrefixItems, alone.Items2020, alone.Contains, alone.UnevaluatedItems = nil, nil, nil, nil
	var err error
	if e.within(maxExplain, func() { err = alone.Validate(v) }) && err != nil {
		e.add(at, err)
	}
	// These keywords inspect parts without applying subschemas.
	only := e.opposite
	only.Not = sub.Not
	e.keyword("not", sub.Not, &only, v, at)
	only.Not, only.Contains, only.MinContains, only.MaxContains = nil, sub.Contains, sub.MinContains, sub.MaxContains
	e.keyword("contains", sub.Contains, &only, v, at)
}

func (e *search) keyword(name string, under, only *santhosh.Schema, v any, at pointer) {
	if under != nil && !e.done() && e.refuses(only, v) {
		e.found = append(e.found, failure{at: at, reason: "does not match " + name, keyword: name})
	}
}

// inPlace checks the subschemas that apply to the same value.
func (e *search) inPlace(sub *santhosh.Schema, v any, at pointer) {
	same := slices.Clone(sub.AllOf)
	if sub.Ref != nil {
		same = append(same, sub.Ref)
	}
	if sub.DynamicRef != nil {
		same = append(same, sub.DynamicRef.Ref)
	}
	if sub.If != nil && !e.done() {
		branch := sub.Then
		if e.refuses(sub.If, v) {
			branch = sub.Else
		}
		if branch != nil {
			same = append(same, branch)
		}
	}
	if object, ok := v.(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(sub.DependentSchemas)) {
			if _, there := object[name]; there {
				same = append(same, sub.DependentSchemas[name])
			}
		}
	}
	for _, other := range same {
		if !e.done() && e.refuses(other, v) {
			e.descend(other, v, at)
		}
	}
	e.alternatives(sub.AnyOf, "anyOf", v, at)
	e.alternatives(sub.OneOf, "oneOf", v, at)
}

// alternatives explains a failed anyOf or oneOf by the intended alternative.
func (e *search) alternatives(all []*santhosh.Schema, keyword string, v any, at pointer) {
	if len(all) == 0 || e.done() {
		return
	}
	var meant []*santhosh.Schema
	matching := 0
	for _, alternative := range all {
		switch {
		case !e.refuses(alternative, v):
			matching++
		case !e.mismatched(alternative, v):
			meant = append(meant, alternative)
		}
	}
	none := failure{at: at, reason: noAlternative(keyword), keyword: keyword}
	switch {
	case e.left < 0:
	case matching == 0 && len(meant) == 1:
		e.descend(meant[0], v, at)
	case matching == 0:
		e.found = append(e.found, none)
	case matching > 1 && keyword == "oneOf":
		none.reason = "must match only one schema in oneOf"
		e.found = append(e.found, none)
	}
}

func noAlternative(keyword string) string {
	if keyword == "oneOf" {
		return "must match exactly one schema in oneOf"
	}
	return "must match at least one schema in " + keyword
}

// mismatched reports whether a subschema was not meant for the value; see failure.
func (e *search) mismatched(sub *santhosh.Schema, v any) bool {
	for ; sub != nil; sub = sub.Ref {
		if sub.Format == nil {
			continue
		}
		if r, ok := sub.Format.Validate(v).(*refusal); ok { //nolint:errorlint // an assertion's own
			return r.mismatched
		}
	}
	return false
}

// parts checks members and items.
func (e *search) parts(sub *santhosh.Schema, v any, at pointer) {
	part := func(by *santhosh.Schema, v any, token string) {
		if by != nil && !e.done() && e.refuses(by, v) {
			e.enter(by, v, at.add(token))
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for _, by := range e.meantFor(sub, name, at) {
				part(by, v[name], name)
			}
		}
	case []any:
		for i, item := range v {
			by := sub.Items2020
			if i < len(sub.PrefixItems) {
				by = sub.PrefixItems[i]
			}
			part(by, item, strconv.Itoa(i))
		}
	}
}

// meantFor returns the subschemas for a member.
func (e *search) meantFor(sub *santhosh.Schema, name string, at pointer) (all []*santhosh.Schema) {
	if by, ok := sub.Properties[name]; ok {
		all = append(all, by)
	}
	byPattern := map[string]*santhosh.Schema{}
	for pattern, by := range sub.PatternProperties {
		if pattern.MatchString(name) {
			byPattern[pattern.String()] = by
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(byPattern)) {
		all = append(all, byPattern[pattern])
	}
	if len(all) > 0 {
		return all
	}
	switch additional := sub.AdditionalProperties.(type) {
	case bool:
		if !additional && !e.done() {
			e.found = append(e.found, failure{
				at: at.add(name), reason: "is not allowed by additionalProperties", keyword: "additionalProperties",
			})
		}
	case *santhosh.Schema:
		all = append(all, additional)
	}
	return all
}
