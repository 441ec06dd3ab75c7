//test:unraced its goroutines share nothing

package conf

import (
	"errors"
	"net"
	"reflect"
	"testing"
)

func aliases() []Alias {
	part := func(change func(host, port *string, value string)) func(current, value string) (string, error) {
		return func(current, value string) (string, error) {
			if value == "" {
				return "", errors.New("an address has no empty parts")
			}
			host, port, err := net.SplitHostPort(current)
			if err != nil {
				return "", errors.New("there is no address to change")
			}
			change(&host, &port, value)
			return net.JoinHostPort(host, port), nil
		}
	}
	return []Alias{
		{Env: "SYNC_HOST", Path: "server.listen", Transform: part(func(host, _ *string, v string) { *host = v })},
		{Env: "SYNC_PORT", Path: "server.listen", Transform: part(func(_, port *string, v string) { *port = v })},
		{Env: "SYNC_MASTER_SECRET", Path: "server.key"},
		{Env: "SYNC_STORE__ENABLED", Path: "sync.enabled"},
		{Env: "SYNC_STORE__*", Path: "sync.*"},
		{Env: "SYNC_STATSD_*", Note: "metrics are served at /metrics"},
		{Env: "SYNC_HUMAN_LOGS"},
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	got, want := defaults(), defaults()
	want.Server.Listen, want.Server.Key = "0.0.0.0:5000", "hunter2"
	want.Sync.DatabaseURL, want.Sync.Limits.MaxRecords, want.Sync.Enabled = "sqlite:x", 7, false
	want.Sync.Collections = map[string]limits{"tabs": {MaxPostBytes: 3}}
	report, err := Load(got, Options{Aliases: aliases(), Environ: []string{
		"SYNC_PORT=5000", "SYNC_HOST=0.0.0.0", "SYNC_MASTER_SECRET=hunter2",
		"SYNC_STORE__ENABLED=false", "SYNC_STORE__LIMITS__MAX_RECORDS=7", "SYNC_STORE__DATABASE_URL=sqlite:x",
		"SYNC_STORE__COLLECTIONS__TABS__MAX_POST_BYTES=3",
		"SYNC_STATSD_HOST=h", "SYNC_HUMAN_LOGS=1",
		"SYNC_STORE__LIMITS__MAX_RECORD=7", "SYNC_STORE__LIMITS=7", "SYNC_ELSE=hunter2", "SYNC_PORTT=1", "sync_host=no", "ASYNC_HOST=no",
	}})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if w := report.Where("sync.limits.max_records"); w != "SYNC_STORE__LIMITS__MAX_RECORDS" {
		t.Errorf("max_records comes from %s", w)
	}
	expect(t, lines(report.Warnings, ""),
		"SYNC_ELSE: unknown variable, ignored",
		"SYNC_PORTT: unknown variable, ignored; did you mean SYNC_PORT?",
		"SYNC_STORE__LIMITS: unknown variable, ignored",
		"SYNC_STORE__LIMITS__MAX_RECORD: unknown variable, ignored; did you mean SYNC_STORE__LIMITS__MAX_RECORDS?",
	)
	expect(t, lines(report.Notes, ""),
		"SYNC_HUMAN_LOGS: ignored",
		"SYNC_STATSD_HOST: ignored: metrics are served at /metrics",
	)
}

func TestTransformChangesWhatTheFileSays(t *testing.T) {
	t.Parallel()
	got := defaults()
	_, err := Load(got, Options{File: tomlFile(t, "server.listen = \"10.0.0.1:9\""), Aliases: aliases(), Environ: []string{"SYNC_PORT=5000"}})
	if err != nil || got.Server.Listen != "10.0.0.1:5000" {
		t.Errorf("got %s, %v", got.Server.Listen, err)
	}
}

func TestAliasProblems(t *testing.T) {
	t.Parallel()
	expect(t, problems(t, Options{Aliases: aliases(), Environ: []string{
		"SYNC_HOST=", "SYNC_STORE__ENABLED=maybe", "SYNC_STORE__DATABASE_URL=a", "SYNC_STORE__DATABASE_URL_FILE=/dev/null",
	}}),
		"SYNC_HOST: an address has no empty parts; correct it, or set HOLDFAST_SERVER__LISTEN instead",
		"SYNC_STORE__ENABLED: sync.enabled: invalid value \"maybe\": expected true or false",
		"SYNC_STORE__DATABASE_URL_FILE: sync.database_url_file: file /dev/null is empty; write the secret into it",
	)
}

func TestOwnNamesWinOverAliases(t *testing.T) {
	t.Parallel()
	got := defaults()
	report, err := Load(got, Options{Aliases: aliases(), Environ: []string{
		"SYNC_HOST=", "HOLDFAST_SERVER__LISTEN=:1",
		"SYNC_MASTER_SECRET=theirs", "HOLDFAST_SERVER__KEY_FILE=" + tomlFile(t, "ours"),
		"SYNC_STORE__DATABASE_URL_FILE=/none", "HOLDFAST_SYNC__DATABASE_URL=ours",
	}})
	if err != nil || got.Server.Listen != ":1" || got.Server.Key != "ours" || got.Sync.DatabaseURL != "ours" {
		t.Errorf("got %+v, %v", got, err)
	}
	expect(t, lines(report.Notes, ""),
		"SYNC_HOST: ignored: HOLDFAST_SERVER__LISTEN is set",
		"SYNC_MASTER_SECRET: ignored: HOLDFAST_SERVER__KEY_FILE is set",
		"SYNC_STORE__DATABASE_URL_FILE: ignored: HOLDFAST_SYNC__DATABASE_URL is set",
	)
}

func TestAliasThatLeadsNowhereIsABug(t *testing.T) {
	t.Parallel()
	for _, a := range []Alias{{Env: "SYNC_A", Path: "server.none"}, {Env: "SYNC_A", Path: "server"}, {Env: "SYNC_*", Path: "server.listen"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v accepted", a)
				}
			}()
			Load(defaults(), Options{Aliases: []Alias{a}})
		}()
	}
}
