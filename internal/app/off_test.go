package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// TestSettingsThatTurnServicesOff sets everything that lets other machines reach the server. A service that is off for
// this reason, not by its own setting, names the responsible setting and the setting that turns it on: in WhyOff, which check
// prints, in the start's output, and in the answers for its paths.
func TestSettingsThatTurnServicesOff(t *testing.T) {
	t.Parallel()
	on := map[string]bool{}
	local, _, err := Load(Services(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range local.Services {
		on[s.Name] = s.Config.IsEnabled()
	}
	for setting, environ := range map[string][]string{
		"server.listen":          {"HOLDFAST_SERVER__LISTEN=0.0.0.0:8000"},
		"server.public_url":      {"HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org"},
		"server.trusted_proxies": {"HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1"},
		"server.domain":          {"HOLDFAST_SERVER__DOMAIN=sync.example.org"},
	} {
		cfg, _, err := Load(Services(), "", environ)
		if err != nil {
			t.Fatal(err)
		}
		a, off := &App{cfg: cfg}, 0
		for _, s := range cfg.Services {
			why := whyOff(s)
			if s.Config.IsEnabled() == on[s.Name] {
				if why != "" {
					t.Errorf("%s: %s is as without it, and says %s", setting, s.Name, why)
				}
				continue
			}
			off++
			testTurnedOff(t, a, s, setting, why)
		}
		if off == 0 {
			t.Errorf("%s turns nothing off", setting)
		}
	}
}

// testTurnedOff checks where a service that a setting turned off says so.
func testTurnedOff(t *testing.T, a *App, s service.Service, setting, why string) {
	t.Helper()
	want := s.Name + ".enabled = true"
	if !strings.HasPrefix(why, setting+" is ") || !strings.Contains(why, want) {
		t.Errorf("%s turns %s off, which says %q, want the setting and %s", setting, s.Name, why, want)
	}
	var out bytes.Buffer
	all := a.announcement(nil)
	all.log(&out)
	if !strings.Contains(all.text(false), why) || !strings.Contains(out.String(), why) {
		t.Errorf("the start says\n%s%s", all.text(false), out.String())
	}
	for _, path := range append([]string{"/" + s.Name + "/x"}, s.ProtocolPaths...) {
		w := httptest.NewRecorder()
		a.writeRootError(w, httptest.NewRequest(http.MethodGet, path, nil), errcode.New(errcode.NotFound, "no such path"))
		if text := w.Body.String(); w.Code != http.StatusNotFound || !strings.Contains(text, why) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s", path, w.Code, text)
		}
	}
	w := httptest.NewRecorder()
	if err := a.notFound(service.Internal).Serve(w, httptest.NewRequest(http.MethodGet, "/internal/x", nil), web.Address{}); err != nil || !strings.Contains(w.Body.String(), why) {
		t.Errorf("the internal listener answers %s, %v", w.Body, err)
	}
}

// TestOffForItself checks that a service that nothing else turned off gives no reason.
func TestOffForItself(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{nil, {"HOLDFAST_SERVER__LISTEN=:80", "HOLDFAST_GUEST__ENABLED=true"}, {"HOLDFAST_SERVER__LISTEN=:80", "HOLDFAST_GUEST__ENABLED=false"}} {
		cfg, _, err := Load(Services(), "", environ)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range cfg.Services {
			if why := whyOff(s); why != "" {
				t.Errorf("%v: %s says %s", environ, s.Name, why)
			}
		}
	}
}
