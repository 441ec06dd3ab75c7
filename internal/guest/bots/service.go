// Package bots scores requests by how likely a bot sent them.
package bots

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync/atomic"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// Service scores requests. It fails open: if a dependency is unavailable, the request counts as human.
type Service struct {
	opts   Options
	config atomic.Pointer[Config]
}

// Options are a Service's dependencies, all required but Evaluated and Degraded.
type Options struct {
	Store      Store
	Hot        Hot
	Clock      clock.Clock
	Profile    *guest.Profile
	Config     Config
	Hasher     *guest.Hasher
	Challenges *Challenges

	Evaluated func(v Verdict, a Action)

	Degraded guest.Degraded
}

func New(o Options) *Service {
	b := &Service{opts: o}
	b.Reload(o.Config)
	return b
}

func (b *Service) Reload(c Config) { b.config.Store(&c) }

func (b *Service) Config() *Config { return b.config.Load() }

func (b *Service) IsHoneypot(path string) bool { return b.Config().IsHoneypot(path) }

type Request struct {
	Visitor  guest.Visitor
	Session  guest.ID
	Anomaly  float64
	Solution string
	Route    string // method and path template
	Trace    guest.Trace
}

type ChallengeError struct {
	Challenge string
	Bits      int
}

func (e *ChallengeError) Error() string { return ErrChallenge.Error() }

func (e *ChallengeError) Unwrap() error { return ErrChallenge }

func browserOf(fingerprint, ip []byte) string {
	sum := sha256.Sum256(append(append([]byte{}, fingerprint...), ip...))
	return hex.EncodeToString(sum[:16])
}

func (b *Service) sighting(browser string, session guest.ID) Sighting {
	return Sighting{browser, session, Window{CadenceWindow, b.Config().Cadence}, Window{SessionsWindow, MaxSessions}}
}

// See counts a request without scoring it.
func (b *Service) See(ctx context.Context, v guest.Visitor, session guest.ID) {
	_, err := b.opts.Hot.SeeBrowser(ctx, b.sighting(browserOf(b.opts.Hasher.Fingerprint(v), b.opts.Hasher.IP(v)), session))
	b.opts.Degraded.Without("bot", err)
}

func (b *Service) Trap(ctx context.Context, v guest.Visitor) {
	b.opts.Degraded.Without("bot", b.opts.Hot.AddOffence(ctx, browserOf(b.opts.Hasher.Fingerprint(v), b.opts.Hasher.IP(v)), SignalHoneypot))
}

// Replayed counts a handoff replay against the handoff's browser.
func (b *Service) Replayed(ctx context.Context, fingerprint, ip []byte) {
	b.opts.Degraded.Without("bot", b.opts.Hot.AddOffence(ctx, browserOf(fingerprint, ip), SignalReplay))
}

// Evaluate returns nil, a *ChallengeError or ErrHardBlock.
func (b *Service) Evaluate(ctx context.Context, r Request) error {
	s := Evaluation{
		ID: guest.NewID("", b.opts.Clock()), Session: r.Session,
		Fingerprint: b.opts.Hasher.Fingerprint(r.Visitor), IP: b.opts.Hasher.IP(r.Visitor), UserAgent: b.opts.Hasher.UserAgent(r.Visitor),
	}
	browser := browserOf(s.Fingerprint, s.IP)
	seen, err := b.opts.Hot.SeeBrowser(ctx, b.sighting(browser, r.Session))
	if err != nil {
		b.opts.Degraded.Without("bot", err)
		b.count(Human, NoAction)
		return nil
	}
	s.Signals = b.signals(r, seen)
	if s.Score, err = Score(s.Signals); err != nil {
		return err
	}
	sampled := b.Config().SampleHumans > 0 && s.ID.IsSampled(b.Config().SampleHumans)
	if b.Config().needsHistory(s.Score) || sampled {
		s.Signals = b.history(ctx, s)
		if s.Score, err = Score(s.Signals); err != nil {
			return err
		}
	}
	s.Verdict, s.Action = b.Config().Judge(s.Score, seen.Solved)
	if s.Action != NoAction && r.Session != "" && b.opts.Challenges.Solved(r.Solution, browser, r.Session, b.opts.Clock()) {
		b.opts.Degraded.Without("bot", b.opts.Hot.SolvedChallenge(ctx, browser, r.Session))
		s.Verdict, s.Action = b.Config().Judge(s.Score, true)
	}
	b.count(s.Verdict, s.Action)
	if err := b.log(ctx, s, browser, sampled, r); err != nil && !b.opts.Degraded.Without("bot", err) {
		return err
	}
	switch {
	case s.Action == HardBlock:
		return ErrHardBlock
	case s.Action == Challenge && r.Session != "":
		return &ChallengeError{b.opts.Challenges.New(browser, r.Session, b.opts.Clock()), b.opts.Challenges.bits}
	}
	return nil
}

