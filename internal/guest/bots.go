package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
)

// Bots scores requests. It never fails a request because something is unavailable: then
// the request is that of a human.
type Bots struct{ BotOptions }

// BotOptions are what Bots needs. All but Evaluated and Degraded are required.
type BotOptions struct {
	Store      BotStore
	Hot        HotBots
	Clock      clock.Clock
	Config     BotConfig
	Hasher     *Hasher
	Challenges *Challenges

	// Evaluated is called for each evaluation.
	Evaluated func(v Verdict, a BotAction)

	Degraded Degraded
}

// NewBots returns a scorer.
func NewBots(o BotOptions) *Bots { return &Bots{o} }

// BotRequest is a request to be scored.
type BotRequest struct {
	Visitor  Visitor
	Session  ID      // "": none
	Anomaly  float64 // of its headers
	Solution string  // of a challenge; "": none
	Route    string  // method and path template
	Trace    Trace
}

// ChallengeError is ErrChallenge with the challenge.
type ChallengeError struct {
	Challenge string
	Bits      int
}

func (e *ChallengeError) Error() string { return ErrChallenge.Error() }

func (e *ChallengeError) Unwrap() error { return ErrChallenge }

// browserOf identifies a browser at an address in hot state.
func browserOf(fingerprint, ip []byte) string {
	sum := sha256.Sum256(append(append([]byte{}, fingerprint...), ip...))
	return hex.EncodeToString(sum[:16])
}

func (b *Bots) sighting(browser string, session ID) Sighting {
	return Sighting{browser, session, Window{CadenceWindow, b.Config.Cadence}, Window{SessionsWindow, MaxBotSessions}}
}

// See counts a request that is not scored.
func (b *Bots) See(ctx context.Context, v Visitor, session ID) {
	_, err := b.Hot.SeeBrowser(ctx, b.sighting(browserOf(b.Hasher.Fingerprint(v), b.Hasher.IP(v)), session))
	b.Degraded.Without("bot", err)
}

// Trap counts a visit of the honeypot.
func (b *Bots) Trap(ctx context.Context, v Visitor) {
	b.Degraded.Without("bot", b.Hot.AddOffence(ctx, browserOf(b.Hasher.Fingerprint(v), b.Hasher.IP(v)), SignalHoneypot))
}

// Replayed counts an attempt to use a handoff again against the browser of the handoff.
func (b *Bots) Replayed(ctx context.Context, fingerprint, ip []byte) {
	b.Degraded.Without("bot", b.Hot.AddOffence(ctx, browserOf(fingerprint, ip), SignalReplay))
}

// Evaluate scores a request. It returns nil, a *ChallengeError or ErrHardBlock.
func (b *Bots) Evaluate(ctx context.Context, r BotRequest) error {
	s := BotScore{
		ID: NewID("", b.Clock()), Session: r.Session,
		Fingerprint: b.Hasher.Fingerprint(r.Visitor), IP: b.Hasher.IP(r.Visitor), UserAgent: b.Hasher.UserAgent(r.Visitor),
	}
	browser := browserOf(s.Fingerprint, s.IP)
	seen, err := b.Hot.SeeBrowser(ctx, b.sighting(browser, r.Session))
	if err != nil {
		b.Degraded.Without("bot", err)
		b.count(Human, NoAction)
		return nil
	}
	s.Signals = b.signals(r, seen)
	if s.Score, err = Score(s.Signals); err != nil {
		return err
	}
	sampled := b.Config.SampleHumans > 0 && s.ID.IsSampled(b.Config.SampleHumans)
	if b.Config.needsHistory(s.Score) || sampled {
		s.Signals = b.history(ctx, s)
		if s.Score, err = Score(s.Signals); err != nil {
			return err
		}
	}
	s.Verdict, s.Action = b.Config.Judge(s.Score, seen.Solved)
	if s.Action != NoAction && r.Session != "" && b.Challenges.Solved(r.Solution, browser, r.Session, b.Clock()) {
		b.Degraded.Without("bot", b.Hot.SolvedChallenge(ctx, browser, r.Session))
		s.Verdict, s.Action = b.Config.Judge(s.Score, true)
	}
	b.count(s.Verdict, s.Action)
	if err := b.log(ctx, s, browser, sampled, r); err != nil && !b.Degraded.Without("bot", err) {
		return err
	}
	switch {
	case s.Action == HardBlock:
		return ErrHardBlock
	case s.Action == Challenge && r.Session != "":
		return &ChallengeError{b.Challenges.New(browser, r.Session, b.Clock()), b.Challenges.bits}
	}
	return nil
}

