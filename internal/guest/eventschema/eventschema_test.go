package eventschema_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/guest"
	"holdfast/internal/guest/eventschema"
	"holdfast/internal/guest/eventschema/eventschematest"
	"holdfast/internal/jsonschema"
)

var update = flag.Bool("update", false, "write the schemas to docs/events instead of comparing them")

var shop = &guest.Profile{
	Name: "shop", Types: "shop.guest.", Texts: true, MaxQuantity: 99, Tenant: "11111111-2222-4333-8444-555555555555",
	Payload: json.RawMessage(`{
		"type": "object", "required": ["items"], "additionalProperties": false,
		"properties": {
			"items": {"type": "array", "minItems": 1, "maxItems": 100, "items": {
				"type": "object", "required": ["itemId", "quantity"], "additionalProperties": false,
				"properties": {"itemId": {"type": "string", "maxLength": 64}, "quantity": {"type": "integer", "minimum": 1, "maximum": 99}}
			}},
			"coupon": {"type": "string", "maxLength": 40}
		}
	}`),
	Criteria:  json.RawMessage(`{"type": "object"}`),
	Upstreams: []guest.Upstream{{Name: "search"}, {Name: "product", Path: []string{"itemId"}}},
}

type recorded struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

func readRecorded(t *testing.T, name string) (all []recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r recorded
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestRecorded checks each recorded event type against its schema, also without each required member and with an
// unknown member. The httpapi suite checks all its events.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for _, p := range []*guest.Profile{guest.Hotel, shop} {
		checker, err := eventschematest.New(p)
		if err != nil {
			t.Fatal(err)
		}
		events := readRecorded(t, p.Name)
		for _, s := range eventschema.All(p) {
			if !slices.ContainsFunc(events, func(r recorded) bool { return r.Type == s.Type }) {
				t.Errorf("testdata/%s.jsonl has no %s", p.Name, s.Type)
			}
		}
		for _, r := range events {
			if err := checker.Check(t.Context(), r.Type, r.Data); err != nil {
				t.Error(err)
			}
			refuseChanged(t, p, checker, r)
		}
		if err := checker.Check(t.Context(), p.EventType("other.v1"), []byte(`{}`)); err == nil {
			t.Error("an event without a schema passes")
		}
	}
}

// refuseChanged removes each required member, changes its type, and adds an unknown member.
func refuseChanged(t *testing.T, p *guest.Profile, checker eventschematest.Checker, r recorded) {
	t.Helper()
	s, _ := eventschema.Find(p, r.Type)
	var schema struct {
		Required []string
		OneOf    []struct{ Required []string }
	}
	var data map[string]any
	if json.Unmarshal(s.Text, &schema) != nil || json.Unmarshal(r.Data, &data) != nil {
		t.Fatal("not objects")
	}
	refused := func(why string, change func(map[string]any)) {
		t.Helper()
		changed := maps.Clone(data)
		change(changed)
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if checker.Check(t.Context(), r.Type, text) == nil {
			t.Errorf("%s: %s passes: %s", r.Type, why, text)
		}
	}
	for name := range data {
		required := slices.Contains(schema.Required, name)
		for _, one := range schema.OneOf {
			required = required || slices.Contains(one.Required, name)
		}
		if required {
			refused("without "+name, func(m map[string]any) { delete(m, name) })
		}
		refused("another type of "+name, func(m map[string]any) { m[name] = []any{[]any{}} })
	}
	refused("another member", func(m map[string]any) { m["another"] = 1 })
}

// TestPublished compares the schemas with docs/events. An incompatible change requires a new version of the type.
func TestPublished(t *testing.T) {
	t.Parallel()
	for _, p := range []*guest.Profile{guest.Hotel, shop} {
		file := filepath.Join("..", "..", "..", "docs", "events", p.Name+".json")
		now := map[string]json.RawMessage{}
		for _, s := range eventschema.All(p) {
			now[s.Type] = s.Text
		}
		text, err := json.MarshalIndent(now, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		published, err := os.ReadFile(file)
		if err != nil && !*update {
			t.Fatal(err)
		}
		before := map[string]json.RawMessage{}
		if err == nil && json.Unmarshal(published, &before) != nil {
			t.Fatalf("%s is no JSON object", file)
		}
		for kind, was := range before {
			if now[kind] == nil {
				t.Errorf("%s: a published type has gone", kind)
				continue
			}
			// New consumers receive old events again, and old consumers receive new events.
			for _, change := range [][2]json.RawMessage{{was, now[kind]}, {now[kind], was}} {
				if r, err := jsonschema.Compatible(change[0], change[1]); err != nil || r.Effect() != jsonschema.Harmless {
					t.Errorf("%s: the change is not compatible: give the type a new version: %+v, %v", kind, r, err)
				}
			}
		}
		switch {
		case t.Failed():
		case *update:
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		case string(published) != string(text):
			t.Errorf("%s differs from the code: run go test ./internal/guest/eventschema -update", file)
		}
	}
}
