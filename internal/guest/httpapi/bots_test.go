//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/web/webtest"
)

// newBotServer returns a server that scores requests. If headers is 0.5 or more, the User-Agent of the test client
// makes it a suspect.
func newBotServer(t testing.TB, headers float64) *server {
	t.Helper()
	p, c := newParts(t), bots.DefaultConfig()
	c.HeadersWeight, c.HistoryWeight, c.Honeypot = headers, 0, "offers/archive"
	p.bots = &c
	return serve(t, p)
}

func (s *server) suspected() (all []string) {
	s.t.Helper()
	for _, e := range s.waiting() {
		if strings.HasSuffix(e.Topic, ".bot_suspected.v1") {
			if e.Class != guest.Audit {
				s.t.Errorf("class %s", e.Class)
			}
			all = append(all, string(e.Payload))
		}
	}
	return all
}

const mintPath = "/handoff/" + tenant + "/" + property

func TestChallenge(t *testing.T) {
	t.Parallel()
	s := newBotServer(t, 0.5)
	b, other := s.begin(), s.begin()
	refused := b.want(403, http.MethodPost, mintPath, stay, `"code":"challenge-required"`, `"bits":8`)
	var p struct {
		Challenge struct {
			Text string
			Bits int
		}
	}
	if err := json.Unmarshal([]byte(refused.body), &p); err != nil {
		t.Fatal(err)
	}
	solution := "X-Challenge-Token: " + bots.SolveChallenge(p.Challenge.Text, p.Challenge.Bits)
	other.check(other.send(http.MethodPost, mintPath, stay, solution), 403, `"code":"challenge-required"`)
	b.check(b.send(http.MethodPost, mintPath, stay, "X-Challenge-Token: "+p.Challenge.Text+"."), 403, `"code":"challenge-required"`)
	b.check(b.send(http.MethodPost, mintPath, stay, solution), 201, `"token"`)
	b.want(201, http.MethodPost, mintPath, stay) // the solution is remembered
	last := s.suspected()
	if len(last) != 7 || !strings.Contains(last[6], `"score":0.5,"verdict":"suspect","action":"none","signals":[{"signal":"headers","value":1,"weight":0.5}],"route":"POST /handoff/{tenantId}/{propertyId}"`) ||
		!strings.Contains(last[0], `{"sessionId":null,"signal":"score",`) || !strings.Contains(last[2], `"action":"challenge"`) {
		t.Errorf("%d events: %v", len(last), last)
	}
}

// TestHoneypot checks that a client that follows an invisible link gets neither a session nor a handoff. Repeated
// requests still get their first answer.
func TestHoneypot(t *testing.T) {
	t.Parallel()
	s := newBotServer(t, 0.3)
	b := s.begin()
	first := b.send(http.MethodPost, mintPath, stay, "Idempotency-Key: first")
	b.check(first, 201)
	// The API description omits this path, because the answer looks like any unknown path.
	r := webtest.Request(t, s.base, http.MethodGet, api+"/offers/archive", nil)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("the honeypot answers %d", resp.StatusCode)
	}
	b.want(403, http.MethodPost, mintPath, stay, `"code":"hard-block"`)
	(&browser{server: s}).want(403, http.MethodPost, "/session", "", `"code":"hard-block"`)
	b.want(200, http.MethodGet, "/session", "")
	if again := b.send(http.MethodPost, mintPath, stay, "Idempotency-Key: first"); again.status != 201 || again.body != first.body {
		t.Errorf("repeated: %d %s", again.status, again.body)
	}
	all := s.suspected()
	if len(all) != 3 || !strings.Contains(all[0], `"verdict":"bot","action":"hard-block"`) || !strings.Contains(all[0], `{"signal":"honeypot","value":1,"weight":0.6}`) {
		t.Errorf("events %v", all)
	}
}

func TestReplaysCount(t *testing.T) {
	t.Parallel()
	s := newBotServer(t, 0.3)
	b, r := s.begin(), newReceiver(t, s)
	m := b.mint()
	body := `{"token":"` + m.Token + `"}`
	r.want(200, "/internal/handoff/"+m.HandoffID+"/consume", body, "", "Idempotency-Key: a")
	for _, key := range []string{"b", "c", "d"} {
		r.want(409, "/internal/handoff/"+m.HandoffID+"/consume", body, "handoff-consumed", "Idempotency-Key: "+key)
	}
	b.want(403, http.MethodPost, mintPath, stay, `"code":"hard-block"`)
}

func TestCadence(t *testing.T) {
	t.Parallel()
	s := newBotServer(t, 0.3)
	b := s.begin()
	for range 300 {
		b.send(http.MethodDelete, "/wishlist/nothing", "")
	}
	a := b.send(http.MethodPost, mintPath, stay)
	// On a slow machine, a minute may have passed.
	if all := s.suspected(); a.status == 403 && (len(all) != 1 || !strings.Contains(all[0], `"signal":"cadence","value":1`) && !strings.Contains(all[0], `"signal":"cadence","value":0.`)) {
		t.Errorf("events %v", all)
	} else if a.status != 403 && a.status != 201 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