func (b *Bots) count(v Verdict, a BotAction) {
	if b.Evaluated != nil {
		b.Evaluated(v, a)
	}
}

// historyScores is how many of the last scores count.
const historyScores = 5

// replaysAreCertain is how many replays make the signal 1.
const replaysAreCertain = 3

// addSignal appends a signal that counts.
func addSignal(all []BotSignal, name string, value, weight float64) []BotSignal {
	if value > 0 && weight > 0 {
		all = append(all, BotSignal{name, value, weight})
	}
	return all
}

// signals returns the signals but SignalHistory.
func (b *Bots) signals(r BotRequest, seen Sighted) (all []BotSignal) {
	add := func(name string, value, weight float64) { all = addSignal(all, name, value, weight) }
	c := &b.Config
	add(SignalCadence, over(seen.Events, c.Cadence), c.CadenceWeight)
	add(SignalCollisions, over(seen.Sessions, c.Sessions), c.SessionsWeight)
	add(SignalHeaders, r.Anomaly, c.HeadersWeight)
	add(SignalHoneypot, min(1, float64(seen.Honeypots)), c.HoneypotWeight)
	add(SignalReplay, min(1, float64(seen.Replays)/replaysAreCertain), c.ReplayWeight)
	return all
}

// needsHistory reports whether SignalHistory may change the verdict of a score without it,
// or what is logged. Otherwise the database need not be asked: most requests are those of
// humans.
func (c *BotConfig) needsHistory(score float64) bool {
	return c.HistoryWeight > 0 && score+c.HistoryWeight >= c.ChallengeAt
}

// history returns the signals of a score with SignalHistory.
func (b *Bots) history(ctx context.Context, of BotScore) []BotSignal {
	if b.Config.HistoryWeight == 0 {
		return of.Signals
	}
	scores, err := b.Store.BotScores(ctx, of.Fingerprint, of.IP, b.Clock().Add(-OffenceLife), historyScores)
	if err != nil {
		b.Degraded.Without("bot", err)
		return of.Signals
	}
	sum := 0.0
	for _, s := range scores {
		sum += s
	}
	return addSignal(of.Signals, SignalHistory, sum/historyScores, b.Config.HistoryWeight)
}

// log appends a score to the log, unless it is that of a human who is not sampled, and an
// event if it is suspect.
func (b *Bots) log(ctx context.Context, s BotScore, browser string, sampled bool, r BotRequest) error {
	if s.Verdict == Human {
		if !sampled {
			return nil
		}
		return b.Store.LogBotScore(ctx, s, "", nil, Trace{})
	}
	key, session := "browser-"+browser, (*ID)(nil)
	if s.Session != "" {
		key, session = string(s.Session), &s.Session
	}
	payload, err := json.Marshal(struct {
		SessionID *ID         `json:"sessionId"`
		Signal    string      `json:"signal"`
		Score     float64     `json:"score"`
		Verdict   Verdict     `json:"verdict"`
		Action    BotAction   `json:"action"`
		Signals   []BotSignal `json:"signals"`
		Route     string      `json:"route"`
	}{session, "score", s.Score, s.Verdict, s.Action, s.Signals, r.Route})
	if err != nil {
		return fault.Wrap(fault.Internal, "encode an event", err)
	}
	e := Event{ID: NewID(EventPrefix, b.Clock()), Type: TypePrefix + "bot_suspected.v1", Subject: string(s.ID), Retention: Audit, Payload: payload}
	return b.Store.LogBotScore(ctx, s, key, &e, r.Trace)
}

// IsHoneypot reports whether a path below the prefix of the service is the honeypot.
func (c *BotConfig) IsHoneypot(path string) bool {
	return c.Honeypot != "" && strings.Trim(path, "/") == strings.Trim(c.Honeypot, "/")
}
