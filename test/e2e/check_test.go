package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// checked returns an environment without problems: a responding accounts server, free ports, no data.
func checked(t *testing.T, data string) []string {
	t.Helper()
	return binary.Environ("HOLDFAST_DATA="+data, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+newAccounts(t).URL,
		"HOLDFAST_SERVER__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_SERVER__ADMIN_LISTEN="+testdb.FreeAddress(t), "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t))
}

// wrong requires that check fails with one line about what, which contains all parts and a fix.
func wrong(t *testing.T, r binary.Result, what string, parts ...string) {
	t.Helper()
	if r.Status != 1 {
		t.Errorf("status %d", r.Status)
	}
	lines := strings.Split(r.Stdout, "\n")
	for i, line := range lines {
		if f := strings.Fields(line); len(f) > 0 && f[0] == "WRONG" && strings.Contains(line, what) && i+1 < len(lines) {
			both := line + lines[i+1]
			if !strings.Contains(lines[i+1], "fix: ") {
				t.Errorf("no fix for %s", line)
			}
			for _, p := range parts {
				if !strings.Contains(both, p) {
					t.Errorf("%s: no %q in\n%s\n%s", what, p, line, lines[i+1])
				}
			}
			return
		}
	}
	t.Errorf("%s is not reported:\n%s%s", what, r.Stdout, r.Stderr)
}

func right(t *testing.T, r binary.Result, parts ...string) {
	t.Helper()
	if r.Status != 0 || strings.Contains(r.Stdout, "WRONG") {
		t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	for _, p := range parts {
		if !strings.Contains(r.Stdout, p) {
			t.Errorf("no %q in\n%s", p, r.Stdout)
		}
	}
}

func refused(t *testing.T, env []string, parts ...string) {
	t.Helper()
	r := binary.Run(t, env, "serve")
	if r.Status != 1 {
		t.Errorf("serve: status %d", r.Status)
	}
	for _, p := range parts {
		if !strings.Contains(r.Stderr, p) {
			t.Errorf("serve: no %q in\n%s", p, r.Stderr)
		}
	}
}

func TestCheckSecretsFile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		says, fix  string
	}{
		{"mode", "[server]\nmaster_secret = 'hunter2'\n", 0o644, "can be read by others (mode 0644)", "run: chmod 600 "},
		{"empty", "", 0o600, "is empty", "restore it from a backup"},
		{"broken", "[server]\nmaster_secret = 'hunter2", 0o600, "is not valid", "restore it from a backup"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			path := filepath.Join(data, "secrets.toml")
			if err := os.WriteFile(path, []byte(tc.text), tc.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tc.mode); err != nil { // independent of the umask
				t.Fatal(err)
			}
			env := checked(t, data)
			r := binary.Run(t, env, "check")
			wrong(t, r, "secrets", path, tc.says, tc.fix)
			refused(t, env, path, tc.says, tc.fix)
			if strings.Contains(r.Stdout+r.Stderr, "hunter2") || readFile(t, path) != tc.text {
				t.Errorf("the secret is printed, or the file was changed:\n%s%s", r.Stdout, r.Stderr)
			}
			// If the configuration contains all secrets, the server does not read the file.
			env = append(env, "HOLDFAST_SERVER__MASTER_SECRET="+strings.Repeat("m", 32), "HOLDFAST_SERVER__ADMIN_TOKEN="+strings.Repeat("a", 32),
				"HOLDFAST_EXTSTORAGE__TOKEN_SECRET="+strings.Repeat("t", 32), "HOLDFAST_BUCKETS__KEY_SECRET="+strings.Repeat("k", 32), "HOLDFAST_TOKENSERVER__FXA_METRICS_HASH_SECRET=h")
			right(t, binary.Run(t, env, "check"), tc.says)
		})
	}
}

