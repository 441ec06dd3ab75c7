package all_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/broker/nats"
	"holdfast/internal/broker/pubsub"
	"holdfast/internal/engines"
	"holdfast/internal/engines/all"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

// brokers are this release's.
var brokers = engines.List(all.Engines()).Brokers()

func check(t *testing.T, setting, says, wrong string) {
	t.Helper()
	got, err := brokers.Check(t.Context(), setting)
	switch {
	case wrong == "" && (err != nil || got != says):
		t.Errorf("%q, %v; want %q", got, err, says)
	case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
		t.Errorf("%q, %v; want the error %q", got, err, wrong)
	case err != nil && strings.Contains(err.Error(), "secret"):
		t.Errorf("the error has a secret: %v", err)
	}
}

// TestCheckWebhook checks that a status is accepted if a POST may still succeed, and that no event is sent.
func TestCheckWebhook(t *testing.T) {
	t.Parallel()
	for status, wrong := range map[int]string{200: "", 204: "", 401: "", 404: "", 405: "", 501: "", 302: "redirects", 500: "500", 503: "503"} {
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead {
				t.Errorf("got a %s", r.Method)
			}
			w.Header().Set("Location", "/other")
			w.WriteHeader(status)
		}))
		check(t, hook.URL+"/events?key=secret", hook.URL+"/events", wrong)
		hook.Close()
	}
	check(t, "http://user:secret@"+testdb.FreeAddress(t)+"/events", "", "connection refused")
}

func TestCheckSilence(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	suite.Must(t, "Listen", err)
	t.Cleanup(func() { _ = l.Close() })
	for _, setting := range []string{"http://ADDR/events", "pubsub://project/topic?emulator=ADDR", "nats://ADDR/topic"} {
		t.Run(setting[:4], func(t *testing.T) {
			t.Parallel()
			check(t, strings.Replace(setting, "ADDR", l.Addr().String(), 1), "", ": timed out")
		})
	}
}

// TestCheckBrokers checks that Check creates neither topics nor subscriptions.
func TestCheckBrokers(t *testing.T) {
	t.Parallel()
	id := "t" + ident.New()
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		server := testdb.NATS(t)
		address := strings.TrimPrefix(server, "nats://")
		setting := "nats://" + address + "/" + id
		check(t, setting, setting+": the server will create it", "")
		check(t, setting, setting+": the server will create it", "")
		b, err := nats.Open(nats.Options{URL: "nats://" + address})
		suite.Must(t, "Open", err)
		defer b.Close()
		suite.Must(t, "Ensure", b.Ensure(t.Context(), id, "subscribed"))
		check(t, setting, setting, "")
		check(t, setting+"/subscribed", setting+"/subscribed", "")
		check(t, setting+"/other", setting+"/other: the server will create it", "")
		check(t, "nats://user:secret@"+testdb.FreeAddress(t)+"/"+id, "", "no servers available")
	})
	t.Run("pubsub", func(t *testing.T) {
		t.Parallel()
		emulator := testdb.PubSub(t)
		setting := "pubsub://project-" + id + "/" + id
		end := "?emulator=" + emulator
		check(t, setting+end, setting+": the server will create it", "")
		b, err := pubsub.Open(t.Context(), pubsub.Options{Project: "project-" + id, Emulator: emulator})
		suite.Must(t, "Open", err)
		defer b.Close()
		suite.Must(t, "Ensure", b.Ensure(t.Context(), id, "s"+id))
		check(t, setting+end, setting, "")
		check(t, setting+"/s"+id+end, setting+"/s"+id, "")
		check(t, setting+"/other"+end, setting+"/other: the server will create it", "")
	})
}
