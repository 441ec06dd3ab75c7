package e2e

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

const says = `const says = text => until(() => $('#status').textContent.includes(text)); `

// press focuses an element with the Tab key and presses Enter.
func press(t *testing.T, p *chromium.Page, selector string) {
	t.Helper()
	p.TabTo(t, selector)
	if !chromium.Run[bool](t, p, `return getComputedStyle(document.activeElement).outlineStyle !== 'none'`) {
		t.Errorf("%s: the focus is not visible", selector)
	}
	p.Press(t, selector, "Enter")
}

var demoVars = []string{"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false"}

const (
	demoResults = `await until(() => all('#results li').length && $('.pin')); return true`
	demoWishes  = `await until(() => all('#wishes li').length === arguments[0]); return true`
	demoTried   = `await until(() => $('#tried').textContent.includes(arguments[0])); return true`
)

func checkDemo(t *testing.T, p *chromium.Page, axe *chromium.Axe, page string) {
	t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		p.Scheme(t, scheme)
		if wide := chromium.Run[int](t, p, `return document.documentElement.scrollWidth`); wide > 320 {
			t.Errorf("%s is %d pixels wide", page, wide)
		}
		if high := chromium.Run[int](t, p, `return $('.bar').offsetHeight`); high > 64 {
			t.Errorf("%s: the bar is %d pixels high", page, high)
		}
		for _, v := range axe.Violations(t, p) {
			t.Errorf("%s, %s: %s", page, scheme, v)
		}
	}
}

// TestGuestDemo uses the demo and its drawer in Chromium by keyboard, on a small phone. It follows a link that only
// bots see, so the page must solve a challenge.
func TestGuestDemo(t *testing.T) {
	t.Parallel()
	b, axe := chromium.Start(t), chromium.NewAxe(t)
	s := binary.Start(t, t.TempDir(), append(slices.Clone(demoVars), "HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_GUEST__BOTS__HONEYPOT=offers", "HOLDFAST_GUEST__BOTS__HEADERS_WEIGHT=0",
		"HOLDFAST_GUEST__BOTS__CHALLENGE_BITS=10")...)
	demo := s.URL + "/guest/demo"

	p := b.Open(t, "about:blank")
	p.Resize(t, 320, 640)
	p.Go(t, demo)
	check := func(page string) { t.Helper(); checkDemo(t, p, axe, page) }
	chromium.Run[bool](t, p, demoResults)
	chromium.Run[bool](t, p, `await fetch(api + '/offers'); return true`)
	check("search")
	press(t, p, "#skip")
	p.Press(t, "#main", "Tab")        // target of the skip link
	press(t, p, "#filters > summary") // a phone shows hotels first
	p.TabTo(t, "[name=text]")
	p.Type(t, "[name=text]", "heron")
	p.Press(t, "[name=text]", "Enter")
	chromium.Run[bool](t, p, says+`await says('1 hotel found'); return true`)
	chromium.Run[bool](t, p, says+`$('[name=text]').value = ''; $('[name=sort]').value = 'price'; $('[name=minStars]').value = '3'; $('[name=city]').value = 'lisbon'; $('[value=wifi], [value=spa]').click();
		await until(() => $('#found').textContent.includes('Lisbon'));
		const paid = all('#results .price b').map(b => Number(b.textContent.replace(/[^0-9]/g, '')));
		if (paid.length < 2 || paid.some((n, i) => i && n < paid[i - 1])) throw new Error('not by price: ' + paid);
		if (all('.stars').some(s => s.textContent.length < 3)) throw new Error('fewer than three stars');
		await until(() => all('.pin').length >= all('#results li').length); return true`)
	press(t, p, "#results h3 a")
	press(t, p, "#add")
	chromium.Run[bool](t, p, says+`await says('is on the wishlist'); return true`)
	check("hotel")

	press(t, p, "#drawer-toggle")
	chromium.Run[bool](t, p, `await until(() => all('#events b').some(e => e.textContent === 'wishlist.added')); await until(() => $('#session').textContent.includes('gms_…'));
		await until(() => $('#caches').textContent.includes('fresh for')); return true`)
	check("drawer")
	press(t, p, "#replay")
	chromium.Run[bool](t, p, demoTried, "Idempotency-Replayed: true")
	press(t, p, "#lose")
	chromium.Run[bool](t, p, demoTried, "The hot state is gone")
	chromium.Run[bool](t, p, `await until(() => $('#add').getAttribute('aria-pressed') === 'true'); return true`)
	press(t, p, "#suspend")
	chromium.Run[bool](t, p, demoTried, "is suspended for a minute")
	p.Press(t, "#suspend", "Escape")
	press(t, p, "#book")
	chromium.Run[bool](t, p, says+`await says('it is suspended'); return true`)
	press(t, p, "#drawer-toggle")
	chromium.Run[bool](t, p, `await until(() => $('#suspend').textContent.startsWith('Resume')); return true`)
	press(t, p, "#suspend")
	chromium.Run[bool](t, p, demoTried, "is back")
	p.Press(t, "#suspend", "Escape")
	p.TabTo(t, "#book")
	p.Await(t, func() { p.Press(t, "#book", "Enter") })
	chromium.Run[bool](t, p, `await until(() => $('#welcome')); if (!location.pathname.endsWith('/booking')) throw new Error(location); return true`)
	s.AwaitMetric(`holdfast_guest_bot_evaluations_total{action="challenge",verdict="suspect"} 1`)
	check("booking")
	press(t, p, "#drawer-toggle")
	chromium.Run[bool](t, p, `await until(() => !$('#reuse').disabled); return true`)
	press(t, p, "#reuse")
	chromium.Run[bool](t, p, demoTried, "409 handoff-consumed")

	p.Go(t, demo+"#wishlist")
	chromium.Run[bool](t, p, demoWishes, 1)
	check("wishlist")
	p.TabTo(t, "#wishes textarea")
	p.Type(t, "#wishes textarea", "near the river")
	press(t, p, ".note button")
	chromium.Run[bool](t, p, says+`await says('was saved'); return true`)
	press(t, p, ".remove")
	chromium.Run[bool](t, p, says+`await says('was removed'); return true`)
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}

