package testdb

import "testing"

// TestInstall checks the advice for the systems that the guide names.
func TestInstall(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"ID=debian\nNAME=\"Debian GNU/Linux\"\n":  "install with sudo apt-get install redis-server postgresql",
		"ID=ubuntu\nID_LIKE=debian\n":             "install with sudo apt-get install redis-server postgresql",
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"": "install with sudo apt-get install redis-server postgresql",
		"ID=fedora\n": "install with sudo dnf install valkey-compat-redis postgresql-server",
		"ID=\"rocky\"\nID_LIKE=\"rhel fedora\"\n": "install with sudo dnf install valkey-compat-redis postgresql-server",
		"ID=arch\n":   "install with sudo pacman -S valkey postgresql",
		"ID=alpine\n": "install redis, postgresql",
		"":            "install redis, postgresql",
	} {
		if got := installOn(systemOf(release), []string{"redis", "postgresql"}); got != want {
			t.Errorf("%q: %s, want %s", release, got, want)
		}
	}
	if got := installOn("macos", []string{"redis", "postgresql"}); got != "install with brew install redis postgresql@17" {
		t.Error(got)
	}
}
