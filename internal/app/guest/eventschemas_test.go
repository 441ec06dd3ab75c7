package guest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestEventSchemas checks that a schema is found by event type with or without the prefix.
func TestEventSchemas(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	type schema struct {
		Type, RetentionClass, Description string
		Schema                            struct{ Title string }
	}
	all := get[struct{ Schemas []schema }](o, "event-schemas").Schemas
	if len(all) < 10 {
		t.Errorf("%d types", len(all))
	}
	for _, s := range all {
		for _, name := range []string{s.Type, strings.TrimPrefix(s.Type, "melmastoon.bff.consumer.")} {
			if one := get[schema](o, "event-schemas/"+name); one.Schema.Title != s.Type || one.RetentionClass != s.RetentionClass || one.Description == "" {
				t.Errorf("%s: %+v", name, one)
			}
		}
	}
	if text := o.send(404, http.MethodGet, "event-schemas/other.v1", ""); !json.Valid([]byte(text)) {
		t.Error(text)
	}
}
