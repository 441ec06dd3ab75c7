package app_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/cli"
)

// TestQuotaCommandsRefuse checks the exit status and the message for wrong arguments.
func TestQuotaCommandsRefuse(t *testing.T) {
	t.Parallel()
	b, _, environ := serveConsole(t)
	b.importAccounts(environ)
	unknown := strings.Repeat("0", 32)
	for _, tc := range []struct {
		args   string
		status int
		says   string
	}{
		{"tokenserver accounts quota " + largeAccount + " 1.5GiB", 2, "QUOTA: expected a number of bytes"},
		{"tokenserver accounts quota " + largeAccount + " 0", 2, "QUOTA: expected a number of bytes"},
		{"tokenserver accounts quota " + unknown + " 5", 1, "account " + unknown + " has no storage here"},
		{"tokenserver accounts quota nobody lots", 2, "QUOTA: expected a number of bytes"},
		{"tokenserver accounts quota " + largeAccount + " --fxa-uid x", 2, "unknown flag --fxa-uid"},
		{"tokenserver users quota 77 lots", 2, "QUOTA: expected a number of bytes"},
		{"tokenserver users quota 0 5", 2, "UID: must be at least 1"},
		{"buckets quotas show", 2, ""},
		{"buckets quotas show main photos x", 2, ""},
		{"buckets quotas show main none", 1, "the bucket does not exist"},
		{"buckets quotas set main --bytes many", 2, ""},
		{"buckets quotas set main --objects 0", 2, ""},
	} {
		var out bytes.Buffer
		status := cli.Run(t.Context(), cli.Env{Args: strings.Fields(tc.args), Environ: slices.Clone(environ), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Services: onAllEngines()})
		if status != tc.status || !strings.Contains(out.String(), tc.says) {
			t.Errorf("%s: %d, want %d and %q in\n%s", tc.args, status, tc.status, tc.says, &out)
		}
	}
}
