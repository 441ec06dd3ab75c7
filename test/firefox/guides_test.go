package firefox

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/firefox/accounts"
)

func guide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func blocks(text, info string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+regexp.QuoteMeta(info)+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// startSingleBrowser starts a signed-in browser with additional prefs. It reaches loopback without a proxy.
func startSingleBrowser(t *testing.T, firefox string) (b *browser, fxa string) {
	t.Helper()
	account, err := accounts.New()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	if b, err = startBrowser(t, firefox, "A", server.URL, "http://127.0.0.1:1", &journal{}); err != nil {
		t.Fatal(err)
	}
	b.do(t, "setIntPref", "network.proxy.type", 0)
	b.signIn(t, account)
	return b, server.URL
}

// TestAutoConfig checks that the guide's files set the address and install a certificate authority, so that a browser
// syncs over HTTPS.
func TestAutoConfig(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	binary.Program(t, "openssl")
	text := guide(t, "devices.md")
	js, policies := blocks(text, "js"), blocks(text, "json")
	if len(js) != 2 || len(policies) != 1 {
		t.Fatalf("the guide has %d files of AutoConfig and %d of policies", len(js), len(policies))
	}
	const address, authority = "https://sync.example.org", "/etc/ssl/private-ca/ca.pem"
	if !strings.Contains(js[1], address) || !strings.Contains(policies[0], authority) {
		t.Fatal("the guide has another address or authority")
	}
	certificates := t.TempDir()
	commands := exec.Command("sh", "-e")
	commands.Dir, commands.Stdin = certificates, strings.NewReader(strings.ReplaceAll(blocks(text, "sh")[0], "192.168.1.20", "127.0.0.1"))
	if out, err := commands.CombinedOutput(); err != nil {
		t.Fatalf("the certificates: %v\n%s", err, out)
	}
	port := testdb.FreeAddress(t)
	folder := installed(t, program(t))
	for name, content := range map[string]string{
		"defaults/pref/autoconfig.js": js[0],
		"mozilla.cfg":                 strings.ReplaceAll(js[1], address, "https://"+port),
		"distribution/policies.json":  strings.ReplaceAll(policies[0], authority, filepath.Join(certificates, "ca.pem")),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, fxa := startSingleBrowser(t, filepath.Join(folder, "firefox"))
	if got, locked := call[string](t, b, "pref", "identity.sync.tokenserver.uri"), call[bool](t, b, "isLocked", "identity.sync.tokenserver.uri"); got != "https://"+port+"/1.0/sync/1.5" || !locked {
		t.Errorf("the browser has the address %s, locked: %t", got, locked)
	}
	binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__LISTEN="+port, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa,
		"HOLDFAST_SERVER__TLS_CERT_FILE="+filepath.Join(certificates, "cert.pem"), "HOLDFAST_SERVER__TLS_KEY_FILE="+filepath.Join(certificates, "key.pem"))
	b.sync(t)
}

// installed copies a Firefox folder as links, except for the program and the administrator's folders.
func installed(t *testing.T, program string) string {
	t.Helper()
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Dir(program), t.TempDir()
	if _, err := os.Stat(filepath.Join(from, "omni.ja")); err != nil {
		t.Skipf("needs a Firefox that is installed in the folder of its program: %v", err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains([]string{filepath.Base(program), "defaults", "distribution"}, e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "firefox"), content, 0o700)
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(to, "defaults"), os.DirFS(filepath.Join(from, "defaults")))
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(to, "distribution"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// failure is a server that a browser cannot sync with, and the guide section that quotes both logs.
type failure struct {
	section string
	part    int // index of the block in the section; other blocks belong to other failures
	address string
	server  *binary.Server // nil: no server
}

// TestTroubleshooting checks that the lines quoted in the guide appear in the browser's sync log and the server's log
// after each failure.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	text := guide(t, "troubleshooting.md")
	b, fxa := startSingleBrowser(t, program(t))
	b.do(t, "usualLogs")
	closed := "http://" + testdb.FreeAddress(t)
	start := func(settings ...string) *binary.Server {
		return binary.Start(t, t.TempDir(), append([]string{"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + fxa}, settings...)...)
	}
	cert, key, _ := binary.Certificate(t)
	plain, encrypted := start(), start("HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key)
	refusing, alone := start("HOLDFAST_TOKENSERVER__ALLOW_NEW_USERS=false"), start("HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+closed)
	const right = "/1.0/sync/1.5"
	for _, c := range []failure{
		{"Firefox syncs with Mozilla instead", 0, "https://token.services.mozilla.com" + right, nil},
		{"Firefox does not reach the server", 0, closed + right, nil},
		{"Firefox does not reach the server", 1, encrypted.URL + right, encrypted},
		{"The address is wrong", 0, plain.URL + "/sync/1.5", plain},
		{"The address is wrong", 1, hostRewritingProxy(t, plain.URL, strings.TrimPrefix(closed, "http://")) + right, nil},
		{"The account is not allowed", 0, refusing.URL + right, refusing},
		{"The server cannot ask the accounts server", 0, alone.URL + right, alone},
	} {
		section := regexp.MustCompile(`(?ms)^## \d\. ` + regexp.QuoteMeta(c.section) + "\n(.*?)^## ").FindStringSubmatch(text)
		if section == nil {
			t.Fatalf("the guide has no section %q", c.section)
		}
		quoted := blocks(section[1], "text firefox")
		if c.part >= len(quoted) {
			t.Fatalf("%s: the guide quotes the browser %d times", c.section, len(quoted))
		}
		b.do(t, "useServer", c.address)
		if got := call[outcome](t, b, "sync"); got.Service != "error.login.failed" || got.Login != "error.login.reason.network" {
			t.Errorf("%s: the sync ended with %+v", c.section, got)
		}
		wantLines(t, c.section+", sync log", quoted[c.part], call[string](t, b, "lastLog"))
		if c.server == nil {
			continue
		}
		quoted = blocks(section[1], "text server")
		if len(quoted) != 1 {
			t.Fatalf("%s: the guide quotes the server %d times", c.section, len(quoted))
		}
		wantLines(t, c.section+", server", quoted[0], c.server.Output.String())
	}
}

func hostRewritingProxy(t *testing.T, to, host string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = host
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// wantLines expects the quoted lines in a log; … matches anything.
func wantLines(t *testing.T, what, quoted, log string) {
	t.Helper()
	for line := range strings.Lines(quoted) {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".*")
		if !regexp.MustCompile(pattern).MatchString(log) {
			t.Errorf("%s: the guide quotes\n%sand the log is\n%s", what, line, log)
		}
	}
}
