package app

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/check"
	"holdfast/internal/conf"
)

const (
	someHex = "0123456789abcdef0123456789abcdef"
)

// brokenRules are settings that break each rule, in the form of variables without HOLDFAST_, by the rule's text about
// itself.
var brokenRules = map[string]string{
	"server.tls_key_file without server.tls_cert_file":                             "SERVER__TLS_KEY_FILE=/dev/null",
	"server.tls_cert_file without server.tls_key_file":                             "SERVER__TLS_CERT_FILE=/dev/null",
	"server.domain with certificate files":                                         "SERVER__DOMAIN=sync.example.org SERVER__TLS_CERT_FILE=/dev/null SERVER__TLS_KEY_FILE=/dev/null",
	"the same token for viewers and the administrator":                             "SERVER__VIEWER_TOKEN=" + someHex + " SERVER__ADMIN_TOKEN=" + someHex,
	"backups and the replica in the same place":                                    "BACKUP__URL=file:///b REPLICA__URL=file:///b/",
	"a public URL with the path of a protocol":                                     "SERVER__PUBLIC_URL=https://example.org/1.0/sync/1.5",
	"a plain public URL with TLS":                                                  "SERVER__DOMAIN=sync.example.org SERVER__PUBLIC_URL=http://sync.example.org",
	"a public URL for another host than server.domain":                             "SERVER__DOMAIN=sync.example.org SERVER__PUBLIC_URL=https://www.example.org",
	"trusted proxies everywhere, and a listener for other machines":                "SERVER__TRUSTED_PROXIES=0.0.0.0/0 SERVER__LISTEN=:8000",
	"client addresses in the log behind a proxy that is not trusted":               "SERVER__PUBLIC_URL=https://sync.example.org LOG__CLIENT_ADDRESS=true",
	"an alert for backups that are younger than the schedule makes them":           "ALERTS__URL=http://a ALERTS__BACKUP_AGE=2h BACKUP__URL=file:///b BACKUP__SCHEDULE=03:30",
	"an alert for a lag within the replica's interval":                             "ALERTS__URL=http://a ALERTS__REPLICA_LAG=1m REPLICA__URL=file:///b REPLICA__INTERVAL=1m",
	"server.console without server.admin_listen":                                   "SERVER__CONSOLE=true SERVER__ADMIN_LISTEN=",
	"server.http_listen without server.domain":                                     "SERVER__HTTP_LISTEN=:8080",
	"server.viewer_token without server.console":                                   "SERVER__VIEWER_TOKEN=" + someHex + " SERVER__CONSOLE=false",
	"server.console_networks without server.console":                               "SERVER__CONSOLE_NETWORKS=10.0.0.0/8 SERVER__CONSOLE=false",
	"server.acme_directory without server.domain":                                  "SERVER__ACME_DIRECTORY=https://ca.example.org",
	"server.acme_root_file without server.domain":                                  "SERVER__ACME_ROOT_FILE=/dev/null",
	"server.acme_email without server.domain":                                      "SERVER__ACME_EMAIL=a@example.org",
	"backup.keep without backup.url":                                               "BACKUP__KEEP=3d",
	"backup.verify without backup.url":                                             "BACKUP__VERIFY=false",
	"replica.interval without replica.url":                                         "REPLICA__INTERVAL=2s",
	"replica.retention without replica.url":                                        "REPLICA__RETENTION=2h",
	"alerts.format without alerts.url":                                             "ALERTS__FORMAT=slack",
	"alerts.backup_age without alerts.url":                                         "ALERTS__BACKUP_AGE=1h",
	"alerts.replica_lag without alerts.url":                                        "ALERTS__REPLICA_LAG=2m",
	"alerts.disk_days without alerts.url":                                          "ALERTS__DISK_DAYS=3",
	"a short server.admin_token that other machines can guess":                     "SERVER__ADMIN_TOKEN=short SERVER__ADMIN_LISTEN=:8001",
	"a short server.viewer_token that other machines can guess":                    "SERVER__VIEWER_TOKEN=short SERVER__ADMIN_LISTEN=:8001",
	"server.admin_listen is server.listen":                                         "SERVER__ADMIN_LISTEN=127.0.0.1:8000",
	"server.internal_listen is server.listen":                                      "SERVER__INTERNAL_LISTEN=127.0.0.1:8000",
	"server.internal_listen is server.admin_listen":                                "SERVER__INTERNAL_LISTEN=127.0.0.1:8001",
	"server.http_listen is server.listen":                                          "SERVER__DOMAIN=sync.example.org SERVER__HTTP_LISTEN=127.0.0.1:443 SERVER__LISTEN=127.0.0.1:443",
	"server.http_listen is server.admin_listen":                                    "SERVER__DOMAIN=sync.example.org SERVER__HTTP_LISTEN=127.0.0.1:8001",
	"server.http_listen is server.internal_listen":                                 "SERVER__DOMAIN=sync.example.org SERVER__HTTP_LISTEN=127.0.0.1:9 SERVER__INTERNAL_LISTEN=127.0.0.1:9",
	"buckets.listen is server.http_listen":                                         "SERVER__DOMAIN=sync.example.org SERVER__HTTP_LISTEN=127.0.0.1:9 BUCKETS__LISTEN=127.0.0.1:9",
	"buckets.listen is server.listen":                                              "BUCKETS__LISTEN=127.0.0.1:8000",
	"buckets.listen is server.admin_listen":                                        "BUCKETS__LISTEN=127.0.0.1:8001",
	"buckets.listen is server.internal_listen":                                     "BUCKETS__LISTEN=127.0.0.1:9 SERVER__INTERNAL_LISTEN=127.0.0.1:9",
	"server.request_memory below the largest request of syncstorage":               "SERVER__REQUEST_MEMORY=1000",
	"server.request_memory below the largest request of extstorage":                "SERVER__REQUEST_MEMORY=1000",
	"server.request_memory below the largest request of buckets":                   "SERVER__REQUEST_MEMORY=1000",
	"syncstorage.limits.max_user_quota below one record":                           "SYNCSTORAGE__ENFORCE_QUOTA=true SYNCSTORAGE__LIMITS__MAX_USER_QUOTA=1000",
	"syncstorage.limits.max_quota_limit below one record":                          "SYNCSTORAGE__ENFORCE_QUOTA=true SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT=1000",
	"syncstorage.limits.max_user_quota without syncstorage.enable_quota":           "SYNCSTORAGE__LIMITS__MAX_USER_QUOTA=100000000",
	"syncstorage.limits.max_quota_limit without syncstorage.enable_quota":          "SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT=100000000",
	"syncstorage.enforce_quota without a quota":                                    "SYNCSTORAGE__ENFORCE_QUOTA=true SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT=0",
	"a storage node with a secret of its own":                                      "TOKENSERVER__ENABLED=false",
	"tokenserver.fxa_webhook_metrics_only without tokenserver.fxa_webhook_enabled": "TOKENSERVER__FXA_WEBHOOK_METRICS_ONLY=true",
	"tokenserver.replaced_user_grace below tokenserver.token_duration":             "TOKENSERVER__REPLACED_USER_GRACE=1s",
	"a tokenserver without a storage node in its configuration":                    "SYNCSTORAGE__ENABLED=false",
	"extstorage.audit in a log without messages":                                   "EXTSTORAGE__AUDIT=log LOG__LEVEL=error",
	"extstorage.metadata_index without PostgreSQL":                                 "EXTSTORAGE__METADATA_INDEX=true",
	"extstorage.quota.bytes below one record":                                      "EXTSTORAGE__QUOTA__BYTES=1000",
	"guest.hot in memory with several processes":                                   "GUEST__PROCESSES=2",
	"guest cookies over plain HTTP":                                                "GUEST__ENABLED=true SERVER__PUBLIC_URL=http://hotels.example.org",
	"guest.handoff_ip behind a proxy that is not trusted":                          "GUEST__ENABLED=true SERVER__PUBLIC_URL=https://hotels.example.org",
	"guest.hot_prefix without Redis":                                               "GUEST__HOT_PREFIX=test",
	"guest.hot_timeout without Redis":                                              "GUEST__HOT_TIMEOUT=50ms",
	"buckets.scrub_rate without buckets.scrub_interval":                            "BUCKETS__SCRUB_INTERVAL=0s BUCKETS__SCRUB_RATE=1000000",
	"buckets.scrub_cloud without buckets.scrub_interval":                           "BUCKETS__SCRUB_INTERVAL=0s BUCKETS__SCRUB_CLOUD=true",
	"buckets.drop_events_after without buckets.destinations":                       "BUCKETS__DROP_EVENTS_AFTER=2h",
	"buckets.max_events without buckets.destinations":                              "BUCKETS__MAX_EVENTS=5000",
}

