//test:unraced SQLite takes twenty times as long under the race detector

package cli

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/app"
	"holdfast/internal/app/overview"
	"holdfast/internal/secrets"
	"holdfast/internal/testdb"
)

// leaves returns all commands that run, with the words after holdfast. Groups print their help.
func leaves() (all []*cobra.Command) {
	c := &command{env: Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}, services: app.Services(), operated: &overview.Operated{}}
	root := c.root()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if !cmd.HasAvailableSubCommands() || cmd.Use != cmd.Name()+" COMMAND" {
			all = append(all, cmd)
		}
	}
	walk(root)
	return all
}

// values are valid values for arguments and flags by their names in the help; others get "main".
var values = map[string]string{
	"ACCOUNT": "0123456789abcdef0123456789abcdef", "TENANT": "5a1e0f6c-93d7-4c2b-8f64-0b7d21c9e3a8", "INSTALL": "c7b0d2e4-6f18-4a59-9d03-1e5f8a2b4c6d",
	"tenant": "5a1e0f6c-93d7-4c2b-8f64-0b7d21c9e3a8", "install": "c7b0d2e4-6f18-4a59-9d03-1e5f8a2b4c6d", "namespace": "settings", "seq": "1", "version": "1",
	"SERVICE": "extstorage", "URL": "http://127.0.0.1:1", "to": "sqlite:copy.db", "from": "mysql://user@127.0.0.1:1/sync", "SHELL": "bash",
	"EVENT": "1", "VERSION": "1", "QUOTA": "1", "BYTES": "1", "UID": "1", "uid": "1", "SESSION": "c7b0d2e4-6f18-4a59-9d03-1e5f8a2b4c6d",
}

// more are further arguments that commands require, beyond their usage line.
var more = map[string]string{
	"buckets buckets set-versioning": "--versioning enabled", //nolint:dupword // a command
	"buckets lifecycle set":          "--expire-days 1", "buckets quota": "main",
	"buckets notifications set": `--notifications {"QueueConfigurations":[{"QueueArn":"arn:aws:sqs:us-east-1:1:main","Events":["s3:ObjectCreated:*"]}]}`, "buckets policy block-public": "--block all", "buckets policy set": "--policy {}",
	"buckets versions hold": "--hold on", "buckets versions retain": "--mode none", "ext installs quota": "--reset",
	"ext service-tokens create": "--service main", "ext tokens create": "--namespace settings=rw", "ext tokens revoke": "main", "finish-restore": "--time 2026-11-20T00:00:00Z",
	"backup": "elsewhere", "backup verify": "elsewhere", "backup list": "file:///nonexistent", "import": "--accounts-from=mysql://user@127.0.0.1:1/tokens",
	"buckets buckets set-access": "--access private", //nolint:dupword // a command
	"buckets buckets set-cors":   "--origins *",      //nolint:dupword // a command
	"guest events replay":        "--from 1", "guest tokens create": "--service main",
}

// pathOf returns the words of a command after holdfast.
func pathOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "holdfast"), " ")
}

var bracketed = regexp.MustCompile(`\[[^]]*\]`)

// typedFor returns a command line with values for all required arguments and flags.
func typedFor(cmd *cobra.Command) []string {
	typed := strings.Fields(pathOf(cmd))
	value := func(name string) string {
		switch path := pathOf(cmd); {
		case path == "import" && name == "SERVICE":
			return "syncstorage"
		case path == "guest sessions erase":
			return "gms_01ARZ3NDEKTSV4RRFFQ69G5FAV"
		case path == "guest user-sessions end":
			return "gus_01ARZ3NDEKTSV4RRFFQ69G5FAV"
		}
		if v := values[name]; v != "" {
			return v
		}
		return "main"
	}
	words := strings.Fields(bracketed.ReplaceAllString(cmd.Use, ""))[1:]
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case strings.HasPrefix(word, "--"): // its placeholder follows
			typed = append(typed, word+"="+value(strings.TrimPrefix(word, "--")))
			i++
		case word == strings.ToUpper(word):
			typed = append(typed, value(word))
		}
	}
	typed = append(typed, strings.Fields(more[pathOf(cmd)])...)
	if cmd.Flags().Lookup("yes") != nil {
		typed = append(typed, "--yes")
	}
	return typed
}

