package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/test/binary"
)

func TestAlertsTest(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer webhook.Close()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_ALERTS__URL="+webhook.URL+"/topic")
	if out := s.Verb("alerts", "test"); !strings.Contains(out, "the test alert was sent") {
		t.Errorf("the command prints %s", out)
	}
	if body := <-got; !strings.Contains(body, `"name":"test"`) || !strings.Contains(body, `"status":"test"`) || !strings.Contains(body, `"text":"this is a test`) {
		t.Errorf("sent %s", body)
	}
	webhook.Close()
	if r := binary.Run(t, s.Env, "alerts", "test"); r.Status != 1 || !strings.Contains(r.Stderr, "the alert was not sent: the webhook does not answer") {
		t.Errorf("without a webhook: %d %s%s", r.Status, r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, binary.Environ("HOLDFAST_DATA="+s.Data), "alerts", "test"); r.Status != 1 || !strings.Contains(r.Stderr, "the alert was not sent: alerts.url is not set\n") {
		t.Errorf("without a setting: %d %s%s", r.Status, r.Stdout, r.Stderr)
	}
}