func TestCheckListeners(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	taken, free := other.Addr().String(), testdb.FreeAddress(t)
	for setting, fix := range map[string]string{
		"server.listen": "", "server.admin_listen": "", "server.internal_listen": "", "buckets.listen": ", or set buckets.enabled = false",
	} {
		variable := "HOLDFAST_" + strings.ToUpper(strings.Replace(setting, ".", "__", 1)) + "="
		for _, tc := range []struct{ address, says, fix string }{
			{taken, taken + " is in use by another program", "stop it, or choose another port" + fix + "; to find it: ss -ltnp 'sport = :"},
			{"192.0.2.1:8000", "192.0.2.1:8000 is not an address of this machine", "or :8000 for all of them"},
			{"no-such-name.invalid:8000", "the name no-such-name.invalid has no address", "or :8000 for all of them"},
		} {
			t.Run(setting+" "+tc.address, func(t *testing.T) {
				t.Parallel()
				env := append(checked(t, t.TempDir()), variable+tc.address)
				wrong(t, binary.Run(t, env, "check"), setting, tc.says, tc.fix)
				refused(t, env, setting, tc.says, tc.fix)
			})
		}
	}
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		env := append(checked(t, t.TempDir()), "HOLDFAST_SERVER__ADMIN_LISTEN="+free, "HOLDFAST_SERVER__INTERNAL_LISTEN="+free)
		const says = "is the same address as server.admin_listen: choose another port"
		if r := binary.Run(t, env, "check"); r.Status != 1 || !strings.Contains(r.Stdout, "WRONG  HOLDFAST_SERVER__INTERNAL_LISTEN  "+says) {
			t.Errorf("check: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		if r := binary.Run(t, env, "serve"); r.Status != 2 || !strings.Contains(r.Stderr, "HOLDFAST_SERVER__INTERNAL_LISTEN: "+says) {
			t.Errorf("serve: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
	})
}

// TestCheckPrivilegedPort checks that check distinguishes a privileged port from a port in use.
func TestCheckPrivilegedPort(t *testing.T) {
	t.Parallel()
	run := asNobody(t)
	// Containers often let every user open every port. A new network namespace uses the kernel's default.
	const sysctl = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
	if first, err := os.ReadFile(sysctl); err != nil || strings.TrimSpace(string(first)) != "1024" {
		run = asNobodyWith(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET})
	}
	env := append(checked(t, openFolder(t)), "HOLDFAST_SERVER__LISTEN=0.0.0.0:443")
	wrong(t, run(env, "check"), "server.listen", "no permission to listen on this port", "CAP_NET_BIND_SERVICE")
	if r := run(env, "serve"); r.Status != 1 || !strings.Contains(r.Stderr, "CAP_NET_BIND_SERVICE") {
		t.Errorf("serve: %d\n%s", r.Status, r.Stderr)
	}
}

// TestCheckRunningPrivilegedPort checks a running service's privileged port as a user without its capability.
func TestCheckRunningPrivilegedPort(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to start a server in its own network namespace")
	}
	program := openProgram(t)
	const script = `"$IP" link set lo up || exit 77
		nobody='--reuid=65534 --regid=65534 --clear-groups'
		setpriv $nobody --inh-caps=+net_bind_service --ambient-caps=+net_bind_service "$PROGRAM" serve >&2 & server=$!
		until setpriv $nobody "$PROGRAM" health >/dev/null 2>&1; do kill -0 $server || exit 1; sleep 0.1; done
		setpriv $nobody "$PROGRAM" check; status=$?
		kill $server; wait; exit $status`
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "sh", "-c", script)
	var out, errs strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &errs
	cmd.Env = append(checked(t, openFolder(t)), "HOLDFAST_SERVER__LISTEN=0.0.0.0:443", "PROGRAM="+program, "IP="+binary.Program(t, "ip"), "PATH="+os.Getenv("PATH"))
	switch err := cmd.Run(); {
	case cmd.ProcessState == nil:
		t.Fatal(err)
	case cmd.ProcessState.ExitCode() == 77 || strings.Contains(errs.String(), "unshare failed"):
		t.Skipf("needs permission to create a network namespace: %s", errs.String())
	}
	right(t, binary.Result{Status: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()},
		"0.0.0.0:443 is in use by this server itself, which is running")
}

