// Package schemathesis runs Schemathesis on the built binary: it generates valid and invalid requests from the OpenAPI
// descriptions of extension storage, buckets, guests and operators, and checks the answers. For each, a TOML file and a
// Python file contain rules that the description cannot express.
//
// A request costs 6 ms of processor time in Schemathesis, and with random data up to 40 ms, because Hypothesis builds
// strategies for large schemas. So the subtests "valid" always send the same requests: the description's examples, and
// values at the limits of each parameter and member. The subtests "invalid", with values beyond the limits, and "random",
// with random data and links, run in make soak.
package schemathesis

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/openapitest"
	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

const (
	tenant  = "11111111-2222-4333-8444-555555555555"
	install = "3f1d5a52-6a0c-4c39-9d6f-0f3c2b1f6f10"
)

// most is the timeout; on two idle cores "valid" takes a quarter of a minute, "random" a few.
const most = 9 * time.Minute

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

func TestDescription(t *testing.T) {
	t.Parallel()
	st := program(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true", "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false")
	token := binary.Run(t, s.Env, "ext", "tokens", "create", "--tenant", tenant, "--install", install, "--namespace", "records=rw", "--namespace", "schemas=rw")
	if token.Status != 0 {
		t.Fatalf("no token: %s", token.Stderr)
	}
	bearer := strings.TrimSpace(token.Stdout)
	schemas := s.URL + "/ext/v1/installs/" + install + "/namespaces/records/schemas"
	send(t, bearer, http.MethodPost, schemas, `{"schema":true}`)
	send(t, bearer, http.MethodPatch, schemas+"/1", `{"status":"active"}`)
	check(t, st, "../../internal/extstorage/httpapi/openapi.json", "schemathesis.toml", s.URL, "TOKEN="+bearer, "INSTALL="+install)
}

func TestDescriptionOfBuckets(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "the tests of the client and of the listener check the same answers against the description")
	st := program(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t))
	bearer := strings.TrimSpace(s.Verb("buckets", "tokens", "create", "main", "--gc"))
	const bucket = "/buckets/v1/accounts/main/buckets/photos"
	send(t, bearer, http.MethodPut, s.URL+bucket, "")
	send(t, bearer, http.MethodPut, s.URL+bucket+"/objects/kept", strings.Repeat("kept ", 10000)) // prevents deleting the bucket
	check(t, st, "../../internal/buckets/httpapi/openapi.json", "buckets.toml", s.URL, "TOKEN="+bearer)
}

// The public URL is https, so the cookie has the described name.
func TestDescriptionOfGuests(t *testing.T) {
	t.Parallel()
	st := program(t)
	admin := strings.Repeat("a", 32)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0",
		"HOLDFAST_GUEST__HANDOFF_URL=https://book.example/{tenantId}#{token}", "HOLDFAST_SERVER__PUBLIC_URL=https://shop.example", "HOLDFAST_SERVER__ADMIN_TOKEN="+admin)
	cookie := send(t, "", http.MethodPost, s.URL+"/bff/consumer/v1/session", "").Get("Set-Cookie")
	cookie, _, _ = strings.Cut(strings.TrimPrefix(cookie, "__Host-gms="), ";")
	check(t, st, "../../internal/guest/httpapi/openapi.json", "guest.toml", s.URL, "COOKIE="+cookie,
		"TOKEN="+strings.TrimSpace(s.Verb("guest", "tokens", "create", "--service", "booking")), "EVENTS="+strings.TrimSpace(s.Verb("guest", "tokens", "create", "--service", "tenants", "--events")),
		"INTERNAL="+s.Internal(), "ADMIN="+s.Admin, "ADMIN_TOKEN="+admin)
}

// TestDescriptionOfOperators tests operator requests for Firefox Sync and the server itself.
func TestDescriptionOfOperators(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "the requests for operators of guests go through the same code, and the services compare their answers with the descriptions")
	st := program(t)
	admin := strings.Repeat("a", 32)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__ADMIN_TOKEN="+admin)
	const account = "0123456789abcdef0123456789abcdef"
	send(t, admin, http.MethodPost, s.Admin+"/tokenserver/access/"+account+"/allow", `{"note":"my sister"}`)
	for _, folder := range []string{"tokenserver/httpapi", "syncstorage/httpapi", "app"} {
		t.Run(folder, func(t *testing.T) {
			check(t, st, "../../internal/"+folder+"/openapi-admin.json", "admin.toml", s.Admin, "ADMIN_TOKEN="+admin)
		})
	}
}

