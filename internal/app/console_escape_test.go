package app_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// fillHostile sets every text in a value to hostile, so that a page has whatever a database may have.
func fillHostile(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillHostile(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{hostile: hostile}))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for _, field := range v.Fields() {
			fillHostile(field)
		}
		if f, ok := reflect.TypeAssert[*service.Form](v.Addr()); ok {
			f.Page = "" // paths of pages are constants
		}
	}
}

// No text of any block becomes an element, an attribute or a link to elsewhere, wherever it comes from.
func TestConsoleEscapes(t *testing.T) {
	t.Parallel()
	const token = "admin-token-of-a-test-0123456789"
	var view service.View
	fillHostile(reflect.ValueOf(&view.Title).Elem())
	fillHostile(reflect.ValueOf(&view.Parents).Elem())
	view.Blocks = nil
	for _, b := range []service.Block{
		&service.Table{}, &service.Facts{}, &service.Form{}, &service.Text{}, &service.Notice{}, &service.Links{}, &service.Chart{}, &service.Image{}, &service.QR{},
	} {
		fillHostile(reflect.ValueOf(b).Elem())
		view.Blocks = append(view.Blocks, b)
	}
	view.Blocks = append(view.Blocks, &service.Live{Every: time.Second, Blocks: []service.Block{&service.Text{Body: hostile}}})
	action := service.Action{Name: hostile, Logged: []string{hostile}, Run: func(context.Context, *service.PageRequest) (service.Outcome, error) {
		return service.Outcome{Notice: hostile}, fault.New(fault.Invalid, hostile)
	}}
	show := func(context.Context, *service.PageRequest) (*service.View, error) { return &view, nil }
	empty := func(context.Context, *service.PageRequest) (*service.View, error) { return &service.View{}, nil }
	proxies, err := web.NewResolver("", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.New(console.Options{
		Log: slog.New(slog.DiscardHandler), Clock: clock.System, Resolver: proxies, AdminToken: token, Version: hostile,
		OwnHost: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Sections = []console.Section{
		{Console: service.Console{Title: hostile, Pages: append(c.OwnPages(), service.Page{Title: hostile, Show: empty, Listed: true})}},
		{Name: "test", Console: service.Console{Title: hostile, Pages: []service.Page{
			{Path: "page", Title: hostile, Show: show, Listed: true, Actions: []service.Action{action}},
			{Path: "error", Show: func(context.Context, *service.PageRequest) (*service.View, error) {
				return nil, fault.New(fault.Invalid, hostile)
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
	b.try(http.StatusBadRequest, hostile, hostile, "confirm", hostile) // shows what was typed again
	if status := b.send(http.MethodGet, s.URL+"/console/test/error", nil); status != http.StatusBadRequest {
		t.Errorf("an error: %d", status)
	}
	b.shows(strings.ToUpper(hostile[:1]) + hostile[1:])
	b.open("changes")
	b.shows(hostile)
}