func (b *Service) count(v Verdict, a Action) {
	if b.opts.Evaluated != nil {
		b.opts.Evaluated(v, a)
	}
}

const historyScores = 5

const replaysAreCertain = 3

func addSignal(all []Signal, name string, value, weight float64) []Signal {
	if value > 0 && weight > 0 {
		all = append(all, Signal{name, value, weight})
	}
	return all
}

func (b *Service) signals(r Request, seen Sighted) (all []Signal) {
	add := func(name string, value, weight float64) { all = addSignal(all, name, value, weight) }
	c := b.Config()
	add(SignalCadence, over(seen.Events, c.Cadence), c.CadenceWeight)
	add(SignalCollisions, over(seen.Sessions, c.Sessions), c.SessionsWeight)
	add(SignalHeaders, r.Anomaly, c.HeadersWeight)
	add(SignalHoneypot, min(1, float64(seen.Honeypots)), c.HoneypotWeight)
	add(SignalReplay, min(1, float64(seen.Replays)/replaysAreCertain), c.ReplayWeight)
	return all
}

// needsHistory reports whether SignalHistory may change the verdict or the log. Most requests are human and need no
// database query.
func (c *Config) needsHistory(score float64) bool {
	return c.HistoryWeight > 0 && score+c.HistoryWeight >= c.ChallengeAt
}

func (b *Service) history(ctx context.Context, of Evaluation) []Signal {
	if b.Config().HistoryWeight == 0 {
		return of.Signals
	}
	scores, err := b.opts.Store.BotScores(ctx, of.Fingerprint, of.IP, b.opts.Clock().Add(-OffenceLife), historyScores)
	if err != nil {
		b.opts.Degraded.Without("bot", err)
		return of.Signals
	}
	sum := 0.0
	for _, s := range scores {
		sum += s
	}
	return addSignal(of.Signals, SignalHistory, sum/historyScores, b.Config().HistoryWeight)
}

func (b *Service) log(ctx context.Context, s Evaluation, browser string, sampled bool, r Request) error {
	if s.Verdict == Human {
		if !sampled {
			return nil
		}
		return b.opts.Store.LogBotScore(ctx, s, "", nil, guest.Trace{})
	}
	key, session := "browser-"+browser, (*guest.ID)(nil)
	if s.Session != "" {
		key, session = string(s.Session), &s.Session
	}
	payload, err := json.Marshal(struct {
		SessionID *guest.ID `json:"sessionId"`
		Signal    string    `json:"signal"`
		Score     float64   `json:"score"`
		Verdict   Verdict   `json:"verdict"`
		Action    Action    `json:"action"`
		Signals   []Signal  `json:"signals"`
		Route     string    `json:"route"`
	}{session, "score", s.Score, s.Verdict, s.Action, s.Signals, r.Route})
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	e := guest.Event{ID: guest.NewID(guest.EventPrefix, b.opts.Clock()), Type: b.opts.Profile.EventType("bot_suspected.v1"), Subject: string(s.ID), Retention: guest.Audit, Payload: payload}
	return b.opts.Store.LogBotScore(ctx, s, key, &e, r.Trace)
}

// IsHoneypot takes a path below the service's prefix.
func (c *Config) IsHoneypot(path string) bool {
	return c.Honeypot != "" && strings.Trim(path, "/") == strings.Trim(c.Honeypot, "/")
}
