package guest

import (
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/obs"
)

// openBots returns nil without an error if bot detection is disabled. The counters are registered all the same, so that
// alerting rules find them. Challenges are signed with the handoff secret.
func (s *Guest) openBots(p *parts, st bots.Store, hasher *guest.Hasher, m *obs.Metrics) (*bots.Service, error) {
	c := s.cfg.Bots
	evaluated := countEvaluations(m)
	if !c.Enabled {
		return nil, nil
	}
	challenges, err := bots.NewChallenges(s.cfg.HandoffSecret, s.cfg.OldHandoffSecrets, c.ChallengeBits)
	if err != nil {
		return nil, err
	}
	return bots.New(bots.Options{
		Store: st, Hot: p.hot, Clock: p.clock, Profile: p.guests.Profile(), Degraded: p.degraded, Config: c, Hasher: hasher, Challenges: challenges,
		Evaluated: evaluated,
	}), nil
}
