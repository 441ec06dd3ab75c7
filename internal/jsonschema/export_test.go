package jsonschema

import (
	"encoding/json"
	"maps"
	"slices"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// Keywords returns the keywords of the metaschema and of this package. The value is true if the keyword may refuse a value.
func Keywords() map[string]bool {
	all := map[string]bool{}
	var add func(s *santhosh.Schema)
	add = func(s *santhosh.Schema) {
		for keyword := range s.Properties {
			all[keyword] = false
		}
		for _, vocabulary := range s.AllOf {
			add(vocabulary)
		}
		if s.Ref != nil {
			add(s.Ref)
		}
	}
	add(metaschema())
	maps.Copy(all, assertions)
	maps.DeleteFunc(all, func(keyword string, _ bool) bool { return unsupported[keyword] })
	return all
}

// unsupported are the metaschema's keywords of older drafts and of other documents, which Check refuses or no value
// depends on.
var unsupported = map[string]bool{"$recursiveRef": true, "$recursiveAnchor": true}

// KeywordsIn returns the keywords of all subschemas in a document.
func KeywordsIn(document json.RawMessage) (all []string) {
	d, err := parse(document)
	if err != nil {
		panic(err)
	}
	for _, n := range d.nodes {
		all = append(all, slices.Collect(maps.Keys(n.keywords))...)
	}
	return all
}

// Spent returns the steps of the last validation. The schema must not be in use.
func (s *Schema) Spent() int {
	i := <-s.idle
	defer func() { s.idle <- i }()
	return MaxSteps - i.steps
}

// Confine limits this process like a trial.
func Confine() error { return confine() }

func Try(document []byte) error { return try(document, nil) }

func Probes(document []byte) ([]any, error) {
	d, err := parse(document)
	if err != nil {
		return nil, err
	}
	return d.probes(), nil
}

// Measured returns the schema's bytes and the bytes per instance. The schema must not be in use.
func (s *Schema) Measured() (all, each int) { return s.bytes(), s.each }

// Matching returns the bytes of an instance that its matches hold.
func (s *Schema) Matching() int {
	longest := 0
	for _, p := range s.document.expressions {
		longest = max(longest, p.instructions)
	}
	return matching(longest)
}

func (c *Cache) Charged() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.schemas {
		sum += e.Schema.bytes()
	}
	return sum
}
