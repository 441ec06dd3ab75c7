package guest

import (
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/obs"
)

// openBots returns what scores requests, or nil if the configuration does not want it.
func (s *Guest) openBots(p *parts, st bots.Store, hasher *guest.Hasher, m *obs.Metrics) (*bots.Service, error) {
	c := s.cfg.Bots
	evaluations := m.Counter("holdfast_guest_bot_evaluations_total", "Requests that were scored, by verdict and action.", "verdict", "action")
	for _, e := range []struct {
		verdict bots.Verdict
		action  bots.Action
	}{{bots.Human, bots.NoAction}, {bots.Suspect, bots.NoAction}, {bots.Suspect, bots.Challenge}, {bots.Bot, bots.HardBlock}} {
		evaluations.WithLabelValues(string(e.verdict), string(e.action))
	}
	if !c.Enabled {
		return nil, nil
	}
	challenges, err := bots.NewChallenges(s.cfg.HandoffSecret, s.cfg.OldHandoffSecrets, c.ChallengeBits)
	if err != nil {
		return nil, err
	}
	return bots.New(bots.Options{
		Store: st, Hot: p.hot, Clock: p.clock, Degraded: p.degraded, Config: c, Hasher: hasher, Challenges: challenges,
		Evaluated: func(v bots.Verdict, a bots.Action) { evaluations.WithLabelValues(string(v), string(a)).Inc() },
	}), nil
}
