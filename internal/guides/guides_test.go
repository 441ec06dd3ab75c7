package guides

import (
	"cmp"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"holdfast/docs"
	"holdfast/internal/app/service"
)

func get(t *testing.T, h http.Handler, to string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, to, http.NoBody))
	return w
}

// elements returns all elements of a page.
func elements(t *testing.T, page string) (all []*html.Node) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// target is a link or an image on a guide.
type target struct{ from, path, fragment string }

// linksOf checks the elements of the guide at a path. It returns its links within the server, and the IDs of its elements.
func linksOf(t *testing.T, at, body string) (targets []target, ids []string) {
	t.Helper()
	for _, e := range elements(t, body) {
		if e.Data == "script" || attribute(e, "style") != "" || slices.ContainsFunc(e.Attr, func(a html.Attribute) bool { return strings.HasPrefix(a.Key, "on") }) {
			t.Errorf("%s: <%s %v>: scripts and inline styles are refused by the policy", at, e.Data, e.Attr)
		}
		if id := attribute(e, "id"); id != "" {
			ids = append(ids, id)
		}
		to, fragment, _ := strings.Cut(attribute(e, "href")+attribute(e, "src"), "#")
		switch {
		case to == "" && fragment == "":
			continue
		case strings.Contains(to, ":"):
			if e.Data != "a" {
				t.Errorf("%s loads %s from elsewhere", at, to)
			}
			continue
		case e.Data == "img" && attribute(e, "alt") == "":
			t.Errorf("%s: the image %s has no text", at, to)
		}
		targets = append(targets, target{at, cmp.Or(to, at), fragment})
	}
	return targets, ids
}

// TestGuides opens every guide and follows every link and image on it, also to sections.
func TestGuides(t *testing.T) {
	t.Parallel()
	h := New("/console/")
	guides, err := fs.Glob(docs.Files, "*.md")
	if err != nil || len(guides) < 30 {
		t.Fatalf("%d guides, %v", len(guides), err)
	}
	var targets []target
	ids := map[string][]string{} // by path
	reached := map[string]bool{}
	for _, file := range guides {
		at := service.GuideLink("docs/" + file)
		if file == index {
			at = Prefix
		}
		w := get(t, h, at)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
			t.Fatalf("%s: %d %v", at, w.Code, w.Header())
		}
		onPage, idsOf := linksOf(t, at, w.Body.String())
		targets, ids[at] = append(targets, onPage...), idsOf
		if !strings.Contains(w.Body.String(), "<h1 id=") {
			t.Errorf("%s has no title", at)
		}
	}
	sections := 0
	for _, to := range targets {
		reached[to.path] = true
		switch {
		case to.path == "/console/":
		case !strings.HasPrefix(to.path, Prefix):
			t.Errorf("%s links to %s", to.from, to.path)
		case get(t, h, to.path).Code != http.StatusOK:
			t.Errorf("%s links to %s, which is missing", to.from, to.path)
		}
		if to.fragment != "" {
			if sections++; !slices.Contains(ids[to.path], to.fragment) {
				t.Errorf("%s links to %s#%s, which is no section", to.from, to.path, to.fragment)
			}
		}
	}
	if sections < 100 {
		t.Errorf("found %d links to sections", sections)
	}
	for _, file := range guides {
		if at := service.GuideLink("docs/" + file); file != index && !reached[at] {
			t.Errorf("no guide links to %s", at)
		}
	}
	if !reached[Prefix+"images/console-phone.webp"] || !reached[Prefix+"monitoring/alerts.yml"] || !reached[Prefix+"events/hotel.json"] {
		t.Error("the images and files of the guides are not linked")
	}
}

// TestOtherFiles checks that a path leads to no file besides those that are embedded.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	h := New("")
	for _, below := range []string{
		"nothing", "README", "README.md", "backup.md", "backup/", "docs.go", "../README", "..", "%2e%2e/docs.go", "./backup", "images", "images/", "images/../backup", "/backup", "decisions/README",
		"images/console.svg", "monitoring/alerts_test.yml", "backup\x00", `..\backup`,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, Prefix, http.NoBody)
		r.URL.Path = Prefix + below
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "There is no such guide") {
			t.Errorf("%q: %d", below, w.Code)
		}
	}
	if w := get(t, h, Prefix); strings.Contains(w.Body.String(), "/console/") {
		t.Error("without a console, a page links to it")
	}
	if w := get(t, h, Prefix+"images/console-phone.webp"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/webp" {
		t.Errorf("an image: %d %v", w.Code, w.Header())
	}
	if w := get(t, h, Prefix+"events/hotel.json"); w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("a file: %d %v", w.Code, w.Header())
	}
}

// TestNoMarkup checks that links to files that are not embedded become text, and that no Markdown is left.
func TestNoMarkup(t *testing.T) {
	t.Parallel()
	h := New("")
	title, body, err := h.render("a.md", "# A `b` *c*\n\n[why](decisions/0001-libraries.md) & [x](../README.md#y) <b onclick=x>no</b>\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n")
	if err != nil || title != "A b c" {
		t.Errorf("%q, %v", title, err)
	}
	for _, want := range []string{`id="a-b-c"`, `<span title="the file docs/decisions/0001-libraries.md in the source">why</span> &amp; <span title="the file README.md in the source">x</span>`, `<td align="right">2</td>`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if strings.Contains(body, "onclick") || regexp.MustCompile(`\]\(`).MatchString(body) {
		t.Errorf("%s", body)
	}
	if _, _, err := h.render("a.md", "no title"); err == nil {
		t.Error("a guide without a title is rendered")
	}
	if got := service.GuideLink("docs/backup.md"); got != "/guide/backup" {
		t.Error(got)
	}
}
