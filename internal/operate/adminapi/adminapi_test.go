package adminapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

type filter struct {
	Color string `flag:"color" doc:"only walls of this color"`
	Loud  bool   `flag:"loud" doc:"say it" local:""`
}

type paint struct {
	Wall  string `subject:"wall" doc:"name of the wall"`
	Color string `flag:"color" doc:"the new color"`
	Coats int    `flag:"coats" doc:"how often" default:"2"`
	Dry   bool   `flag:"dry" doc:"wait until it is dry"`
}

type wall struct {
	Name string `json:"name" subject:"wall"`
}

func (w wall) Notice() string { return w.Name }

type brick struct {
	N string `json:"n" cursor:""`
}

type one struct {
	Wall string `subject:"wall" doc:"name of the wall"`
}

type stone struct {
	Wall string `subject:"wall" doc:"name of the wall"`
	Row  int    `subject:"row" doc:"number of the row"`
	Dry  bool   `flag:"dry" doc:"wait until it is dry"`
}

type rooms struct {
	Rooms []string `flag:"rooms" doc:"names of rooms"`
}

type dryRun struct {
	DryRun bool `flag:"dry-run" doc:"without paint"`
	Loud   bool `flag:"loud" doc:"say it" local:""`
}

func operations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{Path: "walls", Doc: "List"}, func(_ context.Context, in filter) ([]wall, error) { return []wall{{in.Color}}, nil }),
		operate.NewRead(operate.About{Path: "walls/show", Doc: "Show"}, func(_ context.Context, in one) (wall, error) { return wall{in.Wall}, nil }),
		operate.NewRead(operate.About{Path: "walls/plan", Doc: "Show the plan"}, func(_ context.Context, in one) (wall, error) { return wall{"plan of " + in.Wall}, nil }),
		operate.NewJob(operate.About{Path: "walls/paint-all", Doc: "Paint"}, func(_ context.Context, in dryRun, progress operate.Progress) (wall, error) {
			progress.Report(1, 1)
			if in.DryRun {
				return wall{"some"}, errcode.New(errcode.Conflict, "no paint is left")
			}
			return wall{"all"}, nil
		}),
		operate.With(operate.NewList(operate.About{Path: "bricks", Doc: "List", Rows: "stones"}, func(_ context.Context, in operate.Page[string]) (all []brick, _ error) {
			return append(all, brick{in.After + "x"}), nil
		}), "total", func(ctx context.Context) (int, error) {
			if ctx.Value(http.LocalAddrContextKey) == nil {
				return 0, fmt.Errorf("not in a request")
			}
			return 1, nil
		}),
		operate.NewChange(operate.About{Path: "walls/add", Doc: "Add"}, func(context.Context, operate.None) (wall, error) { return wall{"new"}, nil }),
		operate.NewChange(operate.About{Path: "rooms/open", Doc: "Open"}, func(_ context.Context, in rooms) (wall, error) { return wall{fmt.Sprintf("%q", in.Rooms)}, nil }),
		operate.NewChange(operate.About{Path: "walls/clean", Doc: "Clean"}, func(context.Context, operate.None) (wall, error) { return wall{"all"}, nil }),
		operate.NewList(operate.About{Path: "rows", Doc: "List"}, func(_ context.Context, in one) ([]wall, error) { return []wall{{"row of " + in.Wall}}, nil }),
		operate.NewRead(operate.About{Path: "rows/show", Doc: "Show"}, func(_ context.Context, in stone) (wall, error) { return wall{fmt.Sprint(in)}, nil }),
		operate.NewChange(operate.About{Path: "rows/count", Doc: "Count"}, func(_ context.Context, in one) (wall, error) { return wall{"rows of " + in.Wall}, nil }),
		operate.NewChange(operate.About{Path: "rows/lay", Doc: "Lay"}, func(_ context.Context, in stone) (wall, error) { return wall{"laid " + fmt.Sprint(in)}, nil }),
		operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint"}, func(_ context.Context, in paint) (wall, error) {
			switch in.Wall {
			case "none":
				return wall{}, errcode.New(errcode.NotFound, "there is no such wall")
			case "broken":
				return wall{}, fmt.Errorf("a secret reason")
			}
			return wall{fmt.Sprint(in)}, nil
		}),
	}
}

