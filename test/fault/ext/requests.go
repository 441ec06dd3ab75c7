package ext

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func WireExt(h *harness.Instance, in *ext.Install, c ext.Call) []byte {
	h.T.Helper()
	req, err := in.Request(h.T.Context(), h.Server.URL, c)
	harness.Must(h.T, err)
	return h.Wire(req)
}

// WantExt sends a call and fails unless the response has this status.
func WantExt(h *harness.Instance, in *ext.Install, status int, c ext.Call) binary.Answer {
	h.T.Helper()
	a, err := in.Send(h.T.Context(), h.Client, h.Server.URL, c)
	if err != nil || a.Status != status {
		h.T.Errorf("%v: %d %.300s %v, want %d", c, a.Status, a.Body, err, status)
	}
	return a
}

func fillNamespace(h *harness.Instance, in *ext.Install, namespace string, keys, size int) {
	h.T.Helper()
	perBulk := max(1, min(20, 500_000/size))
	value := strings.Repeat("x", size)
	for from := 0; from < keys; from += perBulk {
		var items []any
		for i := from; i < min(keys, from+perBulk); i++ {
			items = append(items, map[string]any{"key": fmt.Sprintf("%06d", i), "value": value})
		}
		WantExt(h, in, http.StatusOK, ext.Call{Method: http.MethodPost, Path: "/namespaces/" + namespace + "/records", Body: ext.JSON(map[string]any{"items": items})})
	}
}

// NewInstall returns an install with a token that does not expire during tests.
func NewInstall(t *testing.T, n int) *ext.Install {
	t.Helper()
	in := ext.NewInstall(n)
	access := map[string]string{ext.Counter.Namespace: "rw"}
	for _, ns := range ext.Namespaces() {
		access[ns] = "rw"
	}
	in.Token = extToken(t, in.ID, access, time.Now().Add(-365*24*time.Hour), 10*365*24*time.Hour)
	return in
}

func extToken(t *testing.T, install string, access map[string]string, now time.Time, life time.Duration) string {
	t.Helper()
	return tenantToken(t, harness.ExtTenant, install, access, now, life)
}

func tenantToken(t *testing.T, tenant, install string, access map[string]string, now time.Time, life time.Duration) string {
	t.Helper()
	text, err := ext.Token{Tenant: tenant, Install: install, Access: access, Begin: now, Life: life}.Sign(bearer.Key{Alg: bearer.HS256, Text: harness.ExtSecret})
	harness.Must(t, err)
	return text
}

func callExt(h *harness.Harness, in *ext.Install, status int, c ext.Call, into any) binary.Answer {
	h.T.Helper()
	a, err := in.Send(h.T.Context(), h.Client, h.Server.URL, c)
	if err != nil || a.Status != status {
		h.T.Fatalf("%v: %d %s %v, want %d", c, a.Status, a.Body, err, status)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(a.Body), into); err != nil {
			h.T.Fatalf("%v: %s: %v", c, a.Body, err)
		}
	}
	return a
}
