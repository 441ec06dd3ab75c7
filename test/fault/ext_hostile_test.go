package fault

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
	"holdfast/test/binary"
)

// call returns a call in wire format.
func (h *instance) call(in *install, c call) []byte {
	h.t.Helper()
	req, err := in.request(h.t.Context(), h.server.URL, c)
	must(h.t, err)
	return h.wire(req)
}

// want sends a call and expects the status.
func (h *instance) want(in *install, status int, c call) binary.Answer {
	h.t.Helper()
	a, err := in.send(h.t.Context(), h.client, h.server.URL, c)
	if err != nil || a.Status != status {
		h.t.Errorf("%v: %d %.300s %v, want %d", c, a.Status, a.Body, err, status)
	}
	return a
}

// Requests that are larger than any limit, never end, or end in the middle are refused without
// being kept in memory, and leave nothing behind. An import keeps the complete steps.
func TestHostileExtensions(t *testing.T) {
	t.Parallel()
	h := startInstance(t, 1, testdb.SQLite(t), "HOLDFAST_SERVER__CLIENT_GRACE=5s")
	in := newInstall(t, 1)
	beside := h.startOthers(1)
	before := h.resident("VmRSS")
	record := spot{"settings", "x"}
	large := strings.Repeat("x", 20<<20)
	for name, c := range map[string]struct {
		status int
		call   call
	}{
		"value":     {413, call{method: http.MethodPut, path: record.at(), body: `{"value":"` + large[:65536] + `"}`}},
		"body":      {413, call{method: http.MethodPut, path: record.at(), body: `{"value":"` + large + `"}`}},
		"patch":     {413, call{method: http.MethodPatch, path: record.at(), body: `"` + large + `"`}},
		"metadata":  {413, call{method: http.MethodPut, path: record.at(), body: `{"value":1,"metadata":{"a":"` + large[:4096] + `"}}`}},
		"bulk":      {413, call{method: http.MethodPost, path: "/namespaces/settings/records", body: `{"items":[{"key":"x","value":"` + large + `"}]}`}},
		"batch":     {413, call{method: http.MethodPost, path: "/batch", body: `{"ops":[{"op":"put","namespace":"log","key":"x","value":"` + large + `"}]}`}},
		"line":      {413, call{method: http.MethodPost, path: "/import", body: `{"namespace":"log","key":"x","value":"` + large + `"}`}},
		"depth":     {400, call{method: http.MethodPut, path: record.at(), body: `{"value":` + strings.Repeat("[", 30000) + strings.Repeat("]", 30000) + `}`}},
		"number":    {400, call{method: http.MethodPut, path: record.at(), body: `{"value":1e999999999}`}},
		"zeros":     {413, call{method: http.MethodPut, path: record.at(), body: `{"value":[` + strings.Repeat("1e300,", 10000) + `1]}`}},
		"names":     {400, call{method: http.MethodPut, path: record.at(), body: `{"value":1,"value":2}`}},
		"bytes":     {400, call{method: http.MethodPut, path: record.at(), body: "{\"value\":\"\xff\"}"}},
		"increment": {400, call{method: http.MethodPost, path: record.at() + "/increment", body: `{"pointer":"` + strings.Repeat("/a", 400) + `","by":1,"create":true}`}},
		"empty":     {400, call{method: http.MethodPut, path: record.at(), body: " "}},
	} {
		if a := h.want(in, c.status, c.call); !strings.Contains(a.Body, `"requestId"`) {
			t.Errorf("%s: %.200s", name, a.Body)
		}
	}
	h.sendEndless(in)
	h.sendTruncated(in)
	beside.stop()
	if grown := h.resident("VmHWM") - before; grown > 64<<20 {
		t.Errorf("refused requests took %d MB", grown>>20)
	}
	h.want(in, http.StatusNotFound, call{method: http.MethodGet, path: record.at()})
}

