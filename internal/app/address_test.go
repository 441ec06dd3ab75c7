//test:unraced compiling gRPC for the race detector takes a minute

package app

import (
	"net"
	"os"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/listen"
)

// TestAddressesAnnounced checks that a server on all addresses announces each reachable address, unless it has a
// public URL.
func TestAddressesAnnounced(t *testing.T) {
	t.Parallel()
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		listen, public string
		announced      bool
	}{
		{"0.0.0.0:0", "", true}, {":0", "", true}, {"127.0.0.1:0", "", false}, {"0.0.0.0:0", "https://sync.example.org", false},
	} {
		l, err := net.Listen("tcp", tc.listen)
		if err != nil {
			t.Fatal(err)
		}
		a := &App{cfg: &Config{Server: Server{PublicURL: tc.public}}, data: t.TempDir()}
		all := a.announcement([]listener{{Listener: l, name: service.Main}})
		text := all.text(false)
		for _, address := range own {
			ip := address.(*net.IPNet).IP
			reachable := ip.IsGlobalUnicast()
			url := "http://" + net.JoinHostPort(ip.String(), listen.PortOf(l.Addr().String()))
			if announced := strings.Contains(text, url); announced != (tc.announced && reachable) && !strings.HasPrefix(tc.listen, "127.") {
				t.Errorf("%s: %s announced: %t in\n%s", tc.listen, url, announced, text)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ public, listen, want string }{
		{"", "127.0.0.1:8000", "http://127.0.0.1:8000"},
		{"", "[::1]:8000", "http://[::1]:8000"},
		{"", "0.0.0.0:8000", "http://" + name + ":8000"},
		{"", "[::]:8000", "http://" + name + ":8000"},
		{"", ":8000", "http://" + name + ":8000"},
		{"https://sync.example.org:443/fox/", "0.0.0.0:8000", "https://sync.example.org/fox"},
	} {
		a := &App{cfg: &Config{Server: Server{PublicURL: tc.public, Listen: tc.listen}}}
		if got := a.address(tc.listen); got != tc.want {
			t.Errorf("public %q, listening on %q: %s, want %s", tc.public, tc.listen, got, tc.want)
		}
	}
}
