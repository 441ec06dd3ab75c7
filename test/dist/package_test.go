package dist

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/test/binary"
)

func deb(t *testing.T) string {
	t.Helper()
	need(t, "dpkg", "dpkg-deb")
	return filepath.Join(release(t), "holdfast_1.2.3_"+native(t).deb+".deb")
}

func TestPackage(t *testing.T) {
	t.Parallel()
	file, root := deb(t), t.TempDir()
	for field, want := range map[string]string{
		"Package": "holdfast", "Version": "1.2.3", "Architecture": native(t).deb, "Section": "net", "Priority": "optional",
	} {
		if got := strings.TrimSpace(output(t, "dpkg-deb", "-f", file, field)); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", file)) {
		if !strings.Contains(line, " root/root ") {
			t.Errorf("not root's: %s", line)
		}
	}
	output(t, "dpkg-deb", "-R", file, root)
	for name, mode := range map[string]os.FileMode{
		"usr/bin/holdfast": 0o755, "etc/holdfast/holdfast.toml": 0o644, "usr/lib/systemd/system/holdfast.service": 0o644,
		"DEBIAN/postinst": 0o755, "DEBIAN/prerm": 0o755, "DEBIAN/postrm": 0o755, "DEBIAN/conffiles": 0o644,
	} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if out := output(t, "cat", filepath.Join(root, "DEBIAN/conffiles")); out != "/etc/holdfast/holdfast.toml\n/etc/logrotate.d/holdfast\n" {
		t.Errorf("conffiles:\n%s", out)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		output(t, "sh", "-n", filepath.Join(root, "DEBIAN", script))
	}
	links(t, filepath.Join(root, "usr/share/doc/holdfast"))
	documented(t, root)
}

func TestPackageVersions(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "dpkg")
	need(t, "rpm", "rpm")
	apkVersion := regexp.MustCompile(`^\d+(\.\d+)*(_(alpha|beta|pre|rc|git|p)\d*)*$`)
	program := filepath.Join(t.TempDir(), "release")
	output(t, "go", "build", "-C", "../../packaging/release", "-o", program, ".")
	last := map[string]string{"deb": "0~0", "rpm": "0~0"}
	for _, tc := range [][2]string{
		{"dev", "0_git20231114221320"},
		{"v0.9.0", "0.9.0"},
		{"v1.2.0-rc1", "1.2.0_rc1"},
		{"v1.2.0-rc1-3-g0123abc", "1.2.0_rc1_p3"},
		{"v1.2.0-rc2", "1.2.0_rc2"},
		{"v1.2.0", "1.2.0"},
		{"v1.2.0-4-gfedc987", "1.2.0_p4"},
		{"v1.2.0-11-g0123abc", "1.2.0_p11"},
		{"v1.2.1", "1.2.1"},
		{"v1.2.1-dirty", "1.2.1"},
	} {
		described, apk := tc[0], tc[1]
		next := map[string]string{}
		for _, format := range []string{"deb", "rpm", "apk"} {
			next[format] = strings.TrimSpace(output(t, program,
				"-print-version", format, "-version", described, "-commit", commit, fmt.Sprintf("-epoch=%d", epoch)))
		}
		output(t, "dpkg", "--validate-version", next["deb"])
		if exec.Command("dpkg", "--compare-versions", next["deb"], "gt", last["deb"]).Run() != nil {
			t.Errorf("deb: %s is %s, which is no upgrade of %s", described, next["deb"], last["deb"])
		}
		compared := output(t, "rpm", "--eval", fmt.Sprintf(`%%{lua: print(rpm.vercmp("%s", "%s"))}`, next["rpm"], last["rpm"]))
		if strings.TrimSpace(compared) != "1" {
			t.Errorf("rpm: %s is %s, which is no upgrade of %s", described, next["rpm"], last["rpm"])
		}
		if next["apk"] != apk || !apkVersion.MatchString(apk) {
			t.Errorf("apk: %s is %s, want %s", described, next["apk"], apk)
		}
		last = next
	}
}