// sendEndless sends bodies of unknown length that never end, until the server refuses them.
func (h *instance) sendEndless(in *install) {
	h.t.Helper()
	for path, beginning := range map[string]string{
		"/namespaces/settings/records/x": `{"value":"`,
		"/namespaces/settings/records":   `{"items":[{"key":"x","value":"`,
		"/import":                        `{"namespace":"settings","key":"x","value":"`,
	} {
		method := http.MethodPost
		if strings.HasSuffix(path, "/x") {
			method = http.MethodPut
		}
		req, err := in.request(h.t.Context(), h.server.URL, call{method: method, path: path, body: "?"})
		must(h.t, err)
		body := &endlessBody{rest: strings.NewReader(beginning)}
		req.Body, req.ContentLength, req.GetBody = body, -1, nil
		resp, err := h.client.Do(req)
		if err != nil {
			continue // the server may close the connection during a write
		}
		must(h.t, resp.Body.Close())
		if resp.StatusCode != http.StatusRequestEntityTooLarge || body.sent > 64<<20 {
			h.t.Errorf("endless %s: %s after %d bytes", path, resp.Status, body.sent)
		}
	}
}

// endlessBody is a beginning, then the same text for ever.
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

// sendTruncated sends requests that end in the middle.
func (h *instance) sendTruncated(in *install) {
	h.t.Helper()
	var lines strings.Builder
	for i := range 50 {
		fmt.Fprintf(&lines, `{"namespace":"log","key":"line-%02d","value":%d}`+"\n", i, i)
	}
	for _, c := range []call{
		{method: http.MethodPut, path: "/namespaces/settings/records/x", body: `{"value":"` + strings.Repeat("x", 1000) + `"}`},
		{method: http.MethodPost, path: "/namespaces/settings/records", body: `{"items":[{"key":"x","value":1},{"key":"y","value":"` + strings.Repeat("x", 1000) + `"}]}`},
		{method: http.MethodPost, path: "/batch", body: `{"ops":[{"op":"put","namespace":"settings","key":"x","value":"` + strings.Repeat("x", 1000) + `"}]}`},
		{method: http.MethodPost, path: "/import", body: lines.String()},
	} {
		text := h.call(in, c)
		conn := h.dial(4 << 10)
		must(h.t, conn.SetDeadline(time.Now().Add(bound)))
		_, err := conn.Write(text[:len(text)-100])
		must(h.t, err)
		must(h.t, conn.CloseWrite())
		answer, err := io.ReadAll(conn)
		if err == nil && len(answer) > 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) {
			h.t.Errorf("half of %v: %.300q", c, answer)
		}
	}
	// Of the import two steps were complete; the third lacked its end.
	var page struct{ Items []wireRecord }
	a := h.want(in, http.StatusOK, call{method: http.MethodGet, path: "/namespaces/log/records?limit=100&prefix=line-"})
	must(h.t, json.Unmarshal([]byte(a.Body), &page))
	if n := len(page.Items); n != 40 {
		h.t.Errorf("half an import has stored %d records, want the 40 of its complete steps", n)
	}
	h.want(in, http.StatusOK, call{method: http.MethodGet, path: "/namespaces/settings/records"})
}

// fillNamespace writes records of one size into a namespace, in bulk.
func (h *instance) fillNamespace(in *install, namespace string, keys, size int) {
	h.t.Helper()
	perBulk := max(1, min(20, 500_000/size))
	value := strings.Repeat("x", size)
	for from := 0; from < keys; from += perBulk {
		var items []any
		for i := from; i < min(keys, from+perBulk); i++ {
			items = append(items, map[string]any{"key": fmt.Sprintf("%06d", i), "value": value})
		}
		h.want(in, http.StatusOK, call{method: http.MethodPost, path: "/namespaces/" + namespace + "/records", body: asJSON(map[string]any{"items": items})})
	}
}

// Clients read exports slowly or not at all, others interrupt and resume them, and full namespaces
// are listed and large imports sent at the same time. The memory stays small, others are served,
// and resumed exports are complete.
func TestExtensionMemory(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	onEngines(t, []service{extService()}, inTurn(onPostgres, onSQLite), extensionMemory)
}

