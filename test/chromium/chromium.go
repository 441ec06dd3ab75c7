// Package chromium controls headless Chromium, so that tests use pages like people. It uses the Chrome DevTools
// Protocol over two pipes, with JSON messages that end with a zero byte (docs/decisions/0034-browser-tests.md).
package chromium

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/binary"
)

// Browser is a running Chromium, or a browser context with its own cookies.
type Browser struct {
	conn    *conn
	context string // from Target.createBrowserContext; "" for the profile's context
}

// NoCookies is a name for this machine for which the browser refuses cookies.
const NoCookies = "localhost"

// preferences refuses cookies for NoCookies: content settings take precedence over flags.
const preferences = `{"profile":{"content_settings":{"exceptions":{"cookies":{"` + NoCookies + `,*":{"setting":2}}}}}}`

// Start starts Chromium with an empty profile. Without Chromium, Start skips the test, or fails it if TEST_REQUIRE
// names Chromium.
func Start(t *testing.T) *Browser {
	t.Helper()
	return start(t, "--disable-extensions")
}

// StartExtension is like Start, with an unpacked extension. No debugger is attached to its worker, which would keep
// the worker alive.
func StartExtension(t *testing.T, dir string) *Browser {
	t.Helper()
	b := start(t, "--enable-unsafe-extension-debugging")
	b.conn.must(t, "", "Extensions.loadUnpacked", map[string]any{"path": dir}, nil)
	return b
}

// EndWorkers ends the service workers, as Chromium itself does.
func (b *Browser) EndWorkers(t *testing.T) {
	t.Helper()
	var all struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.conn.must(t, "", "Target.getTargets", nil, &all)
	ended := 0
	for _, target := range all.TargetInfos {
		if target.Type == "service_worker" {
			b.conn.must(t, "", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil)
			ended++
		}
	}
	if ended == 0 {
		t.Fatalf("no service worker runs among %+v", all.TargetInfos)
	}
}

// start starts Chromium with a further flag.
func start(t *testing.T, flag string) *Browser {
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
		"--no-sandbox",                             // tests also run as root
		"--disable-gpu", "--disable-dev-shm-usage", // containers lack both
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost", // allow no other hosts
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", flag,
		"--disable-default-apps", "--disable-breakpad", "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--password-store=basic", "--mute-audio", "--force-color-profile=srgb", "--lang=en-US", "about:blank")
	cmd.Env = []string{"HOME=" + profile, "PATH=" + os.Getenv("PATH"), "LANG=en_US.UTF-8"}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, []*os.File{theirIn, theirOut}
	// The process group allows killing all Chromium processes. The session gets its own share of a busy CPU.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 5 * time.Second // an escaped child may keep the output open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	c := newConn(in, out)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // waits for all processes that hold the output
		_, _ = in.Close(), out.Close()
		<-c.ended
		if t.Failed() {
			t.Logf("---- chromium wrote:\n%s", said.String())
		}
	})
	return &Browser{conn: c}
}

