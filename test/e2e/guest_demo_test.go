package e2e

import (
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// says waits for a message in the status line of the demo.
const says = `const says = text => until(() => $('#status').textContent.includes(text)); `

// press goes to an element with the Tab key and presses Enter, as people without a mouse do.
func press(t *testing.T, p *chromium.Page, selector string) {
	t.Helper()
	p.TabTo(t, selector)
	if !chromium.Run[bool](t, p, `return getComputedStyle(document.activeElement).outlineStyle !== 'none'`) {
		t.Errorf("%s: the focus is not visible", selector)
	}
	p.Press(t, selector, "Enter")
}

// TestGuestDemo uses the demo in Chromium: with the keyboard on the screen of a small phone, in two
// tabs while Redis is flushed, and without cookies. The browser follows a link that only bots see,
// so the page has to solve a challenge.
func TestGuestDemo(t *testing.T) {
	t.Parallel()
	b, axe, redis := chromium.Start(t), chromium.NewAxe(t), testdb.OwnRedis(t)
	vars := []string{"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false"}
	s := binary.Start(t, t.TempDir(), append(vars, "HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_GUEST__BOTS__HONEYPOT=offers", "HOLDFAST_GUEST__BOTS__HEADERS_WEIGHT=0",
		"HOLDFAST_GUEST__BOTS__CHALLENGE_BITS=10")...)
	demo := s.URL + "/guest/demo"

	p := b.Open(t, "about:blank")
	p.Resize(t, 320, 640)
	p.Go(t, demo)
	check := func(page string) {
		t.Helper()
		if wide := chromium.Run[int](t, p, `return document.documentElement.scrollWidth`); wide > 320 {
			t.Errorf("%s is %d pixels wide", page, wide)
		}
		for _, v := range axe.Violations(t, p) {
			t.Errorf("%s: %s", page, v)
		}
	}
	chromium.Run[bool](t, p, `await fetch(api + '/offers'); return true`)
	press(t, p, "#skip")
	p.Press(t, "#main", "Tab") // the skip link leads there
	p.Type(t, "[name=text]", "vienna")
	p.Press(t, "[name=text]", "Enter")
	chromium.Run[bool](t, p, says+`await says('found'); return true`)
	check("search")
	press(t, p, "#results a")
	press(t, p, "#add")
	chromium.Run[bool](t, p, says+`await says('is on the wishlist'); return true`)
	check("hotel")
	press(t, p, "#book")
	chromium.Run[bool](t, p, `await until(() => $('#welcome')); return true`)
	s.AwaitMetric(`holdfast_guest_bot_evaluations_total{action="challenge",verdict="suspect"} 1`)
	check("arrival")
	press(t, p, "#again")
	chromium.Run[bool](t, p, says+`await says('consumed before'); return true`)
	press(t, p, "nav a[href='#wishlist']")
	wishes := `await until(() => all('#wishes li').length === arguments[0]); return true`
	chromium.Run[bool](t, p, wishes, 1)
	check("wishlist")
	press(t, p, "#wishes button")
	chromium.Run[bool](t, p, says+`await says('was removed'); return true`)

	demo = binary.Start(t, t.TempDir(), append(vars, "HOLDFAST_GUEST__HOT="+redis.URL())...).URL + "/guest/demo"
	p.Go(t, demo)
	chromium.Run[bool](t, p, says+`$('#form').requestSubmit(); await says('found'); $('#results a').click();
		(await until(() => $('#add'))).click(); await says('is on the wishlist'); return true`)
	second := b.Open(t, demo)
	redis.Must(t, "FLUSHALL")
	chromium.Run[bool](t, second, `location.hash = '#wishlist'; `+wishes, 1)
	chromium.Run[bool](t, second, says+`location.hash = '#search'; await until(() => !$('#page-search').hidden); $('#form').requestSubmit(); await says('found');
		all('#results a')[1].click(); (await until(() => $('#add'))).click(); await says('is on the wishlist'); return true`)
	redis.Must(t, "FLUSHALL")
	chromium.Run[bool](t, p, `location.hash = '#wishlist'; `+wishes, 2)
	chromium.Run[bool](t, p, says+`$('#wishes button').click(); await says('was removed'); return true`)
	chromium.Run[bool](t, second, `location.hash = '#wishlist'; `+wishes, 1)

	// A guest without cookies can search, and learns what cookies are needed for.
	p.Go(t, strings.Replace(demo, "127.0.0.1", chromium.NoCookies, 1))
	chromium.Run[bool](t, p, says+`$('#form').requestSubmit(); await says('found'); const hotel = $('#results a');
		location.hash = '#wishlist'; await says('blocks cookies');
		hotel.click(); (await until(() => $('#add'))).click(); await says('blocks cookies'); $('#status').textContent = '';
		$('#book').click(); await says('blocks cookies'); return true`)
	if problems := append(p.Problems(), second.Problems()...); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}