// openProgram copies the binary to a folder that everybody can read.
func openProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(openFolder(t), "holdfast")
	text, err := os.ReadFile(binary.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{dir: 0o777, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const nobody = 65534

func asNobody(t *testing.T) func(env []string, args ...string) binary.Result {
	t.Helper()
	if os.Getuid() != 0 {
		return func(env []string, args ...string) binary.Result { return binary.Run(t, env, args...) }
	}
	return asNobodyWith(t, syscall.SysProcAttr{})
}

// asNobodyWith is asNobody with process attributes that require root.
func asNobodyWith(t *testing.T, attr syscall.SysProcAttr) func(env []string, args ...string) binary.Result {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to start a process in a namespace of its own")
	}
	program := openProgram(t)
	attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	return func(env []string, args ...string) binary.Result {
		cmd := exec.CommandContext(t.Context(), program, args...)
		var out, errs strings.Builder
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/", &out, &errs
		cmd.SysProcAttr = &attr
		err := cmd.Run()
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("needs permission to create a namespace: %v", err)
		}
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return binary.Result{Status: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
	}
}

func TestCheckFolder(t *testing.T) {
	t.Parallel()
	run := asNobody(t)
	file := filepath.Join(openFolder(t), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	closed := openFolder(t)
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	secret := openFolder(t)
	if err := os.Chmod(secret, 0o333); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(secret, 0o755) })
	for _, tc := range []struct{ name, data, says, fix string }{
		{"a file", file, "is not a folder", "choose another folder with --data"},
		{"below a file", file + "/data", "not a directory", "choose another folder with --data"},
		{"no right to write", closed, "cannot be written or read: permission denied", "belongs to "},
		{"no right to create", closed + "/a/b", "cannot be created", "create " + closed + "/a/b for the user that runs holdfast"},
		{"no right to read", secret, "cannot be written or read: permission denied", "belongs to "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			env := checked(t, tc.data)
			wrong(t, run(env, "check"), "data folder", tc.data, tc.says, tc.fix)
			if r := run(env, "serve"); r.Status != 1 && tc.data != secret {
				t.Errorf("serve: status %d\n%s", r.Status, r.Stderr)
			}
		})
	}
	t.Run("of one database", func(t *testing.T) {
		t.Parallel()
		env := append(checked(t, filepath.Join(openFolder(t), "new", "data")), "HOLDFAST_EXTSTORAGE__DATABASE_URL=sqlite:"+closed+"/x/ext.db")
		wrong(t, run(env, "check"), "extstorage database", closed+"/x cannot be created", "choose another file in database_url")
	})
	t.Run("of the audit", func(t *testing.T) {
		t.Parallel()
		env := append(checked(t, openFolder(t)), "HOLDFAST_EXTSTORAGE__AUDIT=file:"+closed+"/audit.jsonl")
		wrong(t, run(env, "check"), "extstorage.audit", closed+" cannot be written or read", "belongs to ")
		if r := run(env, "serve"); r.Status != 1 {
			t.Errorf("serve: status %d\n%s", r.Status, r.Stderr)
		}
	})
	t.Run("to be created", func(t *testing.T) {
		t.Parallel()
		parent := openFolder(t)
		right(t, run(checked(t, parent+"/new/data"), "check"), parent+"/new/data will be created at the first start")
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("check left %v, %v", left, err)
		}
	})
}

// TestCheckDisk checks that check fails on a full or read-only disk, before and after the first start.
func TestCheckDisk(t *testing.T) {
	t.Parallel()
	disk := tmpfs(t, "size=8m")
	env := checked(t, disk)
	fill := func() {
		f, err := os.Create(filepath.Join(disk, "fill"))
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 20; size > 0; size /= 2 {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
			}
		}
		_ = f.Close()
	}
	fill()
	wrong(t, binary.Run(t, env, "check"), "data folder", "the disk of "+disk+" is full", "make space")
	refused(t, env, "no space left on device")
	if err := os.Remove(filepath.Join(disk, "fill")); err != nil {
		t.Fatal(err)
	}
	s := binary.Start(t, disk)
	s.Kill()
	right(t, binary.Run(t, env, "check"), "is writable")
	fill()
	r := binary.Run(t, env, "check")
	wrong(t, r, "data folder", "the disk of "+disk+" is full", "make space")
	if strings.Contains(r.Stdout, "start the database") {
		t.Errorf("check suggests to start a SQLite file:\n%s", r.Stdout)
	}
	if err := os.Remove(filepath.Join(disk, "fill")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	wrong(t, binary.Run(t, env, "check"), "data folder", "read-only file system", "mount it writable")
	refused(t, env, "read-only file system")
}

