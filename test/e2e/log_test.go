package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestReadinessInLog checks that the log reports each service's state from start to stop, and names the database.
func TestReadinessInLog(t *testing.T) {
	t.Parallel()
	db := testdb.DurablePostgres(t)
	s := binary.Launch(t, t.TempDir(), onPostgres(db.URL())...)
	for _, service := range []string{"syncstorage", "tokenserver"} {
		s.AwaitOutput(`level=WARN msg="service is not ready" service=` + service + ` error="postgres://\S*.* (not applied|holdfast migrate)`)
	}
	s.Verb("migrate")
	s.AwaitOutput(`msg="service is ready" service=syncstorage not_ready_for=\d`)
	s.AwaitOutput(`msg="service is ready" service=tokenserver not_ready_for=\d`)
	if r := binary.Run(t, s.Env, "check"); !regexp.MustCompile(`postgres://(\S+:\d+)?/\w+( \(socket /\S+\.s\.PGSQL\.\d+\))?: reached`).MatchString(r.Stdout) {
		t.Errorf("check does not name the database's host and port or socket:\n%s", r.Stdout)
	}
	s.AwaitOutput(`level=INFO msg="server is ready" services="\[syncstorage tokenserver extstorage buckets\]"`)
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	s.AwaitOutput(`(?s)msg="server is ready".* msg="service is not ready" service=syncstorage error="postgres://`)
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
	s.AwaitOutput(`(?s)msg="server is ready".* msg="server is ready"`)
	s.Signal(syscall.SIGTERM)
	<-s.Ended
	log := s.Output.String()
	if !strings.HasSuffix(strings.TrimSpace(log), `level=INFO msg="server stopped"`) || !strings.Contains(log, `msg="shutting down"`) {
		t.Errorf("end of the log:\n%s", log)
	}
	if strings.Contains(log, `msg="service is not ready" service=extstorage`) {
		t.Errorf("a ready service was reported as not ready:\n%s", log)
	}
}

type jsonProgram struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
}

type record struct {
	Level, Msg, Error, Service, Clients, Admin string
	Time                                       time.Time
}

func wantRecord(t *testing.T, line string) (r record) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Msg == "" || r.Time.IsZero() {
		t.Errorf("not a JSON log line: %s (%v)", line, err)
	}
	return r
}

