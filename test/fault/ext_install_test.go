package fault

import (
	"encoding/json"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
)

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
func newInstall(t *testing.T, n int) *ext.Install {
	t.Helper()
	in := ext.NewInstall(n)
	access := map[string]string{ext.Counter.Namespace: "rw"}
	for _, ns := range ext.Namespaces() {
		access[ns] = "rw"
	}
	in.Token = extToken(t, in.ID, access, time.Now().Add(-365*24*time.Hour), 10*365*24*time.Hour)
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
	text, err := ext.Token{tenant, install, access, now, life}.Sign(bearer.Key{Alg: bearer.HS256, Text: extSecret})
	must(t, err)
	return text
}

// callExt sends a call, expects the status, and decodes the JSON of the answer.
func callExt(h *harness, in *ext.Install, status int, c ext.Call, into any) binary.Answer {
	h.t.Helper()
	a, err := in.Send(h.t.Context(), h.client, h.server.URL, c)
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
