package guest

import (
	"fmt"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/telemetry"
)

func TestReload(t *testing.T) {
	t.Parallel()
	s := New()
	opened := servicetest.Open(t, s.Service(), nil).Opened
	rate := func(text string, c guest.Class) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string { return fmt.Sprint(s.opened.guests.Limits()[c].Events) }}
	}
	sample := func(see func(telemetry.SampleRates) int) servicetest.Effect {
		return servicetest.Effect{Text: "7", See: func() string { return fmt.Sprint(see(s.opened.telemetry.Samples())) }}
	}
	bot := func(text string, see func(*bots.Config) any) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string { return fmt.Sprint(see(s.opened.handoffs.bots.Config())) }}
	}
	now := time.Now()
	kept := func(j retention.Job) servicetest.Effect {
		return servicetest.Effect{Text: "1000h0m0s", See: func() string { return now.Sub(s.opened.retention.Before(j, now)).String() }}
	}
	servicetest.Reloads(t, opened, func() service.Service { return New().Service() }, map[string]servicetest.Effect{
		"guest.rate_limits": {Text: "false", See: func() string {
			_, limited, err := s.opened.guests.Limit(t.Context(), guest.ClassSearch, "s", "192.0.2.1")
			if err != nil {
				t.Error(err)
			}
			return fmt.Sprint(limited)
		}},
		"guest.rates.session": rate("11", guest.ClassSession), "guest.rates.bootstrap": rate("12", guest.ClassBootstrap),
		"guest.rates.search": rate("13", guest.ClassSearch), "guest.rates.detail": rate("14", guest.ClassDetail),
		"guest.rates.wishlist": rate("15", guest.ClassWishlist), "guest.rates.mint": rate("16", guest.ClassMint), "guest.rates.telemetry": rate("17", guest.ClassTelemetry),
		"guest.sample_page_views": sample(func(r telemetry.SampleRates) int { return r.PageViews }), "guest.sample_funnel_events": sample(func(r telemetry.SampleRates) int { return r.FunnelEvents }),
		"guest.sample_searches": sample(func(r telemetry.SampleRates) int { return r.Searches }), "guest.sample_detail_views": sample(func(r telemetry.SampleRates) int { return r.DetailViews }),
		"guest.sample_sessions": sample(func(r telemetry.SampleRates) int { return r.Sessions }),
		"guest.keep_events":     kept(retention.JobEvents), "guest.keep_audit_events": kept(retention.JobAuditEvents),
		"guest.bots.challenge_at": bot("0.3", func(c *bots.Config) any { return c.ChallengeAt }), "guest.bots.block_at": bot("0.9", func(c *bots.Config) any { return c.BlockAt }),
		"guest.bots.cadence": bot("200", func(c *bots.Config) any { return c.Cadence }), "guest.bots.sessions": bot("60", func(c *bots.Config) any { return c.Sessions }),
		"guest.bots.cadence_weight": bot("0.1", func(c *bots.Config) any { return c.CadenceWeight }), "guest.bots.sessions_weight": bot("0.1", func(c *bots.Config) any { return c.SessionsWeight }),
		"guest.bots.headers_weight": bot("0.1", func(c *bots.Config) any { return c.HeadersWeight }), "guest.bots.history_weight": bot("0.1", func(c *bots.Config) any { return c.HistoryWeight }),
		"guest.bots.honeypot_weight": bot("0.1", func(c *bots.Config) any { return c.HoneypotWeight }), "guest.bots.replay_weight": bot("0.1", func(c *bots.Config) any { return c.ReplayWeight }),
		"guest.bots.honeypot": bot("offers/archive", func(c *bots.Config) any { return c.Honeypot }), "guest.bots.sample_humans": bot("9", func(c *bots.Config) any { return c.SampleHumans }),
	})
}
