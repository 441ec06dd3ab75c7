package guest

import (
	"holdfast/internal/guest"
	"holdfast/internal/obs"
)

// newBots returns what scores requests, or nil if the configuration does not want it.
// secrets are those of handoffs, the current one first.
func newBots(c guest.BotConfig, s *guest.Service, hasher *guest.Hasher, m *obs.Metrics, secrets []string) (*guest.Bots, error) {
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
	challenges, err := guest.NewChallenges(secrets[0], secrets[1:], c.ChallengeBits)
	if err != nil {
		return nil, err
	}
	return guest.NewBots(guest.BotOptions{
		Service: s, Config: c, Hasher: hasher, Challenges: challenges,
		Evaluated: func(v guest.Verdict, a guest.BotAction) { evaluations.WithLabelValues(string(v), string(a)).Inc() },
	}), nil
}
