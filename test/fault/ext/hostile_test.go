package ext

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/ext"
	"holdfast/test/fault/harness"
)

// TestHostileExtensions sends requests that exceed all limits, never end, or break off. The server must refuse them
// without holding them in memory or storing anything. An import keeps its complete steps.
func TestHostileExtensions(t *testing.T) {
	t.Parallel()
	h := harness.Start(t, 1, testdb.SQLite(t), "HOLDFAST_SERVER__CLIENT_GRACE=5s")
	in := NewInstall(t, 1)
	beside := h.StartOthers(1)
	before := h.Resident("VmRSS")
	record := ext.RecordKey{Namespace: "settings", Key: "x"}
	large := strings.Repeat("x", 20<<20)
	for name, c := range map[string]struct {
		status int
		call   ext.Call
	}{
		"value":     {413, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":"` + large[:65536] + `"}`}},
		"body":      {413, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":"` + large + `"}`}},
		"patch":     {413, ext.Call{Method: http.MethodPatch, Path: record.Path(), Body: `"` + large + `"`}},
		"metadata":  {413, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":1,"metadata":{"a":"` + large[:4096] + `"}}`}},
		"bulk":      {413, ext.Call{Method: http.MethodPost, Path: "/namespaces/settings/records", Body: `{"items":[{"key":"x","value":"` + large + `"}]}`}},
		"batch":     {413, ext.Call{Method: http.MethodPost, Path: "/batch", Body: `{"ops":[{"op":"put","namespace":"log","key":"x","value":"` + large + `"}]}`}},
		"line":      {413, ext.Call{Method: http.MethodPost, Path: "/import", Body: `{"namespace":"log","key":"x","value":"` + large + `"}`}},
		"depth":     {400, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":` + strings.Repeat("[", 30000) + strings.Repeat("]", 30000) + `}`}},
		"number":    {400, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":1e999999999}`}},
		"zeros":     {413, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":[` + strings.Repeat("1e300,", 10000) + `1]}`}},
		"names":     {400, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: `{"value":1,"value":2}`}},
		"bytes":     {400, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: "{\"value\":\"\xff\"}"}},
		"increment": {400, ext.Call{Method: http.MethodPost, Path: record.Path() + "/increment", Body: `{"pointer":"` + strings.Repeat("/a", 400) + `","by":1,"create":true}`}},
		"empty":     {400, ext.Call{Method: http.MethodPut, Path: record.Path(), Body: " "}},
	} {
		if a := WantExt(h, in, c.status, c.call); !strings.Contains(a.Body, `"requestId"`) {
			t.Errorf("%s: %.200s", name, a.Body)
		}
	}
	sendEndless(h, in)
	sendTruncated(h, in)
	beside.Stop()
	if grown := h.Resident("VmHWM") - before; grown > 64<<20 {
		t.Errorf("refused requests used %d MB", grown>>20)
	}
	WantExt(h, in, http.StatusNotFound, ext.Call{Method: http.MethodGet, Path: record.Path()})
}

func sendEndless(h *harness.Instance, in *ext.Install) {
	h.T.Helper()
	for path, beginning := range map[string]string{
		"/namespaces/settings/records/x": `{"value":"`,
		"/namespaces/settings/records":   `{"items":[{"key":"x","value":"`,
		"/import":                        `{"namespace":"settings","key":"x","value":"`,
	} {
		method := http.MethodPost
		if strings.HasSuffix(path, "/x") {
			method = http.MethodPut
		}
		req, err := in.Request(h.T.Context(), h.Server.URL, ext.Call{Method: method, Path: path, Body: "?"})
		harness.Must(h.T, err)
		body := &endlessBody{rest: strings.NewReader(beginning)}
		req.Body, req.ContentLength, req.GetBody = body, -1, nil
		resp, err := h.Client.Do(req)
		if err != nil {
			continue // the server may close the connection early
		}
		harness.Must(h.T, resp.Body.Close())
		if resp.StatusCode != http.StatusRequestEntityTooLarge || body.sent > 64<<20 {
			h.T.Errorf("endless %s: %s after %d bytes", path, resp.Status, body.sent)
		}
	}
}

type endlessBody struct {
	rest *strings.Reader
	sent int64
}

func (b *endlessBody) Read(p []byte) (int, error) {
	if b.rest.Len() > 0 {
		return b.rest.Read(p)
	}
	for i := range p {
		p[i] = 'x'
	}
	b.sent += int64(len(p))
	return len(p), nil
}

func (b *endlessBody) Close() error { return nil }

func sendTruncated(h *harness.Instance, in *ext.Install) {
	h.T.Helper()
	var lines strings.Builder
	for i := range 50 {
		fmt.Fprintf(&lines, `{"namespace":"log","key":"line-%02d","value":%d}`+"\n", i, i)
	}
	for _, c := range []ext.Call{
		{Method: http.MethodPut, Path: "/namespaces/settings/records/x", Body: `{"value":"` + strings.Repeat("x", 1000) + `"}`},
		{Method: http.MethodPost, Path: "/namespaces/settings/records", Body: `{"items":[{"key":"x","value":1},{"key":"y","value":"` + strings.Repeat("x", 1000) + `"}]}`},
		{Method: http.MethodPost, Path: "/batch", Body: `{"ops":[{"op":"put","namespace":"settings","key":"x","value":"` + strings.Repeat("x", 1000) + `"}]}`},
		{Method: http.MethodPost, Path: "/import", Body: lines.String()},
	} {
		text := WireExt(h, in, c)
		conn := h.Dial(4 << 10)
		harness.Must(h.T, conn.SetDeadline(time.Now().Add(harness.Bound)))
		_, err := conn.Write(text[:len(text)-100])
		harness.Must(h.T, err)
		harness.Must(h.T, conn.CloseWrite())
		answer, err := io.ReadAll(conn)
		if err == nil && len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) {
			h.T.Errorf("truncated %v: %.300q", c, answer)
		}
	}
	// The import's first two steps were complete; the third lacked its end.
	var page struct{ Items []ext.Record }
	a := WantExt(h, in, http.StatusOK, ext.Call{Method: http.MethodGet, Path: "/namespaces/log/records?limit=100&prefix=line-"})
	harness.Must(h.T, json.Unmarshal([]byte(a.Body), &page))
	if n := len(page.Items); n != 40 {
		h.T.Errorf("truncated import stored %d records, want the 40 of its complete steps", n)
	}
	WantExt(h, in, http.StatusOK, ext.Call{Method: http.MethodGet, Path: "/namespaces/settings/records"})
}

// TestExtensionMemory checks that memory stays small and other clients are served while clients read exports slowly or
// not at all, interrupt and resume exports, list full namespaces and send large imports. Resumed exports must be
// complete.
func TestExtensionMemory(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnPostgres, harness.OnSQLite), extensionMemory)
}

func extensionMemory(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	const keys, size, stalled, listing, importing = 3000, 4000, 24, 3, 2
	h := harness.Start(t, 1, data, append(vars, "HOLDFAST_SERVER__CLIENT_GRACE=2s")...)
	h.Client.Timeout = 4 * harness.Bound // imports are slow
	in := NewInstall(t, 1)
	fillNamespace(h, in, "settings", keys, size)
	beside := h.StartOthers(1)
	var clients sync.WaitGroup
	for range stalled {
		conn := h.Dial(4 << 10)
		harness.Must(t, conn.SetDeadline(time.Now().Add(harness.Bound)))
		clients.Go(func() {
			_, err := conn.Write(WireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/export"}))
			answer := make([]byte, len("HTTP/1.1 200"))
			if err == nil {
				_, err = io.ReadFull(conn, answer)
			}
			if err != nil || string(answer[9:]) != "200" {
				t.Errorf("an export: %q %v", answer, err)
			}
		})
	}
	for range listing {
		clients.Go(func() {
			if n := countValues(h, in, "settings"); n != keys {
				t.Errorf("%d records are listed, want %d", n, keys)
			}
		})
	}
	for n := range importing {
		other := NewInstall(t, n+2)
		clients.Go(func() { importAll(h, other, keys/4, size) })
	}
	clients.Go(func() { exportInParts(h, in, keys) })
	clients.Wait()
	beside.Stop()
	// A blocked 16 KiB chunk is allowed 16 s plus three times the grace; see TestStalledReaders.
	h.Server.AwaitLong(2*harness.Bound, "/metrics", func(_ int, body string) bool { return harness.Loaded(body) == 0 })
	peak := h.Resident("VmHWM")
	t.Logf("%d MB at the peak", peak>>20)
	if peak > harness.LoadMemory {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, harness.LoadMemory>>20)
	}
}

func countValues(h *harness.Instance, in *ext.Install, namespace string) (n int) {
	for cursor := ""; ; {
		a, err := in.Send(h.T.Context(), h.Client, h.Server.URL, ext.Call{Method: http.MethodGet, Path: "/namespaces/" + namespace + "/records?limit=100&values=true" + cursor})
		_, next, whole := strings.Cut(a.Body, `,"nextCursor":`)
		if err != nil || a.Status != http.StatusOK || !whole {
			h.T.Errorf("a page: %d %.300s %v", a.Status, a.Body, err)
			return n
		}
		n += strings.Count(a.Body, `"value":`)
		if next = strings.TrimRight(next, "}\n"); next == "null" {
			return n
		}
		cursor = "&cursor=" + url.QueryEscape(strings.Trim(next, `"`))
	}
}

func importAll(h *harness.Instance, in *ext.Install, keys, size int) {
	body, lines := io.Pipe()
	go func() {
		value := strings.Repeat("x", size)
		for i := range keys {
			if _, err := fmt.Fprintf(lines, `{"namespace":"log","key":"%06d","value":%q}`+"\n", i, value); err != nil {
				break // refused by the server
			}
		}
		_, _ = fmt.Fprintf(lines, `{"complete":true,"records":%d}`+"\n", keys) // fails only if the server refused the import
		lines.Close()
	}()
	req, err := in.Request(h.T.Context(), h.Server.URL, ext.Call{Method: http.MethodPost, Path: "/import", Body: "?"})
	if err != nil {
		h.T.Error(err)
		return
	}
	req.Body, req.ContentLength, req.GetBody = body, -1, nil
	resp, err := h.Client.Do(req)
	if err != nil {
		h.T.Error(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if want := fmt.Sprintf(`{"lines":%d,"records":%d,"written":%[2]d,"unchanged":0,"expired":0,"schemas":0}`, keys+1, keys); err != nil || strings.TrimSpace(string(text)) != want {
		h.T.Errorf("an import: %d %.300s %v, want %s", resp.StatusCode, text, err, want)
	}
}

func exportInParts(h *harness.Instance, in *ext.Install, keys int) {
	seen := map[string]bool{}
	for cursor, pieces := "", 0; ; pieces++ {
		path := "/export"
		if cursor != "" {
			path += "?cursor=" + url.QueryEscape(cursor)
		}
		complete, next, err := exportPart(h, in, path, seen, 500+rand.IntN(500))
		if err != nil {
			h.T.Errorf("an export: %v", err)
			return
		}
		if cursor = next; complete {
			if len(seen) != keys || pieces < 2 {
				h.T.Errorf("exported in %d pieces: %d records, want %d", pieces, len(seen), keys)
			}
			return
		}
	}
}

func exportPart(h *harness.Instance, in *ext.Install, path string, seen map[string]bool, lines int) (complete bool, cursor string, err error) {
	req, err := in.Request(h.T.Context(), h.Server.URL, ext.Call{Method: http.MethodGet, Path: path})
	if err != nil {
		return false, "", err
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return false, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, "", fmt.Errorf("%s", resp.Status)
	}
	page := map[string]bool{} // records after the last cursor
	for text := bufio.NewScanner(resp.Body); lines > 0 && text.Scan(); lines-- {
		var line struct {
			Key, Cursor string
			Export      int
			Complete    bool
		}
		if err := json.Unmarshal(text.Bytes(), &line); err != nil {
			return false, "", err
		}
		switch {
		case line.Export > 0:
		case line.Cursor != "" || line.Complete:
			for key := range page {
				if seen[key] {
					return false, "", fmt.Errorf("%s is listed twice", key)
				}
				seen[key] = true
			}
			clear(page)
			if cursor = line.Cursor; line.Complete {
				return true, "", nil
			}
		default:
			page[line.Key] = true
		}
	}
	return false, cursor, nil
}