func TestAPI(t *testing.T) {
	t.Parallel()
	api := adminapi.New("house", operations())
	base := webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{Log: slog.New(slog.DiscardHandler)}).URL
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/house/walls?color=red%20x", "", 200, `{"walls":[{"name":"red x"}]}`},
		{"GET", "/house/walls?color=%", "", 422, `"detail":"the query is malformed"`},
		{"GET", "/house/walls?colour=red", "", 422, `"errors":[{"pointer":"","parameter":"colour","code":"invalid","detail":"unknown parameter"}]`},
		{"GET", "/house/walls?loud=true", "", 422, `"detail":"loud: unknown parameter"`},
		{"POST", "/house/walls/paint-all", `{"loud":true}`, 422, `"detail":"loud: unknown member"`},
		{"GET", "/house/walls?color=red&color=blue", "", 422, `"detail":"color: occurs twice"`},
		{"GET", "/house/walls/a%2Fb", "", 200, `{"name":"a/b"}`},
		{"GET", "/house/walls/a?x=1", "", 422, `"detail":"x: unknown parameter"`},
		{"GET", "/house/walls/a/plan", "", 200, `{"name":"plan of a"}`},
		{"GET", "/house/walls/paint-all", "", 200, `{"name":"paint-all"}`},
		{"GET", "/house/bricks", "", 200, `{"next":null,"stones":[{"n":"x"}],"total":1}`},
		{"GET", "/house/bricks?limit=1&after=a", "", 200, `{"next":"ax","stones":[{"n":"ax"}],"total":1}`},
		{"GET", "/house/bricks?limit=0", "", 422, `"errors":[{"pointer":"","parameter":"limit","code":"invalid","detail":"must be at least 1"}]`},
		{"GET", "/house/bricks?limit=1001", "", 422, `"detail":"limit: must be at most 1000"`},
		{"GET", "/house/bricks?limit=", "", 422, `"detail":"limit: expected a whole number"`},
		{"POST", "/house/walls/paint-all", `{"dryRun":false}`, 200, `{"name":"all"}`},
		{"POST", "/house/walls/paint-all", `{"dryRun":true}`, 409, `"detail":"no paint is left"`},
		{"POST", "/house/walls/paint-all", `{"dryRun":"true"}`, 422, `"errors":[{"pointer":"/dryRun","code":"invalid","detail":"expected true or false"}]`},
		{"POST", "/house/walls/paint-all?dryRun=true", "", 422, `"detail":"dryRun: unknown parameter"`},
		{"POST", "/house/walls", "", 201, `{"name":"new"}`},
		{"POST", "/house/walls/clean", "", 200, `{"name":"all"}`},
		{"POST", "/house/walls/a%2Fb/paint", "", 200, `{"name":"{a/b  2 false}"}`},
		{"POST", "/house/walls/clean/paint", `{"color":"red","coats":3,"dry":true}`, 200, `{"name":"{clean red 3 true}"}`},
		{"POST", "/house/walls/a/paint", `{"color":null}`, 200, `{"name":"{a  2 false}"}`},
		{"POST", "/house/walls/a/paint", `{"coats":"3"}`, 422, `"errors":[{"pointer":"/coats","code":"invalid","detail":"expected a whole number"}]`},
		{"POST", "/house/walls/a/paint", `{"coats":3.5}`, 422, `coats: expected a whole number`},
		{"POST", "/house/walls/a/paint", `{"dry":1}`, 422, `dry: expected true or false`},
		{"POST", "/house/walls/a/paint", `{"wall":"b"}`, 422, `wall: unknown member`},
		{"POST", "/house/walls/a/paint", `[]`, 422, `the body is malformed: expected a JSON object`},
		{"POST", "/house/walls/a/paint", `{} {}`, 422, `the body is malformed`},
		{"POST", "/house/walls/a/paint", strings.Repeat(" ", 16<<10) + "{}", 413, `larger than 16384 bytes`},
		{"POST", "/house/walls/none/paint", "", 404, `"detail":"there is no such wall"`},
		{"POST", "/house/walls/broken/paint", "", 500, `"code":"internal"`},
		{"POST", "/house/walls//paint", "", 404, `"detail":"no such path"`},
		{"POST", "/house/walls/%zz/paint", "", 400, ""},
		{"GET", "/house/walls/a/b", "", 404, `"code":"not-found"`},
		{"GET", "/house/rows/a%2Fb", "", 200, `{"rows":[{"name":"row of a/b"}]}`},
		{"GET", "/house/rows/a%2Fb/7?dry=true", "", 200, `{"name":"{a/b 7 true}"}`},
		{"GET", "/house/rows/a/x", "", 422, `"errors":[{"pointer":"","parameter":"row","code":"invalid","detail":"expected a whole number"}]`},
		{"GET", "/house/rows/a/7/8", "", 404, ""},
		{"GET", "/house/rows//7", "", 404, ""},
		{"GET", "/house/rows/", "", 404, ""},
		{"POST", "/house/rows/a/count", "", 200, `{"name":"rows of a"}`},
		{"POST", "/house/rows/a/7/lay", `{"dry":true}`, 200, `{"name":"laid {a 7 true}"}`},
		{"POST", "/house/rows/a/count/lay", "", 422, `"parameter":"row"`},
		{"PUT", "/house/rows/a/count", "", 405, `this path supports GET, POST`},
		{"POST", "/house/rooms/open", `{"rooms":["a=r","b="]}`, 200, `{"name":"[\"a=r\" \"b=\"]"}`},
		{"POST", "/house/rooms/open", `{"rooms":[]}`, 200, `{"name":"[]"}`},
		{"POST", "/house/rooms/open", `{"rooms":["a b"]}`, 422, `rooms: expected a list of words`},
		{"DELETE", "/house/walls", "", 405, `this path supports GET, POST`},
		{"PUT", "/house/walls/clean", "", 405, `this path supports GET, POST`},
		{"GET", "/house/walls/a/paint", "", 405, `this path supports POST`},
	} {
		r := webtest.Request(t, base, c.method, "/", strings.NewReader(c.body))
		r.URL.Opaque = c.path
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), c.want) || strings.Contains(string(text), "secret") {
			t.Errorf("%s %s %.40s: %d %s, %v, want %d %s", c.method, c.path, c.body, resp.StatusCode, text, err, c.status, c.want)
			continue
		}
		if c.status == http.StatusBadRequest {
			continue
		}
		if kind := resp.Header.Get("Content-Type"); (kind == "application/problem+json") != (c.status >= 400) || !json.Valid(text) || resp.Header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s %s: %v", c.method, c.path, resp.Header)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	api := adminapi.New("house", operations())
	base := webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{Log: slog.New(slog.DiscardHandler)}).URL
	for _, rooms := range []string{`["a b"]`, `[""]`, `[1]`, `"a"`} {
		resp, err := http.DefaultClient.Do(webtest.Request(t, base, http.MethodPost, "/house/rooms/open", strings.NewReader(`{"rooms":`+rooms+`}`)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "rooms: expected a list of words") {
			t.Errorf("%s: %d %s, %v", rooms, resp.StatusCode, text, err)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	api := adminapi.New("house", operations())
	want := []adminapi.Route{{"GET", "/house/walls"}, {"GET", "/house/walls/WALL"}, {"GET", "/house/walls/WALL/plan"}, {"POST", "/house/walls/paint-all"}, {"GET", "/house/bricks"}, {"POST", "/house/walls"}, {"POST", "/house/rooms/open"}, {"POST", "/house/walls/clean"},
		{"GET", "/house/rows/WALL"}, {"GET", "/house/rows/WALL/ROW"}, {"POST", "/house/rows/WALL/count"}, {"POST", "/house/rows/WALL/ROW/lay"}, {"POST", "/house/walls/WALL/paint"}}
	if !slices.Equal(api.Routes(), want) || !slices.Equal(api.Paths(), []string{"/house/walls", "/house/bricks", "/house/rooms", "/house/rows"}) {
		t.Errorf("%v, %v", api.Routes(), api.Paths())
	}
	for path, owned := range map[string]bool{"/house/walls": true, "/house/walls/x": true, "/house/wallsx": false, "/house": false, "/": false} {
		if api.Owns(path) != owned {
			t.Errorf("%s: %v", path, !owned)
		}
	}
	for path, label := range map[string]string{"/house/walls/a/paint": "/house/walls/WALL/paint", "/house/walls/x": "/house/walls/WALL", "/house/walls/clean": "/house/walls/clean", "/house/walls/x/y": "unknown", "/house/rows/x/count": "/house/rows/WALL/count", "/house/rows/x/9": "/house/rows/WALL/ROW"} {
		if got := api.Label(path); got != label {
			t.Errorf("%s: %s, want %s", path, got, label)
		}
	}
}
