package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/test/binary"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExtensionStorage covers token commands, schema trials in a separate process, internal and admin listeners, and
// commands while the server runs. The server applies their changes within a second.
func TestExtensionStorage(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0", "HOLDFAST_EXTSTORAGE__SWEEP_INTERVAL=0")
	if out := s.Output.String(); !strings.Contains(out, binary.Path()+" ext tokens create --tenant") || !strings.Contains(out, s.URL+"/ext/v1/installs/") {
		t.Errorf("the server does not print how to create a token:\n%s", out)
	}
	e := newExtension(t, s, "7e000000-0000-4000-8000-000000000011", "settings=rw", "log=r")
	e.want(http.StatusCreated, "PUT", "/namespaces/settings/records/theme", `{"value":{"dark":true}}`)
	if a := e.want(http.StatusOK, "GET", "/namespaces/settings/records/theme", ""); !strings.Contains(a.Body, `"value":{"dark":true}`) {
		t.Errorf("got %s", a.Body)
	}
	e.want(http.StatusForbidden, "PUT", "/namespaces/log/records/x", `{"value":1}`)
	if status, body := s.Get("/ext/openapi.json"); status != http.StatusOK || !strings.Contains(body, `"openapi"`) {
		t.Errorf("the description: %d", status)
	}

	t.Run("schema", func(t *testing.T) { schemaLife(t, e) })
	t.Run("services", func(t *testing.T) { services(t, e) })
	t.Run("operators", func(t *testing.T) { operators(t, e) })
	t.Run("beside", func(t *testing.T) { beside(t, e) })
}

// schemaLife registers a schema, which the server tries in a separate process, and activates it.
func schemaLife(t *testing.T, e extension) {
	e.t = t
	e.register(http.StatusCreated, "settings", `{"type":"object","required":["dark"]}`)
	e.want(http.StatusOK, "PATCH", "/namespaces/settings/schemas/1", `{"status":"active"}`)
	a := e.want(http.StatusBadRequest, "PUT", "/namespaces/settings/records/theme", `{"value":{}}`)
	if !strings.Contains(a.Body, `"VALIDATION_FAILED"`) {
		t.Errorf("refused with %s", a.Body)
	}
	// Each nesting level doubles the work, which only a trial detects.
	doubling := `{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#"}}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`
	a = e.register(http.StatusBadRequest, "settings", doubling)
	if !strings.Contains(a.Body, "too many steps") {
		t.Errorf("refused with %s", a.Body)
	}
}

// services checks that services may use any install of their tenant, but only on the internal listener.
func services(t *testing.T, e extension) {
	e.t = t
	url := e.server.Internal() + "/internal/ext-storage/install/" + e.install
	service := strings.TrimSpace(e.server.Verb("ext", "service-tokens", "create", "--tenant", tenant, "--service", "runner", "--ttl", "1m"))
	get := `{"operation":"get","namespace":"settings","key":"theme"}`
	if a := wantAsked(t, http.StatusOK, "POST", url, service, get); !strings.Contains(a.Body, `"dark":true`) {
		t.Errorf("got %s", a.Body)
	}
	wantAsked(t, http.StatusUnauthorized, "POST", url, e.token, get)
	wantAsked(t, http.StatusUnauthorized, "GET", e.server.URL+"/ext/v1/installs/"+e.install+"/usage", service, "")
	wantAsked(t, http.StatusNotFound, "GET", e.server.Internal()+"/ext/openapi.json", service, "")
}

func operators(t *testing.T, e extension) {
	e.t, e.install = t, "7e000000-0000-4000-8000-000000000012"
	e = newExtension(t, e.server, e.install, "settings=rw")
	url := e.server.Admin + "/ext/installs/" + tenant + "/" + e.install
	admin := secretOf(t, e.server, "admin_token")
	wantAsked(t, http.StatusUnauthorized, "GET", url, e.token, "")
	wantAsked(t, http.StatusNotFound, "GET", url, admin, "")
	wantAsked(t, http.StatusOK, "POST", url+"/set", admin, `{"namespace":["settings=r"],"bytes":1000}`)
	e.want(http.StatusForbidden, "PUT", "/namespaces/settings/records/x", `{"value":1}`)
	if out := e.verb("ext", "installs", "show"); !strings.Contains(out, "1000 bytes") || !strings.Contains(out, "settings=r\n") {
		t.Errorf("show:\n%s", out)
	}
	wantAsked(t, http.StatusOK, "POST", url+"/revoke", admin, "")
	e.want(http.StatusForbidden, "GET", "/usage", "")
	if a := wantAsked(t, http.StatusOK, "GET", url, admin, ""); strings.Contains(a.Body, `"revokedAt":null`) {
		t.Errorf("revoked: %s", a.Body)
	}
}

