package dist

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestReproducible checks that a commit always gives the same bytes, in any folder, for any user, at any time and with any
// number of processors.
func TestReproducible(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it builds everything twice")
	first := release(t)
	second, err := makeRelease("else where, ", "umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8 GOMAXPROCS=1 HOSTNAME=elsewhere USER=somebody HOME=$HOME")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := sums(t, first), sums(t, second); !maps.Equal(a, b) {
		t.Errorf("made twice: %v and %v", a, b)
	}
}

// sums reads SHA256SUMS, which must list all release files.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	files, err := filepath.Glob(filepath.Join(dir, "holdfast*"))
	const published = 5 // tarball, SBOM, three packages
	if err != nil || len(files) != published || len(listed) != published {
		t.Fatalf("files %v, %v; sums of %v", files, err, listed)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(content)); sum != listed[filepath.Base(file)] {
			t.Errorf("%s has the sum %s, not %s", file, sum, listed[filepath.Base(file)])
		}
	}
	return listed
}

func TestTarball(t *testing.T) {
	t.Parallel()
	name := "holdfast_1.2.3_linux_" + native(t).dist
	f, err := os.Open(filepath.Join(release(t), name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		inside, ok := strings.CutPrefix(h.Name, name+"/")
		if !ok || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != epoch {
			t.Errorf("%+v", h)
		}
		modes[inside] = h.Mode
	}
	for file, mode := range map[string]int64{
		"holdfast": 0o755, "holdfast.service": 0o644, "holdfast.socket": 0o644, "holdfast-backup.service": 0o644, "holdfast-backup.timer": 0o644,
		"holdfast.sysusers": 0o644, "holdfast.logrotate": 0o644, "holdfast.toml": 0o644, "man/holdfast.1.gz": 0o644,
		"completions/holdfast.bash": 0o644, "completions/holdfast.zsh": 0o644, "completions/holdfast.fish": 0o644,
		"LICENSE": 0o644, "THIRD-PARTY.txt": 0o644, "README.md": 0o644, "CHANGELOG.md": 0o644, "SECURITY.md": 0o644, "docs/operations.md": 0o644,
	} {
		if modes[file] != mode {
			t.Errorf("%s has mode %04o, want %04o (0: it is not there)", file, modes[file], mode)
		}
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tree(t), "holdfast")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is linked to what another system may not have: %v", p.Type)
		}
	}
	if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
		t.Error("it is not stripped")
	}
	if out := output(t, path, "version"); out != version+" ("+commit+")\n" {
		t.Errorf("version %q", out)
	}
}

var commented = regexp.MustCompile(`(?m)^#([a-z_]+ = |\[)`)

// TestExampleConfiguration checks that every setting in the example exists with a valid default.
func TestExampleConfiguration(t *testing.T) {
	t.Parallel()
	tree := tree(t)
	example, err := os.ReadFile(filepath.Join(tree, "holdfast.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(example)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '[' {
			t.Errorf("not commented out: %s", line)
		}
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("sqlite:"+filepath.Join(dir, "own.db")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// This tests secrets both as values and as files.
	uncommented := commented.ReplaceAllString(string(example), "$1")
	// These have no defaults.
	uncommented = strings.NewReplacer("buckets.accounts.NAME", "buckets.accounts.app", "buckets.nodes.NAME", `buckets.nodes."home:disk1"`,
		`access_key = ""`, `access_key = "HFEXAMPLE"`, `secret_key = ""`, `secret_key = "sixteen-characters"`,
		"guest.handoff_tenants.NAME", "guest.handoff_tenants.11111111-2222-4333-8444-555555555555", "no alerts. Reloadable.\nurl = \"\"\nurl_file = \"\"", "no alerts. Reloadable.\nurl = \"http://127.0.0.1:9/\"", "handoff_url.\nurl = \"\"", "handoff_url.\nurl = \"https://book.example/\"",
		"buckets.destinations.NAME", "buckets.destinations.hook", "(Google Pub/Sub).\nurl = \"\"\nurl_file = \"\"", "(Google Pub/Sub).\nurl = \"http://127.0.0.1:9/\"",
		"guest.profiles.NAME.upstreams.NAME", "guest.profiles.shop.upstreams.product", "Service URL.\nurl = \"\"", "Service URL.\nurl = \"https://catalogue.example/\"",
		"guest.profiles.NAME", "guest.profiles.shop", "\nevent_prefix = \"\"", "\nevent_prefix = \"shop.guest.\"",
		"\nurl = \"\"", "\nurl = \"file://NODE\"", "\nreceive_file = \"\"", "").Replace(uncommented)
	files := regexp.MustCompile(`(?m)^(\w+)_file = ""$`)
	var secrets []string
	for _, found := range files.FindAllStringSubmatch(uncommented, -1) {
		if !strings.HasPrefix(found[1], "tls_") {
			secrets = append(secrets, found[1])
		}
	}
	if !slices.Contains(secrets, "master_secret") {
		t.Fatalf("secrets %v", secrets)
	}
	either := strings.Join(secrets, "|")
	byItself := regexp.MustCompile(`(?m)^(`+either+`)_file = .*$`).ReplaceAllString(uncommented, "")
	byFile := regexp.MustCompile(`(?m)^(`+either+`) = .*$`).ReplaceAllString(uncommented, "")
	byFile = regexp.MustCompile(`(?m)^(`+either+`)_file = .*$`).ReplaceAllString(byFile, `${1}_file = "`+secret+`"`)
	// These do not accept a SQLite URL, and the viewer's token must differ from the administrator's.
	webhook := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for name, value := range map[string]string{
		"audit": "log", "viewer_token": "of-a-viewer", "hot": "memory", "events": "log", "secret": webhook, "old_secrets": webhook, "event_secret": webhook, "old_event_secrets": webhook,
	} {
		file := filepath.Join(dir, "own-"+name)
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		byFile = strings.Replace(byFile, "\n"+name+`_file = "`+secret+`"`, "\n"+name+`_file = "`+file+`"`, 1)
	}
	// A key needs an algorithm.
	byFile = regexp.MustCompile(`(?s)(\n\[extstorage\.token_keys\.NAME\]\n.*?\nalg = )""`).ReplaceAllString(byFile, `${1}"HS256"`)
	for name, text := range map[string]string{"commented": string(example), "by itself": byItself, "by file": byFile} {
		config := filepath.Join(dir, name+".toml")
		for strings.Contains(text, "file://NODE") { // node, replica and backups need separate folders
			text = strings.Replace(text, "file://NODE", "file://"+t.TempDir(), 1)
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(tree, "holdfast"), "serve", "--config", config, "--data", filepath.Join(dir, name))
		cmd.Env = binary.Environ(binary.GuestsByDefault)
		serve(t, cmd)
	}
}
