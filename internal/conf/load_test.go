package conf

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
)

type limits struct {
	MaxPostBytes int   `toml:"max_post_bytes" unit:"bytes" doc:"Sum of the payloads of one POST."`
	MaxRecords   int64 `toml:"max_records" doc:"Records of one POST."`
}

type config struct {
	Server struct {
		Listen  string        `toml:"listen" doc:"Address of the main listener."`
		Proxies []string      `toml:"trusted_proxies" doc:"Networks | addresses of proxies."`
		Grace   time.Duration `toml:"grace" doc:"Time for open requests."`
		Key     Secret        `toml:"key" doc:"Signs tokens."`
		OldKeys []Secret      `toml:"old_keys" doc:"Keys that are on their way out."`
	} `toml:"server" doc:"Listeners."`
	Sync struct {
		Enabled     bool              `toml:"enabled" doc:"Serves this service."`
		DatabaseURL string            `toml:"database_url" secret:"true" doc:"Where the records are."`
		Ratio       float64           `toml:"ratio" doc:"A share."`
		Limits      limits            `toml:"limits"`
		Collections map[string]limits `toml:"collections" doc:"Limits of single collections."`
	} `toml:"sync"`
	Internal struct{ Hidden int } `toml:"-"`
}

func defaults() *config {
	c := &config{}
	c.Server.Listen, c.Server.Grace = "127.0.0.1:8000", 30*time.Second
	c.Sync.Enabled, c.Sync.Ratio = true, 0.5
	c.Sync.Limits = limits{MaxPostBytes: 100, MaxRecords: 10}
	return c
}

