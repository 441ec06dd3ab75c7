package adminapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

type drawing struct {
	one
	Color string `flag:"color" doc:"the color"`
}

// needed is the memory in bytes for a download or an upload.
const needed = 1 << 20

func streams(t *testing.T) (base string, stored *atomic.Int64) {
	t.Helper()
	stored = &atomic.Int64{}
	memory := web.NewMemory(8*needed, 4, time.Second)
	api := adminapi.New("house", []operate.Operation{
		operate.NewDownload(operate.About{Path: "walls/plan", Doc: "Get the plan", Media: "text/x-plan", Memory: needed}, func(_ context.Context, in one, _ operate.Progress) (operate.File, error) {
			f := operate.File{Name: `"plan" of ` + in.Wall, Size: 4}
			switch in.Wall {
			case "none":
				return f, errcode.New(errcode.NotFound, "there is no such wall")
			case "gone":
				f.Write = func(io.Writer) error { return errcode.New(errcode.Unavailable, "the wall is gone") }
			case "cut":
				f.Size = 0
				f.Write = func(w io.Writer) error {
					_, err := io.WriteString(w, strings.Repeat("x", 100_000))
					return errors.Join(err, errors.New("the database is gone"))
				}
			default:
				f.Write = func(w io.Writer) error {
					_, err := io.WriteString(w, in.Wall)
					return err
				}
			}
			return f, nil
		}),
		operate.NewUpload(operate.About{Path: "walls/draw", Doc: "Draw", Media: "text/x-plan", Largest: 20, Memory: needed}, func(_ context.Context, in drawing, body operate.Body, _ operate.Progress) (wall, error) {
			if peak := memory.TakePeak(); peak < needed {
				t.Errorf("%d bytes are charged", peak)
			}
			text, err := io.ReadAll(body)
			if err == nil {
				stored.Add(1)
			}
			return wall{in.Wall + in.Color + ":" + string(text)}, err
		}),
	})
	if api.Routes()[0] != (adminapi.Route{Method: "GET", Path: "/house/walls/WALL/plan"}) || api.Routes()[1] != (adminapi.Route{Method: "POST", Path: "/house/walls/WALL/draw"}) {
		t.Errorf("%v", api.Routes())
	}
	return webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{Log: slog.New(slog.DiscardHandler), Memory: memory}).URL, stored
}

// TestStreams checks that a download is a named file, and that an upload's body is the file, with other inputs in the
// query.
func TestStreams(t *testing.T) {
	t.Parallel()
	base, stored := streams(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/house/walls/wall/plan", "", 200, "wall"},
		{"GET", "/house/walls/none/plan", "", 404, `"detail":"there is no such wall"`},
		{"GET", "/house/walls/gone/plan", "", 503, `"detail":"the wall is gone"`},
		{"GET", "/house/walls/wall/plan?x=1", "", 422, `unknown parameter`},
		{"POST", "/house/walls/wall/plan", "", 405, `this path supports GET`},
		{"POST", "/house/walls/a/draw", "bricks", 200, `{"name":"a:bricks"}`},
		{"POST", "/house/walls/a/draw?color=red", "bricks", 200, `{"name":"ared:bricks"}`},
		{"POST", "/house/walls/a/draw?x=1", "bricks", 422, `"parameter":"x"`},
		{"POST", "/house/walls/a/draw", strings.Repeat("x", 21), 413, `larger than 20 bytes`},
	} {
		resp, err := http.DefaultClient.Do(webtest.Request(t, base, c.method, c.path, strings.NewReader(c.body)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %d %s, %v", c.method, c.path, resp.StatusCode, text, err)
		}
		if h := resp.Header; c.want == "wall" && (h.Get("Content-Type") != "text/x-plan" || h.Get("Content-Disposition") != `attachment; filename="\"plan\" of wall"` || h.Get("Content-Length") != "4") {
			t.Errorf("%v", h)
		}
		if c.status != 200 && resp.Header.Get("Content-Disposition") != "" {
			t.Errorf("%s %s: an error is a file: %v", c.method, c.path, resp.Header)
		}
	}
	if stored.Load() != 2 {
		t.Errorf("%d uploads were stored", stored.Load())
	}
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	base, stored := streams(t)
	for _, wall := range []string{"cut", "longer", "w"} { // "longer" and "w" declare a wrong size
		resp, err := http.DefaultClient.Do(webtest.Request(t, base, http.MethodGet, "/house/walls/"+wall+"/plan", nil))
		if err != nil {
			continue // failed before the header was sent
		}
		if text, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == http.StatusOK {
			t.Errorf("%s looks complete: %d bytes", wall, len(text))
		}
		_ = resp.Body.Close()
	}
	for _, sent := range []string{"Content-Length: 10\r\n\r\nbri", "Transfer-Encoding: chunked\r\n\r\n3\r\nbri\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nbri\r\nzz\r\n", "Content-Length: 21\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n15\r\n" + strings.Repeat("x", 21) + "\r\n0\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /house/walls/a/draw HTTP/1.1\r\nHost: localhost\r\n%s", sent)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			if resp.StatusCode < 400 {
				t.Errorf("%q: %d", sent, resp.StatusCode)
			}
			_ = resp.Body.Close()
		}
		_ = conn.Close()
	}
	if stored.Load() != 0 {
		t.Errorf("%d broken uploads were stored", stored.Load())
	}
}
