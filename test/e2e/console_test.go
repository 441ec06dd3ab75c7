package e2e

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

const (
	consoleTenant  = "7e000000-0000-4000-8000-000000000001"
	consoleInstall = "7e000000-0000-4000-8000-000000000011"
	consolePlace   = "?tenant=" + consoleTenant + "&install=" + consoleInstall + "&namespace=settings"
	consoleAccount = "0123456789abcdef0123456789abcdef"
	consoleUser    = "fedcba9876543210fedcba9876543210"

	consoleStranger = "0f21e4d0000000000000000000000002"
	consoleExport   = `{"export":1,"account":"` + consoleUser + `","keys":"0000000000001-AAAAAAAAAAAAAAAAAAAAAA","generation":1,"records":1,"exportedAt":1700000000000}
{"collection":"bookmarks","modified":1700000000000}
{"collection":"bookmarks","id":"a","modified":1700000000000,"payload":"x"}
{"complete":true,"collections":1,"records":1}
`
	hostileText = `"><script>alert(1)<img src=x onerror=alert(2)>`
)

// consolePages is a browser with the console of a server that stores data.
type consolePages struct {
	t     *testing.T
	s     *binary.Server
	b     *chromium.Browser
	p     *chromium.Page
	base  string
	token string
	pages []string

	rows, sorted int // rows measured on a phone, and columns used for sorting
}

// openConsole starts a server whose data contains scripts, which pages must escape, and signs in.
func openConsole(t *testing.T, settings ...string) *consolePages {
	t.Helper()
	b, fxa := chromium.Start(t), newAccounts(t)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(body), consoleTenant) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(hook.Close)
	s := binary.Start(t, t.TempDir(), append(settings, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__EVENTS="+hook.URL, "HOLDFAST_GUEST__EVENT_ATTEMPTS=1", "HOLDFAST_ALERTS__URL="+hook.URL, "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL=http://127.0.0.1:1/",
		"HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_TOKENSERVER__ALLOW_NEW_USERS=false")...)
	c := &consolePages{t: t, s: s, b: b, base: s.Admin + "/console/"}
	if _, a := fxa.signIn(t, s, consoleStranger, 1); a.Status != http.StatusForbidden {
		t.Fatalf("unknown account: %d %s", a.Status, a.Body)
	}
	c.token = strings.TrimSpace(s.Verb("ext", "tokens", "create", "--tenant", consoleTenant, "--install", consoleInstall, "--namespace", "settings=rw"))
	c.put(hostileText, `{"value":"</script><b>"}`)
	s.Verb("tokenserver", "access", "deny", consoleAccount, "--note", hostileText)
	export := filepath.Join(t.TempDir(), "export")
	if err := os.WriteFile(export, []byte(consoleExport), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Verb("tokenserver", "accounts", "import", consoleUser, export)
	alter(t, filepath.Join(s.Data, "guest.db"), `INSERT INTO bff_consumer_user_sessions (session_id, user_id, list_id, linked_at, seen_at)
		VALUES ('gus_01J8ZQ4Y7N5M3K2H1G0F9E8D7B', '`+hostileText+`', 'gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B', unixepoch() * 1000000, unixepoch() * 1000000)`) // sweeps delete older rows
	c.p = b.Open(t, c.base)
	c.p.SetCookie(t, s.Admin, consoleCookie(t, s))
	c.p.Go(t, c.base)
	c.pages = chromium.Run[[]string](t, c.p, `return all('header nav a').map(a => a.href)`)
	if len(c.pages) < 18 {
		t.Errorf("the navigation has %q", c.pages)
	}
	return c
}

func (c *consolePages) put(key, body string) {
	c.t.Helper()
	extension{c.t, c.s, consoleInstall, c.token}.want(http.StatusCreated, http.MethodPut, "/namespaces/settings/records/"+url.PathEscape(key), body)
}

func (c *consolePages) inner() (all []string) {
	for _, path := range []string{
		"extstorage/record" + consolePlace + "&key=" + url.QueryEscape(hostileText), "extstorage/tenants/show" + consolePlace, "extstorage/installs/show" + consolePlace,
		"extstorage/records" + consolePlace, "extstorage/records/create" + consolePlace, "extstorage/feed" + consolePlace, "extstorage/schemas" + consolePlace,
		"tokenserver/accounts/show?account=" + consoleUser, "buckets/accounts/show?account=main", "buckets/keys?account=main", "buckets/buckets?account=main", "buckets/objects?account=main&bucket=pictures",
		"buckets/object?account=main&bucket=pictures&object=pixel.png", "buckets/object?account=main&bucket=pictures&object=page.html",
	} {
		all = append(all, c.base+path)
	}
	return all
}

