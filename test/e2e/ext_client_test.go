package e2e

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/workload"
	"holdfast/test/binary"
)

const tenant = "7e000000-0000-4000-8000-000000000001"

type extension struct {
	t              *testing.T
	server         *binary.Server
	install, token string
}

func newExtension(t *testing.T, s *binary.Server, install string, namespaces ...string) extension {
	t.Helper()
	args := []string{"ext", "tokens", "create", "--tenant", tenant, "--install", install}
	for _, ns := range namespaces {
		args = append(args, "--namespace", ns)
	}
	return extension{t, s, install, strings.TrimSpace(s.Verb(args...))}
}

func (e extension) at(s *binary.Server) extension {
	e.server = s
	return e
}

func (e extension) flags() []string { return []string{"--tenant", tenant, "--install", e.install} }

func (e extension) verb(args ...string) string {
	e.t.Helper()
	return e.server.Verb(append(args, e.flags()...)...)
}

func (e extension) send(method, path, body string) (binary.Answer, error) {
	return ask(method, e.server.URL+"/ext/v1/installs/"+e.install+path, e.token, body)
}

func (e extension) want(status int, method, path, body string) binary.Answer {
	e.t.Helper()
	a, err := e.send(method, path, body)
	if err != nil || a.Status != status {
		e.t.Fatalf("%s %s: %d %s %v, want %d", method, path, a.Status, a.Body, err, status)
	}
	return a
}

// register registers a schema, and retries if the schema trial timed out on a busy machine.
func (e extension) register(status int, namespace, schema string) (a binary.Answer) {
	e.t.Helper()
	path, body := "/namespaces/"+namespace+"/schemas", `{"schema":`+schema+`}`
	for range 10 {
		var err error
		if a, err = e.send("POST", path, body); err != nil || a.Status != http.StatusServiceUnavailable {
			break
		}
	}
	if a.Status != status {
		e.t.Fatalf("schema: %d %s, want %d", a.Status, a.Body, status)
	}
	return a
}

func ask(method, url, token, body string) (binary.Answer, error) {
	headers := []string{"Authorization: Bearer " + token}
	if body != "" {
		headers = append(headers, workload.JSON)
	}
	return workload.Send(context.Background(), nil, method, url, body, headers...)
}

func wantAsked(t *testing.T, status int, method, url, token, body string) binary.Answer {
	t.Helper()
	a, err := ask(method, url, token, body)
	if err != nil || a.Status != status {
		t.Fatalf("%s %s: %d %s %v, want %d", method, url, a.Status, a.Body, err, status)
	}
	return a
}

// wantRefused checks that a revoked install is refused within a second.
func (e extension) wantRefused(revoked time.Time) {
	e.t.Helper()
	for {
		began := time.Now()
		a, err := e.send("GET", "/usage", "")
		switch {
		case err != nil:
			e.t.Fatal(err)
		case a.Status == http.StatusForbidden:
			return
		case began.Sub(revoked) > time.Second:
			e.t.Fatalf("%v after the revocation: %d %s", began.Sub(revoked), a.Status, a.Body)
		}
		time.Sleep(20 * time.Millisecond) // clients get no other signal
	}
}

func (e extension) poll(since string) <-chan string {
	answered := make(chan string, 1)
	go func() {
		a, err := e.send("GET", "/changes?wait=60&since="+since, "")
		if err != nil {
			a.Body = err.Error()
		}
		answered <- a.Body
	}()
	return answered
}

func (e extension) wantChange(answered <-chan string, key string) {
	e.t.Helper()
	select {
	case body := <-answered:
		if !strings.Contains(body, `"key":"`+key+`"`) {
			e.t.Errorf("the poll returned %s, want a change of %s", body, key)
		}
	case <-time.After(45 * time.Second): // shorter than the poll's timeout
		e.t.Errorf("no change of %s after 45 s", key)
	}
}

func (e extension) audited() (lines []string) {
	e.t.Helper()
	for line := range strings.Lines(readFile(e.t, e.server.Data+"/extstorage-audit.jsonl")) {
		if strings.Contains(line, `"stream":"`+e.install+`"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

func secretOf(t *testing.T, s *binary.Server, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` = '([0-9a-f]{64})'$`).FindStringSubmatch(readFile(t, s.Data+"/secrets.toml"))
	if found == nil {
		t.Fatalf("no secret %s", name)
	}
	return found[1]
}
