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

// install is an install of an extension, whose records several authors share.
type install struct {
	id      string
	token   string
	authors []*author

	mu      sync.Mutex
	newest  int64 // change that anybody has been told of
	counted int64 // what the shared counter has come to

	// As of the last check.
	feed   []change          // all that was changed
	before int               // how much of it before the round
	rows   map[spot]rowState // what that comes to
}

// spot is where a record is in an install.
type spot struct{ namespace, key string }

// extNamespaces are those that all authors of an install write to.
func extNamespaces() []string { return []string{"settings", "log"} }

// counter is a record that all authors of an install count up.
var counter = spot{"counters", "shared"}

// extSecret signs the tokens of installs, extTenant is whose they are.
const (
	extSecret = "of the fault harness's extensions"
	extTenant = "7e4a4e1c-0000-4000-8000-000000000001"
)

// extVars are settings of a server whose installs are known here.
func extVars() []string {
	return []string{"HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + extSecret, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false", "HOLDFAST_EXTSTORAGE__TOKEN_MAX_LIFETIME=87600h"}
}

// newInstall has a token that no clock of these tests outlives.
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

// extToken is a token of an install.
func extToken(t *testing.T, install string, access map[string]string, now time.Time, life time.Duration) string {
	t.Helper()
	return tenantToken(t, extTenant, install, access, now, life)
}

// tenantToken is a token of an install of any tenant.
func tenantToken(t *testing.T, tenant, install string, access map[string]string, now time.Time, life time.Duration) string {
	t.Helper()
	keys, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{Alg: bearer.HS256, Text: extSecret}}})
	must(t, err)
	token, err := keys.Sign(map[string]any{"tenant_id": tenant, "install_id": install, "ns": access}, now, life)
	must(t, err)
	return token
}

// call is a request about an install; the path begins behind it.
type call struct {
	method, path, body string
	header             map[string]string
}

func (c call) String() string { return c.method + " " + c.path }

// request makes the request of a call to a server under an address.
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

// send makes a call and reads the answer.
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

// at is the path of a record.
func (s spot) at() string {
	return "/namespaces/" + s.namespace + "/records/" + url.PathEscape(s.key)
}

// knows is the newest change that anybody has been told of.
func (in *install) knows() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.newest
}

// told records that somebody has been told of a change.
func (in *install) told(seq int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.newest = max(in.newest, seq)
}

// count records that the shared counter went up.
func (in *install) count(by int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counted += by
}

// call makes a call that is answered with the status, and reads its JSON.
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

// seqOf is the change that an entity tag tells of.
func seqOf(etag string) (int64, error) {
	text, err := strconv.Unquote(etag)
	if err != nil {
		return 0, fmt.Errorf("the tag %s: %w", etag, err)
	}
	return strconv.ParseInt(text, 10, 64)
}

func installID(n int) string { return fmt.Sprintf("15a11000-0000-4000-8000-%012d", n) }
