//test:unraced its goroutines share nothing

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/app"
)

// line is a line of config effective --json.
type line struct {
	Setting, Source string
	Value           any
	Set             *bool
}

// effective returns the settings by path.
func effective(t *testing.T, environ []string, args ...string) (all map[string]line, out string) {
	t.Helper()
	status, out, errs := run(t, environ, append([]string{"config", "effective", "--json"}, args...)...)
	if status != 0 {
		t.Fatalf("%v %v: exit status %d\n%s", environ, args, status, errs)
	}
	all = map[string]line{}
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Setting == "" || l.Source == "" || (l.Value == nil) == (l.Set == nil) {
			t.Fatalf("%s: %v", text, err)
		}
		all[l.Setting] = l
	}
	return all, out + errs
}

// secretValues are valid values for secrets that are no free texts. Each contains the words that must not be printed.
var secretValues = map[string]string{
	"alerts.url": "https://hook.example.org/marked-secret", "guest.events": "http://hook.example.org/marked-secret", "guest.hot": "redis://u:marked-secret@127.0.0.1:1/0",
	"guest.event_secret": "whsec_bWFya2VkLXNlY3JldG1hcmtlZC1zZWNyZXQ=", "guest.old_event_secrets": "whsec_bWFya2VkLXNlY3JldG1hcmtlZC1zZWNyZXQ=",
	"extstorage.audit": "file:/tmp/marked-secret",
}

// requires are variables without which a setting is refused.
var requires = map[string][]string{"guest.old_event_secrets": {"HOLDFAST_GUEST__EVENT_SECRET=" + secretValues["guest.event_secret"]}}

