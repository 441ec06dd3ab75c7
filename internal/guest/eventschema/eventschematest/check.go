// Package eventschematest checks events in tests against their schemas.
package eventschematest

import (
	"context"
	"encoding/json"
	"fmt"

	"holdfast/internal/canonjson"
	"holdfast/internal/guest"
	"holdfast/internal/guest/eventschema"
	"holdfast/internal/jsonschema"
)

type Checker map[string]*jsonschema.Schema

// New compiles a profile's schemas. Unlike consumers, they reject unknown members: a new member must be in its
// schema.
func New(p *guest.Profile) (Checker, error) {
	c := Checker{}
	for _, s := range eventschema.All(p) {
		var document any
		if err := json.Unmarshal(s.Text, &document); err != nil {
			return nil, err
		}
		closeObjects(document)
		text, err := json.Marshal(document)
		if err != nil {
			return nil, err
		}
		if c[s.Type], err = jsonschema.Compile(text); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Type, err)
		}
	}
	return c, nil
}

func closeObjects(schema any) {
	switch v := schema.(type) {
	case map[string]any:
		if _, said := v["additionalProperties"]; v["properties"] != nil && !said {
			v["additionalProperties"] = false
		}
		for _, below := range v {
			closeObjects(below)
		}
	case []any:
		for _, below := range v {
			closeObjects(below)
		}
	}
}

// Check also returns an error if the event type has no schema.
func (c Checker) Check(ctx context.Context, kind string, data []byte) error {
	s := c[kind]
	if s == nil {
		return fmt.Errorf("events of the type %s have no schema: add it to package eventschema", kind)
	}
	value, err := canonjson.Parse(data, 1<<20)
	if err != nil {
		return err
	}
	if err := s.Validate(ctx, value); err != nil {
		return fmt.Errorf("%s %s: %w", kind, data, err)
	}
	return nil
}