func serveJSON(t *testing.T, data string, vars ...string) *jsonProgram {
	t.Helper()
	p := &jsonProgram{cmd: exec.Command(binary.Path(), "serve")}
	p.cmd.Env = binary.Environ(append([]string{"HOLDFAST_DATA=" + data, "HOLDFAST_LOG__FORMAT=json", "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0"}, vars...)...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// TestJSONOutput checks that serve prints only JSON if log.format=json.
func TestJSONOutput(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := serveJSON(t, data, "SYNC_HUMAN_LOGS=1", "HOLDFAST_LOG__OTLP_ENDPOINT=http://127.0.0.1:1")
	if !p.lines.Scan() {
		t.Fatal(p.stderr.String())
	}
	first := wantRecord(t, p.lines.Text())
	if first.Msg != "listening" || !strings.HasPrefix(first.Clients, "http://") {
		t.Errorf("the first line: %+v", first)
	}
	for _, path := range []string{"/", "/1.0/sync/1.5", "/%zz", "/__error__"} {
		resp, err := http.Get(first.Clients + path)
		if err == nil {
			resp.Body.Close()
		}
	}
	second := serveJSON(t, data)
	if second.lines.Scan() {
		t.Errorf("refused server prints %s", second.lines.Text())
	}
	if err := second.cmd.Wait(); err == nil || second.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("a server that is refused: %v", err)
	}
	if r := wantRecord(t, strings.TrimSpace(second.stderr.String())); r.Level != "ERROR" || !strings.Contains(r.Error, "is in use by another server") {
		t.Errorf("a server that is refused: %+v", r)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hints := 0
	for p.lines.Scan() {
		if r := wantRecord(t, p.lines.Text()); r.Msg == "hint" {
			hints++
		}
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	has := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(p.stderr.String())) {
		has[wantRecord(t, line).Msg] = true
	}
	for _, msg := range []string{"configuration", "request", "could not send traces", "shutting down", "server stopped"} {
		if !has[msg] {
			t.Errorf("no %q in\n%s", msg, p.stderr.String())
		}
	}
	if hints != 3 {
		t.Errorf("%d hints", hints)
	}
}

func fail2ban(t *testing.T) (all []*regexp.Regexp) {
	t.Helper()
	text := readFile(t, filepath.FromSlash("../../docs/operations.md"))
	_, filter, found := strings.Cut(text, "failregex = ")
	filter, _, ended := strings.Cut(filter, "\n```")
	if !found || !ended {
		t.Fatal("the guide has no filter")
	}
	for line := range strings.Lines(filter) {
		// fail2ban replaces this expression with an address, never a host name.
		all = append(all, regexp.MustCompile(strings.ReplaceAll(strings.TrimSpace(line), "<HOST>", `\[?(?:::f{4,6}:)?(?P<host>[\w\-.:^_]*\w)\]?`)))
	}
	if len(all) != 2 {
		t.Fatalf("%d expressions", len(all))
	}
	return all
}

// banned returns the addresses that the filter finds in a log as fail2ban reads it: in a file without the time, in the
// journal, or in a syslog file.
func banned(filter []*regexp.Regexp, log string) (all []string) {
	cut := regexp.MustCompile(`(time=|"time":")\d[^" ]+`)
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		for _, line := range []string{cut.ReplaceAllString(line, "$1"), "machine holdfast[17]: " + line, " machine holdfast[17]: " + line} {
			for _, f := range filter {
				if m := f.FindStringSubmatch(line); m != nil {
					all = append(all, m[f.SubexpIndex("host")])
				}
			}
		}
	}
	return all
}

func refuse(t *testing.T, s *binary.Server) {
	t.Helper()
	const signIn, record = "/1.0/sync/1.5", "/ext/v1/installs/7e000000-0000-4000-8000-000000000021/namespaces/a/records/b"
	const forged = `client_address=192.0.2.66 reason=invalid-credentials x`
	for _, headers := range [][]string{
		{signIn, "X-Forwarded-For: 203.0.113.9, 198.51.100.7"},
		{signIn, "X-Forwarded-For: 198.51.100.8", "X-Request-Id: x " + forged},
		{signIn, "X-Forwarded-For: 198.51.100.9", "Forwarded: for=192.0.2.66"},
		{signIn, "X-Forwarded-For: " + forged},
		{signIn, `Forwarded: for="` + forged + `"`},
		{record, "X-Forwarded-For: 2001:db8::1", "User-Agent: " + forged},
		{record + "?" + strings.ReplaceAll(forged, " ", "%20"), "X-Forwarded-For: 198.51.100.10"},
		{"/" + strings.ReplaceAll(forged, " ", "%20"), "X-Forwarded-For: 198.51.100.11"},
		{"/__heartbeat__", "X-Forwarded-For: 198.51.100.12"},
	} {
		req, err := http.NewRequest(http.MethodGet, s.URL+headers[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.ReplaceAll(forged, " ", "."))
		req.Header.Set("X-KeyID", "1234-qqo")
		for _, h := range headers[1:] {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	c := s.Token(1)
	c.Key = "another"
	c.Want(t, http.StatusUnauthorized, "GET", "/info/collections", "")
}

// TestFail2ban checks that the guide's filter finds exactly the clients with refused sign-ins and tokens.
func TestFail2ban(t *testing.T) {
	t.Parallel()
	filter := fail2ban(t)
	fxa := newAccounts(t)
	base := []string{"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + fxa.URL, "HOLDFAST_LOG__ACCESS=false"}
	for _, tc := range []struct {
		name string
		vars []string
		want string
	}{
		{"text", []string{"HOLDFAST_LOG__CLIENT_ADDRESS=true", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1"}, "198.51.100.7 198.51.100.8 2001:db8::1 198.51.100.10"},
		{"json", []string{"HOLDFAST_LOG__CLIENT_ADDRESS=true", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1", "HOLDFAST_LOG__FORMAT=json"}, "198.51.100.7 198.51.100.8 2001:db8::1 198.51.100.10"},
		{"nobody is trusted", []string{"HOLDFAST_LOG__CLIENT_ADDRESS=true"}, strings.TrimSpace(strings.Repeat("127.0.0.1 ", 7))},
		{"off", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := binary.Start(t, t.TempDir(), append(tc.vars, base...)...)
			refuse(t, s)
			s.Signal(syscall.SIGTERM)
			<-s.Ended
			log := s.Output.String()
			var want []string
			for address := range strings.FieldsSeq(tc.want) {
				want = append(want, address, address, address) // once per format
			}
			if got := banned(filter, log); !slices.Equal(got, want) {
				t.Errorf("blocks %s, want %s\n%s", got, want, log)
			}
			if strings.Contains(log, "192.0.2.66") || strings.Contains(log, "client_address") != (tc.want != "") {
				t.Errorf("blocked a claimed address, or none:\n%s", log)
			}
		})
	}
}