// TestDescriptionOfStores tests operator requests for buckets and extension storage. The account, bucket and install in
// the descriptions' examples exist.
func TestDescriptionOfStores(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "the requests for operators of guests go through the same code, and the services compare their answers with the descriptions")
	st := program(t)
	admin := strings.Repeat("a", 32)
	for _, service := range []string{"buckets", "extstorage"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__ADMIN_TOKEN="+admin, "HOLDFAST_EXTSTORAGE__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t))
			if service == "buckets" {
				bearer := strings.TrimSpace(s.Verb("buckets", "tokens", "create", "main"))
				send(t, bearer, http.MethodPut, s.URL+"/buckets/v1/accounts/main/buckets/photos", "")
			} else {
				s.Verb("ext", "installs", "set", "--tenant", "7e000000-0000-4000-8000-000000000001", "--install", "7e000000-0000-4000-8000-000000000011")
			}
			check(t, st, "../../internal/"+service+"/httpapi/openapi-admin.json", "admin.toml", s.Admin, "ADMIN_TOKEN="+admin, "NODES="+t.TempDir())
		})
	}
}

func check(t *testing.T, st, description, config, url string, env ...string) {
	t.Helper()
	text, err := os.ReadFile(description)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapitest.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) func(t *testing.T) {
		return func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			cmd := exec.CommandContext(ctx, st, append([]string{"--config-file", config, "run", description, "--url", url}, args...)...)
			cmd.Env = append(append(os.Environ(), env...), "NO_COLOR=1", "PYTHONDONTWRITEBYTECODE=1", "HYPOTHESIS_STORAGE_DIRECTORY="+t.TempDir())
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if all := fmt.Sprintf("Tested: %d\n", len(d.Routes())); !strings.Contains(string(out), all) {
				t.Errorf("not every operation was tested:\n%s", out)
			}
			t.Logf("%s", out[max(0, len(out)-400):])
		}
	}
	slow := func(run func(t *testing.T)) func(t *testing.T) {
		return func(t *testing.T) {
			testdb.SoakOnly(t, "it takes minutes")
			run(t)
		}
	}
	t.Run("valid", run("--phases", "examples,coverage", "--generation-deterministic", "--mode", "positive"))
	t.Run("invalid", slow(run("--phases", "coverage", "--generation-deterministic", "--mode", "negative")))
	t.Run("random", slow(run("--phases", "fuzzing,stateful", "--max-examples", "30")))
}

func send(t *testing.T, bearer, method, url, body string) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		answer, err := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: %d %s, %v", method, url, resp.StatusCode, answer, err)
	}
	return resp.Header
}

// program returns the path of Schemathesis and installs it in bin/ the first time. On a failure it skips the test, or
// fails it if TEST_REQUIRE names it.
func program(t *testing.T) string {
	t.Helper()
	making.Lock()
	st, err := makeProgram(t)
	making.Unlock()
	if err == nil {
		return st
	}
	binary.Absentf(t, "schemathesis", "no schemathesis; it needs python3-venv and pip's registry: %v", err)
	return ""
}

var making sync.Mutex

func makeProgram(t *testing.T) (string, error) {
	t.Helper()
	pinned, err := os.ReadFile("requirements.txt")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pinned)
	dir, err := filepath.Abs(fmt.Sprintf("../../bin/schemathesis-%x", sum[:4]))
	if err != nil {
		return "", err
	}
	st, whole := filepath.Join(dir, "bin", "st"), filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return st, nil
	}
	for _, command := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--no-compile", "--disable-pip-version-check", "--only-binary", ":all:", "--requirement", "requirements.txt"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			return "", fmt.Errorf("%v: %w\n%s", command, err, out)
		}
	}
	return st, os.WriteFile(whole, nil, 0o600)
}
