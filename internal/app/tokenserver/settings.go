package tokenserver

import (
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
)

// rules reports combinations of settings that take no effect, or with which nobody can sign in.
func (s *Accounts) rules(in service.Settings) []conf.Rule {
	c := &s.cfg
	return []conf.Rule{
		{
			Settings: []string{"tokenserver.fxa_webhook_metrics_only", "tokenserver.fxa_webhook_enabled"}, When: "tokenserver.fxa_webhook_metrics_only without tokenserver.fxa_webhook_enabled",
			Says: conf.Says(c.FxAWebhookMetricsOnly && !c.FxAWebhookEnabled, "has no effect without fxa_webhook_enabled"), Fix: "set tokenserver.fxa_webhook_enabled, or unset it",
		},
		{
			Settings: []string{"tokenserver.replaced_user_grace", "tokenserver.token_duration"}, When: "tokenserver.replaced_user_grace below tokenserver.token_duration",
			Says: conf.Says(in.Origin("replaced_user_grace") != "default" && c.ReplacedUserGrace < c.TokenDuration, "is shorter than token_duration: the data stays until the tokens of the old keys expire"), Fix: "make it longer than tokenserver.token_duration",
		},
		{
			Settings: []string{"tokenserver.enabled", "syncstorage.enabled", "tokenserver.init_node_url"}, When: "a tokenserver without a storage node in its configuration",
			Says: conf.Says(!in.HasService(storageName) && c.InitNodeURL == "", "is true without syncstorage.enabled and init_node_url: sign-ins get 503 until a node is added"),
			Fix:  "set tokenserver.init_node_url, or run holdfast tokenserver nodes add NODE",
		},
	}
}
