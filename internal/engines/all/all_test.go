package all_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"holdfast/internal/engines"
	"holdfast/internal/engines/all"
)

// TestEngines checks which services support which engine.
func TestEngines(t *testing.T) {
	t.Parallel()
	supported := map[string][]string{}
	for _, e := range all.Engines() {
		for field, backend := range reflect.ValueOf(e).Fields() {
			if backend.Kind() != reflect.Struct || !backend.FieldByName("Driver").IsValid() {
				continue // not a database
			}
			if kind := backend.FieldByName("Driver").FieldByName("Kind").String(); kind != "" {
				supported[kind] = append(supported[kind], field.Name)
				if backend.FieldByName("New").IsNil() || backend.FieldByName("History").IsNil() {
					t.Errorf("the backend of %s on %s lacks a function", field.Name, kind)
				}
			}
		}
	}
	if got, want := supported["postgres"], []string{"Sync", "Accounts", "Extensions", "Buckets", "Guest"}; !slices.Equal(got, want) {
		t.Errorf("on PostgreSQL: %v, want %v", got, want)
	}
	on := engines.List(all.Engines())
	if got, want := slices.Sorted(maps.Keys(on.Brokers())), []string{"nats", "pubsub", "tls"}; !slices.Equal(got, want) {
		t.Errorf("the brokers are %v, want %v", got, want)
	}
	if on.Clouds() == nil || on.Nodes().Init == nil || on.Nodes().Open == nil {
		t.Error("no clouds")
	}
	if got, want := supported["spanner"], []string{"Sync"}; !slices.Equal(got, want) {
		t.Errorf("on Spanner: %v, want %v", got, want)
	}
}
