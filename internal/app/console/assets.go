package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/app/service"
	"holdfast/internal/web"
)

//go:embed static
var static embed.FS

// assets lists the files that the console serves, by their path below static/. Other embedded files are unreachable.
var assets = map[string]asset{
	"console.css":       newAsset("console.css", "text/css; charset=utf-8").with("lib/inter.woff2", font),
	"console.js":        newAsset("console.js", "text/javascript; charset=utf-8"),
	"search.js":         newAsset("search.js", "text/javascript; charset=utf-8"),
	"upload.js":         newAsset("upload.js", "text/javascript; charset=utf-8"),
	"charts.js":         newAsset("charts.js", "text/javascript; charset=utf-8"),
	"icon.svg":          newAsset("icon.svg", "image/svg+xml"),
	"lib/htmx.min.js":   newAsset("lib/htmx.min.js", "text/javascript; charset=utf-8"),
	"lib/uPlot.min.js":  newAsset("lib/uPlot.min.js", "text/javascript; charset=utf-8"),
	"lib/uPlot.min.css": newAsset("lib/uPlot.min.css", "text/css; charset=utf-8"),
	"theme.js":          newAsset("theme.js", "text/javascript; charset=utf-8"),
	"lib/inter.woff2":   font,
}

// font is a subset of Inter: Latin letters, weights 400 to 700. See docs/decisions/0053-console-design.md.
var font = newAsset("lib/inter.woff2", "font/woff2")

type asset struct {
	body, kind string // content, and content type
	version    string // hex digits from the SHA-256 of the body; the v parameter in links
}

// newAsset panics if the file is not embedded. It runs before main, so a missing file fails every test and start.
func newAsset(name, kind string) asset {
	body, err := static.ReadFile("static/" + name)
	if err != nil {
		panic(err)
	}
	return versioned(string(body), kind)
}

// versioned returns a file with its version.
func versioned(body, kind string) asset {
	sum := sha256.Sum256([]byte(body))
	return asset{body, kind, hex.EncodeToString(sum[:8])}
}

// with adds another asset's version to its address in a, so that browsers keep that one, too.
func (a asset) with(name string, other asset) asset {
	return versioned(strings.ReplaceAll(a.body, name, name+"?v="+other.version), a.kind)
}

// assetLink returns a link with the file's version, which lets browsers keep the file for a year. name must be in
// assets.
func assetLink(name string) string { return Prefix + "static/" + name + "?v=" + assets[name].version }

// sendAsset serves a file from assets, also without a session: the sign-in page needs the style sheet. Only a request
// for the current version may be cached; a page from an older server gets the current file for one use.
func (x *exchange) sendAsset(name string) error {
	a, ok := assets[name]
	if !ok || x.r.Method == http.MethodPost {
		return errPage
	}
	if x.r.URL.Query().Get("v") == a.version {
		x.w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	web.StaticBody(x.r)
	send(x.w, http.StatusOK, a.kind, a.body)
	return nil
}

// send writes the whole response. It ignores write errors, because then the client is gone; for HEAD net/http drops
// the body.
func send(w http.ResponseWriter, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// sendFile sends a file as a download unless it is a safe image: HTML or SVG could contain scripts.
func (x *exchange) sendFile(page *service.Page, r *service.PageRequest) error {
	if err := web.ChargeMemory(x.r, page.Memory); err != nil {
		return err
	}
	f, err := page.Send(x.operator(), r)
	if err != nil {
		return err
	}
	sent := &web.File{Name: f.Name, Type: "application/octet-stream", Size: f.Size, Write: f.Write}
	if slices.Contains(service.Images, f.Image) {
		sent.Type, sent.Inline = f.Image, true
	}
	return web.SendFile(x.w, x.r, sent)
}

// upper begins a message with a capital letter, for display as a sentence. It leaves a first word that looks like a
// setting, a file or a host name (with ".", "/" or "_").
func upper(s string) string {
	if first, _, _ := strings.Cut(s, " "); strings.ContainsAny(first, "./_") {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}