// execute runs a command as the user does.
func execute(ctx context.Context, environ, typed []string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = Run(ctx, Env{Args: typed, Environ: environ, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Version: app.Version{Version: "v1.2.3"}})
	return status, stdout.String(), stderr.String()
}

// contents returns all paths below a folder.
func contents(t *testing.T, folder string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if path != folder {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCommandsInTheWrongFolder runs every command where no server ever ran. Only commands whose purpose is a new file
// create one, and an error says where the command looked and how to name the right place.
func TestCommandsInTheWrongFolder(t *testing.T) { //nolint:paralleltest // changes the working directory
	creates := map[string]string{
		"serve": "the server creates its data", "man": "writes pages to DIR", "copy": "creates its target",
		"import": "fills a new server", "restore": "creates the restored server's folder", "backup key": "writes the key that it makes",
	}
	needData := 0
	for _, cmd := range leaves() {
		path := pathOf(cmd)
		if path == "serve" || path == "" || path == "schema-trial" { // the last limits the processor time of its process
			continue
		}
		folder := t.TempDir()
		t.Chdir(folder)
		typed := typedFor(cmd)
		status, out, errs := execute(t.Context(), nil, typed)
		if status == 2 {
			t.Errorf("%v: the test does not know the arguments: %s", typed, errs)
		}
		if left := contents(t, folder); len(left) > 0 && creates[path] == "" {
			t.Errorf("%v creates %v\n%s%s", typed, left, out, errs)
		}
		if strings.Contains(errs, "does not exist") || strings.Contains(errs, "no server has") {
			if needData++; !strings.Contains(errs, folder) || !strings.Contains(errs, "--config or HOLDFAST_CONFIG") {
				t.Errorf("%v does not say where it looked, or how to name the configuration: %s", typed, errs)
			}
		}
	}
	if needData < 100 {
		t.Errorf("only %d commands need data", needData)
	}
	// With all secrets in the configuration, commands miss the databases instead of the secrets file.
	environ := []string{
		"HOLDFAST_SERVER__MASTER_SECRET=" + strings.Repeat("m", 32), "HOLDFAST_SERVER__ADMIN_TOKEN=" + strings.Repeat("a", 32),
		"HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + strings.Repeat("t", 32), "HOLDFAST_BUCKETS__KEY_SECRET=" + strings.Repeat("k", 32),
		"HOLDFAST_GUEST__HANDOFF_SECRET=" + strings.Repeat("h", 32), "HOLDFAST_GUEST__COOKIE_SECRET=" + strings.Repeat("c", 32),
		"HOLDFAST_TOKENSERVER__FXA_METRICS_HASH_SECRET=" + strings.Repeat("x", 32),
	}
	for _, typed := range [][]string{{"migrate"}, {"migrate", "--new-secrets"}, {"sweep"}, {"buckets", "accounts", "list"}, {"tokenserver", "accounts", "list"}, {"ext", "tenants", "list"}, {"guest", "keys", "list"}, {"read-only", "list"}} {
		folder := t.TempDir()
		t.Chdir(folder)
		status, _, errs := execute(t.Context(), environ, typed)
		if left := contents(t, folder); status != 1 || len(left) > 0 || !strings.Contains(errs, folder) || !strings.Contains(errs, "--config or HOLDFAST_CONFIG") {
			t.Errorf("%v with secrets: exit status %d, creates %v\n%s", typed, status, left, errs)
		}
	}
}

// TestMigrateCompletesAUsedFolder checks that migrate creates the files of new services where a server has run.
func TestMigrateCompletesAUsedFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if _, err := secrets.Complete(data, secrets.Create, []secrets.Secret{{Setting: secrets.Master, Unset: true, Set: func(string) {}}}); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := execute(t.Context(), []string{"HOLDFAST_DATA=" + data}, []string{"migrate"}); status != 0 || !strings.Contains(out, "extstorage: applied 0001") {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
}

// awaitedOutput is an output that closes seen after a text.
type awaitedOutput struct {
	written bytes.Buffer
	text    string
	seen    chan struct{}
}

func (s *awaitedOutput) Write(p []byte) (int, error) {
	n, err := s.written.Write(p)
	if s.text != "" && strings.Contains(s.written.String(), s.text) {
		s.text = ""
		close(s.seen)
	}
	return n, err
}

// TestListsOfAnotherConfiguration runs every list beside a server, with the server's configuration and with another one.
func TestListsOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	environ := []string{
		"HOLDFAST_DATA=" + data, "HOLDFAST_SERVER__LISTEN=" + testdb.FreeAddress(t), "HOLDFAST_SERVER__ADMIN_LISTEN=" + testdb.FreeAddress(t),
		"HOLDFAST_BUCKETS__LISTEN=" + testdb.FreeAddress(t), "HOLDFAST_LOG__FORMAT=text",
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := &awaitedOutput{text: "secrets", seen: make(chan struct{})}, make(chan string, 1)
	go func() {
		var stderr bytes.Buffer
		if status := Run(ctx, Env{Args: []string{"serve"}, Environ: environ, Stdin: strings.NewReader(""), Stdout: started, Stderr: &stderr}); status != 0 {
			ended <- stderr.String()
		}
		close(ended)
	}()
	defer func() {
		cancel()
		if errs := <-ended; errs != "" {
			t.Error(errs)
		}
	}()
	select {
	case <-started.seen:
	case errs := <-ended:
		t.Fatal(errs)
	}
	lists := 0
	for _, cmd := range leaves() {
		if cmd.Name() != "list" || strings.Contains(cmd.CommandPath(), "backup list") { // reads a bucket
			continue
		}
		lists++
		typed := typedFor(cmd)
		if strings.Contains(cmd.CommandPath(), "buckets") {
			for i := range typed {
				if typed[i] == values["ACCOUNT"] {
					typed[i] = "main"
				}
			}
		}
		if status, out, errs := execute(t.Context(), environ, typed); status == 2 || strings.Contains(errs, "warning") {
			t.Errorf("%v with the same configuration: exit status %d\n%s%s", typed, status, out, errs)
		}
		_, out, errs := execute(t.Context(), append(slices.Clone(environ), "HOLDFAST_LOG__ACCESS=false"), typed)
		if !strings.Contains(errs, "warning: the running server has other values than this command for log.access") {
			t.Errorf("%v with another configuration does not say so:\n%s%s", typed, out, errs)
		}
	}
	if lists < 25 {
		t.Errorf("only %d lists", lists)
	}
	if _, out, _ := execute(t.Context(), environ, []string{"check"}); !strings.Contains(out, "is in use by this server itself") || strings.Contains(out, "running server") {
		t.Errorf("check with the same configuration:\n%s", out)
	}
	if _, out, _ := execute(t.Context(), append(slices.Clone(environ), "HOLDFAST_LOG__ACCESS=false"), []string{"check"}); !strings.Contains(out, "it has other values than this check for log.access") {
		t.Errorf("check with another configuration does not say so:\n%s", out)
	}
}

// TestRequiredFlagsAreInUse keeps typedFor right: a required flag is in the usage line.
func TestRequiredFlagsAreInUse(t *testing.T) {
	t.Parallel()
	for _, cmd := range leaves() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true") && !strings.Contains(cmd.Use, "--"+f.Name) {
				t.Errorf("%s does not show the required flag --%s", cmd.UseLine(), f.Name)
			}
		})
	}
}

// TestCompletedFlagsAreUnquoted completes each command's flags: the texts contain no quotes around placeholders.
func TestCompletedFlagsAreUnquoted(t *testing.T) {
	t.Parallel()
	all := leaves()
	if len(all) == 0 {
		t.Fatal("no commands")
	}
	for _, cmd := range all {
		words := slices.Concat([]string{cobra.ShellCompRequestCmd}, strings.Fields(cmd.CommandPath())[1:], []string{"--"})
		if _, out, errs := execute(t.Context(), nil, words); strings.Contains(out, "`") || !strings.HasPrefix(out, "--") {
			t.Errorf("%v: %s%s", words, out, errs)
		}
	}
}
