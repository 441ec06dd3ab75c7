package sync

import (
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
)

// rules reports limits and quotas that contradict each other, and settings that take no effect.
func (s *Storage) rules(in service.Settings) (all []conf.Rule) {
	c, l := &s.cfg, &s.cfg.Limits
	for _, quota := range []struct {
		setting string
		bytes   int64
	}{{"syncstorage.limits.max_user_quota", l.MaxUserQuota}, {"syncstorage.limits.max_quota_limit", l.MaxQuotaLimit}} {
		all = append(all, conf.Rule{
			Settings: []string{quota.setting, "syncstorage.limits.max_record_payload_bytes"}, When: quota.setting + " below one record",
			Says: conf.Says(c.EnforceQuota && quota.bytes > 0 && quota.bytes < l.MaxRecordPayloadBytes, "is smaller than limits.max_record_payload_bytes: browsers send records that no empty account can store"),
			Fix:  "raise it to several times limits.max_record_payload_bytes",
		}, conf.Rule{
			Settings: []string{quota.setting, "syncstorage.enable_quota"}, When: quota.setting + " without syncstorage.enable_quota",
			Says: conf.Says(!c.Counts() && in.Origin(quota.setting[len(Name)+1:]) != "default", "has no effect without enable_quota or enforce_quota"), Fix: "set syncstorage.enable_quota, or unset it",
		})
	}
	return append(all, conf.Rule{
		Settings: []string{"syncstorage.enforce_quota", "syncstorage.limits.max_user_quota", "syncstorage.limits.max_quota_limit"}, When: "syncstorage.enforce_quota without a quota",
		Says: conf.Says(c.EnforceQuota && l.MaxUserQuota == 0 && l.MaxQuotaLimit == 0, "limits only accounts with a quota of their own: limits.max_user_quota and limits.max_quota_limit are 0"), Fix: "set one of them",
	}, conf.Rule{
		Settings: []string{"syncstorage.enabled", "tokenserver.enabled", "server.master_secret"}, When: "a storage node with a secret of its own",
		Says: conf.Says(!in.HasService("tokenserver") && !in.HasMasterSecret, "is true without tokenserver.enabled, and server.master_secret is unset: the tokens of another server's sign-ins are refused"),
		Fix:  "set server.master_secret to the secret of the server with the tokenserver",
	})
}