// rateRules adds the rules of which there is one for each rate.
func rateRules() map[string]string {
	all := maps.Clone(brokenRules)
	for _, rate := range []string{"reads_per_minute", "read_burst", "writes_per_minute", "write_burst", "tenant_per_second", "tenant_burst"} {
		all["extstorage.rates."+rate+" without extstorage.rate_limits"] = "EXTSTORAGE__RATES__" + strings.ToUpper(rate) + "=7 EXTSTORAGE__RATE_LIMITS=false"
	}
	for _, rate := range []string{"session", "bootstrap", "search", "detail", "wishlist", "mint", "telemetry"} {
		all["guest.rates."+rate+" without guest.rate_limits"] = "GUEST__RATES__" + strings.ToUpper(rate) + "=7 GUEST__RATE_LIMITS=false"
	}
	return all
}

// rulesByName returns all rules for the default settings, by their texts about themselves. The reference lists each.
func rulesByName(t *testing.T) map[string]conf.Rule {
	t.Helper()
	all, reference := map[string]conf.Rule{}, Reference()
	for _, r := range everyRule() {
		if _, twice := all[r.When]; twice {
			t.Errorf("two rules %q", r.When)
		}
		if all[r.When] = r; !strings.Contains(reference, "| "+r.When+" | `"+r.Settings[0]+"`") {
			t.Errorf("the reference does not list the rule %q", r.When)
		}
	}
	return all
}

