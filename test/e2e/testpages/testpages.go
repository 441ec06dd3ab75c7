// Package testpages serves test pages in the console's layout, so that script tests need no server with data.
package testpages

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// Console serves two test pages: "charts", and "part", which contains a part that updates automatically.
type Console struct {
	URL     string
	Text    atomic.Pointer[string] // the part's text; nil if the page is deleted
	IsWhole atomic.Bool            // the page contains no part that updates
	Shown   atomic.Int64
}

func (c *Console) Show(text string) { c.Text.Store(&text) }

func Start(t *testing.T, token string) *Console {
	t.Helper()
	proxies, err := web.NewResolver("", nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	frame := console.New(console.Options{Log: log, Clock: clock.System, Resolver: proxies, AdminToken: token, OwnHost: func(string) bool { return true }})
	c := &Console{}
	c.Show("first")
	frame.Sections = []console.Section{{Console: service.Console{Title: "Test", Pages: append(frame.OwnPages(),
		service.Page{Path: "part", Title: "Part", Listed: true, Show: c.showPart}, service.Page{Path: "charts", Title: "Charts", Listed: true, Show: showCharts})}}}
	s := httptest.NewServer(&web.Mux{Resolver: proxies, Options: web.Options{Log: log}, Default: frame.Service()})
	t.Cleanup(s.Close)
	c.URL = s.URL + console.Prefix
	return c
}

func (c *Console) showPart(context.Context, *service.PageRequest) (*service.View, error) {
	defer c.Shown.Add(1)
	text := c.Text.Load()
	if text == nil {
		return nil, errcode.New(errcode.NotFound, "it is deleted")
	}
	table := &service.Table{Title: "Parts", Columns: []service.Column{{Title: "Text"}, {Title: "Time"}}, Rows: [][]service.Cell{{{Text: *text, To: "charts"}, service.TimeCell(firstTime)}}}
	if c.IsWhole.Load() {
		return &service.View{Blocks: []service.Block{table}}, nil
	}
	return &service.View{Blocks: []service.Block{&service.Live{Every: time.Second, Blocks: []service.Block{table, charts()[0]}}}}, nil
}

func showCharts(context.Context, *service.PageRequest) (*service.View, error) {
	return &service.View{Blocks: charts()}, nil
}

var firstTime = time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)

func charts() []service.Block {
	requests := &service.Chart{Title: "Requests", Unit: "/s", Series: []service.Series{{Name: "Good"}, {Name: "Bad"}}}
	sizes := &service.Chart{Title: "Sizes", Unit: "B", Series: []service.Series{{Name: "One"}}}
	for i := range 360 {
		at := firstTime.Add(time.Duration(i) * time.Minute)
		requests.Times, sizes.Times = append(requests.Times, at), append(sizes.Times, at)
		requests.Series[0].Values = append(requests.Series[0].Values, float64(i)*1.237)
		requests.Series[1].Values = append(requests.Series[1].Values, float64(i%7)/8)
		sizes.Series[0].Values = append(sizes.Series[0].Values, float64(i*i*77_777))
	}
	return []service.Block{requests, sizes, &service.Chart{Title: "New", Times: requests.Times[:1]}}
}