// TestGuestDemoTabs uses the demo in two synchronized tabs, also after a Redis flush; without cookies; and without
// JavaScript.
func TestGuestDemoTabs(t *testing.T) {
	t.Parallel()
	b, redis := chromium.Start(t), testdb.OwnRedis(t)
	demo := binary.Start(t, t.TempDir(), append(slices.Clone(demoVars), "HOLDFAST_GUEST__HOT="+redis.URL())...).URL + "/guest/demo"
	p := b.Open(t, demo)
	chromium.Run[bool](t, p, says+`await until(() => $('#results .heart')); $('#results .heart').click(); await says('is on the wishlist'); return true`)
	second := b.Open(t, demo)
	redis.Must(t, "FLUSHALL")
	chromium.Run[bool](t, second, `await until(() => $('#hearts').textContent === '1'); location.hash = '#wishlist'; `+demoWishes, 1)
	chromium.Run[bool](t, second, says+`location.hash = '#search'; all('#results .heart')[1].click(); await says('is on the wishlist'); return true`)
	chromium.Run[bool](t, p, `await until(() => $('#hearts').textContent === '2'); return true`)
	redis.Must(t, "FLUSHALL")
	chromium.Run[bool](t, p, `location.hash = '#wishlist'; `+demoWishes, 2)
	chromium.Run[bool](t, p, says+`$('.remove').click(); await says('was removed'); return true`)
	chromium.Run[bool](t, second, `await until(() => $('#hearts').textContent === '1'); location.hash = '#wishlist'; `+demoWishes, 1)
	chromium.Run[bool](t, p, `$('#drawer-toggle').click(); await until(() => $('#session').textContent.includes('in Redis')); return true`)

	// Guests without cookies can search, and the page names the features that need cookies.
	p.Go(t, strings.Replace(demo, "127.0.0.1", chromium.NoCookies, 1))
	chromium.Run[bool](t, p, demoResults)
	chromium.Run[bool](t, p, says+`$('#drawer-toggle').click(); await until(() => $('#session').textContent.includes('no cookie of a session')); const hotel = $('#results h3 a');
		location.hash = '#wishlist'; await says('blocks cookies');
		hotel.click(); (await until(() => $('#add'))).click(); await says('blocks cookies'); $('#status').textContent = '';
		$('#book').click(); await says('blocks cookies'); return true`)
	if problems := append(p.Problems(), second.Problems()...); len(problems) > 0 {
		t.Errorf("%q", problems)
	}

	second.Scripts(t, false)
	second.Go(t, demo)
	if text := string(second.Screenshot(t)); len(text) < 20_000 {
		t.Errorf("the page without JavaScript is a picture of %d bytes", len(text))
	}
}
