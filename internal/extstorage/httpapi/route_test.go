package httpapi_test

import (
	"testing"

	"holdfast/internal/extstorage/httpapi"
)

// TestLabels checks that labels come from a small fixed set, without client input.
func TestLabels(t *testing.T) {
	t.Parallel()
	const install = "/ext/v1/installs/11111111-1111-4111-8111-000000000001"
	for path, want := range map[string]string{
		"/ext/openapi.json": "openapi", install + "/namespaces/a/records/k": "record", "/ext/v1/installs/x/namespaces/%2F/records/..": "record",
		install + "/namespaces/a/records": "records", install + "/namespaces/a/records/k/increment": "increment", install + "/batch": "batch",
		install + "/namespaces/a/schemas/7": "schema", install + "/namespaces/a/schemas/check": "schemas/check", install + "/import": "import",
		install + "/secret": "unknown", "/ext/secret": "unknown", "/ext/%zz": "unknown", "/secret": "other", "/ext": "other", "": "other",
	} {
		if got := httpapi.Label(path); got != want || httpapi.Owns(path) != (want != "other") {
			t.Errorf("%s is %s, owned: %v; want %s", path, got, httpapi.Owns(path), want)
		}
	}
	for path, want := range map[string]string{
		"/internal/ext-storage/install/x": "runner", "/internal/ext-storage/install": "unknown", "/internal/ext-storage/install/x/y": "unknown",
		"/internal/ext-storage/secret/x": "unknown", "/internal/ext-storage/%zz": "unknown",
	} {
		if got := httpapi.LabelRunner(path); got != want || !httpapi.OwnsRunner(path) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if httpapi.OwnsRunner("/ext/v1") || httpapi.OwnsRunner("/internal/other") {
		t.Error("the runner owns what is not its own")
	}
}
