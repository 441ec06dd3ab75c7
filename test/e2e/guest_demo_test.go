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
	chromium.Run[bool](t, p, `return !!await until(() => $(arguments[0]))`, selector)
	for range 100 {
		p.Press(t, "Tab")
		if chromium.Run[bool](t, p, `return document.activeElement === $(arguments[0])`, selector) {
			if !chromium.Run[bool](t, p, `return getComputedStyle(document.activeElement).outlineStyle !== 'none'`) {
				t.Errorf("%s: the focus is not visible", selector)
			}
			p.Press(t, "Enter")
			return
		}
	}
	t.Fatalf("%s: not reached with the Tab key", selector)
}

// TestGuestDemo uses the demo in Chromium. The server suspects everybody who makes two changes in a
// minute, so the page has to solve a challenge.
func TestGuestDemo(t *testing.T) {
	t.Parallel()
	b, redis := chromium.Start(t), testdb.OwnRedis(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false",
		"HOLDFAST_BUCKETS__ENABLED=false", "HOLDFAST_GUEST__HOT="+redis.URL(), "HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_GUEST__BOTS__CADENCE=5", "HOLDFAST_GUEST__BOTS__CHALLENGE_AT=0.1", "HOLDFAST_GUEST__BOTS__BLOCK_AT=10",
		"HOLDFAST_GUEST__BOTS__CHALLENGE_BITS=10")
	demo := s.URL + "/guest/demo"

	// A guest searches, keeps a wishlist and books once.
	t.Run("books", func(t *testing.T) {
		b := b.Private(t)
		p := b.Open(t, demo)
		hotel := chromium.Run[string](t, p, says+`
			$('[name=text]').value = 'vienna'; $('#form').requestSubmit(); await says('found');
			const link = $('#results a'); link.click(); (await until(() => $('#add'))).click(); await says('is on the wishlist');
			return link.hash`)
		chromium.Run[bool](t, p, says+`
			(await until(() => $('#book'))).click(); await until(() => $('#welcome'));
			$('#again').click(); await says('consumed before'); return true`)
		p.Go(t, demo+hotel) // a second handoff of the same guest
		chromium.Run[bool](t, p, says+`(await until(() => $('#book'))).click(); await until(() => $('#welcome')); return true`)
		if problems := p.Problems(); len(problems) > 0 {
			t.Errorf("%q", problems)
		}
	})

	s.AwaitMetric(`holdfast_guest_bot_evaluations_total{action="challenge",verdict="suspect"} 1`)

	// Two tabs change one wishlist. What Redis loses in between, nobody misses.
	t.Run("two tabs", func(t *testing.T) {
		b := b.Private(t)
		first := b.Open(t, demo)
		chromium.Run[bool](t, first, says+`$('#form').requestSubmit(); await says('found'); $('#results a').click();
			(await until(() => $('#add'))).click(); await says('is on the wishlist'); return true`)
		second := b.Open(t, demo+"#wishlist")
		wishes := `await until(() => all('#wishes li').length === arguments[0]); return true`
		chromium.Run[bool](t, second, wishes, 1)
		redis.Must(t, "FLUSHALL")
		chromium.Run[bool](t, first, `location.hash = '#wishlist'; `+wishes, 1)
		redis.Must(t, "FLUSHALL")
		chromium.Run[bool](t, second, says+`$('#wishes button').click(); await says('was removed'); return true`)
		chromium.Run[bool](t, first, says+`location.hash = '#search'; await until(() => !$('#page-search').hidden); location.hash = '#wishlist'; await says('is empty'); return true`)
		if problems := append(first.Problems(), second.Problems()...); len(problems) > 0 {
			t.Errorf("%q", problems)
		}
	})

	// Without cookies a guest can search, and is told what cookies are needed for.
	t.Run("no cookies", func(t *testing.T) {
		p := b.Open(t, strings.Replace(demo, "127.0.0.1", chromium.NoCookies, 1))
		chromium.Run[bool](t, p, says+`$('#form').requestSubmit(); await says('found'); const hotel = $('#results a');
			location.hash = '#wishlist'; await says('blocks cookies');
			hotel.click(); (await until(() => $('#add'))).click(); await says('blocks cookies');
			$('#book').click(); await until(() => $('#status').textContent.includes('blocks cookies')); return true`)
		if problems := p.Problems(); len(problems) > 0 {
			t.Errorf("%q", problems)
		}
	})

	// On the screen of a small phone nothing is cut off, and the keyboard reaches everything.
	t.Run("keyboard", func(t *testing.T) {
		p := b.Private(t).Open(t, "about:blank")
		p.Resize(t, 320, 640)
		p.Go(t, demo)
		axe := chromium.NewAxe(t)
		check := func(page string) {
			t.Helper()
			if wide := chromium.Run[int](t, p, `return document.documentElement.scrollWidth`); wide > 320 {
				t.Errorf("%s is %d pixels wide", page, wide)
			}
			for _, v := range axe.Violations(t, p) {
				t.Errorf("%s: %s", page, v)
			}
		}
		press(t, p, "#skip")
		if at := chromium.Run[string](t, p, `return document.activeElement.id`); at != "main" {
			t.Errorf("the skip link leads to %q", at)
		}
		p.Press(t, "Tab")
		if at := chromium.Run[string](t, p, `return document.activeElement.name`); at != "text" {
			t.Errorf("after the skip link, the Tab key leads to %q", at)
		}
		p.Type(t, "vienna")
		p.Press(t, "Enter")
		chromium.Run[bool](t, p, says+`await says('found'); return true`)
		check("search")
		press(t, p, "#results a")
		press(t, p, "#add")
		chromium.Run[bool](t, p, says+`await says('is on the wishlist'); return true`)
		check("hotel")
		press(t, p, "#book")
		chromium.Run[bool](t, p, `await until(() => $('#welcome')); return true`)
		check("arrival")
		press(t, p, "nav a[href='#wishlist']")
		chromium.Run[bool](t, p, `await until(() => $('#wishes button')); return true`)
		check("wishlist")
		press(t, p, "#wishes button")
		chromium.Run[bool](t, p, says+`await says('was removed'); return true`)
	})
}
