//test:unraced SQLite takes twenty times as long under the race detector

package cli_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inShell returns the AWS variables of a shell that evaluated commands.
func inShell(t *testing.T, commands string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", commands+"env")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "AWS_SESSION_TOKEN=of-another-server", "AWS_ENDPOINT_URL_S3=https://s3.example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, out)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); strings.HasPrefix(name, "AWS_") {
			all[name] = value
		}
	}
	return all
}

type madeKey struct{ AccessKey, SecretKey string }

func TestBucketsEnv(t *testing.T) {
	t.Parallel()
	_, env := migrated(t)
	env = append(append(secrets(), env...), "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:9321", "HOLDFAST_BUCKETS__REGION=eu-1")
	must := func(typed string) string {
		t.Helper()
		status, out, errs := run(t, env, strings.Fields(typed)...)
		if status != 0 {
			t.Fatalf("%s: exit status %d\n%s%s", typed, status, out, errs)
		}
		return out
	}
	made := func(typed string) (k madeKey) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(typed+" --json")), &k); err != nil || k.SecretKey == "" {
			t.Fatalf("%s: %+v, %v", typed, k, err)
		}
		return k
	}
	want := func(typed string, k madeKey) {
		t.Helper()
		got := inShell(t, must(typed))
		for name, value := range map[string]string{
			"AWS_ACCESS_KEY_ID": k.AccessKey, "AWS_SECRET_ACCESS_KEY": k.SecretKey, "AWS_ENDPOINT_URL": "http://127.0.0.1:9321",
			"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9321", "AWS_REGION": "eu-1", "AWS_DEFAULT_REGION": "eu-1", "AWS_SESSION_TOKEN": "",
		} {
			if got[name] != value {
				t.Errorf("%s: %s is %q, want %q", typed, name, got[name], value)
			}
		}
		var printed madeKey
		if err := json.Unmarshal([]byte(must(typed+" --json")), &printed); err != nil || printed != k {
			t.Errorf("%s --json: %+v, %v", typed, printed, err)
		}
	}
	refused := func(typed, says string) {
		t.Helper()
		if status, out, errs := run(t, env, strings.Fields(typed)...); status != 1 || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%s: exit status %d\n%s%s, want %s", typed, status, out, errs, says)
		}
	}

	refused("buckets env", "main: the account does not exist: make it with: holdfast buckets accounts create NAME")
	first := made("buckets accounts create main")
	want("buckets env", first)
	want("buckets env main", first)
	limited := made("buckets keys create main --right read")
	expiring := made("buckets keys create main --expires-in 1h")
	second := made("buckets keys create main")
	want("buckets env", first) // not the key that was made last
	want("buckets env --key "+limited.AccessKey, limited)
	want("buckets env main --key "+second.AccessKey, second)
	must("buckets keys revoke " + first.AccessKey)
	want("buckets env", second)
	must("buckets keys revoke " + second.AccessKey)
	want("buckets env", expiring)
	must("buckets keys revoke " + expiring.AccessKey)
	refused("buckets env", "main: no active access key without limits: the account has 1 limited, 0 expired and 3 revoked; make one with: holdfast buckets keys create main, or choose one with --key")
	refused("buckets env --key "+first.AccessKey, first.AccessKey+": the access key does not exist, or is revoked: holdfast buckets keys list main")
	refused("buckets env nobody", "nobody: the account does not exist; accounts: main")

	// A configured secret may contain characters that a shell interprets.
	const secret = "it's-$HOME-`id`-\\\"x\"-!#&;|*"
	made("buckets accounts create family")
	refused("buckets env family --key "+limited.AccessKey, "the access key belongs to account main")
	env = append(env, "HOLDFAST_BUCKETS__ACCOUNTS__FAMILY__KEYS__PHONE__ACCESS_KEY=phone", "HOLDFAST_BUCKETS__ACCOUNTS__FAMILY__KEYS__PHONE__SECRET_KEY="+secret)
	want("buckets env", madeKey{"phone", secret}) // the account in the configuration
	want("buckets env --key phone", madeKey{"phone", secret})
}

// TestGuidesTakeKeysFromEnv checks that no guide takes an access key from a list by its position: a limited key may be
// there.
func TestGuidesTakeKeysFromEnv(t *testing.T) {
	t.Parallel()
	uses := 0
	for _, file := range guides(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		uses += strings.Count(string(text), `eval "$(holdfast buckets env`) + strings.Count(string(text), `eval "$(bin/holdfast buckets env`)
		for _, line := range takesKey(string(text)) {
			t.Errorf(`%s: %s: use eval "$(holdfast buckets env)"`, file, line)
		}
	}
	if uses < 2 {
		t.Errorf("%d guides use holdfast buckets env", uses)
	}
	for _, wrong := range []string{
		"export AWS_ACCESS_KEY_ID=$(holdfast buckets keys list main --secrets | awk 'END { print $1 }')", "AWS_SECRET_ACCESS_KEY=`cat key`",
		"KEY=$(holdfast buckets keys list main | tail -1)", "holdfast buckets keys list main --secrets | cut -f 1",
	} {
		if len(takesKey(wrong)) != 1 {
			t.Errorf("not found: %s", wrong)
		}
	}
}

var keyTaken = regexp.MustCompile("AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY)=[\"']?[$`][(a-z]|keys list [^|]*\\|.*(END|tail|head|cut|sed)|keys list [^|]*--secrets *\\|")

// takesKey returns the lines that take an access key in another way.
func takesKey(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if keyTaken.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// guides returns all guides, except decisions.
func guides(t *testing.T) (files []string) {
	t.Helper()
	for _, root := range []string{"../../README.md", "../../docs", "../../client", "../../clients"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && slices.Contains([]string{"node_modules", "decisions"}, d.Name()) {
				return fs.SkipDir
			}
			if err == nil && filepath.Ext(path) == ".md" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 20 {
		t.Fatalf("%d guides", len(files))
	}
	return files
}
