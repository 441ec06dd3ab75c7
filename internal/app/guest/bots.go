package guest

import (
	"holdfast/internal/guest"
	"holdfast/internal/obs"
)

// openBots returns what scores requests, or nil if the configuration does not want it.
func (s *Guest) openBots(p *parts, hasher *guest.Hasher, m *obs.Metrics) (*guest.Bots, error) {
	c := s.cfg.Bots
	evaluations := m.Counter("holdfast_guest_bot_evaluations_total", "Requests that were scored, by verdict and action.", "verdict", "action")
	for _, e := range []struct {
		verdict guest.Verdict
		action  guest.BotAction
	}{{guest.Human, guest.NoAction}, {guest.Suspect, guest.NoAction}, {guest.Suspect, guest.Challenge}, {guest.Bot, guest.HardBlock}} {
		evaluations.WithLabelValues(string(e.verdict), string(e.action))
	}
	if !c.Enabled {
		return nil, nil
	}
	challenges, err := guest.NewChallenges(s.cfg.HandoffSecret, s.cfg.OldHandoffSecrets, c.ChallengeBits)
	if err != nil {
		return nil, err
	}
	return guest.NewBots(guest.BotOptions{
		Store: p.store, Hot: p.hot, Clock: p.clock, Degraded: p.degraded, Config: c, Hasher: hasher, Challenges: challenges,
		Evaluated: func(v guest.Verdict, a guest.BotAction) { evaluations.WithLabelValues(string(v), string(a)).Inc() },
	}), nil
}
