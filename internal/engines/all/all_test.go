package all_test

import (
	"reflect"
	"slices"
	"testing"

	"holdfast/internal/engines/all"
)

// TestEngines checks which services support which engine of this release.
func TestEngines(t *testing.T) {
	t.Parallel()
	supported := map[string][]string{}
	for _, e := range all.Engines() {
		for field, backend := range reflect.ValueOf(e).Fields() {
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
	if got, want := supported["spanner"], []string{"Sync"}; !slices.Equal(got, want) {
		t.Errorf("on Spanner: %v, want %v", got, want)
	}
}
