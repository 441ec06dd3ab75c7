// Package guides serves the guides in docs/ as web pages to operators. The pages have no scripts and load nothing from
// elsewhere.
package guides

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"holdfast/docs"
	"holdfast/internal/app/service"
)

// Prefix begins the paths of guides on the admin listener. Prefix itself is the list of guides.
const Prefix = service.GuidePrefix

// Memory is the most that a request needs, in bytes: the longest guide, its syntax tree and its page.
const Memory = 4 << 20

// index is the file with the list of guides.
const index = "README.md"

//go:embed guides.css
var style string

// policy allows only the embedded style, by its hash, and images of the guides.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// types are the content types of the embedded files that are not guides. Text is shown, and not run or loaded.
var types = map[string]string{".webp": "image/webp", ".json": "text/plain; charset=utf-8", ".yml": "text/plain; charset=utf-8"}

// Handler serves the guides.
type Handler struct {
	console string          // a link to the console, or ""
	files   map[string]file // by path below Prefix
}

// file is an embedded file.
type file struct{ name, text string }

// New returns a Handler. Only the embedded files have paths, so no request reaches another file. It panics if the binary
// is damaged.
func New(console string) *Handler {
	h := &Handler{console: console, files: map[string]file{}}
	err := fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(docs.Files, name)
		h.files[pathOf(name)] = file{name, string(text)}
		return err
	})
	if err != nil {
		panic(err)
	}
	return h
}

// pathOf returns the path below Prefix for a file in docs.
func pathOf(name string) string {
	if name == index {
		return ""
	}
	return strings.TrimSuffix(name, ".md")
}

// ServeHTTP answers 404 with a page for a path that no guide has.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h.files[strings.TrimPrefix(r.URL.Path, Prefix)]
	if !ok {
		h.send(w, http.StatusNotFound, page, h.page("Guide not found", "<h1>There is no such guide</h1>\n"))
		return
	}
	if kind := types[path.Ext(f.name)]; kind != "" {
		h.send(w, http.StatusOK, kind, f.text)
		return
	}
	title, body, err := h.render(f.name, f.text)
	if err != nil {
		http.Error(w, "the guide cannot be rendered: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.send(w, http.StatusOK, page, h.page(title, body))
}

// page is the content type of a rendered guide.
const page = "text/html; charset=utf-8"

// send writes the whole response.
func (h *Handler) send(w http.ResponseWriter, status int, kind, body string) {
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // an error means that the client left
}

// page returns a page around the rendered guide.
func (h *Handler) page(title, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<meta name=\"robots\" content=\"noindex\">\n<title>%s · Holdfast</title>\n<style>%s</style>\n</head>\n<body>\n<nav aria-label=\"Guides\">\n<a href=\"%s\">All guides</a>\n",
		html.EscapeString(title), style, Prefix)
	if h.console != "" {
		fmt.Fprintf(&b, "<a href=\"%s\">Console</a>\n", html.EscapeString(h.console))
	}
	b.WriteString("</nav>\n<main>\n")
	b.WriteString(body)
	b.WriteString("</main>\n</body>\n</html>\n")
	return b.String()
}

var errNoTitle = errors.New("the guide has no title")
