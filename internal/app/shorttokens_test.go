package app

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/conf"
	"holdfast/internal/secrets"
)

// TestShortTokenSettings walks all server settings with a token, and all kinds of addresses. Only an admin listener
// on loopback, or none, accepts a token of fewer than 32 characters.
func TestShortTokenSettings(t *testing.T) {
	t.Parallel()
	defaults := NewConfig(Services())
	var tokens []string
	for _, s := range conf.Settings(defaults.sections(), conf.Report{}) {
		if strings.HasPrefix(s.Path, "server.") && strings.HasSuffix(s.Path, "_token") {
			tokens = append(tokens, s.Path)
		}
	}
	if len(tokens) < 2 {
		t.Fatalf("found the settings %v", tokens)
	}
	for _, setting := range tokens {
		variable := "HOLDFAST_" + strings.ToUpper(strings.Replace(setting, ".", "__", 1)) + "="
		for address, isOpen := range map[string]bool{
			"": false, "127.0.0.1:8001": false, "127.8.8.8:0": false, "[::1]:8001": false, "[::ffff:127.0.0.1]:8001": false, "localhost:8001": false,
			":8001": true, "0.0.0.0:8001": true, "[::]:8001": true, "10.0.0.7:8001": true, "admin.lan:8001": true, "localhost.example.org:8001": true,
		} {
			for token, isShort := range map[string]bool{"": false, "x": true, strings.Repeat("x", 31): true, strings.Repeat("ü", 31): true, strings.Repeat("x", 32): false} {
				_, _, err := Load(nil, "", []string{"HOLDFAST_SERVER__ADMIN_LISTEN=" + address, variable + token})
				if isOpen && isShort != (err != nil) || !isOpen && err != nil {
					t.Errorf("%s of %d bytes at %q: %v", setting, len(token), address, err)
				}
				if err != nil && (!strings.Contains(err.Error(), strings.TrimSuffix(variable, "=")) || !strings.Contains(err.Error(), "fewer than 32") || !strings.Contains(err.Error(), secrets.MakeOne)) {
					t.Errorf("%s at %q: %v", setting, address, err)
				}
			}
		}
	}
}

// TestShortTokenAtRealAddress checks that a token counts where its listener really is: the secrets file may have a short
// one, and a socket that systemd passes is no setting.
func TestShortTokenAtRealAddress(t *testing.T) {
	t.Parallel()
	a := openApp(t, "HOLDFAST_SERVER__ADMIN_TOKEN=short")
	for _, tc := range []struct {
		at      net.Addr
		refused bool
	}{
		{&net.UnixAddr{Name: "/run/holdfast/admin", Net: "unix"}, false},
		{&net.UnixAddr{Name: "@holdfast", Net: "unix"}, false},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:8001")), false},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::1]:8001")), false},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("0.0.0.0:8001")), true},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::]:8001")), true},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.7:8001")), true},
	} {
		if err := a.refuseShortTokens(tc.at); (err != nil) != tc.refused || err != nil && !strings.HasPrefix(err.Error(), secrets.Admin+": has 5 characters, fewer than 32") {
			t.Errorf("%s: %v", tc.at, err)
		}
	}
}

// TestReloadShortToken checks that a running server does not take a short token either.
func TestReloadShortToken(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{"127.0.0.1:0": false, ":0": true} {
		r := openReloadable(t, "HOLDFAST_SERVER__ADMIN_LISTEN="+address)
		r.write("server.viewer_token = 'short'\n")
		_, err := r.reload(t.Context())
		if (err != nil) != refused || refused == (r.current().Server.ViewerToken == "short") || refused && !strings.Contains(err.Error(), secrets.Viewer+": has 5 characters, fewer than 32") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestShortTokenInSecretsFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	text := "[server]\nadmin_token = 'short'\nmaster_secret = '" + strings.Repeat("m", 32) + "'\n"
	if err := os.WriteFile(filepath.Join(data, secrets.File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, refused := range map[string]bool{"127.0.0.1:0": false, ":0": true} {
		cfg, _, err := Load(Services(), "", []string{"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=" + address})
		if err != nil {
			t.Fatal(err)
		}
		a, err := Open(t.Context(), Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: ModeServeMigrating})
		if err != nil {
			t.Fatal(err)
		}
		listeners, err := a.listen()
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), secrets.MakeOne) {
			t.Errorf("%s: %v", address, err)
		}
		if err := closed(listeners, a.Close()); err != nil {
			t.Error(err)
		}
	}
}
