package bots

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// Verdict says who sent a request, judged by its score.
type Verdict string

// Verdicts.
const (
	Human   Verdict = "human"   // score below challenge_at
	Suspect Verdict = "suspect" // from challenge_at, or a bot that solved a challenge
	Bot     Verdict = "bot"     // from block_at
)

// Action says how the service answers a scored request: not at all differently (NoAction), with a challenge or with a
// refusal.
type Action string

// Actions.
const (
	NoAction  Action = "none"       // serve the request
	Challenge Action = "challenge"  // refuse until a challenge is solved; only for requests with a session
	HardBlock Action = "hard-block" // refuse
)

// Errors for scored requests.
var (
	ErrChallenge = errcode.New(errcode.Denied, "the request looks like a bot's: solve the challenge")
	ErrHardBlock = errcode.New(errcode.Denied, "the request looks like a bot's")
)

// Signal is a reason in a score. The score sums Value × Weight.
type Signal struct {
	// a Signal constant
	Signal string  `json:"signal"`
	Value  float64 `json:"value"` // 0 to 1
	// 0 to 1, from the section [guest.bots]
	Weight float64 `json:"weight"`
}

// Signal names.
const (
	SignalCadence    = "cadence"    // requests per minute and browser
	SignalCollisions = "collisions" // sessions per day and browser
	SignalHeaders    = "headers"
	SignalHistory    = "history"
	SignalHoneypot   = "honeypot" // followed a link that humans cannot see
	SignalReplay     = "handoff-replay"
)

// Config is the section [guest.bots].
type Config struct {
	Enabled     bool    `toml:"enabled" doc:"Score requests for sessions and handoffs, challenge suspects and block bots."`
	ChallengeAt float64 `toml:"challenge_at" reload:"true" doc:"Minimum score for a suspect, who must solve a challenge to get a handoff."`
	BlockAt     float64 `toml:"block_at" reload:"true" doc:"Minimum score for a bot, which gets no session and no handoff."`

	Cadence        int     `toml:"cadence" reload:"true" doc:"Changes and searches per browser and minute that only a bot makes. The signal starts at a fifth of it."`
	Sessions       int     `toml:"sessions" reload:"true" doc:"Sessions per browser and day that only a bot starts. The signal starts at a fifth of it."`
	CadenceWeight  float64 `toml:"cadence_weight" reload:"true" doc:"Weight in the score: the cadence. 0 turns the signal off."`
	SessionsWeight float64 `toml:"sessions_weight" reload:"true" doc:"Weight in the score: the number of sessions."`
	HeadersWeight  float64 `toml:"headers_weight" reload:"true" doc:"Weight in the score: headers unlike a browser's."`
	HistoryWeight  float64 `toml:"history_weight" reload:"true" doc:"Weight in the score: recent scores. Less than 1, so that old scores fade."`
	HoneypotWeight float64 `toml:"honeypot_weight" reload:"true" doc:"Weight in the score: a honeypot visit in the last hour."`
	ReplayWeight   float64 `toml:"replay_weight" reload:"true" doc:"Weight in the score: three attempts in the last hour to reuse a handoff."`

	Honeypot      string `toml:"honeypot" reload:"true" doc:"Honeypot path below /bff/consumer/v1, e.g. offers/archive. Link to it where no human sees the link. Empty: disabled."`
	ChallengeBits int    `toml:"challenge_bits" doc:"Challenge difficulty: a browser computes 2^bits hashes on average."`
	SampleHumans  int    `toml:"sample_humans" reload:"true" doc:"Log the score for 1 in this many unsuspicious requests. 0: never."`
}

// DefaultConfig returns weights with which no signal alone blocks: the honeypot, a full cadence or replays bring a
// challenge, and only two signals together reach block_at.
func DefaultConfig() Config {
	return Config{
		Enabled: true, ChallengeAt: 0.5, BlockAt: 0.8, Cadence: 300, Sessions: 50,
		CadenceWeight: 0.5, SessionsWeight: 0.3, HeadersWeight: 0.3, HistoryWeight: 0.2, HoneypotWeight: 0.6, ReplayWeight: 0.6, ChallengeBits: 16,
	}
}

// Bounds the list of request times that the hot state keeps per browser.
const maxCadence = 10_000

// Check returns the values that are out of range, by their names in the section.
func (c *Config) Check() (problems conf.Problems) {
	if !(c.ChallengeAt > 0 && c.ChallengeAt <= c.BlockAt) {
		problems.Addf("challenge_at", "must be more than 0 and at most block_at")
	}
	if !(c.BlockAt > 0 && c.BlockAt <= 10) {
		problems.Addf("block_at", "must be more than 0; more than 1: nothing is blocked")
	}
	for name, weight := range map[string]float64{
		"cadence_weight": c.CadenceWeight, "sessions_weight": c.SessionsWeight, "headers_weight": c.HeadersWeight,
		"history_weight": c.HistoryWeight, "honeypot_weight": c.HoneypotWeight, "replay_weight": c.ReplayWeight,
	} {
		if !(weight >= 0 && weight <= 1) {
			problems.Addf(name, "must be from 0 to 1")
		}
	}
	if c.HistoryWeight == 1 {
		problems.Addf("history_weight", "must be less than 1")
	}
	for _, n := range []struct {
		name               string
		value, least, most int
	}{
		{"cadence", c.Cadence, 5, maxCadence}, {"sessions", c.Sessions, 5, MaxSessions}, {"challenge_bits", c.ChallengeBits, 1, 30}, {"sample_humans", c.SampleHumans, 0, math.MaxInt32},
	} {
		if n.value < n.least || n.value > n.most {
			problems.Addf(n.name, "must be from %d to %d", n.least, n.most)
		}
	}
	if strings.ContainsAny(c.Honeypot, "?#%\\ ") || strings.HasPrefix(c.Honeypot, "/") {
		problems.Addf("honeypot", "must be a path without a slash at its beginning, and without ? # %% \\ and spaces")
	}
	return problems
}

