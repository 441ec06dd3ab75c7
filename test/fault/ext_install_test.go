package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/test/binary"
)

// install is an install of an extension, whose records several writers share.
type install struct {
	id         string
	token      string
	extWriters []*extWriter

	mu      sync.Mutex
	newest  int64 // newest change that any client has seen
	counted int64 // sum of the acknowledged increments of the shared counter

	// State at the last check.
	feed   []change          // all changes
	before int               // number of changes before the round
	rows   map[spot]rowState // the result of the changes
}

// spot is the place of a record in an install.
type spot struct{ namespace, key string }

// extNamespaces are the namespaces that all writers of an install use.
func extNamespaces() []string { return []string{"settings", "log"} }

// counter is a record that all writers of an install increment.
var counter = spot{"counters", "shared"}

// extSecret signs the tokens of installs; extTenant owns them.
const (
	extSecret = "of the fault harness's extensions"
	extTenant = "7e4a4e1c-0000-4000-8000-000000000001"
)

// extVars are settings of a server that accepts these tokens.
func extVars() []string {
	return []string{"HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + extSecret, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false", "HOLDFAST_EXTSTORAGE__TOKEN_MAX_LIFETIME=87600h"}
}

// newInstall returns an install with a token that does not expire during these tests.
func newInstall(t *testing.T, n int) *install {
	t.Helper()
	in := &install{id: installID(n), rows: map[spot]rowState{}}
	access := map[string]string{counter.namespace: "rw"}
	for _, ns := range extNamespaces() {
		access[ns] = "rw"
	}
	in.token = extToken(t, in.id, access, time.Now().Add(-365*24*time.Hour), 10*365*24*time.Hour)
	return in
}

// extToken returns a token of an install.
func extToken(t *testing.T, install string, access map[string]string, now time.Time, life time.Duration) string {
	t.Helper()
	return tenantToken(t, extTenant, install, access, now, life)
}

// tenantToken returns a token of an install of any tenant.
func tenantToken(t *testing.T, tenant, install string, access map[string]string, now time.Time, life time.Duration) string {
	t.Helper()
	keys, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{Alg: bearer.HS256, Text: extSecret}}})
	must(t, err)
	token, err := keys.Sign(map[string]any{"tenant_id": tenant, "install_id": install, "ns": access}, now, life)
	must(t, err)
	return token
}

// call is a request to an install; the path is relative to it.
type call struct {
	method, path, body string
	header             map[string]string
}

func (c call) String() string { return c.method + " " + c.path }

// request returns the HTTP request of a call to a server.
func (in *install) request(ctx context.Context, base string, c call) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, base+"/ext/v1/installs/"+in.id+c.path, strings.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+in.token)
	switch {
	case c.method == http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case c.path == "/import":
		req.Header.Set("Content-Type", "application/x-ndjson")
	case c.body != "":
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// send sends a call and reads the answer.
func (in *install) send(ctx context.Context, client *http.Client, base string, c call) (binary.Answer, error) {
	req, err := in.request(ctx, base, c)
	if err != nil {
		return binary.Answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return binary.Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return binary.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}, err
}

// at returns the path of a record.
func (s spot) at() string {
	return "/namespaces/" + s.namespace + "/records/" + url.PathEscape(s.key)
}

// knows returns the newest change that any client has seen.
func (in *install) knows() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.newest
}

// noteChange records that a client has seen a change.
func (in *install) noteChange(seq int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.newest = max(in.newest, seq)
}

// count records an acknowledged increment of the shared counter.
func (in *install) count(by int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counted += by
}

// call sends a call, expects the status, and decodes the JSON of the answer.
func (h *harness) call(in *install, status int, c call, into any) binary.Answer {
	h.t.Helper()
	a, err := in.send(h.t.Context(), h.client, h.server.URL, c)
	if err != nil || a.Status != status {
		h.t.Fatalf("%v: %d %s %v, want %d", c, a.Status, a.Body, err, status)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(a.Body), into); err != nil {
			h.t.Fatalf("%v: %s: %v", c, a.Body, err)
		}
	}
	return a
}

// seqOf returns the change in an entity tag.
func seqOf(etag string) (int64, error) {
	text, err := strconv.Unquote(etag)
	if err != nil {
		return 0, fmt.Errorf("the tag %s: %w", etag, err)
	}
	return strconv.ParseInt(text, 10, 64)
}

func installID(n int) string { return fmt.Sprintf("15a11000-0000-4000-8000-%012d", n) }
