package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/test/chromium"
	"holdfast/test/e2e/testpages"
)

func testScripts(t *testing.T, b *chromium.Browser, axe *chromium.Axe) {
	const token = "admin-token-of-a-test-0123456789"
	c := testpages.Start(t, token)
	p := b.Private(t).Open(t, c.URL+"sign-in?next=charts")
	p.Type(t, "[name=token]", token)
	p.Await(t, func() { p.Press(t, "[name=token]", "Enter") })
	testCharts(t, p, axe)
	testParts(t, p, c)
	other := chromium.Run[[]string](t, p, `return performance.getEntries().map(e => e.name).filter(n => n.includes('://') && !n.startsWith(location.origin))`)
	if len(other) > 0 {
		t.Errorf("requests to other servers: %q", other)
	}
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("page problems:\n%s", strings.Join(problems, "\n"))
	}
}

// testCharts tests values under the cursor and by keyboard, dark mode, a narrow window, screen readers, and the page
// without JavaScript.
func testCharts(t *testing.T, p *chromium.Page, axe *chromium.Axe) {
	t.Helper()
	const legends = `all('.legend').map(l => [...l.children].map(li => li.textContent).join(', '))`
	p.Resize(t, 1200, 700)
	fromServer := chromium.Run[[]string](t, p, `const d = new DOMParser().parseFromString(await (await fetch(location.href)).text(), 'text/html');
		return [...d.querySelectorAll('.legend')].map(l => '09:59 UTC, ' + [...l.children].map(li => li.textContent).join(', '))`)
	check := func(what string, want []string) {
		t.Helper()
		t.Logf("%s: waiting for the legends %q", what, want)
		chromium.Run[bool](t, p, `return !!await until(() => JSON.stringify(`+legends+`) === JSON.stringify(arguments[0]))`, want)
	}
	drawn := chromium.Run[[]int](t, p, `await until(() => all('.drawn canvas').filter(c => c.clientWidth === c.closest('.plot').clientWidth).length === 2); return [all('figure').length, all('figure svg[role=img][aria-label]').length]`)
	if !slices.Equal(drawn, []int{3, 2}) {
		t.Errorf("figures and their texts: %d", drawn)
	}
	check("at first", fromServer)
	at := chromium.Run[[]float64](t, p, `const r = $('.u-over').getBoundingClientRect(); return [r.left, r.width, r.top + r.height / 2]`)
	p.Point(t, at[0]+at[1]*119/359, at[2])
	check("under the cursor", []string{"05:59 UTC, Good: 147/s, Bad: 0/s", "05:59 UTC, One: 1.0 GiB"})
	p.Point(t, 1, 1)
	check("without the cursor", fromServer)
	if color := chromium.Run[bool](t, p, `const c = $('.plot canvas').getContext('2d'), d = c.getImageData(0, 0, c.canvas.width, c.canvas.height).data; return d.some(v => v !== 0)`); !color {
		t.Error("nothing is drawn")
	}
	chromium.Run[bool](t, p, `$('.plot').focus(); return true`)
	p.Press(t, ".plot", "ArrowLeft")
	p.Press(t, ".plot", "ArrowLeft")
	check("two minutes before", []string{"09:57 UTC, Good: 442/s, Bad: 0/s", "09:57 UTC, One: 9.2 GiB"})
	if says := chromium.Run[string](t, p, `return $('.plot').getAttribute('aria-valuetext')`); says != "09:57 UTC, Good: 442/s, Bad: 0/s" {
		t.Errorf("a screen reader says %q", says)
	}
	chromium.Run[bool](t, p, `document.activeElement.blur(); window.light = $('canvas').toDataURL(); return true`)
	check("without the focus", fromServer)
	p.Scheme(t, "dark")
	chromium.Run[bool](t, p, `return !!await until(() => $('canvas').toDataURL() !== window.light)`)
	for _, v := range axe.Violations(t, p) {
		t.Errorf("charts: %s", v)
	}
	p.Resize(t, 320, 700)
	chromium.Run[bool](t, p, `return !!await until(() => all('canvas').every(c => c.clientWidth > 200 && c.clientWidth <= 320 && c.clientWidth === c.closest('.plot').clientWidth))`)
	p.Scheme(t, "light")
	p.Scripts(t, false)
	p.Go(t, chromium.Run[string](t, p, `return location.href`))
	if got := chromium.Run[string](t, p, `return [all('canvas').length, $('svg.chart').clientWidth > 200, getComputedStyle($('.plot')).display].join()`); got != "0,true,none" {
		t.Errorf("without JavaScript: %s", got)
	}
	p.Scripts(t, true)
}

