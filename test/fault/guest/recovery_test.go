package guest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestGuestPointInTimeRecovery recovers PostgreSQL to an earlier time. The recovery restores the changes up to that
// time, publishes their events, and voids all earlier handoffs, even those consumed after that time.
func TestGuestPointInTimeRecovery(t *testing.T) {
	t.Parallel()
	db := testdb.ArchivingPostgres(t)
	hook := newGuestHook(t)
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_GUEST__DATABASE_URL=" + db.URL(), "HOLDFAST_GUEST__EVENTS=" + hook.URL,
		internalListener, stormSite,
	}
	vars = append(vars, siteOn(true).Vars...)
	data := t.TempDir()
	binary.Migrate(t, data, vars...)
	g := &guests{t: t, profile: siteOn(true), servers: []*binary.Server{binary.Start(t, data, vars...)}}
	token := strings.TrimSpace(g.servers[0].Verb("guest", "tokens", "create", "--service", "booking"))
	handoff := func(v *visitor, key string) (h guest.Handoff) {
		harness.Must(t, json.Unmarshal([]byte(v.mint(0, key)), &h))
		return h
	}
	consume := func(h guest.Handoff) int {
		a, err := guest.Site{Token: token}.Send(t.Context(), g.servers[0].Internal(), "consume", h, h.HandoffID)
		harness.Must(t, err)
		return a.Status
	}

	v := g.visitor("recovery")
	v.add(0)
	db.BackUp(t)
	v.add(1)
	open, consumed := handoff(v, "open"), handoff(v, "consumed")
	conn := harness.Dial(t, db.URL())
	var at time.Time
	harness.Must(t, conn.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&at))
	harness.Must(t, conn.Close(t.Context()))
	lost := v.add(2)
	if status := consume(consumed); status != http.StatusOK {
		t.Fatalf("consume: %d", status)
	}
	hook.awaitEvent(t, v.Session(), lost)

	g.servers[0].Kill()
	db.Recover(t, at)
	g.servers[0] = binary.Start(t, data, vars...)
	if got, _ := v.list(0); !slices.Equal(got, []string{g.site().Item(0), g.site().Item(1)}) {
		t.Errorf("the wishlist is %v, want the properties 0 and 1", got)
	}
	for _, h := range []guest.Handoff{open, consumed} {
		if status := consume(h); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("earlier handoff: %d", status)
		}
	}
	if status := consume(handoff(v, "new")); status != http.StatusOK {
		t.Errorf("new handoff: %d", status)
	}
	g.servers[0].AwaitOutput("the database was restored")
	hook.awaitEvent(t, v.Session(), v.add(3))
	g.awaitDrained()
}

func (h *guestHook) awaitEvent(t *testing.T, session, event string) {
	t.Helper()
	for guard := time.After(2 * time.Minute); ; {
		h.mu.Lock()
		found := slices.Contains(h.got[session], event)
		h.mu.Unlock()
		if found {
			return
		}
		select {
		case <-h.changed:
		case <-guard:
			t.Fatalf("%s is not published", event)
		}
	}
}
