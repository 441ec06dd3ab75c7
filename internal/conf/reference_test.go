package conf

import (
	"reflect"
	"strings"
	"testing"
)

func TestReference(t *testing.T) {
	t.Parallel()
	c := defaults()
	c.Server.Key = "memory" // a default is not secret
	const want = "## [server]\n\nListeners.\n\n" +
		"| Setting | Type | Default | Variable | Description |\n|---|---|---|---|---|\n" +
		"| `listen` | string | `\"127.0.0.1:8000\"` | `HOLDFAST_SERVER__LISTEN` | Address of the main listener. |\n" +
		"| `trusted_proxies` | list of strings | `[]` | `HOLDFAST_SERVER__TRUSTED_PROXIES` | Networks \\| addresses of proxies. |\n" +
		"| `grace` | duration | `\"30s\"` | `HOLDFAST_SERVER__GRACE` | Time for open requests. |\n" +
		"| `key` | secret string | `\"memory\"` | `HOLDFAST_SERVER__KEY` | Signs tokens. |\n" +
		"| `old_keys` | secret list of strings |  | `HOLDFAST_SERVER__OLD_KEYS` | Keys that are on their way out. |\n" +
		"\n## [sync]\n\n" +
		"| Setting | Type | Default | Variable | Description |\n|---|---|---|---|---|\n" +
		"| `enabled` | boolean | `true` | `HOLDFAST_SYNC__ENABLED` | Serves this service. |\n" +
		"| `database_url` | secret string |  | `HOLDFAST_SYNC__DATABASE_URL` | Where the records are. |\n" +
		"| `ratio` | number | `0.5` | `HOLDFAST_SYNC__RATIO` | A share. |\n" +
		"\n## [sync.limits]\n\n" +
		"| Setting | Type | Default | Variable | Description |\n|---|---|---|---|---|\n" +
		"| `max_post_bytes` | integer, bytes | `100` | `HOLDFAST_SYNC__LIMITS__MAX_POST_BYTES` | Sum of the payloads of one POST. |\n" +
		"| `max_records` | integer | `10` | `HOLDFAST_SYNC__LIMITS__MAX_RECORDS` | Records of one POST. |\n" +
		"\n## [sync.collections.NAME]\n\nLimits of single collections.\n\n" +
		"| Setting | Type | Default | Variable | Description |\n|---|---|---|---|---|\n" +
		"| `max_post_bytes` | integer, bytes | `0` | `HOLDFAST_SYNC__COLLECTIONS__NAME__MAX_POST_BYTES` | Sum of the payloads of one POST. |\n" +
		"| `max_records` | integer | `0` | `HOLDFAST_SYNC__COLLECTIONS__NAME__MAX_RECORDS` | Records of one POST. |\n" +
		"\n## Variables of Mozilla's server\n\n| Variable | Setting |\n|---|---|\n" +
		"| `SYNC_HOST` | `server.listen` |\n| `SYNC_STATSD_*` | ignored: metrics are served at /metrics |\n"
	if got := Reference(c, aliases()[0], aliases()[5]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestExampleIsAConfiguration checks that the example changes nothing, even with all settings uncommented.
func TestExampleIsAConfiguration(t *testing.T) {
	t.Parallel()
	example := Example(defaults())
	var settings []string
	for line := range strings.Lines(example) {
		if s, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(s, " ") && !strings.Contains(s, "_file =") {
			line = s
		}
		settings = append(settings, line)
	}
	for name, content := range map[string]string{"as it is": example, "uncommented": strings.Join(settings, "")} {
		got, want := defaults(), defaults()
		if name == "uncommented" {
			want.Server.Proxies, want.Server.OldKeys = []string{}, []Secret{}
			want.Sync.Collections = map[string]limits{"NAME": {}}
		}
		if _, err := Load(got, Options{File: tomlFile(t, content)}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v\n%s", name, got, err, content)
		}
	}
}
