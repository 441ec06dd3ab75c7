package ext_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// What is generated is of the description as it is. To generate it anew would
// take a minute, so the hash of what it was generated from is kept beside it.
func TestGenerated(t *testing.T) {
	t.Parallel()
	description, err := os.ReadFile("../../internal/extstorage/httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.ReadFile("openapi.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if is := fmt.Sprintf("%x", sha256.Sum256(description)); !strings.HasPrefix(string(from), is) {
		t.Errorf("the description has changed since the types were generated: make generate")
	}
}
