package conf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	v := struct{ Key Secret }{"hunter2"}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb, v, v.Key)
	}
	if err := json.NewEncoder(&out).Encode(v); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", v.Key, "all", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", v.Key, "all", v)
	if s := out.String(); strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) || !strings.Contains(s, "[set]") {
		t.Error(s)
	}
	if got := Secret("").String(); got != "[not set]" {
		t.Error(got)
	}
	if got := v.Key.Reveal(); got != "hunter2" {
		t.Error(got)
	}
}

func TestSecretIsNotReported(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	var out strings.Builder
	for _, content := range []string{
		"[server]\nkey = \"hunter2\"\nkey = 1",
		"[server]\nkey = \"hunter2\n",
		"[server]\nkey = hunter2\n",
		"[server]\nkey = [\"hunter2\"]\n",
		"[server]\nkey = { hunter = \"hunter2\" }\n",
		"[server]\nkye = \"hunter2\"\n",
		"[server]\ngrace = \"hunter2\"\n",
		"server = \"hunter2\"\n",
		"[sync]\ndatabase_url = \"postgres://u:hunter2@h\"\ndatabase_url_file = \"/none\"\n",
	} {
		report, err := Load(defaults(), Options{File: tomlFile(t, content), Aliases: aliases(), Environ: []string{
			"HOLDFAST_SERVER=hunter2", "HOLDFAST_SERVER__KEYS=hunter2", "HOLDFAST_SERVER__KEY=hunter2", "SYNC_MASTER_SECRET=hunter2", "SYNC_MASTER_SECRETS=hunter2", "SYNC_STATSD_KEY=hunter2",
		}})
		if err == nil {
			t.Fatalf("accepted %s", content)
		}
		fmt.Fprintln(&out, report, err)
	}
	set := defaults()
	set.Server.Key, set.Server.OldKeys, set.Sync.DatabaseURL = secret, []Secret{secret}, secret
	fmt.Fprintln(&out, Settings(set, Report{}))
	if strings.Contains(out.String(), secret) {
		t.Error(out.String())
	}
}