func beside(t *testing.T, e extension) {
	s := e.server
	e = newExtension(t, s, "7e000000-0000-4000-8000-000000000013", "a=rw", "b=rw")
	e.t = t
	for i := range 30 {
		e.want(http.StatusCreated, "PUT", fmt.Sprintf("/namespaces/a/records/k%02d", i), fmt.Sprintf(`{"value":%d,"metadata":{"n":1}}`, i))
	}
	if out := e.verb("ext", "installs", "show"); !regexp.MustCompile(`\na  +30  `).MatchString(out) {
		t.Errorf("usage:\n%s", out)
	}
	e.verb("ext", "usage", "audit")
	if out := s.Verb("ext", "usage", "list", "--tenant", tenant); !strings.Contains(out, "\n"+tenant+"  "+e.install+"  ") {
		t.Errorf("usage of all:\n%s", out)
	}
	if out := s.Verb("ext", "usage", "audit"); !strings.HasSuffix(out, ", with differences: 0\n") {
		t.Errorf("audit of all:\n%s", out)
	}

	// The command and the API import the same export: the records must be equal.
	file := filepath.Join(t.TempDir(), "install.ndjson")
	e.verb("ext", "installs", "export", "-o", file)
	if a := e.want(http.StatusOK, "GET", "/export", ""); a.Body != readFile(t, file) {
		t.Errorf("export by the API:\n%s\nby the command:\n%s", a.Body, readFile(t, file))
	}
	other := newExtension(t, s, "7e000000-0000-4000-8000-000000000014", "a=rw")
	polled := other.poll("0")
	if out := other.verb("ext", "installs", "import", file); out != "records: 30, written: 30, unchanged: 0, expired: 0; schemas: 0\n" {
		t.Errorf("import: %s", out)
	}
	other.wantChange(polled, "k00")
	if out := other.verb("ext", "installs", "import", file); out != "records: 30, written: 0, unchanged: 30, expired: 0; schemas: 0\n" {
		t.Errorf("import again: %s", out)
	}
	bad := filepath.Join(t.TempDir(), "bad.ndjson")
	if err := os.WriteFile(bad, []byte(`{"namespace":"a","key":"new","value":1}`+"\n"+`{"namespace":"a","key":"x/y","value":1}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := binary.Run(t, s.Env, append([]string{"ext", "installs", "import", bad}, other.flags()...)...); r.Status != 1 || !strings.Contains(r.Stderr, "line 2: /key") {
		t.Errorf("invalid line: %d %s%s", r.Status, r.Stdout, r.Stderr)
	}
	cut := filepath.Join(t.TempDir(), "cut.ndjson")
	if err := os.WriteFile(cut, []byte(strings.Join(strings.SplitAfter(readFile(t, file), "\n")[:10], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := binary.Run(t, s.Env, append([]string{"ext", "installs", "import", cut}, other.flags()...)...); r.Status != 1 ||
		r.Stdout != "records: 9, written: 0, unchanged: 9, expired: 0; schemas: 0\n" || !strings.Contains(r.Stderr, "received 9 records of 30 and no last line with complete") {
		t.Errorf("truncated file: %d %s%s", r.Status, r.Stdout, r.Stderr)
	}
	if out := s.Verb("sweep"); !strings.Contains(out, "expired extension records: 0\nold extension changes: 0\nold extension responses: 0\nrevocations of expired extension tokens: 0\n") {
		t.Errorf("sweep:\n%s", out)
	}
	other.verb("ext", "installs", "revoke", "--yes")
	other.wantRefused(time.Now())
	if r := binary.Run(t, s.Env, append([]string{"ext", "installs", "import", file}, other.flags()...)...); r.Status != 1 || !strings.Contains(r.Stderr, "revoked") {
		t.Errorf("import into a revoked install: %d %s%s", r.Status, r.Stdout, r.Stderr)
	}
	other.verb("ext", "installs", "set", "--restore")
	if out := other.verb("ext", "installs", "export"); strings.Count(out, "\n") != 32 {
		t.Errorf("export:\n%s", out)
	}
}

func extensionsAtTwo(t *testing.T, s, other *binary.Server) {
	t.Helper()
	e := newExtension(t, s, "7e000000-0000-4000-8000-000000000031", "a=rw")
	polled := e.at(other).poll("0")
	e.want(http.StatusCreated, "PUT", "/namespaces/a/records/first", `{"value":{"n":1},"metadata":{"kind":"x"}}`)
	e.wantChange(polled, "first")

	const writers, writes = 4, 10
	var wg sync.WaitGroup
	for w := range writers {
		client := e.at([]*binary.Server{s, other}[w%2])
		wg.Go(func() {
			for range writes {
				a, err := client.send("POST", "/namespaces/a/records/first/increment", `{"pointer":"/n","by":1}`)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("increment: %d %s %v", a.Status, a.Body, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if a := e.want(http.StatusOK, "GET", "/namespaces/a/records/first", ""); !strings.Contains(a.Body, `"value":{"n":41}`) || !strings.Contains(a.Body, `"revision":41`) {
		t.Errorf("after %d increments: %s", writers*writes, a.Body)
	}
	e.verb("ext", "usage", "audit")
	// Both servers run a relay, but each event is published once.
	s.AwaitAnswer("/livez", func(int, string) bool { return len(e.audited()) >= 1+writers*writes })
	if n := len(e.audited()); n != 1+writers*writes {
		t.Errorf("%d events of %d writes", n, 1+writers*writes)
	}

	url := s.Admin + "/ext/installs/" + tenant + "/" + e.install + "/revoke"
	wantAsked(t, http.StatusOK, "POST", url, secretOf(t, s, "admin_token"), "")
	e.at(other).wantRefused(time.Now())
}

// TestAuditAfterACrash checks that the audit contains every write before a kill.
func TestAuditAfterACrash(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	e := newExtension(t, s, "7e000000-0000-4000-8000-000000000021", "a=rw")
	const writes = 40
	for i := range writes - 1 {
		e.want(http.StatusCreated, "PUT", fmt.Sprintf("/namespaces/a/records/k%d", i), `{"value":"x"}`)
	}
	e.want(http.StatusNoContent, "DELETE", "/namespaces/a/records/k0", "")
	s.Kill()
	before := readFile(t, s.Data+"/extstorage-audit.jsonl")

	again := binary.Start(t, s.Data)
	again.AwaitAnswer("/metrics", func(int, string) bool {
		return strings.Contains(readFile(t, s.Data+"/extstorage-audit.jsonl"), `"operation":"delete"`)
	})
	text := readFile(t, s.Data+"/extstorage-audit.jsonl")
	if !strings.HasPrefix(text, before) {
		t.Error("the earlier file is not kept")
	}
	lines := map[int64]string{}
	for line := range strings.Lines(text) {
		var event struct {
			Owner, Stream string
			Seq           int64
			Payload       struct {
				Operation, Key, Caller string
				Revision               int64
			}
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		// After the crash, the server may publish an event again, unchanged.
		if twice := lines[event.Seq]; twice != "" && twice != line {
			t.Errorf("event %d: %sand %s", event.Seq, twice, line)
		}
		lines[event.Seq] = line
		if event.Owner != tenant || event.Stream != e.install || event.Payload.Caller != "token" || event.Payload.Revision != 1 {
			t.Errorf("unexpected event: %s", line)
		}
	}
	for seq := range int64(writes) {
		if lines[seq+1] == "" {
			t.Errorf("write %d is not in the audit", seq+1)
		}
	}
	if len(lines) != writes {
		t.Errorf("%d events of %d writes", len(lines), writes)
	}

	// The killed server's lease may delay these events until it expires.
	e.at(again).want(http.StatusCreated, "PUT", "/namespaces/a/records/resumed", `{"value":"x"}`)
	again.AwaitAnswer("/metrics", func(int, string) bool {
		return strings.Contains(readFile(t, s.Data+"/extstorage-audit.jsonl"), `"key":"a/resumed"`)
	})

	// A normal stop publishes all events first.
	e.at(again).want(http.StatusCreated, "PUT", "/namespaces/a/records/last", `{"value":"x"}`)
	again.Signal(syscall.SIGTERM)
	<-again.Ended
	if !strings.Contains(readFile(t, s.Data+"/extstorage-audit.jsonl"), `"key":"a/last"`) {
		t.Error("the last write is not in the audit")
	}
}