// TestCheckWhileServing checks that check accepts addresses that its own server uses. The server proves that it uses
// the same secret and data folder.
func TestCheckWhileServing(t *testing.T) {
	t.Parallel()
	accounts := "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + newAccounts(t).URL
	cert, key, _ := binary.Certificate(t)
	secret := "HOLDFAST_SERVER__MASTER_SECRET=" + strings.Repeat("0123456789abcdef", 4)
	for name, vars := range map[string][]string{
		"plain": {}, "tls": {"HOLDFAST_SERVER__TLS_CERT_FILE=" + cert, "HOLDFAST_SERVER__TLS_KEY_FILE=" + key}, "all": {secret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vars = append(vars, accounts, "HOLDFAST_SERVER__INTERNAL_LISTEN="+testdb.FreeAddress(t))
			s := binary.Start(t, t.TempDir(), vars...)
			r := binary.Run(t, s.Env, "check")
			right(t, r)
			for _, setting := range []string{"server.listen", "server.admin_listen", "server.internal_listen", "buckets.listen"} {
				if !slices.ContainsFunc(strings.Split(r.Stdout, "\n"), func(line string) bool {
					return strings.Contains(line, setting+" ") && strings.Contains(line, "in use by this server itself")
				}) {
					t.Errorf("%s:\n%s", setting, r.Stdout)
				}
			}
			if strings.Contains(s.Output.String(), "TLS handshake error") {
				t.Errorf("the check caused an error on the server:\n%s", s.Output)
			}
			if name != "tls" {
				if status, body := s.Get("/__instance__"); status != http.StatusNotFound {
					t.Errorf("request without the secret: %d %s", status, body)
				}
			}

			other := append(slices.Clip(s.Env), "HOLDFAST_DATA="+t.TempDir())
			if name == "all" {
				wrong(t, binary.Run(t, other, "check"), "server.listen", "another Holdfast server with the same master secret and the data folder "+s.Data)
			} else {
				wrong(t, binary.Run(t, other, "check"), "server.listen", "in use by a Holdfast server with different secrets")
			}
			refused(t, other, "server.listen", "in use by another program")

			elsewhere := append(slices.Clip(s.Env), "HOLDFAST_SERVER__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_SERVER__ADMIN_LISTEN="+testdb.FreeAddress(t),
				"HOLDFAST_SERVER__INTERNAL_LISTEN=", "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t))
			r = binary.Run(t, elsewhere, "check")
			if right(t, r, "that listens on none of these addresses"); strings.Contains(binary.Run(t, s.Env, "check").Stdout, "that listens on none") {
				t.Error("check warns about the running server itself")
			}

			// Settings that require a restart do not change who owns the addresses in use.
			swapped := append(slices.Clip(s.Env), "HOLDFAST_SERVER__ADMIN_LISTEN="+strings.TrimPrefix(strings.TrimPrefix(s.URL, "https://"), "http://"),
				"HOLDFAST_SERVER__LISTEN="+strings.TrimPrefix(s.Admin, "http://"))
			right(t, binary.Run(t, swapped, "check"), "in use by this server's main listener", "in use by this server's admin listener")
		})
	}
}

func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	cert, key, _ := binary.Certificate(t)
	_, otherKey, _ := binary.Certificate(t)
	env := checked(t, t.TempDir())
	right(t, binary.Run(t, append(slices.Clip(env), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key), "check"), "is valid until")
	if r := binary.Run(t, append(slices.Clip(env), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert), "check"); r.Status != 1 ||
		!strings.Contains(r.Stdout, "WRONG  server.tls_key_file  must be set too") {
		t.Errorf("a certificate without a key: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	env = append(env, "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+otherKey)
	wrong(t, binary.Run(t, env, "check"), "server.tls_cert_file", "both in PEM")
	refused(t, env, "server.tls_cert_file")
}