func testParts(t *testing.T, p *chromium.Page, part *testpages.Console) {
	t.Helper()
	address := part.URL + "part"
	p.Go(t, address)
	await := func(condition string, args ...any) {
		t.Helper()
		chromium.Run[bool](t, p, `return !!await until(() => `+condition+`)`, args...)
	}
	polls := func(n int64) {
		t.Helper()
		end := time.Now().Add(time.Minute)
		for until := part.Shown.Load() + n; part.Shown.Load() < until; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the page does not request its part")
			}
		}
	}
	// htmx replaces only changed elements and keeps the focus. Charts and times never appear in their form without scripts.
	chromium.Run[bool](t, p, `window.same = $('#live'); $('#live .scroll').focus();
		document.addEventListener('htmx:afterSwap', () => { window.raw = all('#live .plot:empty, #live time:not([title])').length }); return true`)
	polls(2)
	await(`$('#live') === window.same`)
	part.Show(hostileText)
	await(`$('#live').textContent.includes(arguments[0]) && $('#live') !== window.same && document.activeElement === $('#live .scroll')`, hostileText)
	if raw := chromium.Run[int](t, p, `return window.raw`); raw != 0 || !chromium.Run[bool](t, p, `return !!$('#live canvas') && !!$('#live time[title]')`) {
		t.Errorf("after an update, %d charts and times are in their form without scripts", raw)
	}

	// htmx replaces nothing while a link in the part is focused, or while updates are paused.
	for what, steps := range map[string][2]string{
		"a link with the focus": {`$('#live a').focus()`, `$('#live a').blur()`},
		"selected text":         {`getSelection().selectAllChildren($('h1'))`, `getSelection().removeAllRanges()`},
		"paused updates":        {`$('.live-state button').click()`, `$('.live-state button').click()`},
	} {
		text := "after " + what
		chromium.Run[bool](t, p, steps[0]+`; return true`)
		part.Show(text)
		if kept := chromium.Run[bool](t, p, `return new Promise(done => document.addEventListener('htmx:beforeRequest', e => done(e.defaultPrevented), { once: true }))`); !kept {
			t.Errorf("the part was replaced: %s", what)
		}
		chromium.Run[bool](t, p, steps[1]+`; return true`)
		await(`$('#live').textContent.includes(arguments[0])`, text)
	}

	// If the part is missing from the response, the browser loads the page.
	p.Await(t, func() { part.IsWhole.Store(true) })
	await(`!$('#live') && $('main table')`)
	part.IsWhole.Store(false)
	p.Go(t, address)
	p.Await(t, func() { part.Text.Store(nil) })
	await(`$('h1').textContent === 'Not found'`)
	part.Show("again")
	p.Go(t, address)
	if stored := chromium.Run[string](t, p, `await until(() => $('.live-state button')); return Object.keys(localStorage).concat(Object.keys(sessionStorage).filter(k => k.includes('cache'))).join()`); stored != "" {
		t.Errorf("htmx stores %s", stored)
	}
	// After the session expires, the page leads to the sign-in.
	p.Await(t, func() {
		chromium.Run[bool](t, p, `fetch('/console/sign-out', { method: 'POST', body: new URLSearchParams({ csrf: $('[name=csrf]').value }) }); return true`)
	})
	await(`location.pathname === '/console/sign-in' && $('[name=next]').value === 'part?'`)
}
