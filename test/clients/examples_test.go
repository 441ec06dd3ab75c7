package clients

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// installExample installs an example next to the package in dir, after `npm pack`.
func installExample(t *testing.T, c *typescript, name string) *typescript {
	t.Helper()
	example := &typescript{ctx: c.ctx, dir: filepath.Join(c.dir, "examples", name), env: []string{"NEXT_TELEMETRY_DISABLED=1"}}
	example.must(t, binary.Program(t, "npm"), "install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock")
	return example
}

func (c *typescript) start(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	cmd := exec.CommandContext(ctx, program, args...)
	out, ended := &binary.Output{}, make(chan struct{})
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.dir, append(os.Environ(), c.env...), out, out, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("the example said:\n%s", out)
		}
	})
	found := out.Await(regexp.MustCompile(`(http://(?:127\.0\.0\.1|localhost):\d+)`), ended)
	if found == nil {
		t.Fatalf("the example does not say where it is:\n%s", out)
	}
	return found[1]
}

type visitor struct {
	t        *testing.T
	site     string
	http     *http.Client
	language string
}

func newVisitor(t *testing.T, site string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{t, site, &http.Client{Jar: jar, CheckRedirect: stay}, "de-AT"}
}

// from makes the visitor connect from another of this machine's addresses, e.g. 127.0.0.2.
func (v *visitor) from(address string) *visitor {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	v.t.Cleanup(transport.CloseIdleConnections)
	v.http.Transport = transport
	return v
}

// want sends a request, as if from the page or a link to it, and returns the response and its body.
func (v *visitor) want(status int, method, path, body string, parts ...string) (header http.Header, text string) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.site+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	if v.language != "" {
		req.Header.Set("Accept-Language", v.language)
	}
	req.Header.Set("Sec-Fetch-Site", "cross-site") // another site links to the page
	if method != http.MethodGet {
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		req.Header.Set("Origin", v.site)
	}
	if strings.HasPrefix(body, "cart=") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", strconv.Quote(path+body))
	}
	resp, err := v.http.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(string(all), part) {
			v.t.Errorf("%s %s: no %q in\n%s", method, path, part, all)
		}
	}
	if resp.StatusCode != status {
		v.t.Fatalf("%s %s: status %d, want %d\n%s", method, path, resp.StatusCode, status, all)
	}
	return resp.Header, string(all)
}

const wishes = "/bff/consumer/v1/wishlist"

// buy fills a guest's cart, checks out, and returns the guest and the redirect URL.
func buy(t *testing.T, site string) (one *visitor, to *url.URL) {
	t.Helper()
	one = newVisitor(t, site)
	two := newVisitor(t, site)
	header, _ := one.want(http.StatusOK, http.MethodGet, "/", "", "<h1>Shop</h1>")
	if got := header.Values("Set-Cookie"); len(got) != 1 || !strings.HasPrefix(got[0], "gms=gms_") || !strings.Contains(got[0], "HttpOnly") {
		t.Fatalf("the page sets the cookies %q", got)
	}
	two.want(http.StatusOK, http.MethodGet, "/", "")
	one.want(http.StatusCreated, http.MethodPost, wishes, `{"itemId":"apple","quantity":2}`)
	two.want(http.StatusCreated, http.MethodPost, wishes, `{"itemId":"plum"}`)
	header, text := one.want(http.StatusOK, http.MethodGet, "/", "", "2 × apple", `name="cart" value="first"`)
	if strings.Contains(text, "× plum") || len(header.Values("Set-Cookie")) > 1 {
		t.Errorf("the page of the first guest, with %q:\n%s", header.Values("Set-Cookie"), text)
	}
	two.want(http.StatusOK, http.MethodGet, "/", "", "1 × plum")
	header, _ = one.want(http.StatusSeeOther, http.MethodPost, "/checkout", "cart=first")
	to, err := url.Parse(header.Get("Location"))
	if err != nil || to.Query().Get("token") == "" {
		t.Fatalf("sent to %s: %v", header.Get("Location"), err)
	}
	return one, to
}

// visitFromTwoAddresses checks that the limit for new sessions applies to each visitor's address, in pages and in requests
// that the shop forwards.
func visitFromTwoAddresses(t *testing.T, site string) {
	if runtime.GOOS != "linux" {
		t.Log("not checked: only Linux has the addresses 127.0.0.2 and 127.0.0.3 without setup")
		return
	}
	// begin returns the address's remaining new sessions, of 10.
	begin := func(address string) (remaining int) {
		header, _ := newVisitor(t, site).from(address).want(http.StatusCreated, http.MethodPost, "/bff/consumer/v1/session", "")
		if n, err := fmt.Sscanf(header.Get("RateLimit"), `"bootstrap";r=%d`, &remaining); n != 1 {
			t.Fatalf("RateLimit %q: %v", header.Get("RateLimit"), err)
		}
		return remaining
	}
	const rounds = 4
	remaining := 0
	for range rounds {
		newVisitor(t, site).from("127.0.0.2").want(http.StatusOK, http.MethodGet, "/", "")
		remaining = begin("127.0.0.2")
	}
	if remaining >= 10-rounds {
		t.Errorf("%d sessions remain after %d pages and as many requests: pages and requests do not count for one address", remaining, rounds)
	}
	if got := begin("127.0.0.3"); got != 9 {
		t.Errorf("another address has %d sessions left, want 9", got)
	}
}