// TestCheckBeforeStart checks that check --start accepts problems that do not prevent a start: systemd may own the
// addresses, and the server waits for its database.
func TestCheckBeforeStart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	env := append(checked(t, data), "HOLDFAST_SERVER__LISTEN="+held.Addr().String(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL=postgres://nobody@127.0.0.1:1/none",
		"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1")
	wrong(t, binary.Run(t, env, "check"), "server.listen")
	right(t, binary.Run(t, env, "check", "--start"), "syncstorage database", "a server also starts while its database is away")
	cert, _, _ := binary.Certificate(t)
	_, otherKey, _ := binary.Certificate(t)
	wrong(t, binary.Run(t, append(slices.Clip(env), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+otherKey), "check", "--start"), "server.tls_cert_file")
	if err := os.WriteFile(filepath.Join(data, "secrets.toml"), []byte("not TOML"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong(t, binary.Run(t, env, "check", "--start"), "secrets")
}

// TestShortTokens checks that a server does not start with a short token of an operator if other machines reach its admin
// listener, and that check calls the token wrong everywhere.
func TestShortTokens(t *testing.T) {
	t.Parallel()
	for setting, variable := range map[string]string{"server.admin_token": "HOLDFAST_SERVER__ADMIN_TOKEN=", "server.viewer_token": "HOLDFAST_SERVER__VIEWER_TOKEN="} {
		const fix = "openssl rand -hex 32"
		short, long := strings.Repeat("x", 31), strings.Repeat("x", 32)
		local := append(checked(t, t.TempDir()), variable+short)
		wrong(t, binary.Run(t, local, "check"), setting, "has 31 characters, fewer than 32", fix)
		right(t, binary.Run(t, local, "check", "--start"), setting, "has 31 characters, fewer than 32", fix)
		binary.Start(t, t.TempDir(), variable+short).Kill()

		open := append(slices.Clip(local), "HOLDFAST_SERVER__ADMIN_LISTEN=:0")
		for _, args := range [][]string{{"check"}, {"check", "--start"}, {"serve"}} {
			r := binary.Run(t, open, args...)
			if text := r.Stdout + r.Stderr; r.Status == 0 || !strings.Contains(text, strings.TrimSuffix(variable, "=")) || !strings.Contains(text, "has 31 characters, fewer than 32") || !strings.Contains(text, fix) || strings.Contains(text, short) {
				t.Errorf("%s with a short %s: status %d\n%s", args[0], setting, r.Status, text)
			}
		}
		open = append(open, variable+long)
		if r := binary.Run(t, open, "check", "--start"); r.Status != 0 || strings.Contains(r.Stdout, setting) || strings.Contains(r.Stdout, long) {
			t.Errorf("check with a long %s: status %d\n%s%s", setting, r.Status, r.Stdout, r.Stderr)
		}
		binary.Start(t, t.TempDir(), variable+long, "HOLDFAST_SERVER__ADMIN_LISTEN=:0").Kill()
		right(t, binary.Run(t, append(local, "HOLDFAST_SERVER__ADMIN_LISTEN="), "check"))
	}
}

// TestCheckDatabaseURL checks that a database_url for another engine is an error, and that its fix does not suggest
// starting a database.
func TestCheckDatabaseURL(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"syncstorage", "tokenserver", "extstorage", "buckets"} {
		for _, url := range []string{"mysql://u:hunter2@h/d", "/var/lib/sync.db"} {
			r := binary.Run(t, append(checked(t, t.TempDir()), "HOLDFAST_"+strings.ToUpper(service)+"__DATABASE_URL="+url), "check")
			wrong(t, r, service+".database_url", "expected sqlite:PATH", "unset it to use a SQLite file")
			if strings.Contains(r.Stdout, "hunter2") || strings.Contains(r.Stdout, "start the database") {
				t.Errorf("%s %s:\n%s", service, url, r.Stdout)
			}
		}
	}
}

func TestShortMasterSecret(t *testing.T) {
	t.Parallel()
	for length, warns := range map[int]bool{1: true, 31: true, 32: false, 64: false} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			data, secret := t.TempDir(), "HOLDFAST_SERVER__MASTER_SECRET="+strings.Repeat("x", length)
			r := binary.Run(t, append(checked(t, data), secret), "check")
			right(t, r)
			s := binary.Start(t, data, secret)
			for what, text := range map[string]string{"check": r.Stdout, "serve": s.Output.String()} {
				if strings.Contains(text, "fewer than 32") != warns {
					t.Errorf("%s with a secret of %d characters:\n%s", what, length, text)
				}
				if strings.Contains(text, strings.Repeat("x", 20)) {
					t.Errorf("%s shows the secret", what)
				}
			}
		})
	}
}
