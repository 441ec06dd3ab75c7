package rate

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
)

// A group's debt is the sum of its members' debts, at most the burst. Members without debt are removed.
func TestDebts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hands := clock.NewManual(time.Unix(1_790_000_000, 0))
		b, err := NewShared(Limit{Events: 7, Per: time.Second, Burst: rapid.IntRange(1, 100).Draw(t, "burst")}, 1, hands.Now)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			hands.Advance(time.Duration(rapid.Int64Range(-1e8, 1e9).Draw(t, "pause")))
			b.Allow("g", fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "member")), rapid.IntRange(0, 5).Draw(t, "n"))
			g, _ := b.byKey.Get("g")
			sum := 0.0
			for name, m := range g.members {
				if g.queue[m.index] != m || m.name != name || m.until < g.paid {
					t.Fatalf("%s: %+v, of which %f is paid", name, m, g.paid)
				}
				sum += m.until - g.paid
			}
			if len(g.queue) != len(g.members) || math.Abs(sum-g.debt) > tiny || g.debt > float64(b.limit.Burst)+tiny {
				t.Fatalf("%d in the queue, %d members with a debt of %f, %f together", len(g.queue), len(g.members), sum, g.debt)
			}
		}
		hands.Advance(time.Minute)
		b.Check("g", "0", 1)
		if g, _ := b.byKey.Get("g"); len(g.members)+len(g.queue) > 0 || g.debt != 0 || g.paid != 0 {
			t.Fatalf("after a minute: %+v", g)
		}
	})
}