// TestRules breaks each rule about settings that do not work together. The server then does not start or prints a
// warning, and check reports the same finding. The default settings break no rule.
func TestRules(t *testing.T) {
	t.Parallel()
	if _, report, err := Load(Services(), "", nil); err != nil || len(report.Warnings) > 0 {
		t.Errorf("the defaults: %v, %v", err, report.Warnings)
	}
	examples, rules := rateRules(), rulesByName(t)
	for when := range examples {
		if _, ok := rules[when]; !ok {
			t.Errorf("no rule %q: remove it from this test", when)
		}
	}
	for _, when := range slices.Sorted(maps.Keys(rules)) {
		r := rules[when]
		var environ []string
		for variable := range strings.FieldsSeq(examples[when]) {
			environ = append(environ, "HOLDFAST_"+variable)
		}
		if len(environ) == 0 {
			t.Errorf("no settings break the rule %q: add some to this test", when)
			continue
		}
		_, report, err := Load(Services(), "", environ)
		said := report.Warnings
		if wrong, ok := errors.AsType[*conf.Error](err); ok {
			said = wrong.Problems
		}
		i := slices.IndexFunc(said, func(p conf.Problem) bool { return p.Key == r.Settings[0] })
		if i < 0 || r.Refuses != (err != nil) {
			t.Errorf("%s: %s: the configuration has %v, %v", when, examples[when], report.Warnings, err)
			continue
		}
		state := service.Warning
		if r.Refuses {
			state = service.Wrong
		}
		isFound := func(f service.Finding) bool {
			return f.State == state && strings.HasSuffix(f.Says, said[i].What) && f.Fix == r.Fix
		}
		if found := check.Configuration("", report, err); !slices.ContainsFunc(found, isFound) || said[i].What == "" {
			t.Errorf("%s: %s: check finds %+v, want %s", when, examples[when], found, said[i])
		}
	}
}

// TestProtocolPaths checks that each service on the main listener names the path of its protocol, and that no public URL may
// contain one, wherever it is and however it is written.
func TestProtocolPaths(t *testing.T) {
	t.Parallel()
	var all []string
	for _, s := range Services() {
		all = append(all, s.ProtocolPaths...)
	}
	known := map[string]bool{}
	for _, open := range openWalked(t).opened {
		for _, m := range open.Mounts {
			owned := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !m.Owns(p + "/") })
			for _, p := range owned {
				known[p] = known[p] || m.Listener == service.Main
			}
			if m.Listener == service.Main && len(owned) == 0 && open.Name != "probe" && !slices.Equal(m.Paths, []string{"/guest/demo"}) {
				t.Errorf("%s serves %q on the main listener: name its path in ProtocolPaths", open.Name, m.Paths)
			}
		}
	}
	for _, path := range all {
		if !known[path] {
			t.Errorf("no service owns %s on the main listener", path)
		}
		for _, public := range []string{"https://a.example" + path, "https://a.example/b" + path + "/", "https://a.example" + strings.ToUpper(path) + "/sync", "http://a.example/token" + path + "//"} {
			_, _, err := Load(Services(), "", []string{"HOLDFAST_SERVER__PUBLIC_URL=" + public, "HOLDFAST_GUEST__ENABLED=true"})
			if err == nil || !strings.Contains(err.Error(), "must not contain "+path+", the path of ") || !strings.Contains(err.Error(), "write http") {
				t.Errorf("%s: %v", public, err)
			}
		}
	}
	for _, public := range []string{"https://a.example", "https://a.example/", "https://a.example/sync", "https://a.example/ext", "https://a.example/storage/v1", "https://a.example/x1.5", "https://a.example/1.50"} {
		if _, _, err := Load(Services(), "", []string{"HOLDFAST_SERVER__PUBLIC_URL=" + public}); err != nil {
			t.Errorf("%s: %v", public, err)
		}
	}
	_, _, err := Load(Services(), "", []string{"HOLDFAST_SERVER__PUBLIC_URL=https://a.example/Sync/1.0/sync/1.5"})
	if want := "must not contain /1.0, the path of tokenserver, which the server appends: write https://a.example/Sync; the value is "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
