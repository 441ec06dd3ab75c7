package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

func TestBucketsQuota(t *testing.T) {
	t.Parallel()
	listen := testdb.FreeAddress(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+listen)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	c.want(http.StatusOK, http.MethodPut, "/photos/a", make([]byte, 1024))
	verb := func(want string, args ...string) {
		t.Helper()
		out := s.Verb(append([]string{"buckets"}, args...)...)
		if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
	const ofMain, ofPhotos = "ACCOUNT main BUCKET - ", "ACCOUNT main BUCKET photos "
	verb(ofMain+"OBJECTS 1 OBJECT QUOTA - BYTES 1024 BYTE QUOTA -", "quotas", "show", "main")
	verb(ofMain+"OBJECTS 1 OBJECT QUOTA 2 BYTES 1024 BYTE QUOTA 1073741824", "quotas", "set", "main", "--bytes", "1GiB", "--objects", "2")
	verb(ofPhotos+"OBJECTS 1 OBJECT QUOTA - BYTES 1024 BYTE QUOTA 1536", "quotas", "set", "main", "photos", "--bytes", "1536")
	verb(" photos 1 - 1024 1536 ", "buckets", "list", "main")
	c.want(http.StatusForbidden, http.MethodPut, "/photos/b", make([]byte, 1024))
	verb(ofPhotos+"OBJECTS 1 OBJECT QUOTA - BYTES 1024 BYTE QUOTA -", "quotas", "set", "main", "photos", "--bytes", "none")
	c.want(http.StatusOK, http.MethodPut, "/photos/b", make([]byte, 1024))
	c.want(http.StatusForbidden, http.MethodPut, "/photos/c", nil)
	verb(ofMain+"OBJECTS 2 OBJECT QUOTA 2 BYTES 2048 BYTE QUOTA -", "quotas", "set", "main", "--bytes", "none")
	verb(ofPhotos+"OBJECTS 2 ", "quotas", "show", "main", "photos")
	if out := s.Verb("buckets", "accounts", "list"); !regexp.MustCompile(`main +\S+ +\S+ \S+ +2 +2 +2048 +-`).MatchString(out) {
		t.Errorf("accounts: %s", out)
	}
}

// TestBucketsConfiguredKeys checks access keys from the configuration. The server rejects a removed key but keeps its
// account.
func TestBucketsConfiguredKeys(t *testing.T) {
	t.Parallel()
	data, listen, dir := t.TempDir(), testdb.FreeAddress(t), t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("the-secret-of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := []string{"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=" + listen}
	const phone, laptop = "HOLDFAST_BUCKETS__ACCOUNTS__FAMILY__KEYS__PHONE__", "HOLDFAST_BUCKETS__ACCOUNTS__FAMILY__KEYS__LAPTOP__"
	both := append(vars,
		phone+"ACCESS_KEY=AKIAPHONE", phone+"SECRET_KEY=the-secret-of-a-variable", laptop+"ACCESS_KEY=laptop-1", laptop+"SECRET_KEY_FILE="+secret)
	client := func(id, secret string) s3 {
		return s3{t, &buckets.Client{URL: "http://" + listen, Signer: buckets.Key(id, secret)}}
	}
	one, two := client("AKIAPHONE", "the-secret-of-a-variable"), client("laptop-1", "the-secret-of-a-file")
	for range 2 { // the second start changes nothing
		s := binary.Start(t, data, both...)
		one.want(http.StatusOK, http.MethodPut, "/photos", nil)
		two.want(http.StatusOK, http.MethodPut, "/photos/a", []byte("a"))
		if out := s.Verb("buckets", "accounts", "list"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "family") {
			t.Errorf("accounts: %s", out)
		}
		if out := s.Verb("buckets", "keys", "list", "family"); !strings.Contains(out, "laptop-1") || strings.Contains(out, "secret-of") {
			t.Errorf("keys: %s", out)
		}
		for args, want := range map[string]string{
			"keys revoke laptop-1":                "laptop-1: the access key is in the configuration",
			"accounts delete family":              "family: the account is in the configuration",
			"accounts create family":              "family: an account with this name exists",
			"keys list nobody":                    "nobody: the account does not exist",
			"quotas set family nothing --bytes 1": "nothing: the bucket does not exist",
		} {
			if r := binary.Run(t, s.Env, append([]string{"buckets"}, strings.Fields(args)...)...); r.Status != 1 || !strings.Contains(r.Stderr, want) {
				t.Errorf("%v: %d %s, want %s", args, r.Status, r.Stderr, want)
			}
		}
		s.Kill()
	}
	s := binary.Start(t, data, append(vars, phone+"ACCESS_KEY=AKIAPHONE", phone+"SECRET_KEY=another-secret-of-a-variable")...)
	one.want(http.StatusForbidden, http.MethodGet, "/photos/a", nil)
	two.want(http.StatusForbidden, http.MethodGet, "/photos/a", nil)
	client("AKIAPHONE", "another-secret-of-a-variable").want(http.StatusOK, http.MethodGet, "/photos/a", nil)
	s.Kill()
	s = binary.Start(t, data, vars...)
	one.want(http.StatusForbidden, http.MethodGet, "/photos/a", nil)
	if out := s.Verb("buckets", "buckets", "list", "family"); !strings.Contains(out, "photos") {
		t.Errorf("buckets: %s", out)
	}
	r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data, phone+"ACCESS_KEY=a b", phone+"SECRET_KEY=short", laptop+"ACCESS_KEY=")...), "check")
	for _, want := range []string{"PHONE__ACCESS_KEY", "PHONE__SECRET_KEY", "secret_key", "3 to 128", "16 to 128"} {
		if r.Status != 1 || !strings.Contains(r.Stdout, want) || strings.Contains(r.Stdout, "short") {
			t.Errorf("check, want %s: %d\n%s", want, r.Status, r.Stdout)
		}
	}
}