func (c *consolePages) fillBucket() {
	c.t.Helper()
	s3{c.t, c.s.S3(c.t)}.want(http.StatusOK, http.MethodPut, "/pictures", nil)
	c.p.Go(c.t, c.base+"buckets/objects?account=main&bucket=pictures")
	pixel, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	files := []string{filepath.Join(dir, "pixel.png"), filepath.Join(dir, "page.html")}
	for i, body := range [][]byte{pixel, []byte("<script>alert(1)</script>")} {
		if err := os.WriteFile(files[i], body, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	at := chromium.Run[[]float64](c.t, c.p, `const r = $('main h1').getBoundingClientRect(); return [r.left + 10, r.top + 10]`)
	c.p.Await(c.t, func() { c.p.Drop(c.t, at[0], at[1], files...) })
	if says := chromium.Run[string](c.t, c.p, `return $('.notice').textContent`); says != "Uploaded 2 objects." {
		c.t.Errorf("after dropping two files the page says %q", says)
	}
	c.p.Go(c.t, c.base+"buckets/object?account=main&bucket=pictures&object=pixel.png")
	if width := chromium.Run[int](c.t, c.p, `return $('img.preview').naturalWidth`); width != 1 {
		c.t.Errorf("the image is %d pixels wide", width)
	}
}

const (
	phoneWidth = 390
	rowHeight  = 110 // row height limit on a phone, in pixels
	rowMean    = 90
)

// rowsAreShort checks row heights on a phone. A tap expands a row and shows its buttons; another tap collapses it.
func (c *consolePages) rowsAreShort(page string) {
	c.t.Helper()
	const heights = `return all('main tbody tr').map(r => r.getBoundingClientRect().height)`
	rows := chromium.Run[[]float64](c.t, c.p, heights)
	sum := 0.0
	for _, h := range rows {
		sum += h
		c.rows++
	}
	if len(rows) > 0 && (slices.Max(rows) > rowHeight || sum/float64(len(rows)) > rowMean) {
		c.t.Errorf("%s: the rows on a phone are %.0f pixels high", page, rows)
	}
	for _, problem := range chromium.Run[[]string](c.t, c.p, `return all('main tbody tr').flatMap(r => {
		const seen = e => e.checkVisibility() && e.getBoundingClientRect().width > 0, name = r.querySelector('.name').textContent.trim();
		const hidden = [...r.cells].filter(cell => cell.textContent.trim() !== '' && !cell.classList.contains('none') && !seen(cell) || [...cell.querySelectorAll('button:not(.copy, .ask *)')].some(b => !seen(b)));
		const toggle = r.querySelector('.more > summary');
		if (!toggle) return hidden.map(cell => name + ': nothing shows ' + cell.dataset.label);
		if (!toggle.getAttribute('aria-label')) return [name + ': the toggle has no name'];
		toggle.click();
		const still = hidden.filter(cell => !seen(cell) || [...cell.querySelectorAll('button:not(.copy, .ask *)')].some(b => !seen(b)));
		toggle.click();
		return still.map(cell => name + ': a tap does not show ' + cell.dataset.label);
	})`) {
		c.t.Errorf("%s: %s", page, problem)
	}
}

// sorts checks table orders. Users can sort a complete table by any column, and a page from a longer list only by
// indexed columns. The links work without scripts.
func (c *consolePages) sorts(page string) {
	c.t.Helper()
	type result struct {
		Columns  int
		Problems []string
	}
	r := chromium.Run[result](c.t, c.p, `
		const texts = (doc, at, column) => [...doc.querySelectorAll('main table')[at].tBodies[0].rows].map(r => r.cells[column].textContent);
		const parse = async href => new DOMParser().parseFromString(await (await fetch(href)).text(), 'text/html');
		const result = { Columns: 0, Problems: [] };
		for (const [at, table] of all('main table').entries()) {
			const links = [...table.tHead.querySelectorAll('a')], rows = table.tBodies[0].rows.length;
			const isPaged = table.parentElement.nextElementSibling?.matches('.pages');
			if (isPaged ? links.some(a => a.search.includes('desc')) : rows > 1 && links.length === 0) result.Problems.push((isPaged ? 'a paged table has orders: ' : 'no orders: ') + table.tHead.textContent);
			if (isPaged || rows < 2) continue;
			for (const link of links) {
				const column = link.closest('th').cellIndex, up = await parse(link.href), head = d => d.querySelectorAll('main table')[at].tHead.rows[0].cells[column];
				const down = await parse(head(up).querySelector('a').href);
				result.Columns++;
				const one = texts(up, at, column).filter(t => t !== '-' && t !== ''), other = texts(down, at, column).filter(t => t !== '-' && t !== '');
				const orders = [head(up), head(down)].map(h => h.getAttribute('aria-sort')).sort().join();
				if (orders !== 'ascending,descending') result.Problems.push(link.textContent + ': aria-sort is ' + orders);
				const value = t => isNaN(parseFloat(t)) ? t : parseFloat(t);
				if (new Set(one.map(value)).size > 1 && one[0] === other[0]) result.Problems.push(link.textContent + ' is sorted as ' + one + ', and then as ' + other);
			}
		}
		return result;`)
	c.sorted += r.Columns
	for _, problem := range r.Problems {
		c.t.Errorf("%s: %s", page, problem)
	}
}

// TestConsole opens the console's pages in Chromium on phone, tablet and computer screens.
func TestConsole(t *testing.T) {
	t.Parallel()
	axe := chromium.NewAxe(t)
	c := openConsole(t, "HOLDFAST_BUCKETS__INLINE=0") // so that a drain moves bodies
	p := c.p
	c.fillBucket()
	record := c.inner()[0]
	for _, page := range append(c.pages, c.inner()...) {
		p.Go(t, page)
		for _, width := range []int{320, phoneWidth, 768, 1280} {
			p.Resize(t, width, 700)
			if width == phoneWidth {
				c.rowsAreShort(page)
			}
			if wide := chromium.Run[int](t, p, `return document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s is %d pixels wide on a screen of %d", page, wide, width)
			}
		}
		if elements := chromium.Run[int](t, p, `return all('main b, main img:not(.preview, .thumb > img), main script').length + (all('h1').length - 1)`); elements != 0 {
			t.Errorf("%s contains elements from a text", page)
		}
		c.sorts(page)
		c.buttonsCanBeSeen(page)
	}
	if c.rows < 100 || c.sorted < 30 {
		t.Errorf("only %d rows, and %d sortable columns", c.rows, c.sorted)
	}
	p.Resize(t, 320, 700)
	for _, page := range []string{c.base, record, c.base + "tokenserver/access"} {
		p.Go(t, page)
		for _, v := range axe.Violations(t, p) {
			t.Errorf("%s: %s", page, v)
		}
	}
	p.Go(t, c.base+"tokenserver/accounts?sort=bytes")
	if sorted := chromium.Run[[]string](t, p, `return all('th').filter(th => th.firstElementChild && getComputedStyle(th.firstElementChild, '::after').content !== 'none').map(th => th.textContent)`); !slices.Equal(sorted, []string{"Bytes"}) {
		t.Errorf("columns that look sorted: %q", sorted)
	}
	p.Go(t, record)
	chromium.Run[bool](t, p, `return !!await until(() => !$('[data-copy]').hidden)`)

	// The feed shows a change without a reload, unless updates are paused.
	p.Go(t, c.base+"extstorage/feed"+consolePlace)
	chromium.Run[bool](t, p, `window.same = true; return true`)
	c.put("new", `{"value":1}`)
	if !chromium.Run[bool](t, p, `await until(() => $('.live').textContent.includes('new')); return window.same`) {
		t.Error("the page was reloaded")
	}
	chromium.Run[bool](t, p, `$('.live-state button').click(); return !!await until(() => $('.live-state').textContent === 'Continue updates')`)
	c.askByKeyboard(axe)
	c.drawerByKeyboard(axe)
	c.makeChanges()
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("page problems:\n%s", strings.Join(problems, "\n"))
	}
	testScripts(t, c.b, axe)
}

// TestConsoleAccessible runs the accessibility rules on every console page, light and dark, on large and small
// screens.
func TestConsoleAccessible(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	axe := chromium.NewAxe(t)
	c := openConsole(t)
	c.fillBucket()
	for _, page := range slices.Concat([]string{c.base + "nothing"}, c.pages, c.inner()) {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{1200, 320} {
				c.p.Scheme(t, scheme)
				c.p.Resize(t, width, 700)
				c.p.Go(t, page)
				for _, v := range axe.Violations(t, c.p) {
					t.Errorf("%s, %s, %d pixels: %s", page, scheme, width, v)
				}
			}
		}
	}
}

func consoleCookie(t *testing.T, s *binary.Server) string {
	t.Helper()
	form := url.Values{"token": {secretOf(t, s, "admin_token")}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Admin+"/console/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", s.Admin)
	resp, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cookie, _, found := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if !found {
		t.Fatal(resp.Status)
	}
	return cookie
}

func consolePage(t *testing.T, s *binary.Server, cookie, method, path string, form url.Values) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.Admin+"/console/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", s.Admin)
	resp, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s %s: %s, %v\n%s", method, path, resp.Status, err, body)
	}
	return string(body)
}
