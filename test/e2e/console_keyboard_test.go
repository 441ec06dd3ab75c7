package e2e

import (
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/chromium"
)

// TestConsoleKeyboard uses every console page by keyboard only. Outside the soak it uses a phone screen only for the
// open menu and for a table with links in its header.
func TestConsoleKeyboard(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	c.fillBucket()
	c.crawl()
	phone := []string{c.base, c.base + "tokenserver/accounts"}
	if testdb.Soaking() {
		phone = c.pages
	}
	c.byKeyboard(1280, c.pages)
	c.byKeyboard(390, phone)
	c.skip()
	signIn := c.b.Private(t).Open(t, c.base)
	signIn.AwaitFocus(t, "[name=token]")
	for _, problem := range signIn.TabThrough(t, "") {
		t.Errorf("sign-in, with the keyboard: %s", problem)
	}
	if problems := append(c.p.Problems(), signIn.Problems()...); len(problems) > 0 {
		t.Errorf("page problems:\n%s", strings.Join(problems, "\n"))
	}
}

func (c *consolePages) byKeyboard(width int, pages []string) {
	c.t.Helper()
	c.p.Resize(c.t, width, 700)
	sections := ""
	for _, page := range pages {
		c.p.Go(c.t, page)
		chromium.Run[bool](c.t, c.p, `$('.live-state button')?.click(); return true`) // pauses updates, which replace elements
		for _, problem := range c.p.TabThrough(c.t, sections) {
			c.t.Errorf("%s, %d pixels, with the keyboard: %s", page, width, problem)
		}
		sections = "header nav" // same on all pages
	}
}

// crawl adds a page for each linked path, and a missing page.
func (c *consolePages) crawl() {
	c.t.Helper()
	pathOf := func(page string) string {
		path, _, _ := strings.Cut(page, "?")
		return path
	}
	seen := map[string]bool{}
	c.pages = append(c.pages, c.inner()...)
	for _, page := range c.pages {
		seen[pathOf(page)] = true
	}
	for i := 0; i < len(c.pages); i++ {
		c.p.Go(c.t, c.pages[i])
		for _, link := range chromium.Run[[]string](c.t, c.p, `return all('main a[href]').map(a => a.href.split('#')[0])`) {
			if path := pathOf(link); strings.HasPrefix(link, c.base) && !seen[path] {
				seen[path] = true
				if chromium.Run[bool](c.t, c.p, isPage, link) {
					c.pages = append(c.pages, link)
				}
			}
		}
	}
	c.pages = append(c.pages, c.base+"nothing")
}

const isPage = `const { headers } = await fetch(arguments[0]);
	return headers.get('Content-Type')?.startsWith('text/html') && !headers.has('Content-Disposition')`

// skip follows the skip link, which is the first link.
func (c *consolePages) skip() {
	c.t.Helper()
	c.p.Go(c.t, c.base+"settings")
	c.p.TabTo(c.t, ".skip")
	c.p.Press(c.t, ".skip", "Enter")
	c.p.Press(c.t, "main", "Tab")
	if !chromium.Run[bool](c.t, c.p, `return $('main').contains(document.activeElement)`) {
		c.t.Error("after the link to the contents, the Tab key leaves the contents")
	}
}