// TestEffectiveSettings takes all settings from the reference, and checks their values and sources: default, variable,
// file and line, secret file, flag. No secret is printed.
func TestEffectiveSettings(t *testing.T) { //nolint:gocognit,funlen // one check for each kind of setting
	t.Parallel()
	folder := t.TempDir()
	base := []string{"HOLDFAST_DATA=" + folder}
	defaults, _ := effective(t, base)
	section := regexp.MustCompile(`(?m)^## \[([a-z0-9_.]+)\]$`)
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (secret )?([a-z ]+)[^|]*\\|.*\\| `(HOLDFAST_[A-Z0-9_]+)` \\|")
	parts := section.Split(app.Reference(), -1)
	names := section.FindAllStringSubmatch(app.Reference(), -1)
	settings, secrets := 0, 0
	for i, name := range names {
		table := parts[i+1]
		if next := strings.Index(table, "\n## "); next >= 0 { // of named sections, which are empty by default
			table = table[:next]
		}
		for _, r := range row.FindAllStringSubmatch(table, -1) {
			path, isSecret, kind, variable := name[1]+"."+r[1], r[2] != "", r[3], r[4]
			settings++
			if path == "guest.receive" { // only valid with a message broker, which this test does not link
				continue
			}
			is := defaults[path]
			isPublic := path == "guest.events" || path == "guest.hot" // their default, memory, is no secret
			if isPublic && is.Value != "memory" {
				t.Errorf("%s by default: %+v", path, is)
			}
			if isPublic {
				is.Value = nil
			}
			if is.Source != "default" && is.Source != "generated at the first start" || (isSecret && !isPublic) != (is.Set != nil) {
				t.Errorf("%s by default: %+v", path, is)
				continue
			}
			var text, literal string
			switch value := is.Value.(type) {
			case nil:
				secrets++
				if text = secretValues[path]; text == "" {
					text = "marked-secret-" + strings.Repeat("s", 32)
				}
				if strings.HasSuffix(path, "database_url") {
					text = "sqlite:marked-secret.db"
				}
				literal = fmt.Sprintf("%q", text)
				if strings.Contains(kind, "list") {
					literal = "[" + literal + "]"
				}
			case []any:
				var words, quoted []string
				for _, v := range value {
					words, quoted = append(words, fmt.Sprint(v)), append(quoted, fmt.Sprintf("%q", v))
				}
				text, literal = strings.Join(words, ","), "["+strings.Join(quoted, ", ")+"]"
			case string:
				text, literal = value, fmt.Sprintf("%q", value)
			case float64:
				text = strconv.FormatFloat(value, 'f', -1, 64)
				if literal = text; strings.HasPrefix(kind, "number") && !strings.Contains(text, ".") {
					literal += ".0"
				}
			default:
				text = fmt.Sprint(value)
				literal = text
			}
			check := func(source string, environ []string, args ...string) {
				t.Helper()
				all, out := effective(t, slices.Concat(environ, base, requires[path]), args...)
				got := all[path]
				if got.Source != source || isSecret && !*got.Set || !isSecret && fmt.Sprint(got.Value) != fmt.Sprint(is.Value) {
					t.Errorf("%s from %s: %+v, want the value %v", path, source, got, is.Value)
				}
				if strings.Contains(out, "marked-secret") || isSecret && strings.Contains(out, text) {
					t.Errorf("%s is printed:\n%s", path, out)
				}
			}
			check(variable, []string{variable + "=" + text})
			file := filepath.Join(t.TempDir(), "holdfast.toml")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte("# a comment\n["+name[1]+"]\n"+text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(r[1] + " = " + literal)
			check(file+":3", nil, "--config", file)
			if isSecret {
				kept := filepath.Join(t.TempDir(), "kept")
				if err := os.WriteFile(kept, []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				check(variable+"_FILE", []string{variable + "_FILE=" + kept})
				write(r[1] + "_file = " + fmt.Sprintf("%q", kept))
				check(file+":3", []string{"HOLDFAST_CONFIG=" + file})
			}
		}
	}
	if settings < 180 || secrets < 25 || settings > len(defaults)-2 {
		t.Errorf("%d settings, %d of them secrets, %d printed", settings, secrets, len(defaults))
	}
}

func TestEffectiveSources(t *testing.T) {
	t.Parallel()
	data, env := migrated(t)
	all, _ := effective(t, nil, "--listen", ":8123", "--data", data)
	for path, source := range map[string]string{"server.listen": "--listen", "--data": "--data", "--config": "default"} {
		if all[path].Source != source {
			t.Errorf("%s: %+v, want the source %s", path, all[path], source)
		}
	}
	all, _ = effective(t, append(env, "HOLDFAST_SERVER__DOMAIN=sync.example.org", "SYNC_TOKENSERVER__TOKEN_DURATION=600", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318")[1:], "--data", data)
	for path, want := range map[string]line{
		"server.public_url": {Source: "server.domain", Value: "https://sync.example.org"}, "tokenserver.token_duration": {Source: "SYNC_TOKENSERVER__TOKEN_DURATION", Value: "10m"},
		"log.otlp_endpoint": {Source: "OTEL_EXPORTER_OTLP_ENDPOINT", Value: "http://127.0.0.1:4318"},
	} {
		if got := all[path]; got.Source != want.Source || got.Value != want.Value && want.Value != "https://sync.example.org" {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	// Generated secrets come from the secrets file.
	folder := t.TempDir()
	file := filepath.Join(folder, "secrets.toml")
	if err := os.WriteFile(file, []byte("[server]\nadmin_token = 'marked-secret-0123456789-0123456789'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, out := effective(t, []string{"HOLDFAST_DATA=" + folder})
	if got := all["server.admin_token"]; got.Source != file || !*got.Set || strings.Contains(out, "marked-secret") {
		t.Errorf("%+v in\n%s", got, out)
	}
	if got := all["server.master_secret"]; got.Source != "generated at the first start" || *got.Set {
		t.Errorf("%+v", got)
	}
	if status, out, errs := run(t, []string{"HOLDFAST_DATA=" + folder}, "config", "effective"); status != 0 || !regexp.MustCompile(`(?m)^SETTING +VALUE +SOURCE$`).MatchString(out) ||
		!regexp.MustCompile(`(?m)^server\.admin_token +\[set\] +`+regexp.QuoteMeta(file)+"$").MatchString(out) {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
}
