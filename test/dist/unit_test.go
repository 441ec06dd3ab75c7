package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
)

func unit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree(t), "holdfast.service"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func unitSetting(t *testing.T, text, key string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%s stands %d times in the unit", key, len(found))
	}
	return found[0][1]
}

// TestUnit checks that systemd accepts the unit and rates its exposure low, also with the HTTPS additions from
// docs/install.md.
func TestUnit(t *testing.T) {
	t.Parallel()
	need(t, "systemd", "systemd-analyze")
	override := regexp.MustCompile("(?s)```\n(\\[Service\\]\n.*?)```").FindStringSubmatch(install(t))
	if override == nil {
		t.Fatal("the documentation has no override of the unit")
	}
	// The unit's path does not exist here.
	text := strings.ReplaceAll(unit(t), "=holdfast ", "="+filepath.Join(tree(t), "holdfast")+" ")
	for _, tc := range []struct{ name, more, exposure string }{{"released", "", "15"}, {"overridden", override[1], "18"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "holdfast.service")
		if err := os.WriteFile(path, []byte(text+tc.more), 0o600); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(dir, "holdfast.socket")
		if err := os.Link(filepath.Join(tree(t), "holdfast.socket"), socket); err != nil {
			t.Fatal(err)
		}
		if out := output(t, "systemd-analyze", "verify", "--man=no", path, socket); strings.Contains(out, "holdfast") {
			t.Errorf("%s: %s", tc.name, out)
		}
		// The threshold is in tenths. The remaining exposure is the network, and checks in newer systemd versions.
		output(t, "systemd-analyze", "security", "--offline=yes", "--threshold="+tc.exposure, path)
	}
}

func install(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInstallByHand checks that the documented files exist in the tarball, and that the unit finds them once installed.
func TestInstallByHand(t *testing.T) {
	t.Parallel()
	installed := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^sudo install (?:-D )?(?:-m \d+ )?([a-z.-]+) (/\S+)$`).FindAllStringSubmatch(install(t), -1) {
		if _, err := os.Stat(filepath.Join(tree(t), found[1])); err != nil {
			t.Error(err)
		}
		installed[found[1]] = found[2]
	}
	if len(installed) != 8 || !strings.Contains(unit(t), "HOLDFAST_CONFIG="+installed["holdfast.toml"]+" ") {
		t.Errorf("installed %v", installed)
	}
}

// TestUnitStarts checks that the unit's command starts a server that notifies systemd, and that the default stop timeout
// is long enough.
func TestUnitStarts(t *testing.T) {
	t.Parallel()
	text := unit(t)
	tree, root := tree(t), t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc/holdfast"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(tree, "holdfast.toml"), filepath.Join(root, "etc/holdfast/holdfast.toml")); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(unitSetting(t, text, "ExecStart"))
	cmd := exec.Command(filepath.Join(tree, words[0]), words[1:]...)
	cmd.Env = binary.Environ(append(strings.Fields(strings.ReplaceAll(unitSetting(t, text, "Environment"), "=/", "="+root+"/")), binary.GuestsByDefault)...)
	words = strings.Fields(unitSetting(t, text, "ExecStartPre"))
	before := exec.Command(filepath.Join(tree, words[0]), words[1:]...)
	before.Env = cmd.Env
	if out, err := before.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", words, err, out)
	}
	serve(t, cmd)
	words = strings.Fields(strings.ReplaceAll(unitSetting(t, text, "ExecReload"), "$MAINPID", strconv.Itoa(cmd.Process.Pid)))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil { // fails if it stops the server
		t.Errorf("%v: %v\n%s", words, err, out)
	}
	for _, database := range []string{"syncstorage.db", "guest.db"} {
		if _, err := os.Stat(filepath.Join(root, "var/lib/holdfast", database)); err != nil {
			t.Errorf("the data is not where the unit says: %v", err)
		}
	}

	stop, err := time.ParseDuration(unitSetting(t, text, "TimeoutStopSec") + "s")
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(tree, "holdfast.toml"))
	if err != nil {
		t.Fatal(err)
	}
	grace := regexp.MustCompile(`(?m)^#shutdown_grace = "(.*)"$`).FindStringSubmatch(string(config))
	if grace == nil {
		t.Fatal("the configuration does not say shutdown_grace")
	}
	if d, err := time.ParseDuration(grace[1]); err != nil || d+10*time.Second > stop {
		t.Errorf("the server may take %s to stop, %v; systemd ends it after %v", grace[1], err, stop)
	}
}
