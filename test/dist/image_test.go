package dist

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

type image struct {
	copies     []copied
	env        []string
	uid, gid   int
	workdir    string
	entrypoint []string
	cmd        []string
	health     []string
}

type copied struct {
	from, to string
	chown    string // "" or "uid:gid"
}

// readDockerfile supports only the instructions that our Dockerfile uses.
func readDockerfile(t *testing.T) (im image) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	exec := func(text string) (words []string) {
		if err := json.Unmarshal([]byte(text), &words); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return words
	}
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "ARG", "EXPOSE", "VOLUME":
		case "FROM":
			if rest != "scratch" {
				t.Errorf("FROM %s: the image is the binary alone", rest)
			}
		case "COPY":
			var c copied
			if flag, files, ok := strings.Cut(rest, " "); ok && strings.HasPrefix(flag, "--chown=") {
				c.chown, rest = strings.TrimPrefix(flag, "--chown="), files
			}
			c.from, c.to, _ = strings.Cut(rest, " ")
			c.from = strings.ReplaceAll(c.from, "${TARGETARCH}${TARGETVARIANT}", native(t).dist)
			im.copies = append(im.copies, c)
		case "ENV":
			im.env = append(im.env, rest)
		case "WORKDIR":
			im.workdir = rest
		case "USER":
			im.uid, im.gid = owner(t, rest)
		case "HEALTHCHECK":
			im.health = exec(strings.TrimPrefix(rest, "CMD "))
		case "ENTRYPOINT":
			im.entrypoint = exec(rest)
		case "CMD":
			im.cmd = exec(rest)
		default:
			t.Errorf("an instruction that this test does not know: %s", line)
		}
	}
	return im
}

func owner(t *testing.T, text string) (uid, gid int) {
	t.Helper()
	u, g, _ := strings.Cut(text, ":")
	uid, errUID := strconv.Atoi(u)
	gid, errGID := strconv.Atoi(g)
	if errUID != nil || errGID != nil || uid == 0 {
		t.Fatalf("%s is no user by number other than root", text)
	}
	return uid, gid
}

func (im image) lay(t *testing.T, context, root string) {
	t.Helper()
	for _, c := range im.copies {
		from, to := filepath.Join(context, c.from), filepath.Join(root, c.to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		output(t, "cp", "-RT", "--preserve=mode", from, to)
		if c.chown != "" {
			output(t, "chown", "-R", c.chown, to)
		}
	}
}

// TestDockerfile checks that a release contains every file that the Dockerfile copies.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	dir := release(t)
	im := readDockerfile(t)
	if len(im.copies) != 4 || im.uid == 0 || len(im.health) == 0 {
		t.Errorf("%+v", im)
	}
	for _, c := range im.copies {
		if _, err := os.Stat(filepath.Join(dir, c.from)); err != nil {
			t.Error(err)
		}
	}
}

// TestImage starts the server with the image's files and user. It must be healthy, with its data in the volume.
func TestImage(t *testing.T) {
	t.Parallel()
	needRoot(t, "change the root of a process")
	im, root := readDockerfile(t), t.TempDir()
	im.lay(t, release(t), root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(words []string, env ...string) *exec.Cmd {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env, cmd.Dir = append(env, im.env...), im.workdir
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(im.uid), Gid: uint32(im.gid)}}
		return cmd
	}
	admin := serve(t, run(append(im.entrypoint, im.cmd...)))
	health := run(im.health)
	health.Env = append(health.Env, "HOLDFAST_SERVER__ADMIN_LISTEN="+admin)
	if out, err := health.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("health: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(root, "data/syncstorage.db")); err != nil {
		t.Error(err)
	}
}
