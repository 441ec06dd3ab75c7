package chromium_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"holdfast/test/chromium"
)

func serve(t *testing.T, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>Test</title>", pages[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestLateFocus checks a page that focuses an element after its load event.
func TestLateFocus(t *testing.T) {
	t.Parallel()
	url := serve(t, map[string]string{
		"/":     `<form action=/next><input name=text></form><script>onload = () => setTimeout(() => document.querySelector('input').focus(), 300)</script>`,
		"/next": `<p>next`,
	})
	p := chromium.Start(t).Open(t, url)
	p.Type(t, "[name=text]", "typed")
	p.Await(t, func() { p.Press(t, "[name=text]", "Enter") })
	if at := chromium.Run[string](t, p, `return location.pathname + location.search`); at != "/next?text=typed" {
		t.Errorf("the form leads to %s", at)
	}
}

// TestTabs checks that all tabs, in one or several windows, are visible and focused.
func TestTabs(t *testing.T) {
	t.Parallel()
	url := serve(t, map[string]string{"/": `<style>input:focus { color: red }</style><input name=text autofocus>`})
	b := chromium.Start(t)
	pages := []*chromium.Page{b.Open(t, url), b.Open(t, url), b.Private(t).Open(t, url)}
	for i, p := range pages {
		p.Type(t, "[name=text]", "typed")
		state := chromium.Run[string](t, p, `return [document.visibilityState, document.hasFocus(), $('input').matches(':focus'), $('input').value].join()`)
		if state != "visible,true,true,typed" {
			t.Errorf("tab %d: %s", i, state)
		}
	}
}

// TestAwait checks that the load event of a replaced document or of a frame does not end the wait, and that a load event
// before the wait is not missed.
func TestAwait(t *testing.T) {
	t.Parallel()
	url := serve(t, map[string]string{"/": `<p>first`, "/next": `<iframe src=/frame></iframe><p>next`, "/frame": "<p>frame"})
	p := chromium.Start(t).Open(t, url)
	p.Await(t, func() {
		chromium.Run[bool](t, p, `document.open(); document.write('<iframe src=/frame></iframe>'); document.close();
			await new Promise(done => addEventListener('load', done)); setTimeout(() => { location.href = '/next' }, 300); return true`)
	})
	if text := chromium.Run[string](t, p, `return document.body.innerText.trim()`); text != "next" {
		t.Errorf("the page shows %q", text)
	}
	p.Await(t, func() { p.Go(t, url) })
	if text := chromium.Run[string](t, p, `return document.body.innerText.trim()`); text != "first" {
		t.Errorf("the page shows %q", text)
	}
}

func TestTabTo(t *testing.T) {
	t.Parallel()
	url := serve(t, map[string]string{"/": `<a href=#a>a</a><button id=late hidden>b</button><script>setTimeout(() => { document.querySelector('#late').hidden = false }, 300)</script>`})
	p := chromium.Start(t).Open(t, url)
	p.Resize(t, 320, 640)
	p.TabTo(t, "#late")
	p.AwaitFocus(t, "button")
	if width := chromium.Run[int](t, p, `return screen.width`); width != 320 {
		t.Errorf("the screen is %d pixels wide", width)
	}
}
