// Package chromium drives headless Chromium, so that tests use pages of the server as people do:
//
//	b := chromium.Start(t)
//	p := b.Open(t, s.URL+"/guest/demo")
//	count := chromium.Run[int](t, p, `await until(() => $('#results li')); return all('#results li').length`)
//	p.Press(t, "Tab")
//	if problems := p.Problems(); len(problems) > 0 { … }
//
// It speaks the Chrome DevTools Protocol over two pipes, in JSON messages that end with a zero byte
// (docs/decisions/0034-browser-tests.md).
package chromium

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"holdfast/test/binary"
)

// Browser is a running Chromium, or a part of it with cookies of its own.
type Browser struct {
	conn    *conn
	context string // of Target.createBrowserContext; "": that of the profile
}

// NoCookies is the name of this machine for which the browser refuses all cookies.
const NoCookies = "localhost"

// preferences refuse cookies of NoCookies: content settings have precedence over flags.
const preferences = `{"profile":{"content_settings":{"exceptions":{"cookies":{"` + NoCookies + `,*":{"setting":2}}}}}}`

// Start starts Chromium with an empty profile. It ends with the test. If there is no Chromium, the
// test is skipped, or fails if TEST_REQUIRE names it.
func Start(t *testing.T) *Browser {
	t.Helper()
	program := binary.Program(t, "chromium")
	profile := t.TempDir()
	if err := os.Mkdir(filepath.Join(profile, "Default"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profile, "Default", "Preferences"), []byte(preferences), 0o600); err != nil {
		t.Fatal(err)
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var said binary.Output
	cmd := exec.Command(program, "--headless", "--remote-debugging-pipe", "--user-data-dir="+profile,
		"--no-sandbox",                             // tests run as root, too
		"--disable-gpu", "--disable-dev-shm-usage", // as in containers, which have neither
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost", // it talks to nobody else
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-default-apps", "--disable-breakpad", "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--password-store=basic", "--mute-audio", "--force-color-profile=srgb", "--lang=en-US", "about:blank")
	cmd.Env = []string{"HOME=" + profile, "PATH=" + os.Getenv("PATH"), "LANG=en_US.UTF-8"}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, []*os.File{theirIn, theirOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second // for a child that has left the group and keeps the output open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	c := newConn(in, out)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // until all of its processes have closed the output
		_, _ = in.Close(), out.Close()
		<-c.ended
		if t.Failed() {
			t.Logf("---- chromium wrote:\n%s", said.String())
		}
	})
	return &Browser{conn: c}
}

// Private returns the same browser with cookies and storage of its own.
func (b *Browser) Private(t *testing.T) *Browser {
	t.Helper()
	var made struct{ BrowserContextID string }
	b.conn.must(t, "", "Target.createBrowserContext", nil, &made)
	return &Browser{b.conn, made.BrowserContextID}
}

// Open opens a tab and returns when the page is loaded.
func (b *Browser) Open(t *testing.T, url string) *Page {
	t.Helper()
	params := map[string]any{"url": "about:blank"}
	if b.context != "" {
		params["browserContextId"] = b.context
	}
	var target struct{ TargetID string }
	b.conn.must(t, "", "Target.createTarget", params, &target)
	var session struct{ SessionID string }
	b.conn.must(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	p := &Page{conn: b.conn, session: session.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.conn.must(t, p.session, domain+".enable", nil, nil)
	}
	p.Go(t, url)
	return p
}

// Await does something that opens another page in the tab, and returns when that page is loaded.
func (p *Page) Await(t *testing.T, do func()) {
	t.Helper()
	loaded := p.conn.expect(p.session, "Page.loadEventFired")
	do()
	p.conn.wait(t, loaded, "load the next page")
}

// Page is a tab.
type Page struct {
	conn    *conn
	session string
}

// Go opens an address in the tab and returns when the page is loaded.
func (p *Page) Go(t *testing.T, url string) {
	t.Helper()
	loaded := p.conn.expect(p.session, "Page.loadEventFired")
	var went struct{ LoaderID, ErrorText string }
	p.conn.must(t, p.session, "Page.navigate", map[string]any{"url": url}, &went)
	if went.ErrorText != "" {
		t.Fatalf("open %s: %s", url, went.ErrorText)
	}
	if went.LoaderID != "" { // else only the fragment has changed
		p.conn.wait(t, loaded, "load "+url)
	}
}

// helpers are what Run gives a script: they wait for what the page does next.
const helpers = `
const $ = s => document.querySelector(s), all = s => [...document.querySelectorAll(s)];
const until = fn => new Promise((done, fail) => {
	const look = () => { try { const v = fn(); v ? done(v) : setTimeout(look, 20); } catch (e) { fail(e); } };
	look();
});
`

// Run runs the body of an async function in the page, with args in `arguments`, and returns what
// it returns. $ and all are querySelector and querySelectorAll; until(fn) waits until fn returns
// something true, and returns that.
func Run[T any](t *testing.T, p *Page, body string, args ...any) T {
	t.Helper()
	text, err := json.Marshal(append([]any{}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Result           struct{ Value T }
		ExceptionDetails *exception
	}
	err = p.conn.call(p.session, "Runtime.evaluate", map[string]any{
		"expression":   "(function () {" + helpers + "return (async function () {" + body + "\n}).apply(null, arguments); }).apply(null, " + string(text) + ")",
		"awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &answer)
	if err == nil && answer.ExceptionDetails != nil {
		err = answer.ExceptionDetails
	}
	if err != nil {
		t.Fatalf("%s\n%v\nThe page shows:\n%s", body, err, p.text())
	}
	return answer.Result.Value
}

// text returns what the page shows.
func (p *Page) text() string {
	var shown struct{ Result struct{ Value string } }
	if err := p.conn.call(p.session, "Runtime.evaluate", map[string]any{"expression": "document.body.innerText", "returnByValue": true}, &shown); err != nil {
		return err.Error()
	}
	return shown.Result.Value
}

// keys are those that Press knows: their codes, and the text that they type.
var keys = map[string]struct {
	code int
	text string
}{"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, " ": {32, " "}, "ArrowDown": {40, ""}, "ArrowUp": {38, ""}, "ArrowLeft": {37, ""}, "ArrowRight": {39, ""}}

// Press presses a key: Tab, Enter, Escape, ArrowDown, ArrowUp, ArrowLeft, ArrowRight or " ".
func (p *Page) Press(t *testing.T, key string) {
	t.Helper()
	k, ok := keys[key]
	if !ok {
		t.Fatalf("key %q: not among those of package chromium", key)
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": k.code}
		if kind == "keyDown" && k.text != "" {
			params["text"] = k.text
		}
		p.conn.must(t, p.session, "Input.dispatchKeyEvent", params, nil)
	}
}

// Type types text into what has the focus.
func (p *Page) Type(t *testing.T, text string) {
	t.Helper()
	p.conn.must(t, p.session, "Input.insertText", map[string]any{"text": text}, nil)
}

// Point moves the mouse to a point of the window.
func (p *Page) Point(t *testing.T, x, y float64) {
	t.Helper()
	p.conn.must(t, p.session, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": x, "y": y}, nil)
}

// Drop drags files to a point of the window and drops them there.
func (p *Page) Drop(t *testing.T, x, y float64, files ...string) {
	t.Helper()
	data := map[string]any{"items": []any{}, "files": files, "dragOperationsMask": 1} // copy
	for _, kind := range []string{"dragEnter", "dragOver", "drop"} {
		p.conn.must(t, p.session, "Input.dispatchDragEvent", map[string]any{"type": kind, "x": x, "y": y, "data": data}, nil)
	}
}

// Scripts lets the pages that are opened next run scripts, or not.
func (p *Page) Scripts(t *testing.T, run bool) {
	t.Helper()
	p.conn.must(t, p.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": !run}, nil)
}

// Resize gives the page the size of a window, or of a phone's screen, in CSS pixels.
func (p *Page) Resize(t *testing.T, width, height int) {
	t.Helper()
	p.conn.must(t, p.session, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// Scheme makes the page light or dark, as the user's system prefers.
func (p *Page) Scheme(t *testing.T, scheme string) {
	t.Helper()
	feature := map[string]string{"name": "prefers-color-scheme", "value": scheme}
	p.conn.must(t, p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []any{feature}}, nil)
}

// Screenshot returns a picture of the whole page (PNG).
func (p *Page) Screenshot(t *testing.T) []byte {
	t.Helper()
	var shot struct{ Data []byte }
	p.conn.must(t, p.session, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	return shot.Data
}

// Picture returns a picture of what the window shows (WebP), for documents.
func (p *Page) Picture(t *testing.T) []byte {
	t.Helper()
	var shot struct{ Data []byte }
	p.conn.must(t, p.session, "Page.captureScreenshot", map[string]any{"format": "webp", "quality": 80}, &shot)
	return shot.Data
}

// Problems returns what went wrong in the page since it was opened: uncaught exceptions, errors
// that scripts logged, and violations of the Content-Security-Policy. Responses with an error status
// are not among them, because a page may expect one.
func (p *Page) Problems() []string { return p.conn.problems(p.session) }

// exception is Runtime.ExceptionDetails.
type exception struct {
	Text       string
	URL        string
	LineNumber int
	Exception  struct{ Description string }
}

func (e *exception) Error() string {
	return fmt.Sprintf("%s %s (%s:%s)", e.Text, e.Exception.Description, e.URL, strconv.Itoa(e.LineNumber+1))
}