func click(t *testing.T, site string) {
	t.Helper()
	page := chromium.Start(t).Open(t, site+"/")
	chromium.Run[any](t, page, `await until(() => document.readyState === "complete"); [...all("button")].find(b => b.textContent === "Add pear").click()`)
	deadline := time.Now().Add(binary.Bound)
	for !chromium.Run[bool](t, page, `await until(() => document.readyState === "complete" && document.body); return all("li").some(li => li.textContent.trim() === "1 × pear")`) {
		if time.Now().After(deadline) {
			t.Fatal("the cart in Chromium has no pear")
		}
	}
	if problems := page.Problems(); len(problems) > 0 {
		t.Errorf("the page reports %q", problems)
	}
}

// express tests the Express example: the page, the cart in a browser, and the checkout.
func express(t *testing.T, c *typescript) {
	address := testdb.FreeAddress(t)
	shop := startShop(t, "HOLDFAST_GUEST__HANDOFF_URL=http://"+address+"/paid?token={token}", "HOLDFAST_GUEST__HANDOFF_ALGORITHM=ed25519",
		"HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1")
	example := installExample(t, c, "express")
	service := strings.TrimSpace(shop.Verb("guest", "tokens", "create", "--service", "checkout", "--ttl", "24h"))
	_, port, _ := strings.Cut(address, ":")
	example.env = append(example.env, "API="+shop.URL, "INTERNAL="+shop.Internal(), "SERVICE="+service, "PORT="+port)
	site := example.start(t, binary.Program(t, "node"), "server.js")
	shopper, to := buy(t, site)
	checkout := newVisitor(t, site)
	paid := fmt.Sprintf("%s?%s", to.Path, to.RawQuery)
	checkout.want(http.StatusOK, http.MethodGet, paid, "", `Paid: [{"itemId":"apple","quantity":2}]`)
	checkout.want(http.StatusConflict, http.MethodGet, paid, "", "the handoff was consumed before")
	checkout.want(http.StatusBadRequest, http.MethodGet, "/paid?token=x", "")
	shopper.want(http.StatusCreated, http.MethodPost, wishes, `{"itemId":"pear"}`)
	shopper.want(http.StatusConflict, http.MethodPost, "/checkout", "cart=first", "the handoff was consumed before") // from another tab
	if _, text := shopper.want(http.StatusOK, http.MethodGet, "/", "", `name="cart" value="after-bhd_`); strings.Contains(text, "× apple") {
		t.Errorf("the cart shows sold items:\n%s", text)
	}
	newVisitor(t, site).want(http.StatusUnprocessableEntity, http.MethodPost, "/checkout", "cart=first")
	silent := newVisitor(t, site) // without Accept-Language, for which Node sends *
	silent.language = ""
	silent.want(http.StatusOK, http.MethodGet, "/", "")
	silent.want(http.StatusCreated, http.MethodPost, wishes, `{"itemId":"fig"}`)
	header, _ := silent.want(http.StatusSeeOther, http.MethodPost, "/checkout", "cart=first")
	if to, err := url.Parse(header.Get("Location")); err != nil {
		t.Error(err)
	} else {
		silent.want(http.StatusOK, http.MethodGet, to.Path+"?"+to.RawQuery, "", `Paid: [{"itemId":"fig","quantity":1}]`)
	}
	visitFromTwoAddresses(t, site)
	click(t, site)
}

// TestNextJS tests the Next.js example: a server-rendered page starts the session, and the browser continues it.
func TestNextJS(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "Next.js takes a minute to install and build")
	npm := binary.Program(t, "npm")
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	c := newTypeScript(ctx, t)
	c.must(t, npm, "pack")
	example := installExample(t, c, "nextjs")
	shop := startShop(t, "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1")
	example.env = append(example.env, "API="+shop.URL)
	next := filepath.Join(example.dir, "node_modules", "next", "dist", "bin", "next")
	node := binary.Program(t, "node")
	example.must(t, node, next, "build")
	_, port, _ := strings.Cut(testdb.FreeAddress(t), ":")
	site := example.start(t, node, next, "start", "--hostname", "127.0.0.1", "--port", port)
	if _, to := buy(t, site); to.Host != "checkout.example" {
		t.Errorf("sent to %s", to)
	}
	visitFromTwoAddresses(t, site)
	click(t, site)
}
