// Command describe writes the entries of operations into the API descriptions of their services.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"holdfast/internal/app"
	"holdfast/internal/operate/openapi"
)

func main() {
	for _, s := range app.Services() {
		if len(s.Operations) == 0 {
			continue
		}
		file := filepath.Join("internal", s.Name, "httpapi", "openapi.json")
		text, err := os.ReadFile(file)
		if err == nil {
			var updated []byte
			if updated, err = openapi.Update(text, s.Name, s.Operations); err == nil && !bytes.Equal(text, updated) {
				err = os.WriteFile(file, updated, 0o644)
			}
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
	}
}
