package rate_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/web/rate"
)

// TestGuesses checks whose wrong secrets count against whom, and that guesses sent at once are not all answered.
func TestGuesses(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 0)
	g, err := rate.NewGuesses(func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	guesser, neighbor := rate.Guesser{Address: "2001:db8::1", Network: "2001:db8::/64"}, rate.Guesser{Address: "2001:db8::2", Network: "2001:db8::/64"}
	stranger := rate.Guesser{Address: "192.0.2.1", Network: "192.0.2.1"}
	var answered atomic.Int32
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			if ok, _ := g.Allow(guesser, false); ok {
				answered.Add(1)
			}
		})
	}
	all.Wait()
	if answered.Load() != 10 {
		t.Errorf("%d of 60 wrong secrets were answered, want 10", answered.Load())
	}
	for _, tc := range []struct {
		name         string
		by           rate.Guesser
		right, allow bool
	}{
		{"the guesser has the right secret", guesser, true, false},
		{"a neighbor guesses", neighbor, false, false},
		{"a neighbor has the right secret", neighbor, true, true},
		{"a stranger guesses", stranger, false, true},
		{"a stranger has the right secret", stranger, true, true},
	} {
		ok, s := g.Allow(tc.by, tc.right)
		if ok != tc.allow || ok != (s.Retry == 0) {
			t.Errorf("%s: %v %+v", tc.name, ok, s)
		}
	}
	at = at.Add(6 * time.Second)
	if ok, s := g.Allow(guesser, true); !ok {
		t.Errorf("the right secret is refused after its wait: %+v", s)
	}
	if ok, s := (*rate.Guesses)(nil).Allow(guesser, false); !ok || s != (rate.State{}) {
		t.Errorf("without a limit: %v %+v", ok, s)
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 10_000)
	for _, tc := range []struct {
		sent, want string
		same       bool
	}{{"", "", false}, {"a", "", false}, {"", "a", false}, {"a", "a", true}, {"a", "aa", false}, {long, long, true}, {long, long + "a", false}, {"a", "b", false}} {
		if rate.Same(tc.sent, tc.want) != tc.same {
			t.Errorf("%.10q and %.10q: %v", tc.sent, tc.want, !tc.same)
		}
	}
}
