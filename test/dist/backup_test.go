package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// backupUnit is the timer's service, with its folders under root. run executes its commands in order, like systemd.
type backupUnit struct {
	t       *testing.T
	tree    string
	root    string
	env     []string
	backups string
	lines   []string
}

func newBackupUnit(t *testing.T) *backupUnit {
	t.Helper()
	tree, root := tree(t), t.TempDir()
	text, err := os.ReadFile(filepath.Join(tree, "holdfast-backup.service"))
	if err != nil {
		t.Fatal(err)
	}
	u := &backupUnit{t: t, tree: tree, root: root, backups: filepath.Join(root, "var/lib/holdfast-backup")}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "Environment":
			u.env = append(u.env, strings.Fields(strings.ReplaceAll(value, "=/", "="+root+"/"))...)
		case "StateDirectory":
			for dir := range strings.FieldsSeq(value) {
				if err := os.MkdirAll(filepath.Join(root, "var/lib", dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
		case "ExecStart", "ExecStartPost":
			u.lines = append(u.lines, value)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/holdfast"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(tree, "holdfast.toml"), filepath.Join(root, "etc/holdfast/holdfast.toml")); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *backupUnit) run(env ...string) (ok bool, text string) {
	u.t.Helper()
	for _, line := range u.lines {
		// systemd doubles a literal % and $.
		shell, script, found := strings.Cut(strings.NewReplacer("%%", "%", "$$", "$").Replace(line), "c '")
		if !found || !strings.HasSuffix(script, "'") {
			u.t.Fatalf("a command that this test does not understand: %s", line)
		}
		words := strings.Fields(shell + "c")
		cmd := exec.Command(words[0], append(words[1:], strings.TrimSuffix(script, "'"))...)
		cmd.Env = binary.Environ(slices.Concat([]string{"PATH=" + u.tree + ":" + os.Getenv("PATH")}, u.env, env)...)
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		text += string(out)
		if err != nil {
			return false, text
		}
	}
	return true, text
}

func (u *backupUnit) kept() (names []string) {
	u.t.Helper()
	entries, err := os.ReadDir(u.backups)
	if err != nil {
		u.t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func (u *backupUnit) mkdir(names ...string) {
	u.t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(u.backups, name, "x"), 0o700); err != nil {
			u.t.Fatal(err)
		}
	}
}

// TestBackupUnits checks that systemd accepts the timer and its service, and that the service has few permissions.
func TestBackupUnits(t *testing.T) {
	t.Parallel()
	need(t, "systemd", "systemd-analyze")
	dir := t.TempDir()
	for _, name := range []string{"holdfast-backup.service", "holdfast-backup.timer"} {
		text, err := os.ReadFile(filepath.Join(tree(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	service, timer := filepath.Join(dir, "holdfast-backup.service"), filepath.Join(dir, "holdfast-backup.timer")
	if out := output(t, "systemd-analyze", "verify", "--man=no", service, timer); strings.Contains(out, "holdfast") {
		t.Error(out)
	}
	output(t, "systemd-analyze", "security", "--offline=yes", "--threshold=15", service)
	text, err := os.ReadFile(timer)
	if err != nil {
		t.Fatal(err)
	}
	output(t, "systemd-analyze", "calendar", unitSetting(t, string(text), "OnCalendar"))
}

// TestBackupKeeps checks that the timer's service backs up a running server and keeps the newest backups. It deletes only
// its own backups, and none after a failure.
func TestBackupKeeps(t *testing.T) {
	t.Parallel()
	u := newBackupUnit(t)
	server := exec.Command(filepath.Join(u.tree, "holdfast"), "serve")
	server.Env = binary.Environ(u.env...)
	serve(t, server)

	old := []string{"20230101T000000Z", "20230102T000000Z", "20230103T000000Z"}
	mine := []string{"20230101T000000Z-before-the-upgrade", "notes"}
	u.mkdir(slices.Concat(old, mine, []string{"20230104T000000Z.partial-1"})...)
	if ok, text := u.run("BACKUP_KEEP=3"); !ok {
		t.Fatalf("the backup failed:\n%s", text)
	}
	kept := u.kept()
	fresh := slices.DeleteFunc(slices.Clone(kept), func(name string) bool { return slices.Contains(slices.Concat(old, mine), name) })
	want := slices.Sorted(slices.Values(slices.Concat(old[1:], mine, fresh)))
	if len(fresh) != 1 || !slices.Equal(kept, want) {
		t.Fatalf("kept %v, want %v", kept, want)
	}

	restored := filepath.Join(t.TempDir(), "restored")
	output(t, "cp", "-a", filepath.Join(u.backups, fresh[0]), restored)
	again := exec.Command(filepath.Join(u.tree, "holdfast"), "serve", "--data", restored)
	again.Env = binary.Environ()
	serve(t, again)

	for name, env := range map[string]string{
		"a folder that is not there": "BACKUP_DIR=" + filepath.Join(u.root, "missing", "folder"),
		"a data folder that is not":  "HOLDFAST_DATA=" + filepath.Join(u.root, "missing"),
		"none to keep":               "BACKUP_KEEP=0",
		"no number":                  "BACKUP_KEEP=all",
	} {
		if ok, text := u.run(env); ok {
			t.Errorf("%s: succeeded\n%s", name, text)
		}
		for _, dir := range kept {
			if !slices.Contains(u.kept(), dir) {
				t.Errorf("%s: %s was deleted", name, dir)
			}
		}
	}
}
