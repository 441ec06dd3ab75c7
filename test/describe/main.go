// Command describe writes operations into the API descriptions.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"holdfast/internal/app"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/operate/openapi"
)

func main() {
	server, err := openapi.Document("", overview.Operations(&overview.Operated{}))
	if err == nil {
		err = os.WriteFile(filepath.Join("internal", "app", "openapi-admin.json"), server, 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the server: %v\n", err)
		os.Exit(1)
	}
	for _, s := range app.Services() {
		if len(s.Operations) == 0 {
			continue
		}
		if err := describe(&s); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.Name, err)
			os.Exit(1)
		}
	}
}

func describe(s *service.Service) error {
	dir := filepath.Join("internal", s.Name, "httpapi")
	file := filepath.Join(dir, "openapi-admin.json")
	updated, err := openapi.Document(s.CommandName(), s.Operations)
	if _, missing := os.Stat(file); missing != nil {
		file = filepath.Join(dir, "openapi.json")
		var text []byte
		if text, err = os.ReadFile(file); err == nil {
			updated, err = openapi.Update(text, s.CommandName(), s.Operations)
		}
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, updated, 0o644)
}