// TestBucketsFirstStart checks that the first start prints an access key and a working command, but only to a
// terminal.
func TestBucketsFirstStart(t *testing.T) {
	t.Parallel()
	script := binary.Program(t, "script")
	vars := []string{"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0"}

	s := binary.Start(t, t.TempDir(), vars...)
	if out := s.Output.String(); strings.Contains(out, "secret key") || !strings.Contains(out, " buckets env") {
		t.Errorf("without a terminal: %s", out)
	}
	s.Kill()

	program, data := filepath.Join(t.TempDir(), "holdfast"), t.TempDir()
	text := "#!/bin/sh\nexec '" + script + "' --quiet --return --command \"stty -onlcr; exec '" + binary.Path() + "' $*\" /dev/null\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`AWS_ACCESS_KEY_ID=(\S+) AWS_SECRET_ACCESS_KEY=(\S+) AWS_DEFAULT_REGION=us-east-1 aws --endpoint-url (\S+) s3 mb s3://photos`)
	s = binary.LaunchProgram(t, program, data, vars...)
	s.Await("/readyz", http.StatusOK)
	link := s.AwaitOutput(`(?s)^Holdfast [^\n]+ on http.*msg="server is ready".*\n\n  http://\S+/console/sign-in\?link=\w+\n`)
	if link == nil {
		t.Fatalf("the first line is not the name and address, or the link does not follow the last line of the start: %s", s.Output)
	}
	found := line.FindStringSubmatch(s.Output.String())
	if found == nil {
		t.Fatalf("on a terminal: %s", s.Output)
	}
	if strings.Contains(s.Output.String(), "127.0.0.1:0") {
		t.Errorf("the port that the system chose is not printed:\n%s", s.Output)
	}
	if _, page := s.Get("/"); !strings.Contains(page, `"address":"`+found[3]+`"`) {
		t.Errorf("the status does not contain %s: %s", found[3], page)
	}
	c := s3{t, &buckets.Client{URL: found[3], Signer: buckets.Key(found[1], found[2])}}
	if _, err := exec.LookPath("aws"); err == nil {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", found[0]).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", found[0], err, out)
		}
	} else {
		c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	}
	c.want(http.StatusOK, http.MethodPut, "/photos/a", []byte("a"))
	s.Verb("migrate")
	killChild(t, s)
	s = binary.LaunchProgram(t, program, data, vars...)
	t.Cleanup(func() { killChild(t, s) })
	if out := s.Output.String(); strings.Contains(out, found[2]) || !strings.Contains(out, " buckets env") {
		t.Errorf("the second start: %s", out)
	}
}

// killChild kills a server without waiting for it: its parent process waits.
func killChild(t *testing.T, s *binary.Server) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	<-s.Ended
}

// TestBucketsCheck checks that check and the metrics report storage nodes, garbage and access keys.
func TestBucketsCheck(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), testdb.FreeAddress(t)
	vars := []string{"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=" + listen, "HOLDFAST_BUCKETS__INLINE=0", "HOLDFAST_TOKENSERVER__ENABLED=false"}
	s := binary.Start(t, data, vars...)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	c.want(http.StatusOK, http.MethodPut, "/photos/a", []byte("body"))
	c.want(http.StatusOK, http.MethodGet, "/photos/a", nil)
	c.want(http.StatusNotFound, http.MethodGet, "/photos/b", nil)
	c.want(http.StatusNoContent, http.MethodDelete, "/photos/a", nil)
	for _, line := range []string{
		`holdfast_buckets_operations_total{operation="PutObject",result="ok"} 1`,
		`holdfast_buckets_operations_total{operation="GetObject",result="refused"} 1`,
		`holdfast_buckets_node_bodies_total{event="written",node="local:1"} 1`,
		`holdfast_buckets_node_bodies_total{event="read",node="local:1"} 1`,
		`holdfast_buckets_received_bytes_total 4`, `holdfast_buckets_sent_bytes_total 4`,
		`holdfast_buckets_node_up{node="local:1"} 1`,
	} {
		s.AwaitMetric(line)
	}
	check := func(status int, want string, more ...string) {
		t.Helper()
		r := binary.Run(t, append(s.Env, more...), "check")
		if r.Status != status || !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("check: %d, want %s\n%s%s", r.Status, want, r.Stdout, r.Stderr)
		}
	}
	check(0, `(ok|warn) +buckets nodes +local:1, file://\S+/buckets: .* of .* free`)
	check(0, `ok +buckets garbage +1 deleted object with 4 B`)
	check(0, `ok +buckets keys +1 access key\n`)
	check(1, `WRONG +buckets nodes +1 of 1 active nodes accept bodies, and each body has 3 copies`, "HOLDFAST_BUCKETS__COPIES=3")
	check(1, `must be at least`, "HOLDFAST_SERVER__REQUEST_MEMORY=1000000")
	s.Kill()
	if err := os.Rename(data+"/buckets", data+"/away"); err != nil {
		t.Fatal(err)
	}
	check(1, `WRONG +buckets nodes +local:1, .*is the disk mounted`)
}
