package firefox

import (
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// page is what a step in a page may use: it waits until what it looks for is there.
const page = `
const $ = s => document.querySelector(s), all = s => [...document.querySelectorAll(s)];
const until = fn => new Promise(done => { const look = () => fn() ? done(fn()) : setTimeout(look, 50); look(); });
const says = text => until(() => $('#status').textContent.includes(text));
const click = async s => (await until(() => $(s))).click();
`

// inPage runs an async function body in the page of the selected tab.
func inPage[T any](t *testing.T, b *browser, body string, args ...any) T {
	t.Helper()
	ctx, cancel := bounded(t)
	defer cancel()
	var answer struct{ Value T }
	if args == nil {
		args = []any{}
	}
	err := b.remote.Command(ctx, "WebDriver:ExecuteScript", map[string]any{"script": page + "return (async () => {" + body + "})(...arguments);", "args": args}, &answer)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return answer.Value
}

func (b *browser) command(t *testing.T, name string, params map[string]any, result any) {
	t.Helper()
	ctx, cancel := bounded(t)
	defer cancel()
	if err := b.remote.Command(ctx, name, params, result); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// open opens an address in the selected tab.
func (b *browser) open(t *testing.T, address string) {
	t.Helper()
	b.command(t, "WebDriver:Navigate", map[string]any{"url": address}, nil)
}

// TestGuestDemo: a guest searches, keeps a wishlist in two tabs while Redis is flushed, and
// books once. On a phone nothing is cut off, every control has a name, and a guest without
// cookies can search.
func TestGuestDemo(t *testing.T) {
	t.Parallel()
	firefox := program(t)
	redis := testdb.OwnRedis(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_GUEST__HOT="+redis.URL())
	b, err := startBrowser(t, firefox, "A", "http://127.0.0.1:1", "http://127.0.0.1:1", &journal{})
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, "setIntPref", "network.proxy.type", 0)
	b.command(t, "Marionette:SetContext", map[string]any{"value": "content"}, nil)
	demo := s.URL + "/guest/demo"
	b.open(t, demo)
	hotel := inPage[string](t, b, `
		$('[name=text]').value = 'vienna'; $('#form').requestSubmit();
		await until(() => all('#results li').length === 18 || all('#results li').length === 20);
		const link = $('#results a'); link.click(); await click('#add'); await says('is on the wishlist');
		return link.hash;`)
	if !strings.HasPrefix(hotel, "#hotel/") {
		t.Fatalf("the link of a hotel: %s", hotel)
	}

	var first string
	b.command(t, "WebDriver:GetWindowHandle", map[string]any{}, &struct{ Value *string }{&first})
	var second struct{ Handle string }
	b.command(t, "WebDriver:NewWindow", map[string]any{"type": "tab"}, &second)
	tab := func(handle string) {
		t.Helper()
		b.command(t, "WebDriver:SwitchToWindow", map[string]any{"handle": handle, "focus": false}, nil)
	}
	tab(second.Handle)
	b.open(t, demo+"#wishlist")
	wishes := `await until(() => all('#wishes li').length === 1); return true`
	inPage[bool](t, b, wishes)
	redis.Must(t, "FLUSHALL")
	tab(first)
	inPage[bool](t, b, `location.hash = '#wishlist'; `+wishes)
	tab(second.Handle)
	inPage[bool](t, b, `await click('#wishes button'); await says('was removed'); return true`)
	tab(first)
	inPage[bool](t, b, `location.hash = '#search'; await until(() => !$('#page-search').hidden); location.hash = '#wishlist'; await says('is empty'); return true`)

	inPage[bool](t, b, `location.hash = arguments[0]; await click('#book'); await until(() => $('#welcome')); await click('#again'); await says('consumed before'); return true`, hotel)

	b.command(t, "WebDriver:SetWindowRect", map[string]any{"width": 450, "height": 800}, nil)
	b.open(t, demo)
	unnamed := inPage[[]string](t, b, `
		const named = e => e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label');
		const wrong = all('input, select, button, a').filter(e => !named(e)).map(e => e.outerHTML);
		if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page is wider than the window');
		if (!document.documentElement.lang || all('h1').length !== 1) wrong.push('language or heading');
		return wrong;`)
	if len(unnamed) > 0 {
		t.Errorf("not accessible: %q", unnamed)
	}

	b.command(t, "Marionette:SetContext", map[string]any{"value": "chrome"}, nil)
	b.do(t, "setIntPref", "network.cookie.cookieBehavior", 2)
	b.command(t, "Marionette:SetContext", map[string]any{"value": "content"}, nil)
	b.open(t, demo+"?blocked")
	inPage[bool](t, b, `$('#form').requestSubmit(); await until(() => all('#results li').length > 0); location.hash = '#wishlist'; await says('blocks cookies'); return true`)
}
