package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPackagesOfServices checks that test/packages lists every service, so that make test-all SERVICE= can test it.
func TestPackagesOfServices(t *testing.T) {
	t.Parallel()
	script := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "test/packages", args...)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	refusal, err := script("nobody")
	if err == nil {
		t.Fatal("an unknown service is accepted")
	}
	_, list, found := strings.Cut(strings.TrimSpace(refusal), "expected one of ")
	if !found {
		t.Fatalf("the refusal does not list the services: %s", refusal)
	}
	var packages []string
	for name := range strings.FieldsSeq(list) {
		out, err := script(name)
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		packages = append(packages, strings.Fields(out)...)
	}
	for _, s := range services {
		if want := "./internal/" + s.name + "/..."; !slices.Contains(packages, want) {
			t.Errorf("test/packages has no service with %s", want)
		}
	}
}
