package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/test/binary"
)

func page(t *testing.T, method, url, accept, host string) binary.Answer {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return binary.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestStatusPage(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__DOCUMENTS_LINK=https://docs.example/?a=1&b=\"2")
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/hiddencollection/hiddenname", `{"payload":"hiddenpayload"}`)

	a := page(t, "GET", s.URL+"/", browser, "")
	if a.Status != http.StatusOK || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("HTML: %d %v", a.Status, a.Header)
	}
	for _, want := range []string{
		"<pre>identity.sync.tokenserver.uri</pre>", ">" + s.URL + "/1.0/sync/1.5</a></pre>", ">" + s.URL + "/ext/v1</a></pre>", s.Admin + "/console/",
		"<p>Stores encrypted browser records. Firefox gets its address at sign-in.</p>",
		`<meta name="viewport"`, "color-scheme: light dark", "is ready", `href="https://docs.example/?a=1&amp;b=&#34;2"`, s.Admin + "/guide/extension-storage",
	} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("the page does not contain %s:\n%s", want, a.Body)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.Body)
	sum := sha256.Sum256([]byte(style[1]))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if policy := a.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, want) || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %s, want %s", policy, want)
	}
	if m := regexp.MustCompile(`(?i)<script|<img|<link|src=|style=|url\(|@import`).FindString(a.Body); m != "" || len(a.Body) > 8<<10 {
		t.Errorf("the page is not self-contained and small: %q, %d bytes", m, len(a.Body))
	}
	tellsNothing(t, s, strings.NewReplacer(s.Admin+"/console/", "", s.Admin+"/guide/", "").Replace(a.Body)) // local browsers get these addresses

	const forFirefox = "identity.fxaccounts.autoconfig.uri names this server"
	if signIn := page(t, "GET", s.URL+"/?context=fx_desktop_v3&entrypoint=fxa_toolbar_button", browser, ""); signIn.Status != http.StatusOK || !strings.Contains(signIn.Body, forFirefox) || strings.Contains(a.Body, forFirefox) {
		t.Errorf("for a Firefox that looks for the sign-in page: %d %s", signIn.Status, signIn.Body)
	}

	head := page(t, "HEAD", s.URL+"/", browser, "")
	if head.Status != http.StatusOK || head.Body != "" || head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
		t.Errorf("HEAD: %d %q %v", head.Status, head.Body, head.Header)
	}
	for _, host := range []string{`a"><script>`, "a b"} {
		if a := page(t, "GET", s.URL+"/", browser, host); a.Status != http.StatusBadRequest || strings.Contains(a.Body, "<script") {
			t.Errorf("host %s: %d %s", host, a.Status, a.Body)
		}
	}
	if a := page(t, "GET", s.URL+"/", browser, "phone.lan:8000"); !strings.Contains(a.Body, ">http://phone.lan:8000/1.0/sync/1.5</a></pre>") || strings.Contains(a.Body, s.Admin) {
		t.Errorf("another name of the server:\n%s", a.Body)
	}
	if a := page(t, "POST", s.URL+"/", browser, ""); a.Status != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", a.Status)
	}
	c.Want(t, http.StatusOK, "GET", "/storage/hiddencollection/hiddenname", "")
	if a := page(t, "GET", s.URL+"/internal/handoff/bhd_1/consume", "*/*", ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "server.internal_listen") {
		t.Errorf("a path of another listener: %d %s", a.Status, a.Body)
	}
	if a := page(t, "GET", s.URL+"/elsewhere", browser, ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "Page not found") {
		t.Errorf("another path: %d %s", a.Status, a.Body)
	}
}

// tellsNothing checks that a page contains no data, paths, secrets or other addresses.
func tellsNothing(t *testing.T, s *binary.Server, body string) {
	t.Helper()
	hidden := []string{"hidden", s.Data, strings.TrimPrefix(s.Admin, "http://"), "sqlite", "SQLite", "go1."}
	secrets, err := os.ReadFile(filepath.Join(s.Data, "secrets.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`'([0-9a-f]{64})'`).FindAllStringSubmatch(string(secrets), -1) {
		hidden = append(hidden, m[1])
	}
	for _, h := range hidden {
		if strings.Contains(body, h) {
			t.Errorf("the page contains %s:\n%s", h, body)
		}
	}
}

// TestStatusJSON checks that programs get JSON with the client address and the enabled services.
func TestStatusJSON(t *testing.T) {
	t.Parallel()
	s := binary.Launch(t, t.TempDir(), "HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org/fox",
		"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_EXTSTORAGE__DATABASE_URL=postgres://nobody:hidden@127.0.0.1:1/hidden",
		"HOLDFAST_TOKENSERVER__INIT_NODE_URL=https://node.example")
	s.AwaitOutput(`msg="service is not ready" service=extstorage`)
	for _, path := range []string{"/", "/fox", "/fox/", "/?x=1"} {
		a := page(t, "GET", s.URL+path, "*/*", "")
		var got struct {
			Status   string
			Services []struct{ Name, Status, Setting, Address string }
		}
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %v, %v\n%s", path, a.Header, err, a.Body)
		}
		if got.Status != "not ready" || len(got.Services) != 3 || got.Services[0].Name != "tokenserver" || got.Services[0].Status != "ready" ||
			got.Services[0].Setting != "identity.sync.tokenserver.uri" || got.Services[0].Address != "https://sync.example.org/fox/1.0/sync/1.5" ||
			got.Services[1].Status != "not ready" || strings.Contains(a.Body, "hidden") || strings.Contains(a.Body, "127.0.0.1") {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
}