func extensionMemory(t *testing.T, _ engine, data string, vars ...string) {
	t.Helper()
	const keys, size, stalled, listing, importing = 3000, 4000, 24, 3, 2
	h := startInstance(t, 1, data, append(vars, "HOLDFAST_SERVER__CLIENT_GRACE=2s")...)
	h.client.Timeout = 4 * bound // imports take long
	in := newInstall(t, 1)
	h.fillNamespace(in, "settings", keys, size)
	beside := h.startOthers(1)
	var clients sync.WaitGroup
	for range stalled {
		conn := h.dial(4 << 10)
		must(t, conn.SetDeadline(time.Now().Add(bound)))
		clients.Go(func() { // and reads only the first line
			_, err := conn.Write(h.call(in, call{method: http.MethodGet, path: "/export"}))
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
			if n := h.countValues(in, "settings"); n != keys {
				t.Errorf("%d records are listed, want %d", n, keys)
			}
		})
	}
	for n := range importing {
		other := newInstall(t, n+2)
		clients.Go(func() { h.importAll(other, keys/4, size) })
	}
	clients.Go(func() { h.exportInParts(in, keys) })
	clients.Wait() // requests are bounded
	beside.stop()
	// A blocked piece of 16 KiB has 16 s and three times the grace: see TestStalledReaders.
	h.server.AwaitLong(2*bound, "/metrics", func(_ int, body string) bool { return loaded(body) == 0 })
	peak := h.resident("VmHWM")
	t.Logf("%d MB at the peak", peak>>20)
	if peak > loadMemory {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, loadMemory>>20)
	}
}

// countValues counts the records of a namespace, page by page, with their values.
func (h *instance) countValues(in *install, namespace string) (n int) {
	for cursor := ""; ; {
		a, err := in.send(h.t.Context(), h.client, h.server.URL, call{method: http.MethodGet, path: "/namespaces/" + namespace + "/records?limit=100&values=true" + cursor})
		_, next, whole := strings.Cut(a.Body, `,"nextCursor":`)
		if err != nil || a.Status != http.StatusOK || !whole {
			h.t.Errorf("a page: %d %.300s %v", a.Status, a.Body, err)
			return n
		}
		n += strings.Count(a.Body, `"value":`)
		if next = strings.TrimRight(next, "}\n"); next == "null" {
			return n
		}
		cursor = "&cursor=" + url.QueryEscape(strings.Trim(next, `"`))
	}
}

// importAll imports records in one request, whose body is generated while it is sent.
func (h *instance) importAll(in *install, keys, size int) {
	body, lines := io.Pipe()
	go func() {
		value := strings.Repeat("x", size)
		for i := range keys {
			if _, err := fmt.Fprintf(lines, `{"namespace":"log","key":"%06d","value":%q}`+"\n", i, value); err != nil {
				break // the server has refused it
			}
		}
		_, _ = fmt.Fprintf(lines, `{"complete":true,"records":%d}`+"\n", keys) // likewise
		lines.Close()
	}()
	req, err := in.request(h.t.Context(), h.server.URL, call{method: http.MethodPost, path: "/import", body: "?"})
	if err != nil {
		h.t.Error(err)
		return
	}
	req.Body, req.ContentLength, req.GetBody = body, -1, nil
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if want := fmt.Sprintf(`{"lines":%d,"records":%d,"written":%[2]d,"unchanged":0,"expired":0,"schemas":0}`, keys+1, keys); err != nil || strings.TrimSpace(string(text)) != want {
		h.t.Errorf("an import: %d %.300s %v, want %s", resp.StatusCode, text, err, want)
	}
}

// exportInParts exports everything, and interrupts and resumes the export at the last cursor again
// and again.
func (h *instance) exportInParts(in *install, keys int) {
	seen := map[string]bool{}
	for cursor, pieces := "", 0; ; pieces++ {
		path := "/export"
		if cursor != "" {
			path += "?cursor=" + url.QueryEscape(cursor)
		}
		complete, next, err := h.exportPart(in, path, seen, 500+rand.IntN(500))
		if err != nil {
			h.t.Errorf("an export: %v", err)
			return
		}
		if cursor = next; complete {
			if len(seen) != keys || pieces < 2 {
				h.t.Errorf("exported in %d pieces: %d records, want %d", pieces, len(seen), keys)
			}
			return
		}
	}
}

// exportPart reads some lines of an export and closes it.
func (h *instance) exportPart(in *install, path string, seen map[string]bool, lines int) (complete bool, cursor string, err error) {
	req, err := in.request(h.t.Context(), h.server.URL, call{method: http.MethodGet, path: path})
	if err != nil {
		return false, "", err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return false, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, "", fmt.Errorf("%s", resp.Status)
	}
	page := map[string]bool{} // after the last cursor
	for text := bufio.NewScanner(resp.Body); lines > 0 && text.Scan(); lines-- {
		var line struct {
			Key, Cursor string
			Export      int // the version in the first line
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
