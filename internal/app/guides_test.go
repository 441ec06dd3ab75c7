package app_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/conf/settings"
)

func TestNumbersInGuides(t *testing.T) {
	t.Parallel()
	services, each := len(app.Services()), settings.DefaultDatabase().PoolMaxSize
	word := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight"}[services]
	for file, wants := range map[string][]string{
		"../../docs/postgresql.md": {
			fmt.Sprintf("up to %d connections for each service", each),
			fmt.Sprintf("The %s services in one process need %d, in two processes %d,", word, services*each, 2*services*each),
		},
		"../../docs/install.md": {
			fmt.Sprintf("of the %s services opens up to [%d connections]", word, each),
		},
		"../../docs/several-machines.md": {
			fmt.Sprintf("One process with %s services uses up to %d", word, services*each),
		},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
				t.Errorf("%s does not say %q", file, want)
			}
		}
	}
}
