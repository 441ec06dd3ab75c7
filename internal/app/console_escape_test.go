package app_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/console"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/changes"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	pages "holdfast/internal/operate/console"
	"holdfast/internal/web"
)

func fillText(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillText(v.Index(i), text)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{text: text}))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for _, field := range v.Fields() {
			fillText(field, text)
		}
		if f, ok := reflect.TypeAssert[*service.Form](v.Addr()); ok {
			f.Page = "" // page paths are constants
		}
	}
}

// everyBlock returns a view with every kind of block, in which all texts are equal.
func everyBlock(text string) (view service.View) {
	fillText(reflect.ValueOf(&view.Title).Elem(), text)
	fillText(reflect.ValueOf(&view.Parents).Elem(), text)
	for _, b := range []service.Block{
		&service.Table{}, &service.Facts{}, &service.Form{}, &service.Search{}, &service.Text{}, &service.Notice{}, &service.Links{}, &service.Chart{}, &service.Image{}, &service.QR{},
	} {
		fillText(reflect.ValueOf(b).Elem(), text)
		view.Blocks = append(view.Blocks, b)
	}
	view.Blocks = append(view.Blocks, &service.Live{Every: time.Second, Blocks: []service.Block{&service.Text{Body: text}}})
	return view
}

// TestConsoleEscapes checks that no text becomes an element, an attribute or an external link in any block.
func TestConsoleEscapes(t *testing.T) {
	t.Parallel()
	const token = "admin-token-of-a-test-0123456789"
	view := everyBlock(hostile)
	action := service.Action{Name: hostile, Logged: []string{hostile}, Run: func(context.Context, *service.PageRequest) (service.Outcome, error) {
		return service.Outcome{Notice: hostile}, errcode.New(errcode.Invalid, hostile)
	}}
	show := func(context.Context, *service.PageRequest) (*service.View, error) { return &view, nil }
	empty := func(context.Context, *service.PageRequest) (*service.View, error) { return &service.View{}, nil }
	proxies, err := web.NewResolver("", nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded := &changes.Log{Log: slog.New(slog.DiscardHandler), Clock: clock.System, Message: console.Message}
	c := console.New(console.Options{
		Changes: recorded,
		Log:     slog.New(slog.DiscardHandler), Clock: clock.System, Resolver: proxies, AdminToken: token, Version: hostile,
		OwnHost: func(string) bool { return true },
	})
	c.Sections = []console.Section{
		{Console: service.Console{Title: hostile, Pages: append(c.OwnPages(), changesPage(recorded), service.Page{Title: hostile, Show: empty, Listed: true})}},
		{Name: "test", Console: service.Console{Title: hostile, Pages: []service.Page{
			{Path: "page", Title: hostile, Show: show, Listed: true, Actions: []service.Action{action}},
			{Path: "error", Show: func(context.Context, *service.PageRequest) (*service.View, error) {
				return nil, errcode.New(errcode.Invalid, hostile)
			}},
		}}},
	}
	s := httptest.NewServer(&web.Mux{Resolver: proxies, Options: web.Options{Log: slog.New(slog.DiscardHandler)}, Default: c.Service()})
	t.Cleanup(s.Close)
	b := signIn(t, s.URL, token)
	b.open("test/page?after=" + "%22%3E%3Cb%3E")
	if n := strings.Count(b.page.String(), hostile); n < 30 {
		t.Errorf("the page shows the text %d times:\n%s", n, b.page)
	}
	if forms := b.page.all("form"); len(forms) < 5 {
		t.Errorf("the page has %d forms", len(forms))
	}
	b.try(http.StatusBadRequest, hostile, hostile, "confirm", hostile)
	if status := b.send(http.MethodGet, s.URL+"/console/test/error", nil); status != http.StatusBadRequest {
		t.Errorf("an error: %d", status)
	}
	b.shows(strings.ToUpper(hostile[:1]) + hostile[1:])
	b.open("changes")
	b.shows(hostile)
}

func changesPage(of *changes.Log) service.Page {
	all := pages.Pages(nil, overview.Operations(&overview.Operated{Changes: of}))
	return all[slices.IndexFunc(all, func(p service.Page) bool { return p.Path == "changes" })]
}

// disguised reverses its end on terminals and in browsers. It contains a line break, a bell, and a color's escape
// sequence.
const disguised = "photo\u202egpj.exe\n\a\x1b[31m\u2066\u0085end"

// TestConsoleShowsDisguisedNames checks that pages escape characters that alter the text around them, and that forms
// submit the original name.
func TestConsoleShowsDisguisedNames(t *testing.T) {
	t.Parallel()
	const token = "admin-token-of-a-test-0123456789"
	view := everyBlock(disguised)
	action := service.Action{Name: "act", Logged: []string{"name"}, Run: func(context.Context, *service.PageRequest) (service.Outcome, error) {
		return service.Outcome{Notice: disguised}, errcode.New(errcode.Invalid, disguised)
	}}
	proxies, err := web.NewResolver("", nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded := &changes.Log{Log: slog.New(slog.DiscardHandler), Clock: clock.System, Message: console.Message}
	c := console.New(console.Options{
		Changes: recorded,
		Log:     slog.New(slog.DiscardHandler), Clock: clock.System, Resolver: proxies, AdminToken: token, Version: disguised,
		OwnHost: func(string) bool { return true },
	})
	c.Sections = []console.Section{
		{Console: service.Console{Title: disguised, Pages: append(c.OwnPages(), changesPage(recorded), service.Page{Title: disguised, Listed: true, Show: func(context.Context, *service.PageRequest) (*service.View, error) {
			return &service.View{}, nil
		}})}},
		{Name: "test", Console: service.Console{Title: disguised, Pages: []service.Page{
			{Path: "page", Title: disguised, Listed: true, Actions: []service.Action{action}, Show: func(context.Context, *service.PageRequest) (*service.View, error) {
				return &view, nil
			}},
			{Path: "error", Show: func(context.Context, *service.PageRequest) (*service.View, error) {
				return nil, errcode.New(errcode.Invalid, disguised)
			}},
		}}},
	}
	s := httptest.NewServer(&web.Mux{Resolver: proxies, Options: web.Options{Log: slog.New(slog.DiscardHandler)}, Default: c.Service()})
	t.Cleanup(s.Close)
	b := signIn(t, s.URL, token)
	for _, path := range []string{"", "test/page", "test/error", "changes", "sessions"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/console/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		// Form values and links contain the original name.
		shown := regexp.MustCompile(`(?s)( (value|href|src|action|hx-get)="[^"]*"|<textarea.*?</textarea>)`).ReplaceAllString(string(body), "")
		for _, r := range "\u202e\u2066\a\x1b\u0085" {
			if at := strings.IndexRune(shown, r); at >= 0 {
				t.Errorf("%s has %U in %q", path, r, shown[max(0, at-80):at+20])
			}
		}
		if !strings.Contains(shown, `hoto\u202egpj.exe`) {
			t.Errorf("%s does not show the name:\n%s", path, shown)
		}
	}
}
