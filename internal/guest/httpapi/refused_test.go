package httpapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/guest/handoffs"
	"holdfast/internal/outbox"
	"holdfast/internal/suite"
)

func TestRefusedAttempts(t *testing.T) {
	t.Parallel()
	inProfiles(t, refusedAttempts)
}

func refusedAttempts(t *testing.T, s *server) {
	b, r := s.begin(), newReceiver(t, s)
	m := b.mint()
	path, body := "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`
	counted := func() []handoffs.Refusal {
		t.Helper()
		suite.Must(t, "FlushRefusals", s.handoffs.FlushRefusals(t.Context()))
		all, err := s.store.Refusals(t.Context(), 10)
		suite.Must(t, "Refusals", err)
		return all
	}
	suite.Equal(t, "before", len(counted()), 0)
	r.want(200, path, body, "consumedAt", "Idempotency-Key: winner")
	for i := range 20 {
		r.want(http.StatusConflict, path, body, `"handoff-consumed"`, "Idempotency-Key: "+strconv.Itoa(i))
	}
	got := counted()
	if len(got) != 1 || string(got[0].Handoff) != m.HandoffID || got[0].Reason != handoffs.ReasonConsumed || got[0].Attempts != 20 || got[0].Last.Before(got[0].First) {
		t.Errorf("%+v", got)
	}
	suspected := slices.DeleteFunc(s.waiting(), func(e outbox.WaitingEvent) bool { return !strings.HasSuffix(e.Topic, "bot_suspected.v1") })
	suite.Equal(t, "events", len(suspected), 1)
}