// Score sums the signals, up to 1.
func Score(signals []Signal) (float64, error) {
	sum := 0.0
	for _, s := range signals {
		sum += s.Value * s.Weight
	}
	if math.IsNaN(sum) || sum < 0 {
		return 0, errcode.New(errcode.Internal, "the score of a bot is not a number from 0 to 1")
	}
	return min(sum, 1), nil
}

// Judge classifies a score. After a solved challenge, it counts a bot as a suspect and does not challenge it
// again.
func (c *Config) Judge(score float64, solved bool) (Verdict, Action) {
	switch {
	case score < c.ChallengeAt:
		return Human, NoAction
	case solved:
		return Suspect, NoAction
	case score < c.BlockAt:
		return Suspect, Challenge
	}
	return Bot, HardBlock
}

// over maps n to 0–1, linearly from a fifth of most to most.
func over(n, limit int) float64 {
	free := float64(limit) / 5
	return min(1, max(0, (float64(n)-free)/(float64(limit)-free)))
}

// tools are parts, in lower case, of User-Agents that are not browsers.
var tools = []string{
	"bot", "spider", "crawl", "scrap", "headless", "curl/", "wget/", "python", "go-http-client", "java/", "libwww", "httpclient", "node-fetch", "axios", "phantom", "selenium",
}

// HeaderAnomaly rates from 0 to 1 how unusual request headers are for a browser. get takes canonical names.
func HeaderAnomaly(get func(name string) string) (value float64) {
	agent := strings.ToLower(get("User-Agent"))
	if agent == "" {
		return 1
	}
	for _, tool := range tools {
		if strings.Contains(agent, tool) {
			return 1
		}
	}
	if get("Accept-Language") == "" {
		value += 0.5
	}
	if get("Accept") == "" || get("Accept-Encoding") == "" {
		value += 0.25
	}
	if strings.Contains(agent, "chrome/") && get("Sec-Fetch-Mode") == "" && get("Sec-Ch-Ua") == "" {
		value += 0.25
	}
	return min(value, 1)
}

// Evaluation is a logged score, with hashes only.
type Evaluation struct {
	ID                         guest.ID // without a prefix
	Session                    guest.ID // may be ""
	Fingerprint, IP, UserAgent []byte
	Score                      float64
	Verdict                    Verdict
	Signals                    []Signal
	Action                     Action
}

// Store is the part of the guest database that bots uses: an audit log of scores, deleted after seven days
// (retention.JobBotScores). It keeps to the rules of guest.Store about errors, slices and concurrency.
type Store interface {
	// LogBotScore logs a score and, in the same transaction, appends its event, if any, to the outbox with key as its
	// ordering key. The store sets the times.
	LogBotScore(ctx context.Context, s Evaluation, key string, e *guest.Event, trace guest.Trace) error

	// BotScores returns up to limit scores since a time for a browser at an address, latest first.
	BotScores(ctx context.Context, fingerprint, ip []byte, since time.Time, limit int) ([]float64, error)
}

// EncodeSignals returns the signals as JSON, for the column in both databases.
func EncodeSignals(all []Signal) (string, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "encode signals", err)
	}
	return string(text), nil
}

// Hot counts browser activity. A browser is a hash of fingerprint and address, since browsers of the same make share
// a fingerprint. It keeps to the rules of guest.Hot.
type Hot interface {
	// SeeBrowser counts a request and its session, if any, and returns the browser's counts including this request.
	SeeBrowser(ctx context.Context, s Sighting) (Sighted, error)

	// AddOffence counts SignalHoneypot or SignalReplay, until OffenceLife after the last offence.
	AddOffence(ctx context.Context, browser, offence string) error

	// SolvedChallenge remembers a solution for SolvedLife.
	SolvedChallenge(ctx context.Context, browser string, session guest.ID) error
}

// Sighting is a request to count in SeeBrowser.
type Sighting struct {
	// from browserOf: 32 hexadecimal digits
	Browser string
	Session guest.ID // may be ""
	// counts requests: at most Most times are kept, each for Life
	Events Window
	// counts distinct sessions, as Events does
	Members Window
}

// Window limits counts by time and number.
type Window struct {
	// how long an entry counts; sliding, in the hot state's clock
	Life time.Duration
	// maximum number of entries; the oldest are forgotten
	Most int
}

// Sighted holds a browser's counts in the windows of a Sighting.
type Sighted struct {
	// requests in the window, this one included; at most Window.Most
	Events   int
	Sessions int // beyond the maximum, the oldest are forgotten
	// offences without a gap longer than OffenceLife
	Honeypots int
	// like Honeypots
	Replays int
	// whether this browser solved a challenge for the session in the last SolvedLife
	Solved bool
}

// Windows and lifetimes.
const (
	CadenceWindow  = time.Minute      // config: cadence counts per minute
	SessionsWindow = 24 * time.Hour   // config: sessions counts per day
	MaxSessions    = 1000             // upper limit for the setting sessions
	OffenceLife    = time.Hour        // since the last offence; history reads scores from the same period
	SolvedLife     = 15 * time.Minute // a guest is not challenged again for this long
)