// Private returns the same browser with separate cookies and storage.
func (b *Browser) Private(t *testing.T) *Browser {
	t.Helper()
	var made struct{ BrowserContextID string }
	b.conn.must(t, "", "Target.createBrowserContext", nil, &made)
	return &Browser{b.conn, made.BrowserContextID}
}

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
	b.conn.watch(p.session, target.TargetID)
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.conn.must(t, p.session, domain+".enable", nil, nil)
	}
	p.conn.must(t, p.session, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	// Only one tab is visible and focused. Other tabs would draw nothing and not match :focus.
	p.conn.must(t, p.session, "Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	p.Scheme(t, "light")
	p.Go(t, url)
	return p
}

type Page struct {
	conn    *conn
	session string
}

// Await runs do, which opens another page in the tab, and returns when that page is loaded.
func (p *Page) Await(t *testing.T, do func()) {
	t.Helper()
	before, _ := p.conn.document(p.session)
	do()
	if err := p.conn.await(p.session, func(d document) bool { return d.loader != before.loader }); err != nil {
		t.Fatalf("load the next page: %v\n%s", err, p.state())
	}
}

func (p *Page) Go(t *testing.T, url string) {
	t.Helper()
	var went struct{ LoaderID, ErrorText string }
	p.conn.must(t, p.session, "Page.navigate", map[string]any{"url": url}, &went)
	if went.ErrorText != "" {
		t.Fatalf("open %s: %s", url, went.ErrorText)
	}
	if went.LoaderID == "" { // only the fragment changed
		return
	}
	if err := p.conn.await(p.session, func(d document) bool { return d.loader == went.LoaderID }); err != nil {
		t.Fatalf("load %s: %v\n%s", url, err, p.state())
	}
}

// SetCookie sets a cookie, "name=value", for an address. If a script sets a cookie, Chromium may store it too late
// for the next navigation.
func (p *Page) SetCookie(t *testing.T, url, cookie string) {
	t.Helper()
	name, value, _ := strings.Cut(cookie, "=")
	var set struct{ Success bool }
	p.conn.must(t, p.session, "Network.setCookie", map[string]any{"name": name, "value": value, "url": url}, &set)
	if !set.Success {
		t.Fatalf("set the cookie %s for %s: refused", name, url)
	}
}

const helpers = `
const $ = s => document.querySelector(s), all = s => [...document.querySelectorAll(s)];
const until = fn => new Promise((done, fail) => {
	const look = () => { try { const v = fn(); v ? done(v) : setTimeout(look, 20); } catch (e) { fail(e); } };
	look();
});
`

// Run runs the body of an async function in the page, with args in `arguments`, and returns its result. $ and all are
// querySelector and querySelectorAll. until(fn) waits until the result of fn is truthy, and returns it.
func Run[T any](t *testing.T, p *Page, body string, args ...any) T {
	t.Helper()
	text, err := json.Marshal(append([]any{}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Result           struct{ Value json.RawMessage } // set even after an error
		ExceptionDetails *exception
	}
	err = p.conn.call(p.session, "Runtime.evaluate", map[string]any{
		"expression":   "(function () {" + helpers + "return (async function () {" + body + "\n}).apply(null, arguments); }).apply(null, " + string(text) + ")",
		"awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &answer)
	if err == nil && answer.ExceptionDetails != nil {
		err = answer.ExceptionDetails
	}
	var value T
	if err == nil && answer.Result.Value != nil {
		err = json.Unmarshal(answer.Result.Value, &value)
	}
	if err != nil {
		t.Fatalf("%s\n%v\n%s", body, err, p.state())
	}
	return value
}

func (p *Page) state() string {
	var shown struct{ Result struct{ Value string } }
	const script = "`${location} shows, with the focus on ${document.activeElement?.outerHTML.slice(0, 200)}:\\n${document.body?.innerText}`"
	if err := p.conn.call(p.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &shown); err != nil {
		return err.Error()
	}
	return shown.Result.Value
}

// AwaitFocus waits until a matching element has the focus, because of the page or a key. An element with autofocus
// gets the focus when it is drawn, possibly after the load event.
func (p *Page) AwaitFocus(t *testing.T, selector string) {
	t.Helper()
	Run[bool](t, p, `return !!await until(() => document.hasFocus() && document.activeElement?.matches(arguments[0]))`, selector)
}

var keys = map[string]struct {
	code int
	text string
}{"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, " ": {32, " "}, "ArrowDown": {40, ""}, "ArrowUp": {38, ""}, "ArrowLeft": {37, ""}, "ArrowRight": {39, ""}}

// Press waits until an element has the focus, and presses Tab, Enter, Escape, ArrowDown, ArrowUp, ArrowLeft,
// ArrowRight or " ".
func (p *Page) Press(t *testing.T, selector, key string) {
	t.Helper()
	if _, ok := keys[key]; !ok {
		t.Fatalf("key %q: not among those of package chromium", key)
	}
	p.AwaitFocus(t, selector)
	p.press(t, key)
}

// TabTo waits until a matching element is visible, and presses Tab until it has the focus.
func (p *Page) TabTo(t *testing.T, selector string) {
	t.Helper()
	Run[bool](t, p, `return !!await until(() => $(arguments[0])?.checkVisibility())`, selector)
	for range 100 {
		p.press(t, "Tab")
		if Run[bool](t, p, `return !!document.activeElement?.matches(arguments[0])`, selector) {
			return
		}
	}
	t.Fatalf("%s: not reached with the Tab key\n%s", selector, p.state())
}

func (p *Page) press(t *testing.T, key string) {
	t.Helper()
	k := keys[key]
	params := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": k.code}
	if k.text != "" {
		params["text"] = k.text
	}
	p.conn.must(t, p.session, "Input.dispatchKeyEvent", params, nil)
	delete(params, "text")
	params["type"] = "keyUp"
	// The page may be closed before the key is released.
	_ = p.conn.call(p.session, "Input.dispatchKeyEvent", params, nil)
}

func (p *Page) Type(t *testing.T, selector, text string) {
	t.Helper()
	p.AwaitFocus(t, selector)
	p.conn.must(t, p.session, "Input.insertText", map[string]any{"text": text}, nil)
	if got := Run[string](t, p, `return $(arguments[0]).value`, selector); !strings.Contains(got, text) {
		t.Fatalf("%s has the value %q after %q was typed\n%s", selector, got, text, p.state())
	}
}

func (p *Page) Point(t *testing.T, x, y float64) {
	t.Helper()
	p.conn.must(t, p.session, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": x, "y": y}, nil)
}

func (p *Page) Drop(t *testing.T, x, y float64, files ...string) {
	t.Helper()
	data := map[string]any{"items": []any{}, "files": files, "dragOperationsMask": 1}
	for _, kind := range []string{"dragEnter", "dragOver", "drop"} {
		p.conn.must(t, p.session, "Input.dispatchDragEvent", map[string]any{"type": kind, "x": x, "y": y, "data": data}, nil)
	}
}

// Throttle limits the page's uploads to a number of bytes per second; -1 means no limit.
func (p *Page) Throttle(t *testing.T, upload int) {
	t.Helper()
	p.conn.must(t, p.session, "Network.enable", nil, nil)
	p.conn.must(t, p.session, "Network.emulateNetworkConditions", map[string]any{"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": upload}, nil)
}

// Scripts enables or disables scripts on pages that are opened later.
func (p *Page) Scripts(t *testing.T, run bool) {
	t.Helper()
	p.conn.must(t, p.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": !run}, nil)
}

// Resize sets the viewport in CSS pixels and waits until the page is drawn.
func (p *Page) Resize(t *testing.T, width, height int) {
	t.Helper()
	p.conn.must(t, p.session, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "screenWidth": width, "screenHeight": height, "deviceScaleFactor": 1, "mobile": width < 600,
	}, nil)
	Run[bool](t, p, `await until(() => screen.width === arguments[0]);
		return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, width)
}

// Scheme makes the page light or dark, as if the user preferred that.
func (p *Page) Scheme(t *testing.T, scheme string) {
	t.Helper()
	features := []map[string]string{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}
	p.conn.must(t, p.session, "Emulation.setEmulatedMedia", map[string]any{"features": features}, nil)
}

// Problems returns uncaught exceptions, errors logged by scripts, and Content-Security-Policy violations since the
// page was opened. Error responses are not included, because a page may expect them.
func (p *Page) Problems() []string { return p.conn.problems(p.session) }

type exception struct {
	Text       string
	URL        string
	LineNumber int
	Exception  struct{ Description string }
}

func (e *exception) Error() string {
	return fmt.Sprintf("%s %s (%s:%s)", e.Text, e.Exception.Description, e.URL, strconv.Itoa(e.LineNumber+1))
}
