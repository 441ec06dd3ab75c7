//test:unraced SQLite takes twenty times as long under the race detector

package cli_test

import (
	"io"
	"strings"
	"testing"

	"holdfast/internal/app"
)

// TestAccountCommands also checks that an invalid account ID is a usage error, unlike an unknown account.
func TestAccountCommands(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	cfg, _, err := app.Load(app.Services(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: io.Discard, Mode: app.ModeServe})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		typed      string
		status     int
		says, errs string
	}{
		{"tokenserver accounts show abc", 2, "", "ACCOUNT: expected 32 hexadecimal digits"},
		{"tokenserver accounts delete abc --yes", 2, "", "ACCOUNT: expected 32 hexadecimal digits"},
		{"tokenserver accounts quota abc 5", 2, "", "ACCOUNT: expected 32 hexadecimal digits"},
		{"tokenserver accounts export abc", 2, "", "ACCOUNT: expected 32 hexadecimal digits"},
		{"tokenserver accounts show " + uid, 1, "", "account " + uid + " is unknown: it never signed in here"},
		{"tokenserver accounts delete " + uid + " --yes", 1, "", "account " + uid + " has no storage here"},
		{"tokenserver access deny " + uid, 0, "account " + uid + " may not sign in\n", ""},
		{"tokenserver accounts show " + uid, 0, "ACCESS   deny\n", ""},
		{"tokenserver access allow " + uid, 0, "account " + uid + " may sign in\n", ""},
		{"tokenserver accounts show " + uid, 0, "The account has never signed in here, so it has no storage.", ""},
		{"tokenserver access remove " + uid, 0, "removed account " + uid + " from the lists\n", ""},
		{"tokenserver accounts show " + uid, 1, "", "is unknown"},
		{"tokenserver accounts import " + uid + " " + data, 1, "", data + " is a folder: expected a file, or - for standard input"},
		{"tokenserver accounts import " + uid + " " + data + "/none", 1, "", data + "/none does not exist: expected a file, or - for standard input"},
	} {
		status, out, errs := run(t, []string{"HOLDFAST_DATA=" + data}, strings.Fields(tc.typed)...)
		if status != tc.status || !strings.Contains(out, tc.says) || !strings.Contains(errs, tc.errs) || (tc.says == "") != (out == "") || (tc.errs == "") != (errs == "") {
			t.Errorf("%s: exit status %d\n%s%s", tc.typed, status, out, errs)
		}
	}
}

func TestCheckOfUnsupportedEngine(t *testing.T) {
	t.Parallel()
	status, out, _ := run(t, []string{
		"HOLDFAST_DATA=" + t.TempDir(), "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false",
		"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=", "HOLDFAST_SYNCSTORAGE__DATABASE_URL=mysql://u:hunter2@h/d",
	}, "check")
	if status != 1 || strings.Contains(out, "start the database") || strings.Contains(out, "hunter2") ||
		!strings.Contains(out, `the scheme "mysql" is not supported: expected sqlite:PATH. To import`) ||
		!strings.Contains(out, "run holdfast import") || !strings.Contains(out, "fix: correct syncstorage.database_url") {
		t.Errorf("exit status %d\n%s", status, out)
	}
}
