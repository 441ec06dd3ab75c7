package storetest

import (
	"math"
	"slices"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/suite"
)

func botChecks() []check {
	return []check{{"Log", logBotScore}, {"WithoutSession", logWithoutSession}, {"WrongScore", wrongScore}, {"Scores", botScores}}
}

func (u *user) score(value float64) bots.Evaluation {
	return bots.Evaluation{
		ID: guest.NewID("", clock.System()), Session: u.session, Fingerprint: []byte("fingerprint " + u.session), IP: []byte{0, 255}, UserAgent: []byte{1},
		Score: value, Verdict: bots.Suspect, Signals: []bots.Signal{{Signal: bots.SignalHeaders, Value: 1, Weight: value}}, Action: bots.Challenge,
	}
}

func (u *user) scores(s bots.Evaluation, since time.Time, limit int) (percent []int) {
	u.t.Helper()
	all, err := u.h.Store.BotScores(u.t.Context(), s.Fingerprint, s.IP, since, limit)
	suite.Must(u.t, "BotScores", err)
	for _, v := range all {
		percent = append(percent, int(math.Round(v*100)))
	}
	return percent
}

func logBotScore(_ *testing.T, u *user) {
	start := clock.System().Add(-time.Minute)
	e := u.event(clock.System())
	e.Retention = guest.Audit
	s := u.score(0.6)
	suite.Must(u.t, "LogBotScore", u.h.Store.LogBotScore(u.t.Context(), s, string(u.session), &e, guest.Trace{}))
	suite.Must(u.t, "LogBotScore", u.h.Store.LogBotScore(u.t.Context(), u.score(0.3), "", nil, guest.Trace{}))
	suite.Equal(u.t, "scores", u.scores(s, start, 10), []int{30, 60})
	events := u.h.Events(u.t, u.session)
	if len(events) != 1 || events[0].At.Before(start) {
		u.t.Fatalf("events %v", events)
	}
	e.At = events[0].At
	suite.Equal(u.t, "event", events[0], e)
	// The log is append-only: a repeated score and its event are refused.
	again := u.event(clock.System())
	if err := u.h.Store.LogBotScore(u.t.Context(), s, string(u.session), &again, guest.Trace{}); err == nil {
		u.t.Error("a score was logged twice")
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 1)
}

var traced = guest.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: `a=b"\,c=d`}

func logWithoutSession(_ *testing.T, u *user) {
	s := u.score(0.9)
	s.Session, s.Verdict, s.Action = "", bots.Bot, bots.HardBlock
	e := u.event(clock.System())
	key := "browser-" + string(u.session) + "f"
	suite.Must(u.t, "LogBotScore", u.h.Store.LogBotScore(u.t.Context(), s, key, &e, traced))
	suite.Equal(u.t, "scores", u.scores(s, time.Unix(0, 0), 10), []int{90})
	suite.Equal(u.t, "events", len(u.h.Events(u.t, guest.ID(key))), 1)
}

func wrongScore(_ *testing.T, u *user) {
	for _, value := range []float64{-0.01, 1.01, math.NaN(), math.Inf(1)} {
		s, e := u.score(value), u.event(clock.System())
		s.Signals = nil
		if err := u.h.Store.LogBotScore(u.t.Context(), s, string(u.session), &e, guest.Trace{}); err == nil {
			u.t.Errorf("the score %v was logged", value)
		}
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 0)
}

func botScores(_ *testing.T, u *user) {
	var s bots.Evaluation
	for n := range 4 {
		s = u.score(float64(n) / 10)
		suite.Must(u.t, "LogBotScore", u.h.Store.LogBotScore(u.t.Context(), s, "", nil, guest.Trace{}))
	}
	suite.Equal(u.t, "all", u.scores(s, time.Unix(0, 0), 10), []int{30, 20, 10, 0})
	suite.Equal(u.t, "two", u.scores(s, time.Unix(0, 0), 2), []int{30, 20})
	suite.Equal(u.t, "later", u.scores(s, clock.System().Add(time.Hour), 10), nil)
	other := s
	other.IP = slices.Concat(s.IP, []byte{1})
	suite.Equal(u.t, "another address", u.scores(other, time.Unix(0, 0), 10), nil)
	suite.Equal(u.t, "another browser", u.scores(u.other().score(0), time.Unix(0, 0), 10), nil)
}
