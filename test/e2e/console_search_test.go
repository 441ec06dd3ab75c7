package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// TestConsoleSuggestions uses the search by keyboard. The search suggests results while the user types, and works
// without JavaScript.
func TestConsoleSuggestions(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	s3{t, s.S3(t)}.want(http.StatusOK, http.MethodPut, "/quotations", nil)
	b, axe := chromium.Start(t), chromium.NewAxe(t)
	p := b.Open(t, s.Admin+"/console/")
	p.SetCookie(t, s.Admin, consoleCookie(t, s))
	await := func(condition string, args ...any) {
		t.Helper()
		chromium.Run[bool](t, p, `return !!await until(() => `+condition+`)`, args...)
	}
	const field = ".find input"
	for _, width := range []int{1280, 390} {
		p.Resize(t, width, 900)
		p.Go(t, s.Admin+"/console/tokenserver/accounts")
		chromium.Run[bool](t, p, `document.activeElement.blur(); document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true })); return true`)
		p.Type(t, field, "quot")
		await(`$('.find input').ariaExpanded === 'true' && $('#found').innerText.includes('quotations') && $('#found').innerText.includes('Buckets › Quotas')`)
		await(`/^\d suggestions\.$/.test($('.find [role=status]').textContent)`)
		for _, v := range axe.Violations(t, p) {
			t.Errorf("%d pixels: %s", width, v)
		}
		if wide := chromium.Run[int](t, p, `return document.documentElement.scrollWidth`); wide > width {
			t.Errorf("the page is %d pixels wide on a screen of %d", wide, width)
		}
		if to := os.Getenv("RECORD_PICTURES"); to != "" {
			p.Keep(t, filepath.Join(to, fmt.Sprintf("suggestions-%d.webp", width)))
		}

		// Escape closes the list until the text changes. Arrow keys wrap around.
		p.Press(t, field, "Escape")
		await(`$('#found').hidden && $('.find input').ariaExpanded === 'false'`)
		p.Type(t, field, "a")
		await(`$('.find input').ariaExpanded === 'true' && $('.find input').value === 'quota'`)
		chosen := func() string {
			return chromium.Run[string](t, p, `return document.getElementById($('.find input').getAttribute('aria-activedescendant'))?.innerText ?? ''`)
		}
		p.Press(t, field, "ArrowUp")
		if last := chromium.Run[string](t, p, `return all('#found [role=option]').at(-1).innerText`); chosen() != last {
			t.Errorf("the arrow up chooses %q, not the last one, %q", chosen(), last)
		}
		p.Press(t, field, "ArrowDown")
		first := chromium.Run[[]string](t, p, `const o = $('#found [role=option][aria-selected=true]:first-of-type'); return [o.innerText, o.href]`)
		if chosen() != first[0] {
			t.Errorf("the arrow down chooses %q, not the first one", chosen())
		}
		p.Await(t, func() { p.Press(t, field, "Enter") })
		if at := chromium.Run[string](t, p, `return location.href`); at != first[1] {
			t.Errorf("Enter opens %s, not %s", at, first[1])
		}
	}

	// Without a selection, Enter searches. Suggestions for earlier text must not appear.
	p.Resize(t, 1280, 900)
	chromium.Run[bool](t, p, `$('.find input').focus(); return true`)
	p.Type(t, field, "quotations")
	p.Await(t, func() { p.Press(t, field, "Enter") })
	await(`location.search === '?q=quotations' && $('main tbody').innerText.includes('quotations')`)
	p.Scripts(t, false)
	p.Go(t, s.Admin+"/console/")
	chromium.Run[bool](t, p, `$('.find input').focus(); return true`)
	p.Type(t, field, "no-such-name")
	p.Await(t, func() { p.Press(t, field, "Enter") })
	await(`$('main').innerText.includes('What you can search for') && $('main').innerText.includes('BUCKET/NAME')`)
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("page problems:\n%s", strings.Join(problems, "\n"))
	}
}
