package imports

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSourceMistakes checks that errors that no retry fixes end the import at once.
func TestSourceMistakes(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "")
	for _, tc := range []struct {
		name, want string
		start      func(*httptest.Server)
	}{
		{"an untrusted certificate", "signed by unknown authority. For a private CA, set AWS_CA_BUNDLE", (*httptest.Server).StartTLS},
		{"no TLS", "expected an endpoint with http://", (*httptest.Server).Start},
	} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		var connections atomic.Int32
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		tc.start(server)
		defer server.Close()
		s, err := NewSource(t.Context(), SourceOptions{Endpoint: "https://" + server.Listener.Addr().String(), AccessKey: "a", SecretKey: "b", Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.buckets(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%s: %d attempts, want 1", tc.name, n)
		}
	}
}