func tomlFile(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "holdfast.toml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// problems loads o over the defaults and returns a line per problem, without the file's folder.
func problems(t *testing.T, o Options) []string {
	t.Helper()
	_, err := Load(defaults(), o)
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || !errcode.Is(err, errcode.Invalid) {
		t.Fatalf("%T %v is not an *Error with errcode.Invalid", err, err)
	}
	return lines(e.Problems, o.File)
}

func lines(problems []Problem, file string) []string {
	var all []string
	for _, p := range problems {
		all = append(all, strings.ReplaceAll(p.String(), filepath.Dir(file)+"/", ""))
	}
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryKind(t *testing.T) {
	t.Parallel()
	want := defaults()
	want.Server.Listen = "[::1]:5000"
	want.Server.Proxies = []string{"10.0.0.0/8", "::1"}
	want.Server.Grace = 90 * time.Second
	want.Server.Key = "hunter2"
	want.Server.OldKeys = []Secret{"one", "two"}
	want.Sync.Enabled, want.Sync.Ratio, want.Sync.DatabaseURL = false, 2, "postgres://u:p@h/d"
	want.Sync.Limits = limits{2621440, 9007199254740993}
	want.Sync.Collections = map[string]limits{"newtab-images": {20, 0}, "tabs": {0, 5}}

	for name, o := range map[string]Options{
		"file": {File: tomlFile(t, `
[server]
listen = "[::1]:5000"
trusted_proxies = ["10.0.0.0/8", "::1"]
grace = "1m30s"
key = "hunter2"
old_keys = ["one", "two"]
[sync]
enabled = false
database_url = "postgres://u:p@h/d"
ratio = 2
limits = { max_post_bytes = 2_621_440, max_records = 9007199254740993 }
[sync.collections.newtab-images]
max_post_bytes = 20
[sync.collections]
tabs.max_records = 5
`)},
		"environment": {Environ: []string{
			"HOLDFAST_SERVER__LISTEN=[::1]:5000",
			"HOLDFAST_SERVER__TRUSTED_PROXIES= 10.0.0.0/8,, ::1 ",
			"HOLDFAST_SERVER__GRACE=90s",
			"HOLDFAST_SERVER__KEY=hunter2",
			"HOLDFAST_SERVER__OLD_KEYS=one,two",
			"HOLDFAST_SYNC__ENABLED=false",
			"HOLDFAST_SYNC__DATABASE_URL=postgres://u:p@h/d",
			"HOLDFAST_SYNC__RATIO=2",
			"HOLDFAST_SYNC__LIMITS__MAX_POST_BYTES=2621440",
			"HOLDFAST_SYNC__LIMITS__MAX_RECORDS=9007199254740993",
			"HOLDFAST_SYNC__COLLECTIONS__NEWTAB-IMAGES__MAX_POST_BYTES=20",
			"HOLDFAST_SYNC__COLLECTIONS__TABS__MAX_RECORDS=5",
			"HOLDFAST_CONFIG=x", "HOLDFAST_DATA=y", "PATH=/bin", "=C:=odd", "nonsense",
			"HOLDFAST_PORT_8000_TCP_ADDR=10.1.2.3", "HOLDFAST_SERVICE_HOST=10.1.2.3", "HOLDFAST_SERVICE_PORT_HTTP=80", "HOLDFAST_PORT=tcp://10.1.2.3:8000",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := defaults()
			report, err := Load(got, o)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v", got, err)
			}
			if len(report.Warnings)+len(report.Notes) > 0 {
				t.Errorf("unexpected: %v %v", report.Warnings, report.Notes)
			}
		})
	}
}

func TestNothingSetLeavesTheDefaults(t *testing.T) {
	t.Parallel()
	got := defaults()
	report, err := Load(got, Options{File: tomlFile(t, "[server]\n")})
	if err != nil || !reflect.DeepEqual(got, defaults()) {
		t.Errorf("%+v, %v", got, err)
	}
	if w := report.Where("server.listen"); w != "default" {
		t.Errorf("listen comes from %s", w)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	alias := []Alias{{Env: "SYNC_ADDRESS", Path: "server.listen"}}
	name := tomlFile(t, "[server]\nlisten = \"file\"\n")
	for _, c := range []struct {
		file, sync, ours string
		want, where      string
		notes            int
	}{
		{"", "", "", "127.0.0.1:8000", "default", 0},
		{name, "", "", "file", name + ":2", 0},
		{name, "SYNC_ADDRESS=sync", "", "sync", "SYNC_ADDRESS", 0},
		{name, "", "HOLDFAST_SERVER__LISTEN=ours", "ours", "HOLDFAST_SERVER__LISTEN", 0},
		{name, "SYNC_ADDRESS=sync", "HOLDFAST_SERVER__LISTEN=ours", "ours", "HOLDFAST_SERVER__LISTEN", 1},
		{name, "SYNC_ADDRESS=sync", "HOLDFAST_SERVER__LISTEN=", "", "HOLDFAST_SERVER__LISTEN", 1},
	} {
		got := defaults()
		report, err := Load(got, Options{File: c.file, Environ: []string{c.sync, c.ours}, Aliases: alias})
		if err != nil || got.Server.Listen != c.want || report.Where("server.listen") != c.where || len(report.Notes) != c.notes {
			t.Errorf("%+v: got %q from %s, notes %v, %v", c, got.Server.Listen, report.Where("server.listen"), report.Notes, err)
		}
		flag := Flag{Name: "--listen", Path: "server.listen", Value: "flag"}
		report, err = Load(got, Options{File: c.file, Environ: []string{c.sync, c.ours}, Aliases: alias, Flags: []Flag{flag}})
		if err != nil || got.Server.Listen != "flag" || report.Where("server.listen") != "--listen" {
			t.Errorf("%+v with a flag: got %q from %s, %v", c, got.Server.Listen, report.Where("server.listen"), err)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	name := tomlFile(t, `listen = ":1"
[server]
lisen = ":1"
grace = "soon"
trusted_proxies = ["a", 1]
old_keys = "one"

[sync]
enabled = "yes"
ratio = nan
limits = 5
[sync.collections.tabs]
max_post_byte = 1
max_records = 1.5
[srver]
a = 1
[server.listen]
a = 1
[[sync.database_url]]
a = 1
`)
	got := problems(t, Options{File: name, Environ: []string{
		"HOLDFAST_SERVER__GRACE=9999999999999",
		"HOLDFAST_SERVER_LISTEN=:1",
		"HOLDFAST_LISTEN=:1",
		"HOLDFAST_SYNC=1",
		"HOLDFAST_SYNC__ENABLED=",
		"HOLDFAST_SYNC__COLLECTIONS__TABS__MAX_RECORD=1",
		"HOLDFAST_SYNC__LIMITS__MAX_RECORDS=9223372036854775808",
		"HOLDFAST_SYNC__COLLECTIONS____MAX_RECORDS=1",
		"HOLDFAST_=1",
	}})
	const wrong = ": invalid value: expected "
	const aList, aDuration = `a list of strings, e.g. ["a", "b"]`, `a duration with a unit, e.g. "30s", "2h", "90d" or "2w"`
	const list = "; holdfast config reference lists the variables"
	expect(t, got,
		"holdfast.toml:1: unknown setting listen; did you mean server.listen?",
		"holdfast.toml:3: unknown setting server.lisen; did you mean server.listen?",
		"holdfast.toml:4: server.grace"+wrong+aDuration,
		"holdfast.toml:5: server.trusted_proxies"+wrong+aList,
		"holdfast.toml:6: server.old_keys"+wrong+aList,
		"holdfast.toml:9: sync.enabled"+wrong+"true or false",
		"holdfast.toml:10: sync.ratio"+wrong+"a number",
		"holdfast.toml:11: sync.limits: is a section, not a setting; write [sync.limits] and its settings below it",
		"holdfast.toml:13: unknown setting sync.collections.tabs.max_post_byte; did you mean sync.collections.tabs.max_post_bytes?",
		"holdfast.toml:14: sync.collections.tabs.max_records"+wrong+"a whole number",
		"holdfast.toml:15: unknown setting srver; did you mean server?",
		"holdfast.toml:17: server.listen: is a setting, not a section: expected a string in quotes",
		"holdfast.toml:19: sync.database_url"+wrong+"a string in quotes",
		"HOLDFAST_: unknown variable; unset it"+list,
		"HOLDFAST_LISTEN: unknown variable; did you mean HOLDFAST_SERVER__LISTEN?",
		"HOLDFAST_SERVER_LISTEN: unknown variable; did you mean HOLDFAST_SERVER__LISTEN?",
		`HOLDFAST_SERVER__GRACE: invalid value "9999999999999": expected `+aDuration,
		"HOLDFAST_SYNC: names a section, not a setting; add a setting name: HOLDFAST_SYNC__…",
		"HOLDFAST_SYNC__COLLECTIONS__TABS__MAX_RECORD: unknown variable; did you mean HOLDFAST_SYNC__COLLECTIONS__TABS__MAX_RECORDS?",
		"HOLDFAST_SYNC__COLLECTIONS____MAX_RECORDS: unknown variable; did you mean HOLDFAST_SYNC__COLLECTIONS__NAME__MAX_RECORDS?",
		`HOLDFAST_SYNC__ENABLED: invalid value "": expected true or false`,
		`HOLDFAST_SYNC__LIMITS__MAX_RECORDS: invalid value "9223372036854775808": expected a whole number`,
	)
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	key, url := write("key", " hunter2 \r\n"), write("url", "postgres://x\n\n")
	many, empty := write("many", "one\n\n two\r\n"), write("empty", "\n")

	want := defaults()
	want.Server.Key, want.Server.OldKeys, want.Sync.DatabaseURL = " hunter2 ", []Secret{"one", "two"}, "postgres://x\n"
	got := defaults()
	report, err := Load(got, Options{
		File:    tomlFile(t, "[server]\nkey = \"from file\"\nold_keys_file = \""+many+"\"\n[sync]\ndatabase_url_file = \""+url+"\"\n"),
		Environ: []string{"HOLDFAST_SERVER__KEY_FILE=" + key},
	})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q %q %q, %v", got.Server.Key.Reveal(), got.Server.OldKeys, got.Sync.DatabaseURL, err)
	}
	if w := report.Where("server.key"); w != "HOLDFAST_SERVER__KEY_FILE" {
		t.Errorf("key comes from %s", w)
	}

	expect(t, problems(t, Options{
		File: tomlFile(t, "[server]\nkey = \"x\"\nkey_file = \""+key+"\"\n"),
		Environ: []string{
			"HOLDFAST_SERVER__OLD_KEYS_FILE=" + dir + "/none", "HOLDFAST_SYNC__DATABASE_URL_FILE=" + empty,
			"HOLDFAST_SERVER__KEY=x", "HOLDFAST_SERVER__KEY_FILE=" + key,
		},
	}),
		"holdfast.toml:3: server.key and server.key_file are both set; remove one of them",
		"HOLDFAST_SERVER__KEY_FILE: HOLDFAST_SERVER__KEY and HOLDFAST_SERVER__KEY_FILE are both set; remove one of them",
		"HOLDFAST_SERVER__OLD_KEYS_FILE: cannot read file "+dir+"/none: no such file or directory; check its path and permissions",
		"HOLDFAST_SYNC__DATABASE_URL_FILE: file "+empty+" is empty; write the secret into it",
	)
}

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.toml")
	expect(t, problems(t, Options{File: missing, Environ: []string{"HOLDFAST_X__Y=1"}}),
		"none.toml: cannot read the file: no such file or directory; check its path and permissions",
		"HOLDFAST_X__Y: unknown variable; unset it; holdfast config reference lists the variables")
	expect(t, problems(t, Options{File: tomlFile(t, "[server]\nlisten = 1 2\n")}),
		"holdfast.toml:2: not valid TOML at column 12; quote strings, and set each key and section once; the rest of the file was not checked")
	expect(t, problems(t, Options{File: tomlFile(t, "[server]\nlisten = 'a'\nlisten = 'b'\n")}),
		"holdfast.toml:3: not valid TOML at column 1; quote strings, and set each key and section once; the rest of the file was not checked")
}

// TestDurationsNeedAUnit covers the exceptions: 0, and variables for Mozilla's server, which count seconds.
func TestDurationsNeedAUnit(t *testing.T) {
	t.Parallel()
	const says = `: expected a duration with a unit, e.g. "30s", "2h", "90d" or "2w"`
	for _, o := range []Options{
		{File: tomlFile(t, "server.grace = 90")},
		{File: tomlFile(t, "server.grace = \"90\"")},
		{Environ: []string{"HOLDFAST_SERVER__GRACE=90"}},
	} {
		if got := problems(t, o); len(got) != 1 || !strings.HasSuffix(got[0], says) {
			t.Errorf("%+v: got %v", o, got)
		}
	}
	alias := []Alias{{Env: "SYNC_GRACE", Path: "server.grace"}}
	for _, c := range []struct {
		o    Options
		want time.Duration
	}{
		{Options{File: tomlFile(t, "server.grace = 0")}, 0},
		{Options{Environ: []string{"HOLDFAST_SERVER__GRACE=0"}}, 0},
		{Options{Aliases: alias, Environ: []string{"SYNC_GRACE=90"}}, 90 * time.Second},
		{Options{Aliases: alias, Environ: []string{"SYNC_GRACE=2m"}}, 2 * time.Minute},
	} {
		got := defaults()
		if _, err := Load(got, c.o); err != nil || got.Server.Grace != c.want {
			t.Errorf("%+v: got %s, %v; want %s", c.o, got.Server.Grace, err, c.want)
		}
	}
}

// Only variables from Kubernetes are skipped, here for services named holdfast and holdfast-admin.
func TestServiceLinks(t *testing.T) {
	t.Parallel()
	got := defaults()
	if report, err := Load(got, Options{Environ: []string{
		"HOLDFAST_SERVICE_HOST=10.1.2.3", "HOLDFAST_SERVICE_PORT=8000", "HOLDFAST_SERVICE_PORT_HTTP=8000", "HOLDFAST_PORT=tcp://10.1.2.3:8000",
		"HOLDFAST_PORT_8000_TCP=tcp://10.1.2.3:8000", "HOLDFAST_PORT_8000_TCP_PROTO=tcp", "HOLDFAST_PORT_8000_TCP_PORT=8000", "HOLDFAST_PORT_8000_TCP_ADDR=10.1.2.3",
		"HOLDFAST_ADMIN_SERVICE_HOST=10.1.2.3", "HOLDFAST_ADMIN_PORT=udp://10.1.2.3:8001", "HOLDFAST_ADMIN_PORT_8001_UDP_PORT=8001",
	}}); err != nil || len(report.Warnings)+len(report.Notes) > 0 || !reflect.DeepEqual(got, defaults()) {
		t.Errorf("%v, %v", report, err)
	}
	wrong := []string{"HOLDFAST_PORT=8000", "HOLDFAST_SERVER_PORT=8000", "HOLDFAST_SERVER__PORT=tcp://x", "HOLDFAST_PORT_TCP=x", "HOLDFAST_DATAS=/var"}
	said := problems(t, Options{Environ: wrong})
	if len(said) != len(wrong) {
		t.Errorf("got %v", said)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "HOLDFAST_DATAS: unknown variable; did you mean HOLDFAST_DATA?") {
		t.Error(all)
	}
}

func TestNamesOfTheEnvironmentFindThoseOfTheFile(t *testing.T) {
	t.Parallel()
	got := defaults()
	got.Sync.Collections = map[string]limits{"Tabs": {MaxRecords: 1}}
	_, err := Load(got, Options{
		File: tomlFile(t, "[sync.collections.newtab-images]\nmax_post_bytes = 1\n[sync.collections.'a.b']\nmax_records = 3\n"),
		Environ: []string{
			"HOLDFAST_SYNC__COLLECTIONS__NEWTAB_IMAGES__MAX_RECORDS=2", "HOLDFAST_SYNC__COLLECTIONS__TABS__MAX_POST_BYTES=2",
			"HOLDFAST_SYNC__COLLECTIONS__A_B__MAX_POST_BYTES=4", "HOLDFAST_SYNC__COLLECTIONS__NEW_ONE__MAX_RECORDS=5",
		},
	})
	want := map[string]limits{"newtab-images": {1, 2}, "Tabs": {2, 1}, "a.b": {4, 3}, "new_one": {0, 5}}
	if err != nil || !reflect.DeepEqual(got.Sync.Collections, want) {
		t.Errorf("got %v, %v", got.Sync.Collections, err)
	}
}

func TestInvalidStructsPanic(t *testing.T) {
	t.Parallel()
	for name, dst := range map[string]any{
		"no pointer": config{},
		"no struct":  new(int),
		"no tag":     &struct{ A int }{},
		"tag in upper case": &struct {
			A int `toml:"A"`
		}{},
		"two underscores": &struct {
			A int `toml:"a__b"`
		}{},
		"unsupported type": &struct {
			A chan int `toml:"a"`
		}{},
		"secret number": &struct {
			A int `toml:"a" secret:"true"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			Load(dst, Options{})
		})
	}
}
