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
	Store Store // the log of scores, and the outbox for their events
	Hot   Hot   // counts of browser activity; expendable
	Clock clock.Clock
	// the prefix of event types
	Profile *guest.Profile
	// the initial configuration; see Reload
	Config Config
	// hashes fingerprints, addresses and User-Agents with the site's secret, so that the log holds no personal data
	Hasher *guest.Hasher
	// signs and checks challenges; its difficulty needs a restart
	Challenges *Challenges

	// called with each verdict, for metrics; may be nil
	Evaluated func(v Verdict, a Action)

	// called when the hot state or the database fails and the request is served anyway; reports whether the error was
	// such a failure
	Degraded guest.Degraded
}

// New returns a service that scores with o.Config until Reload.
func New(o Options) *Service {
	b := &Service{opts: o}
	b.Reload(o.Config)
	return b
}

// Reload replaces the configuration for later requests. It does not check it: callers call Config.Check first.
func (b *Service) Reload(c Config) { b.config.Store(&c) }

// Config returns the current configuration, which callers must not change.
func (b *Service) Config() *Config { return b.config.Load() }

// IsHoneypot reports whether the current configuration has a honeypot at path, which is relative to the service's
// prefix.
func (b *Service) IsHoneypot(path string) bool { return b.Config().IsHoneypot(path) }

// Request is a request to score.
type Request struct {
	// address, User-Agent and fingerprint headers
	Visitor guest.Visitor
	// "" before the guest has a session: such a request is not challenged, only blocked
	Session guest.ID
	// from HeaderAnomaly, 0 to 1
	Anomaly float64
	// the header with a solved challenge, or ""
	Solution string
	// method and path template, for the event
	Route string
	Trace guest.Trace
}

// ChallengeError refuses a request until the browser sends a solution. It unwraps to ErrChallenge.
type ChallengeError struct {
	// from Challenges.New; the solution is this text, a dot and a counter
	Challenge string
	// leading zero bits that SHA-256 of the solution needs
	Bits int
}

func (e *ChallengeError) Error() string { return ErrChallenge.Error() }

func (e *ChallengeError) Unwrap() error { return ErrChallenge }

// browserOf returns the hot state's key for a browser: the first 128 bits of a hash over both hashes, in hexadecimal.
func browserOf(fingerprint, ip []byte) string {
	sum := sha256.Sum256(append(append([]byte{}, fingerprint...), ip...))
	return hex.EncodeToString(sum[:16])
}

// sighting takes the limit for requests from the configuration, since a browser above it gains nothing from a longer
// list. The limit for sessions is constant, and upper limit for the setting: a reload that raises the setting finds the
// older sessions.
func (b *Service) sighting(browser string, session guest.ID) Sighting {
	return Sighting{browser, session, Window{CadenceWindow, b.Config().Cadence}, Window{SessionsWindow, MaxSessions}}
}

// See counts a request without scoring it.
func (b *Service) See(ctx context.Context, v guest.Visitor, session guest.ID) {
	_, err := b.opts.Hot.SeeBrowser(ctx, b.sighting(browserOf(b.opts.Hasher.Fingerprint(v), b.opts.Hasher.IP(v)), session))
	b.opts.Degraded.Without("bot", err)
}

// Trap counts a visit to the honeypot as an offence. It never fails: without the hot state, the visit is lost.
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

// count reports a verdict to Options.Evaluated.
func (b *Service) count(v Verdict, a Action) {
	if b.opts.Evaluated != nil {
		b.opts.Evaluated(v, a)
	}
}

// Number of recent scores whose sum, divided by this number, is the history's value: a browser with a single bad score
// gets a fifth of it.
const historyScores = 5

// Attempts to consume a handoff again that make SignalReplay's value 1. The first may be a guest who reloads a page.
const replaysAreCertain = 3

// addSignal leaves out signals that add nothing to the score.
func addSignal(all []Signal, name string, value, weight float64) []Signal {
	if value > 0 && weight > 0 {
		all = append(all, Signal{name, value, weight})
	}
	return all
}

// signals returns the signals that need no database query.
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

// history adds SignalHistory. The query runs only if it may change the result: see needsHistory.
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

// log stores a score. Suspects and bots also get an audit event, ordered after the session's other events if there is a
// session, or with the browser's. Humans are only logged as a sample, without an event.
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