// system is a folder that dpkg treats as a system. It has no shell, so package scripts run outside with DPKG_ROOT.
type system struct {
	t    *testing.T
	root string
}

func newSystem(t *testing.T) *system {
	t.Helper()
	needRoot(t, "install packages")
	need(t, "dpkg", "dpkg", "deb-systemd-helper")
	need(t, "systemd", "systemd-sysusers")
	root := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := &system{t, root}
	s.write("var/lib/dpkg/status", "")
	return s
}

func (s *system) dpkg(args ...string) string {
	s.t.Helper()
	return output(s.t, "dpkg", append([]string{"--root=" + s.root, "--log=/dev/null", "--force-depends", "--force-script-chrootless"}, args...)...)
}

func (s *system) write(name, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(s.root, name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) has(name string) bool {
	_, err := os.Lstat(filepath.Join(s.root, name))
	return err == nil
}

func (s *system) want(when string, there bool, names ...string) {
	s.t.Helper()
	for _, name := range names {
		if s.has(name) != there {
			s.t.Errorf("%s: /%s is there: %v", when, name, !there)
		}
	}
}

func newer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "newer.deb")
	output(t, "dpkg-deb", "-R", deb(t), tree)
	output(t, "sed", "-i", "s/^Version: .*/Version: 1.2.4/", filepath.Join(tree, "DEBIAN/control"))
	output(t, "dpkg-deb", "-Znone", "--build", tree, file)
	return file
}

// TestPackageLife tests a package from installation to purge. It must keep an operator's changes and never delete data.
func TestPackageLife(t *testing.T) {
	t.Parallel()
	const (
		program = "usr/bin/holdfast"
		config  = "etc/holdfast/holdfast.toml"
		wanted  = "etc/systemd/system/multi-user.target.wants/holdfast.service"
		timer   = "etc/systemd/system/timers.target.wants/holdfast-backup.timer"
		stored  = "var/lib/holdfast/syncstorage.db"
		guests  = "var/lib/holdfast/guest.db" // served, because the server listens on 127.0.0.1
	)
	s := newSystem(t)
	s.dpkg("-i", deb(t))
	s.want("installed", true, program, config, wanted)
	s.want("installed", false, timer)
	passwd, err := os.ReadFile(filepath.Join(s.root, "etc/passwd"))
	if err != nil || !strings.Contains(string(passwd), "holdfast:x:") || !strings.Contains(string(passwd), ":/var/lib/holdfast:/usr/sbin/nologin") {
		t.Errorf("the user of the service: %s, %v", passwd, err)
	}
	cmd := exec.Command(filepath.Join(s.root, program), "serve")
	cmd.Env = binary.Environ(binary.GuestsByDefault, "HOLDFAST_CONFIG="+filepath.Join(s.root, config), "HOLDFAST_DATA="+filepath.Join(s.root, "var/lib/holdfast"))
	serve(t, cmd)
	s.want("served", true, stored, guests)

	s.write(config, "[log]\nlevel = \"warn\"\n")
	if err := os.Remove(filepath.Join(s.root, wanted)); err != nil { // systemctl disable
		t.Fatal(err)
	}
	output(t, "systemctl", "--root="+s.root, "enable", "holdfast-backup.timer")
	s.want("enabled", true, timer)
	s.dpkg("-i", newer(t))
	s.want("upgraded", true, program, stored, timer)
	s.want("disabled and upgraded", false, wanted)
	if text, err := os.ReadFile(filepath.Join(s.root, config)); err != nil || !strings.Contains(string(text), "warn") {
		t.Errorf("the configuration after an upgrade: %s, %v", text, err)
	}

	s.dpkg("-r", "holdfast")
	s.want("removed", false, program, "usr/lib/systemd/system/holdfast.service")
	s.want("removed", true, config, stored)

	if out := s.dpkg("-P", "holdfast"); !strings.Contains(out, "the data remains in /var/lib/holdfast") {
		t.Errorf("the purge does not say what it leaves:\n%s", out)
	}
	s.want("purged", false, "etc/holdfast", "var/lib/dpkg/info/holdfast.list", timer)
	s.want("purged", true, stored, guests)
}
