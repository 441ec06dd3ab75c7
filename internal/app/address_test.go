package app

import (
	"os"
	"testing"
)

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
