package bots_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/hotstatetest"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/testdb/opened"
)

// TestJudge also checks that a human is never blocked (invariant 32).
func TestJudge(t *testing.T) {
	t.Parallel()
	c := bots.DefaultConfig()
	for _, s := range []struct {
		score   float64
		solved  bool
		verdict bots.Verdict
		action  bots.Action
	}{
		{0, false, bots.Human, bots.NoAction},
		{0.4999, false, bots.Human, bots.NoAction},
		{0.5, false, bots.Suspect, bots.Challenge},
		{0.7999, false, bots.Suspect, bots.Challenge},
		{0.8, false, bots.Bot, bots.HardBlock},
		{1, false, bots.Bot, bots.HardBlock},
		{0.4999, true, bots.Human, bots.NoAction},
		{0.5, true, bots.Suspect, bots.NoAction},
		{1, true, bots.Suspect, bots.NoAction},
	} {
		if v, a := c.Judge(s.score, s.solved); v != s.verdict || a != s.action {
			t.Errorf("%v, solved %v: %s, %s", s.score, s.solved, v, a)
		}
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var signals []bots.Signal
		for range rapid.IntRange(0, 6).Draw(rt, "signals") {
			signals = append(signals, bots.Signal{Value: rapid.Float64Range(0, 1).Draw(rt, "value"), Weight: rapid.Float64Range(0, 1).Draw(rt, "weight")})
		}
		if s, err := bots.Score(signals); err != nil || !(s >= 0 && s <= 1) {
			rt.Fatalf("score %v, %v", s, err)
		}
	})
	for _, wrong := range []float64{math.NaN(), -1} {
		if s, err := bots.Score([]bots.Signal{{Value: wrong, Weight: 1}}); err == nil {
			t.Errorf("%v has the score %v", wrong, s)
		}
	}
}

func TestHeaderAnomaly(t *testing.T) {
	t.Parallel()
	firefox := []string{"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Accept-Language: de", "Accept: */*", "Accept-Encoding: gzip"}
	for _, c := range []struct {
		headers []string
		want    float64
	}{
		{firefox, 0},
		{firefox[:3], 0.25},
		{firefox[:1], 0.75},
		{append([]string{"User-Agent: Mozilla/5.0 Chrome/140.0 Safari/537.36"}, firefox[1:]...), 0.25},
		{append([]string{"User-Agent: Mozilla/5.0 Chrome/140.0 Safari/537.36", "Sec-Fetch-Mode: cors"}, firefox[1:]...), 0},
		{append([]string{"User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1)"}, firefox[1:]...), 1},
		{[]string{"User-Agent: curl/8.0"}, 1},
		{nil, 1},
	} {
		h := http.Header{}
		for _, line := range c.headers {
			name, value, _ := strings.Cut(line, ": ")
			h.Set(name, value)
		}
		if got := bots.HeaderAnomaly(h.Get); got != c.want {
			t.Errorf("%v: %v, want %v", c.headers, got, c.want)
		}
	}
}

// TestChallenges checks that only solutions of the session's challenges count, until they expire.
func TestChallenges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	secret, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	c, err := bots.NewChallenges(secret, nil, 8)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := bots.NewChallenges(other, []string{secret}, 8)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := bots.NewChallenges(other, nil, 8)
	if err != nil {
		t.Fatal(err)
	}
	const session = guest.ID("gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B")
	challenge := c.New("browser", session, now)
	solution := bots.SolveChallenge(challenge, 8)
	for name, got := range map[string]bool{
		"solved":            c.Solved(solution, "browser", session, now),
		"just before":       c.Solved(solution, "browser", session, now.Add(5*time.Minute-time.Second)),
		"by a former key":   rotated.Solved(solution, "browser", session, now),
		"not late":          !c.Solved(solution, "browser", session, now.Add(5*time.Minute)),
		"not another one":   !c.Solved(solution, "other", session, now),
		"not the session":   !c.Solved(solution, "browser", session+"x", now),
		"not a stranger":    !stranger.Solved(solution, "browser", session, now),
		"not the challenge": !c.Solved(challenge, "browser", session, now),
		"not easier":        !c.Solved(bots.SolveChallenge(strings.Replace(challenge, ".8.", ".1.", 1), 1), "browser", session, now),
		"not longer":        !c.Solved(solution+strings.Repeat("a", 300), "browser", session, now),
		"not nothing":       !c.Solved("", "browser", session, now),
	} {
		if !got {
			t.Error(name)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := []byte(solution)
		i := rapid.IntRange(0, len(challenge)-1).Draw(rt, "byte")
		b[i] ^= 1 << rapid.IntRange(0, 6).Draw(rt, "bit")
		if c.Solved(string(b), "browser", session, now) {
			rt.Fatalf("%s is accepted", b)
		}
	})
}

func FuzzSolution(f *testing.F) {
	c, err := bots.NewChallenges(strings.Repeat("a", 32), nil, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("hc1.99999999999.0.AAAA.a")
	f.Fuzz(func(t *testing.T, text string) {
		if c.Solved(text, "browser", "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", time.Unix(0, 0)) {
			t.Errorf("%q is a solution", text)
		}
	})
}

func newBots(t testing.TB, hot backend.Hot, config bots.Config, degraded func(string)) *bots.Service {
	t.Helper()
	secret := strings.Repeat("h", 32)
	hasher, err1 := guest.NewHasher(secret, nil)
	challenges, err2 := bots.NewChallenges(secret, nil, 8)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return bots.New(bots.Options{
		Store: sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations), clock.System, nil), Hot: hot, Clock: clock.System, Degraded: degraded,
		Config: config, Hasher: hasher, Challenges: challenges,
	})
}

// TestBotsFailOpen checks that every request counts as human while hot state is unavailable.
func TestBotsFailOpen(t *testing.T) {
	t.Parallel()
	var down error
	hot := &hotstatetest.Faulty{Hot: memory.New(clock.System, 1<<20), Fault: func(string) error { return down }}
	degraded := 0
	b := newBots(t, hot, bots.DefaultConfig(), func(what string) {
		if what == "bot" {
			degraded++
		}
	})
	v := guest.Visitor{UserAgent: "curl/8.0", IP: "203.0.113.1"}
	r := bots.Request{Visitor: v, Anomaly: 1, Route: "POST /test"}
	b.Trap(t.Context(), v)
	if err := b.Evaluate(t.Context(), r); !errors.Is(err, bots.ErrHardBlock) {
		t.Fatalf("a bot: %v", err)
	}
	down = errcode.New(errcode.Unavailable, "Redis is away")
	b.Trap(t.Context(), v)
	b.See(t.Context(), v, "")
	if err := b.Evaluate(t.Context(), r); err != nil || degraded != 3 {
		t.Errorf("without hot state: %v, %d counted", err, degraded)
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for name, anomaly := range map[string]float64{"human": 0, "suspect": 1} {
		b.Run(name, func(b *testing.B) {
			config := bots.DefaultConfig()
			config.HeadersWeight, config.CadenceWeight = 0.5, 0
			scorer := newBots(b, memory.New(clock.System, 1<<20), config, nil)
			r := bots.Request{Visitor: guest.Visitor{UserAgent: "Firefox", IP: "203.0.113.1"}, Session: guest.NewID(guest.SessionPrefix, clock.System()), Anomaly: anomaly}
			for b.Loop() {
				if err := scorer.Evaluate(b.Context(), r); (err == nil) != (anomaly == 0) {
					b.Fatal(err)
				}
			}
		})
	}
}
