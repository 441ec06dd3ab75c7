package ext_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestGenerated compares a hash of the API description, because generating the types takes a minute.
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
		t.Errorf("the API description has changed since the types were generated: run make generate")
	}
}
