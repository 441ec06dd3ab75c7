package imports

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestSourceMistakes checks that errors that no retry fixes end the import at once.
func TestSourceMistakes(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "")
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for endpoint, want := range map[string]string{
		untrusted.URL: "signed by unknown authority. For a private CA, set AWS_CA_BUNDLE",
		strings.Replace(plain.URL, "http:", "https:", 1): "expected an endpoint with http://",
	} {
		s, err := NewSource(t.Context(), SourceOptions{Endpoint: endpoint, AccessKey: "a", SecretKey: "b", Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := s.buckets(t.Context()); err == nil || !strings.Contains(err.Error(), want) || time.Since(start) > time.Second {
			t.Errorf("%s: after %s: %v, want %q", endpoint, time.Since(start), err, want)
		}
	}
}
