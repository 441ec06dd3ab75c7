package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/test/binary"
)

// TestLogTellsNothing checks that the log never contains secrets, tokens, payloads or record names.
func TestLogTellsNothing(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_LOG__LEVEL=debug", "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)
	c, a := fxa.signIn(t, s, "alice", 1)
	if a.Status != http.StatusOK {
		t.Fatal(a.Body)
	}
	c.Want(t, http.StatusOK, "PUT", "/storage/private/hiddenname", `{"payload":"hiddenpayload"}`)
	c.Want(t, http.StatusOK, "GET", "/storage/private?ids=hiddenname", "")
	c.Want(t, http.StatusBadRequest, "POST", "/storage/private", `[{"id":"hiddenname","payload":"hiddenpayload"`)
	c.Want(t, http.StatusBadRequest, "PUT", "/storage/private/hiddenname", `{"payload":{"x":"hiddenpayload"}}`)
	c.Want(t, http.StatusBadRequest, "GET", "/storage/private?newer=hiddenpayload", "")

	forged := c
	forged.Key = "hiddenkey"
	forged.Want(t, http.StatusUnauthorized, "GET", "/info/collections", "")
	broken := c
	broken.ID = "hiddentoken"
	broken.Want(t, http.StatusUnauthorized, "GET", "/info/collections", "")
	for _, authorization := range []string{"Bearer hiddentoken", "hiddenscheme", "Bearer " + strings.Repeat("hiddentoken.", 3)} {
		req, err := http.NewRequest(http.MethodGet, s.URL+"/1.0/sync/1.5", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		req.Header.Set("X-KeyID", "1-hiddenstate")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}

	e := newExtension(t, s, "7e000000-0000-4000-8000-000000000041", "hiddenspace=rw")
	const records = "/namespaces/hiddenspace/records"
	e.want(http.StatusCreated, "PUT", records+"/hiddenname", `{"value":{"hidden":"hiddenpayload"},"metadata":{"hidden":1}}`)
	e.want(http.StatusOK, "GET", records+"?prefix=hidden", "")
	e.want(http.StatusConflict, "PUT", records+"/hiddenname", `{"value":1,"ifRevision":0}`)
	e.want(http.StatusBadRequest, "PUT", records+"/hiddenname", `{"value":{"hidden":"hiddenpayload`)
	e.want(http.StatusBadRequest, "PUT", records+"/hiddenname", `{"value":1,"hiddenmember":1}`)
	e.want(http.StatusBadRequest, "GET", records+"?hiddenparameter=1", "")
	e.want(http.StatusBadRequest, "POST", records, `{"items":[{"key":"hidden/name","value":1}]}`)
	e.want(http.StatusForbidden, "GET", "/namespaces/hiddenelse/records", "")
	e.register(http.StatusCreated, "hiddenspace", `{"properties":{"hidden":{"const":"hiddenpayload"}}}`)
	e.want(http.StatusOK, "PATCH", "/namespaces/hiddenspace/schemas/1", `{"status":"active"}`)
	e.want(http.StatusBadRequest, "PUT", records+"/hiddenname", `{"value":{"hidden":"hiddenother"}}`)
	stranger := e
	stranger.token = "hiddentoken.hiddentoken.hiddentoken"
	stranger.want(http.StatusUnauthorized, "GET", records+"/hiddenname", "")

	secrets, err := os.ReadFile(filepath.Join(s.Data, "secrets.toml"))
	if err != nil {
		t.Fatal(err)
	}
	hidden := []string{"hidden", c.ID, c.Key, e.token, e.install, tenant}
	for _, m := range regexp.MustCompile(`'([0-9a-f]{64})'`).FindAllStringSubmatch(string(secrets), -1) {
		hidden = append(hidden, m[1])
	}
	if len(hidden) != 11 {
		t.Fatalf("%d secrets in the file", len(hidden)-6)
	}
	log := s.Output.String()
	for _, h := range hidden {
		if i := strings.Index(log, h); i >= 0 {
			t.Errorf("the log contains %q: %s", h, log[max(0, i-200):min(len(log), i+100)])
		}
	}
	if !strings.Contains(log, "status=401") {
		t.Errorf("the log does not report the refusals:\n%s", log)
	}
}

// TestSlowClients checks that many clients that stop sending do not block others.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__MAX_REQUESTS=4", "HOLDFAST_SERVER__QUEUE_WAIT=50ms")
	c := s.Token(1)
	const slow = 20
	body := stalled{began: make(chan struct{}, slow), stop: make(chan struct{})}
	var requests sync.WaitGroup
	defer requests.Wait()
	defer close(body.stop)
	for range slow {
		requests.Go(func() {
			req, err := http.NewRequest(http.MethodPost, c.Endpoint+"/storage/tabs", body)
			if err != nil {
				return
			}
			req.ContentLength = 1000
			req.Header.Set("Content-Type", "application/json")
			if hawk.SignHTTP(req, c.ID, c.Key, time.Now(), "") == nil {
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	for range slow {
		<-body.began
	}
	for range 10 {
		c.Want(t, http.StatusOK, "GET", "/info/collections", "")
	}
	s.AwaitMetric(`holdfast_load 0`)
}

type stalled struct{ began, stop chan struct{} }

func (s stalled) Read([]byte) (int, error) {
	s.began <- struct{}{}
	<-s.stop
	return 0, os.ErrClosed
}
