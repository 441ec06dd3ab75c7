package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

type typed struct{ command, answer string }

// sessions returns the commands in a text. A sh block is one command. In a console block, a command begins with "$ "
// and continues in indented lines; the rest is output.
func sessions(text string) (all []typed) {
	for _, block := range regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if block[1] == "sh" {
			all = append(all, typed{command: block[2]})
			continue
		}
		for _, one := range strings.Split("\n"+block[2], "\n$ ")[1:] {
			lines := strings.Split(one, "\n")
			n := 1
			for n < len(lines) && strings.HasPrefix(lines[n], "    ") {
				n++
			}
			all = append(all, typed{strings.Join(lines[:n], "\n"), strings.Join(lines[n:], "\n")})
		}
	}
	return all
}

var (
	varies  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|Ratelimit-[A-Za-z]+: \d+`)
	spacing = regexp.MustCompile(`\s+`)
)

// answers reports whether got matches the guide's output. … matches anything. White space is ignored, because the
// guide breaks lines.
func (c *typed) answers(got string) bool {
	plain := func(s string) string { return spacing.ReplaceAllString(varies.ReplaceAllString(s, "«varies»"), "") }
	want := strings.ReplaceAll(regexp.QuoteMeta(plain(c.answer)), "…", ".*")
	return regexp.MustCompile("(?s)^" + want + "$").MatchString(plain(got))
}

func guide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// typeAll runs the commands in one shell and compares their output. Addresses are pairs: the guide's and the test's.
func typeAll(t *testing.T, env []string, folder string, addresses []string, commands []typed) {
	t.Helper()
	shell, _ := binary.Program(t, "sh"), binary.Program(t, "curl")
	const end = "\n\x1e\n"                              // ends each output
	script := "curl() { command curl -sS \"$@\"; }\n" + // no progress bar
		"holdfast() { '" + binary.Path() + "' \"$@\"; }\n" +
		"head() { until test -s \"$3\"; do sleep 0.05; done; command head \"$@\"; }\n" // the audit is written a moment later
	for _, c := range commands {
		script += strings.ReplaceAll(c.command, "bin/holdfast ", "holdfast ") + "\nprintf '\\n\\036\\n'\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*binary.Bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell)
	cmd.Env, cmd.Dir, cmd.WaitDelay = env, folder, time.Second
	cmd.Stdin = strings.NewReader(strings.NewReplacer(addresses...).Replace(script))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantIgnored(t, folder)
	back := slices.Clone(addresses)
	for i := 0; i < len(back); i += 2 {
		back[i], back[i+1] = back[i+1], back[i]
	}
	answers := strings.Split(strings.NewReplacer(back...).Replace(string(out)), end)
	if len(answers) != len(commands)+1 {
		t.Fatalf("%d outputs for %d commands:\n%s", len(answers)-1, len(commands), out)
	}
	for i := range commands {
		if c := &commands[i]; !c.answers(answers[i]) {
			t.Errorf("$ %s\noutput:\n%s\nguide:\n%s", c.command, answers[i], c.answer)
		}
	}
}

// wantIgnored checks that git status in a checkout stays empty although the commands created the files in folder.
func wantIgnored(t *testing.T, folder string) {
	t.Helper()
	git := binary.Program(t, "git")
	ignored, err := filepath.Abs(filepath.Join("..", "..", ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	repository := filepath.Join(t.TempDir(), "git")
	for _, args := range [][]string{{"init", "-q", "--bare"}, {"-c", "core.bare=false", "-c", "core.excludesFile=" + ignored, "--work-tree=" + folder, "status", "--porcelain", "--untracked-files=all"}} {
		out, err := exec.CommandContext(t.Context(), git, append([]string{"--git-dir=" + repository}, args...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("git %q: %v: the guide's commands create files that git does not ignore:\n%s", args, err, out)
		}
	}
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestGuide(t *testing.T) {
	t.Parallel()
	commands := sessions(guide(t, "extension-storage.md") + guide(t, "extension-storage-reference.md") + guide(t, "extension-storage-operate.md"))
	if len(commands) < 50 {
		t.Fatalf("%d commands", len(commands))
	}
	folder := t.TempDir()
	s := binary.Start(t, filepath.Join(folder, "holdfast-data"), "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
	typeAll(t, s.Env, folder, []string{
		"127.0.0.1:8000", host(t, s.URL), "127.0.0.1:8001", host(t, s.Admin), "127.0.0.1:8002", host(t, s.Internal()),
	}, commands)
}

// TestBucketsGuide runs the buckets guide's commands, except client commands, which test/s3clients runs.
func TestBucketsGuide(t *testing.T) {
	t.Parallel()
	commands := sessions(guide(t, "buckets.md") + guide(t, "buckets-reference.md") + guide(t, "buckets-operate.md"))
	if len(commands) < 20 {
		t.Fatalf("%d commands", len(commands))
	}
	folder := t.TempDir()
	hook := newGuideHook(t)
	settings := blocks(guide(t, "buckets-reference.md"), "toml")
	at := slices.IndexFunc(settings, func(text string) bool { return strings.HasPrefix(text, "[buckets.destinations.") })
	config := filepath.Join(folder, "holdfast.toml")
	if err := os.WriteFile(config, []byte(strings.Replace(settings[at], "https://hooks.example.org/s3", hook.url, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := binary.Start(t, filepath.Join(folder, "holdfast-data"), "HOLDFAST_CONFIG="+config)
	typeAll(t, s.Env, folder, []string{"127.0.0.1:8000", host(t, s.URL), "127.0.0.1:9000", host(t, s.S3URL())}, commands)
	hook.await("s3:TestEvent of photos", "ObjectCreated:Put of harbour.jpg")
}

type guideHook struct {
	t    *testing.T
	url  string
	gets chan string
}

func newGuideHook(t *testing.T) *guideHook {
	t.Helper()
	h := &guideHook{t: t, gets: make(chan string, 100)}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// ServeHTTP checks the signature as described in the guide.
func (h *guideHook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	verifier, invalid := standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err := errors.Join(err, invalid); err != nil {
		h.t.Error(err)
		return
	}
	if err := verifier.Verify(text, r.Header); err != nil {
		h.t.Errorf("%v: %v", err, r.Header)
	}
	var body struct {
		Event, Bucket string
		Records       []struct {
			EventName string
			S3        struct{ Object struct{ Key string } }
		}
	}
	if err := json.Unmarshal(text, &body); err != nil {
		h.t.Errorf("%v: %s", err, text)
	}
	if body.Event != "" {
		h.gets <- body.Event + " of " + body.Bucket
	}
	for _, e := range body.Records {
		h.gets <- e.EventName + " of " + e.S3.Object.Key
	}
}

func (h *guideHook) await(events ...string) {
	h.t.Helper()
	missing := map[string]bool{}
	for _, e := range events {
		missing[e] = true
	}
	for deadline := time.After(binary.Bound); len(missing) > 0; {
		select {
		case e := <-h.gets:
			delete(missing, e)
		case <-deadline:
			h.t.Fatalf("missing: %v", missing)
		}
	}
}

// TestDevicesGuide creates the devices guide's certificates, serves with them, and runs the guide's checks.
func TestDevicesGuide(t *testing.T) {
	t.Parallel()
	binary.Program(t, "openssl")
	text, folder := guide(t, "devices.md"), t.TempDir()
	certificates := exec.Command(binary.Program(t, "sh"), "-e")
	certificates.Dir = folder
	certificates.Stdin = strings.NewReader(strings.ReplaceAll(blocks(text, "sh")[0], "192.168.1.20", "127.0.0.1"))
	if out, err := certificates.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plain := binary.Start(t, t.TempDir())
	encrypted := binary.Start(t, t.TempDir(),
		"HOLDFAST_SERVER__TLS_CERT_FILE="+filepath.Join(folder, "cert.pem"), "HOLDFAST_SERVER__TLS_KEY_FILE="+filepath.Join(folder, "key.pem"))
	var commands []typed
	for _, block := range blocks(text, "console") {
		commands = append(commands, sessions("```console\n"+block+"```")...)
	}
	if len(commands) != 3 {
		t.Fatalf("%d commands", len(commands))
	}
	typeAll(t, plain.Env, folder, []string{
		"http://192.168.1.20:8000", plain.URL, "https://192.168.1.20:8000", encrypted.URL,
	}, commands)
}

// TestTroubleshootingGuide runs the guide's commands; test/firefox tests the rest.
func TestTroubleshootingGuide(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	commands := sessions(guide(t, "troubleshooting.md"))
	if len(commands) == 0 {
		t.Fatal("no commands")
	}
	folder := t.TempDir()
	s := binary.Start(t, filepath.Join(folder, "holdfast-data"), "HOLDFAST_TOKENSERVER__ALLOW_NEW_USERS=false")
	typeAll(t, s.Env, folder, []string{"127.0.0.1:8000", host(t, s.URL)}, commands)
}

// TestNamesOfComingFrom checks that every environment variable in the migration guide exists.
func TestNamesOfComingFrom(t *testing.T) {
	t.Parallel()
	env := binary.Environ("HOLDFAST_DATA=" + filepath.Join(t.TempDir(), "data"))
	names := regexp.MustCompile(`\b(SYNC_[A-Z_]*[A-Z]|HOLDFAST_[A-Z]+__[A-Z_]*[A-Z])\b`).FindAllString(guide(t, "coming-from.md"), -1)
	if len(names) < 10 {
		t.Fatalf("%d names", len(names))
	}
	for _, name := range names {
		env = append(env, name+"=1")
	}
	r := binary.Run(t, env, "check")
	if out := r.Stdout + r.Stderr; !strings.Contains(out, "SYNC_HUMAN_LOGS") || strings.Contains(out, "unknown variable") {
		t.Errorf("check of %v:\n%s", names, out)
	}
}

func blocks(text, info string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^ *```"+regexp.QuoteMeta(info)+"\n(.*?)^ *```$").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestSQLOfGuides runs the guides' queries on PostgreSQL, except queries that need Citus or an extension.
func TestSQLOfGuides(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	s := binary.Launch(t, t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+url, "HOLDFAST_EXTSTORAGE__DATABASE_URL="+url, "HOLDFAST_BUCKETS__DATABASE_URL="+url)
	s.Verb("migrate")
	psql, ran := binary.Program(t, "psql"), 0
	for _, name := range []string{"capacity.md", "postgresql.md"} {
		for _, sql := range blocks(guide(t, name), "sql") {
			if strings.Contains(sql, "citus") || strings.Contains(sql, "CREATE EXTENSION") {
				continue
			}
			cmd := exec.Command(psql, "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--dbname="+url)
			cmd.Stdin = strings.NewReader(sql)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", name, err, sql, out)
			}
			ran++
		}
	}
	if ran < 4 {
		t.Errorf("%d queries", ran)
	}
}

// TestCitusTimeoutsOfGuide checks that a Citus coordinator accepts the guide's timeouts and connects to its workers.
func TestCitusTimeoutsOfGuide(t *testing.T) {
	t.Parallel()
	cluster := testdb.OwnCitus(t)
	psql, ran := binary.Program(t, "psql"), 0
	run := func(sql string) string {
		t.Helper()
		cmd := exec.Command(psql, "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--quiet", "--tuples-only", "--no-align", "--dbname="+cluster[0].URL())
		cmd.Stdin = strings.NewReader(sql)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, sql, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, sql := range blocks(guide(t, "postgresql.md"), "sql") {
		if strings.Contains(sql, "citus.node_conninfo") {
			run(sql)
			ran++
		}
	}
	if got := run(`SHOW citus.node_conninfo`); ran != 1 || !strings.Contains(got, "tcp_user_timeout") {
		t.Errorf("%d blocks, and citus.node_conninfo is %q", ran, got)
	}
	if got := run(`SELECT count(*), bool_and(result) FROM citus_check_cluster_node_health()`); got != "9|t" {
		t.Errorf("connections between the servers: %s, want 9|t", got)
	}
}
