package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/cli"
	"holdfast/internal/testdb"
)

const (
	uid     = "0123456789abcdef0123456789abcdef"
	tenant  = "5a1e0f6c-93d7-4c2b-8f64-0b7d21c9e3a8"
	install = "c7b0d2e4-6f18-4a59-9d03-1e5f8a2b4c6d"
)

// TestWrongCommandLines checks for status 2, and for errors that quote the typed text and name the relevant help.
func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ typed, says, help string }{
		{"bogus", `holdfast: unknown command "bogus"`, "holdfast"},
		{"bogus --foo", `holdfast: unknown command "bogus"`, "holdfast"},
		{"srve", `unknown command "srve"; did you mean "serve"?`, "holdfast"},
		{"sync bogus", "holdfast sync: unknown command \"bogus\"\nCommands: budget compare comparisons tokens\n", "holdfast sync"},
		{"tokenserver accounts lst", `holdfast tokenserver accounts: unknown command "lst"; did you mean "list"?`, "holdfast tokenserver accounts"},
		{"tokenserver accounts lst --limit 1", `holdfast tokenserver accounts: unknown command "lst"; did you mean "list"?`, "holdfast tokenserver accounts"},
		{"tokenserver nodes remove", `unknown command "remove"`, "holdfast tokenserver nodes"},
		{"config foo", `unknown command "foo"`, "holdfast config"},
		{"ext installs foo", `unknown command "foo"`, "holdfast ext installs"},
		{"ext tokens foo", "holdfast ext tokens: unknown command \"foo\"\nCommands: create list revoke revoke-id\n", "holdfast ext tokens"},
		{"access list", `holdfast: unknown command "access"; did you mean "holdfast tokenserver access"?`, "holdfast"},
		{"nodes", `unknown command "nodes"; did you mean "holdfast`, "holdfast"},
		{"help bogus", `holdfast: unknown command "bogus"`, "holdfast"},
		{"help tokenserver accounts lst", `unknown command "lst"; did you mean "list"?`, "holdfast tokenserver accounts"},
		{"serve foo", `holdfast serve: unexpected argument "foo"`, "holdfast serve"},
		{"version x", `unexpected argument "x"`, "holdfast version"},
		{"backup", "holdfast backup: URL or DIR is required", "holdfast backup"},
		{"backup a b", `unexpected argument "b"`, "holdfast backup"},
		{"backup list /mnt/backup", `holdfast backup list: URL: invalid value "/mnt/backup": expected a URL`, "holdfast backup list"},
		{"man", "DIR is required", "holdfast man"},
		{"completion", "SHELL is required", "holdfast completion"},
		{"completion tcsh", `unknown shell "tcsh": expected bash, zsh, fish, powershell`, "holdfast completion"},
		{"tokenserver accounts show", "ACCOUNT is required", "holdfast tokenserver accounts show"},
		{"tokenserver accounts delete", "ACCOUNT is required", "holdfast tokenserver accounts delete"},
		{"tokenserver access allow", "ACCOUNT is required", "holdfast tokenserver access allow"},
		{"tokenserver nodes add", "NODE is required", "holdfast tokenserver nodes add"},
		{"tokenserver nodes drain a b", `unexpected argument "b"`, "holdfast tokenserver nodes drain"},
		{"ext installs import --tenant " + tenant + " --install " + install, "FILE is required", "holdfast ext installs import"},
		{"ext tokens revoke a b", `unexpected argument "b"`, "holdfast ext tokens revoke"},
		{"-x", "holdfast: unknown flag -x", "holdfast"},
		{"serve -listen :8000", "holdfast serve: unknown flag -listen; did you mean --listen?", "holdfast serve"},
		{"serve -lisen=:8000", "holdfast serve: unknown flag -lisen; did you mean --listen?", "holdfast serve"},
		{"--listen :8000", "holdfast: unknown flag --listen; did you mean holdfast serve --listen?", "holdfast"},
		{"buckets --secrets", "unknown flag --secrets; did you mean holdfast buckets keys list --secrets?", "holdfast buckets"},
		{"check --dep", "unknown flag --dep; did you mean --deep?", "holdfast check"},
		{"--=x", `invalid flag "--=x"`, "holdfast"},
		{"serve --port 1", "holdfast serve: unknown flag --port", "holdfast serve"},
		{"serve --migrate=maybe", `--migrate: invalid value "maybe": expected true or false`, "holdfast serve"},
		{"serve --data", "--data: value required: expected DIR", "holdfast serve"},
		{"tokenserver accounts list --replacd", "unknown flag --replacd; did you mean --replaced?", "holdfast tokenserver accounts list"},
		{"tokenserver accounts list --limit", "--limit: value required: expected a whole number", "holdfast tokenserver accounts list"},
		{"tokenserver accounts list --limit x", `--limit: invalid value "x": expected a whole number`, "holdfast tokenserver accounts list"},
		{"tokenserver refused list --access", "unknown flag --access", "holdfast tokenserver refused list"},
		{"sync tokens create", "--uid is required", "holdfast sync tokens create"},
		{"sync tokens create --uid 1.5", "--uid: expected a whole number", "holdfast sync tokens create"},
		{"sync tokens create --uid 9223372036854775808", "--uid: expected a whole number", "holdfast sync tokens create"},
		{"sync tokens create --uid 0", "--uid: must be at least 1", "holdfast sync tokens create"},
		{"sync tokens create --uid 1 --ttl 60", "--ttl: expected a duration with a unit, e.g. 30s, 2h, 90d or 2w", "holdfast sync tokens create"},
		{"sync tokens create --uid 1 --ttl 0", "--ttl: must be from 1s to 3650d", "holdfast sync tokens create"},
		{"sync budget --records 0", "--records: must be from 1 to 100000000", "holdfast sync budget"},
		{"ext tokens create", "--tenant and --install are required", "holdfast ext tokens create"},
		{"ext tokens create --tenant t", "--install is required", "holdfast ext tokens create"},
		{"ext service-tokens create --tenant t --install i --service s", "unknown flag --install", "holdfast ext service-tokens create"},
		{"ext installs set", "--tenant and --install are required", "holdfast ext installs set"},
		{"ext installs show --tenant t --install " + install, "--tenant: must be a UUID", "holdfast ext installs show"},
		{"ext installs revoke --tenant " + tenant + " --install i", "--install: must be a UUID", "holdfast ext installs revoke"},
		{"ext installs export --tenant " + tenant + " --install i", "--install: must be a UUID", "holdfast ext installs export"},
		{"ext installs show --install " + install, "--tenant is required", "holdfast ext installs show"},
		{"ext usage audit --install " + install, "--install: requires a tenant", "holdfast ext usage audit"},
		{"ext usage list --tenant=", "--tenant: must not be empty", "holdfast ext usage list"},
		{"ext dead-letters retry", "--tenant, --install and --seq are required", "holdfast ext dead-letters retry"},
		{"ext dead-letters retry --seq 1", "--tenant and --install are required", "holdfast ext dead-letters retry"},
		{"ext dead-letters drop --tenant t --seq 1", "--install is required", "holdfast ext dead-letters drop"},
		{"ext dead-letters drop-all --seq 1", "unknown flag --seq", "holdfast ext dead-letters drop-all"},
	} {
		t.Run(tc.typed, func(t *testing.T) {
			t.Parallel()
			environ := []string{"HOLDFAST_DATA=" + t.TempDir() + "/none"}
			status, out, errs := run(t, environ, strings.Fields(tc.typed)...)
			if status != 2 || out != "" || !strings.Contains(errs, tc.says) || !strings.HasSuffix(errs, "\nRun '"+tc.help+" --help' for usage.\n") {
				t.Errorf("exit status %d\n%s%swant %q and the help of %s", status, out, errs, tc.says, tc.help)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"version", "--version", "-v"} {
		if status, out, errs := run(t, nil, typed); status != 0 || out != "v1.2.3 (abc)\n" {
			t.Errorf("%s: exit status %d, %s%s", typed, status, out, errs)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"", "sync", "tokenserver", "tokenserver accounts", "tokenserver nodes", "ext", "ext installs", "ext dead-letters", "config"} {
		words := strings.Fields(of)
		_, want, _ := run(t, nil, append(words, "--help")...)
		for _, args := range [][]string{words, append([]string{"help"}, words...), append(words, "-h")} {
			status, out, errs := run(t, nil, args...)
			if status != 0 || errs != "" || out != want || !strings.Contains(out, "Usage:\n  "+strings.TrimSpace("holdfast "+of)+" COMMAND\n") {
				t.Errorf("holdfast %s: exit status %d\n%s%s", args, status, out, errs)
			}
		}
	}
	_, out, _ := run(t, nil)
	for _, want := range []string{"\nServer:\n", "\n  serve ", "\nServices:\n", "\n  sync ", "\n  ext ", "\nOther:\n", "holdfast serve "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

var synopsis = regexp.MustCompile(`(?m)^\\fBholdfast((?: [a-z][a-z0-9-]*)*)`)

func commands(t *testing.T) (all []string) {
	t.Helper()
	dir := t.TempDir()
	if status, _, errs := run(t, nil, "man", dir); status != 0 {
		t.Fatal(errs)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		page, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found := synopsis.FindSubmatch(page)
		if found == nil {
			t.Fatalf("%s has no synopsis", f.Name())
		}
		words := strings.Fields(string(found[1]))
		for len(words) > 0 && "holdfast-"+strings.Join(words, "-")+".1" != f.Name() {
			words = words[:len(words)-1]
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// TestEveryCommand checks that every command and flag has a short help text, refuses too many arguments, and has valid
// examples.
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "it runs each command several times: 5 s of processor time")
	all := commands(t)
	if len(all) < 30 {
		t.Fatalf("only %d commands: %q", len(all), all)
	}
	for _, command := range all {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			testCommand(t, command)
		})
	}
}

func testCommand(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	status, page, errs := run(t, nil, append(words, "--help")...)
	if status != 0 || errs != "" {
		t.Errorf("%s --help: exit status %d, %s", command, status, errs)
	}
	_, examples, _ := strings.Cut(page, "\nExamples:\n")
	examples, _, _ = strings.Cut(examples, "\n\n")
	for line := range strings.Lines(examples) {
		testExample(t, command, line)
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") && len(strings.Fields(line)) < 3 || len(line) > 150 {
			t.Errorf("%s: a flag without a text, or a long line: %s", command, line)
		}
	}
	_, subcommands, _ := strings.Cut(page, "\nCommands:\n")
	subcommands, _, _ = strings.Cut(subcommands, "\n\n")
	for line := range strings.Lines(subcommands) {
		if len(strings.Fields(line)) < 2 {
			t.Errorf("%s: a subcommand without a text: %s", command, line)
		}
	}
	status, _, errs = run(t, nil, append(words, "a", "b", "c", "d", "e", "--config=/none")...)
	if status != 2 || !strings.Contains(errs, "unexpected argument") && !strings.Contains(errs, "unknown command \"a\"") {
		t.Errorf("%s a b c d e: exit status %d, %s", command, status, errs)
	}
}

// testExample runs an example with an invalid configuration. Commands that read the configuration report that; others
// succeed.
func testExample(t *testing.T, of, line string) {
	t.Helper()
	environ, args := exampleArgs(t, line)
	if len(args) == 0 || args[0] != "holdfast" {
		t.Errorf("%s: an example of something else: %s", of, line)
		return
	}
	status, out, errs := run(t, append(environ, "HOLDFAST_LOG__LEVEL=loud"), args[1:]...)
	if status != 0 && !strings.Contains(out+errs, "HOLDFAST_LOG__LEVEL") {
		t.Errorf("%s: the example %s ends with status %d\n%s%s", of, line, status, out, errs)
	}
}

// exampleArgs returns an example's environment and words, and replaces the words that only a shell understands.
func exampleArgs(t *testing.T, line string) (environ, args []string) {
	t.Helper()
	typed, _, _ := strings.Cut(strings.TrimSpace(line), " #")
	typed, _, _ = strings.Cut(typed, " >")
	typed = typed[strings.LastIndex(typed, "| ")+1:]
	if within, ok := strings.CutPrefix(typed, "source <("); ok {
		typed = strings.TrimSuffix(within, ")")
	}
	if within, ok := strings.CutPrefix(typed, `eval "$(`); ok {
		typed = strings.TrimSuffix(within, `)"`)
	}
	typed = strings.NewReplacer("$TENANT", tenant, "$INSTALL", install, "'my sister'", "sister", "'left in May'", "left", `'{"author":"Ada"}' <notes.txt`, `{"author":"Ada"}`, "/usr/local/share/man/man1", t.TempDir(), "/var/backups/holdfast/2026-11-21", newBackup(t),
		" --config /etc/holdfast.toml", "", "$(date +%F)", "today", `"$(<notifications.json)"`,
		`{"QueueConfigurations":[{"QueueArn":"arn:holdfast:webhook:::hook","Events":["s3:ObjectCreated:*"]}]}`).Replace(typed)
	args = strings.Fields(typed)
	for len(args) > 0 && strings.Contains(args[0], "=") {
		environ, args = append(environ, args[0]), args[1:]
	}
	return environ, args
}

func TestEnvironmentOfFlags(t *testing.T) {
	t.Parallel()
	environ := []string{"HOLDFAST_CONFIG=/none/of-environment.toml"}
	if status, _, errs := run(t, environ, "sync", "budget"); status != 2 || !strings.Contains(errs, "/none/of-environment.toml: cannot read the file") {
		t.Errorf("exit status %d, %s", status, errs)
	}
	if status, _, errs := run(t, environ, "sync", "budget", "--config", "/none/typed.toml"); status != 2 || !strings.Contains(errs, "/none/typed.toml: cannot read the file") {
		t.Errorf("exit status %d, %s", status, errs)
	}
}

func TestInvalidConfiguration(t *testing.T) {
	t.Parallel()
	status, _, errs := run(t, []string{"HOLDFAST_SERVER_LISTEN=:1", "HOLDFAST_SERVER__QUEUE_WAIT=2"}, "serve", "--listen", "8000", "--data", t.TempDir())
	want := "holdfast: invalid configuration:\n" +
		"  HOLDFAST_SERVER_LISTEN: unknown variable; did you mean HOLDFAST_SERVER__LISTEN?\n" +
		"  HOLDFAST_SERVER__QUEUE_WAIT: invalid value \"2\": expected a duration with a unit, e.g. \"30s\", \"2h\", \"90d\" or \"2w\"\n" +
		"  --listen: must be host:port, e.g. 127.0.0.1:8000; the value is \"8000\"\n"
	if status != 2 || errs != want {
		t.Errorf("exit status %d\n%swant\n%s", status, errs, want)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	status := cli.Run(ctx, cli.Env{Args: []string{"sweep"}, Environ: []string{"HOLDFAST_DATA=" + t.TempDir()}, Stdout: &errs, Stderr: &errs})
	if status != 1 || strings.Contains(errs.String(), "--help") {
		t.Errorf("exit status %d, %s", status, errs.String())
	}
}

// TestEmptyEnvironment checks that an empty HOLDFAST_DATA means the default folder.
func TestEmptyEnvironment(t *testing.T) {
	t.Parallel()
	_, out, errs := run(t, []string{"HOLDFAST_DATA=", "HOLDFAST_CONFIG="}, "ext", "installs", "list")
	if !strings.Contains(out+errs, "holdfast-data") {
		t.Errorf("no default folder in\n%s%s", out, errs)
	}
}
