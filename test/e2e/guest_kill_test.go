package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// F1: a server that is killed while it commits and publishes loses no event of a mutation
// that it has acknowledged, and publishes each wish's events in order.
func TestGuestEventsAfterKills(t *testing.T) {
	t.Parallel()
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv("FAULT_ROUNDS")); err == nil {
		rounds = n
	}
	for name, vars := range map[string]func(t *testing.T) []string{
		"SQLite": func(*testing.T) []string { return nil },
		"PostgreSQL": func(t *testing.T) []string {
			return []string{"HOLDFAST_GUEST__DATABASE_URL=" + testdb.PostgresDatabase(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const secret = "the secret of the webhook of this test"
			hook := newHook(t, secret)
			data := t.TempDir()
			vars := append(vars(t), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__EVENTS="+hook.URL, "HOLDFAST_GUEST__EVENT_SECRET="+secret,
				"HOLDFAST_GUEST__RATE_LIMITS=false")
			if r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "migrate"); r.Status != 0 {
				t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
			}
			acknowledged := map[string]bool{} // properties of wishes
			for round := range rounds {
				s := binary.Start(t, data, vars...)
				v := &visitor{t: t}
				v.send(s, http.MethodPost, "/session", "", "")
				for n := range 20 {
					property := fmt.Sprintf("%08d-%04d-4333-8444-555555555555", round, n)
					body := `{"tenantId":"11111111-2222-4333-8444-555555555555","propertyId":"` + property + `","source":"map"}`
					if resp, text := v.send(s, http.MethodPost, "/wishlist", body, property); resp.StatusCode != http.StatusCreated {
						t.Fatal(resp.Status, text)
					}
					acknowledged[property] = true
				}
				// At different points of the relay's pause of 100 ms and of its batch.
				time.Sleep(time.Duration(round*37%150) * time.Millisecond)
				s.Kill()
			}
			binary.Start(t, data, vars...)
			ids := awaitEvents(t, hook, acknowledged)
			if len(ids) != rounds*20 {
				t.Errorf("%d events, want %d", len(ids), rounds*20)
			}
		})
	}
}

// awaitEvents receives until each property had an event. It returns the properties by the IDs of
// their events, and reports events of a session out of order.
func awaitEvents(t *testing.T, hook *hook, properties map[string]bool) map[any]string {
	t.Helper()
	ids := map[any]string{}      // the property of an event, by its ID
	last := map[string]float64{} // the sequence of a session
	for len(properties) > 0 {
		e := hook.next(t)
		wish, _ := e["data"].(map[string]any)
		property, _ := wish["propertyId"].(string)
		if was, again := ids[e["id"]]; again && was != property {
			t.Errorf("the ID %v is that of two events", e["id"])
		} else if !again {
			ids[e["id"]] = property
			session, _ := e["partitionkey"].(string)
			text, _ := e["sequence"].(string)
			sequence, err := strconv.ParseFloat(text, 64)
			if err != nil || sequence <= last[session] {
				t.Errorf("%s: %v after %v, %v", session, sequence, last[session], err)
			}
			last[session] = sequence
		}
		delete(properties, property)
	}
	return ids
}
