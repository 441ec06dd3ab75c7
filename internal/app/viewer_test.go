package app

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/secrets"
)

// allOperations returns each service's operations, and the server's (""), as the console shows them.
func allOperations(a *App) map[string][]operate.Operation {
	all := map[string][]operate.Operation{"": a.operations}
	for _, s := range a.opened {
		all[s.Name] = s.operations
	}
	return all
}

// TestViewerAccessIsDeclared checks that each operation and each page says whether a viewer may open it. A new one fails
// until it does.
func TestViewerAccessIsDeclared(t *testing.T) {
	t.Parallel()
	a, _ := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	seen := 0
	for name, all := range allOperations(a) {
		for _, o := range all {
			seen++
			switch {
			case o.Kind.Changes() && o.Access != operate.Undeclared:
				t.Errorf("%s %s: a change declares Access, but viewers change nothing", name, o.Path)
			case !o.Kind.Changes() && o.Access == operate.Undeclared:
				t.Errorf("%s %s: declare in its operate.About what a viewer may do: Access", name, o.Path)
			case o.Secret && o.Access != operate.ForAdmins:
				t.Errorf("%s %s: the file has secrets, so it is for admins", name, o.Path)
			}
		}
	}
	for _, s := range a.console.Sections {
		for _, p := range s.Pages {
			seen++
			if p.Access == operate.Undeclared {
				t.Errorf("page %s/%s: declare what a viewer may do: Access", s.Name, p.Path)
			}
			for _, act := range p.Actions {
				if act.Reads && isChange(allOperations(a)[s.Name], p.Path, act.Name) {
					t.Errorf("page %s/%s: the action %s is a change, and is open to viewers", s.Name, p.Path, act.Name)
				}
			}
		}
	}
	if seen < 150 {
		t.Errorf("found only %d operations and pages", seen)
	}
}

func isChange(all []operate.Operation, noun, verb string) bool {
	return slices.ContainsFunc(all, func(o operate.Operation) bool { return o.Kind.Changes() && o.Noun() == noun && o.Verb() == verb })
}

// seeded adds things to show to a server, and returns the server's secrets and the secrets in these things.
func seeded(t *testing.T, a *App) (hidden []string) {
	t.Helper()
	run := func(of, path string, values map[string]string) *operate.Result {
		t.Helper()
		all := allOperations(a)[of]
		at := slices.IndexFunc(all, func(o operate.Operation) bool { return o.Path == path })
		if at < 0 {
			t.Fatalf("%s has no operation %s", of, path)
		}
		r, err := all[at].Run(t.Context(), values, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", of, path, err)
		}
		return r
	}
	run("tokenserver", "access/allow", map[string]string{"account": someAccount})
	run("buckets", "accounts/create", map[string]string{"account": "main"})
	run("buckets", "buckets/create", map[string]string{"account": "main", "bucket": "photos"})
	run("extstorage", "installs/set", map[string]string{"tenant": someTenant, "install": someInstall})
	run("guest", "keys/add", map[string]string{})
	for of, path := range map[string]string{"buckets": "keys/create", "extstorage": "service-tokens/create"} {
		made := run(of, path, map[string]string{"account": "main", "tenant": someTenant, "namespace": "settings=r", "ttl": "1h", "service": "robot"})
		for i, c := range made.Columns {
			if c.Secret != "" {
				hidden = append(hidden, fmt.Sprint(made.Rows[0].Cells[i]))
			}
		}
	}
	values, err := secrets.Read(filepath.Join(a.data, secrets.File))
	if err != nil {
		t.Fatal(err)
	}
	hidden = slices.AppendSeq(hidden, maps.Values(values))
	if len(hidden) < 6 || slices.ContainsFunc(hidden, func(s string) bool { return len(s) < 32 }) {
		t.Fatalf("found %d secrets, or short ones", len(hidden))
	}
	return append(hidden, viewerToken)
}

// links matches links to pages and pictures, and to the parts that a page loads.
var links = regexp.MustCompile(`(?:href|src|hx-get)="(/console/[^"#]*)`)

// crawl returns all addresses that pages link to for an operator, and the server's answers.
func crawl(o *operator, limit int) map[string]int {
	found, todo := map[string]int{}, []string{"/console/"}
	for len(todo) > 0 && len(found) < limit {
		at := todo[0]
		todo = todo[1:]
		if _, ok := found[at]; ok {
			continue
		}
		status, body, h := o.do(http.MethodGet, at, nil)
		found[at] = status
		if !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			continue
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			if to := html.UnescapeString(m[1]); !strings.Contains(to, "sort=") && !strings.Contains(to, "/static/") {
				todo = append(todo, to)
			}
		}
	}
	return found
}

// TestViewer walks every page, file and action of the console, and every admin route, as a viewer: only pages
// declared for viewers open, nothing changes, and no answer contains a secret.
func TestViewer(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1") // its checks ask this server
	var checks sync.WaitGroup
	checks.Go(func() { a.checks.Run(t.Context(), a.now, a.checkRunning) }) // otherwise each visit of the checks page waits for them in vain
	t.Cleanup(checks.Wait)
	hidden := seeded(t, a)
	o, v := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken)
	w := &viewerWalk{t: t, o: o, v: v, hidden: hidden, csrf: v.form("/console/").Get("csrf")}
	for i := range a.console.Sections {
		s := &a.console.Sections[i]
		for j := range s.Pages {
			w.page(s, &s.Pages[j])
			w.actions(s, &s.Pages[j])
		}
	}
	if w.refused < 80 || w.allowed < 8 {
		t.Errorf("walked only %d refused and %d allowed actions", w.refused, w.allowed)
	}
	w.links(a)
	viewerInAPI(t, a)
	if _, body, _ := o.do(http.MethodGet, "/console/changes", nil); strings.Contains(body, "viewer session") {
		t.Errorf("a viewer changed something:\n%s", body)
	}
}

// viewerWalk sends a viewer everywhere in the console.
type viewerWalk struct {
	t                *testing.T
	o, v             *operator // the administrator, and the viewer
	hidden           []string  // secrets, which no answer to the viewer contains
	csrf             string    // of the viewer's session
	refused, allowed int       // the actions so far
}

func (w *viewerWalk) clean(what, body string) {
	w.t.Helper()
	for _, s := range w.hidden {
		if strings.Contains(body, s) {
			w.t.Errorf("%s: a viewer gets a secret", what)
		}
	}
}

func (w *viewerWalk) wantAccess(what string, open bool, status int) {
	w.t.Helper()
	if open == (status == http.StatusForbidden) || status >= 500 {
		w.t.Errorf("%s: a viewer gets %d, and may open it: %v", what, status, open)
	}
}

func address(s *console.Section, p *service.Page) string {
	return console.Prefix + strings.TrimPrefix(s.Name+"/"+p.Path, "/")
}

// page opens a page in each way, as the viewer and as the administrator.
func (w *viewerWalk) page(s *console.Section, p *service.Page) {
	w.t.Helper()
	at, open := address(s, p), p.Access == operate.ForViewers
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, isUpdate := range []string{"", "true"} {
			w.v.edit = func(r *http.Request) { r.Header.Set("HX-Request", isUpdate) }
			status, body, h := w.v.do(method, at, nil)
			w.wantAccess(method+" "+at, open, status)
			w.clean(method+" "+at, body)
			if !open && (h.Get("Content-Disposition") != "" || method == http.MethodGet && !strings.Contains(body, "Your role may not")) {
				w.t.Errorf("%s %s: a viewer gets %v %s", method, at, h, body)
			}
		}
	}
	w.v.edit = nil
	if status, _, _ := w.o.do(http.MethodGet, at, nil); status == http.StatusForbidden || status >= 500 {
		w.t.Errorf("%s: the administrator gets %d", at, status)
	}
}

// actions sends each action of a page, and an unknown action, as the viewer.
func (w *viewerWalk) actions(s *console.Section, p *service.Page) {
	w.t.Helper()
	at := address(s, p)
	for _, act := range p.Actions {
		open := p.Access == operate.ForViewers && act.Reads
		w.action(at, act.Name, open)
		if open {
			w.allowed++
			w.returns(s, p, act.Name)
		} else {
			w.refused++
		}
	}
	if status, _, _ := w.v.do(http.MethodPost, at+"?do=nothing", url.Values{"csrf": {w.csrf}}); status != http.StatusNotFound && status != http.StatusForbidden {
		w.t.Errorf("POST %s?do=nothing: %d", at, status)
	}
}

// action sends an action as a plain form and as a form with files.
func (w *viewerWalk) action(at, name string, open bool) {
	w.t.Helper()
	for _, isFile := range []bool{false, true} {
		w.v.isFile = isFile
		status, body, _ := w.v.do(http.MethodPost, at+"?do="+url.QueryEscape(name), url.Values{"csrf": {w.csrf}})
		if !isFile || !open {
			w.wantAccess("POST "+at+" "+name, open, status)
		}
		w.clean("POST "+at+" "+name, body)
	}
	w.v.isFile = false
}

// returns sends an action that a viewer may do with a wrong confirmation, as from its own page and from each page of the
// section that is not for viewers. The form is shown again on the page that it came from.
func (w *viewerWalk) returns(s *console.Section, p *service.Page, name string) {
	w.t.Helper()
	at := address(s, p)
	for i := range s.Pages {
		back := &s.Pages[i]
		if back.Access == operate.ForViewers && back != p {
			continue
		}
		form := url.Values{"csrf": {w.csrf}, "confirm-with": {"x"}, "return-page": {back.Path}}
		status, body, _ := w.v.do(http.MethodPost, at+"?do="+url.QueryEscape(name), form)
		if status >= 500 {
			w.t.Errorf("POST %s %s, back to %s: %d", at, name, back.Path, status)
		}
		w.clean("POST "+at+" "+name+" back to "+back.Path, body)
	}
}

// links follows all links of the viewer, which lead only to pages that a viewer may open, and sends the viewer to all
// addresses that the administrator's pages link to.
func (w *viewerWalk) links(a *App) {
	w.t.Helper()
	own, all := crawl(w.v, 150), crawl(w.o, 150)
	for at, status := range own {
		if status == http.StatusForbidden || status >= 500 {
			w.t.Errorf("a page of a viewer links to %s, which answers %d", at, status)
		}
	}
	if len(own) < 60 || len(all) < 60 {
		w.t.Errorf("found only %d links for a viewer, and %d for the administrator", len(own), len(all))
	}
	for at, status := range all {
		got, body, _ := w.v.do(http.MethodGet, at, nil)
		w.clean(at, body)
		if p := pageAt(a, at); p != nil && p.Access == operate.ForAdmins {
			status = http.StatusForbidden
		}
		if got != status {
			w.t.Errorf("%s: a viewer gets %d, want %d", at, got, status)
		}
	}
}

func pageAt(a *App, at string) *service.Page {
	path, _, _ := strings.Cut(strings.TrimPrefix(at, console.Prefix), "?")
	for i := range a.console.Sections {
		s := &a.console.Sections[i]
		for j := range s.Pages {
			if strings.TrimPrefix(s.Name+"/"+s.Pages[j].Path, "/") == path {
				return &s.Pages[j]
			}
		}
	}
	return nil
}

// viewerInAPI checks that the viewer token opens only the console.
func viewerInAPI(t *testing.T, a *App) {
	t.Helper()
	h := a.adminHandler(new(atomic.Bool))
	for i, to := range guessedPaths(a) {
		if to.isConsole {
			continue
		}
		r := httptest.NewRequestWithContext(t.Context(), to.method, "http://127.0.0.1:8001"+to.path, nil)
		r.RemoteAddr = fmt.Sprintf("10.2.%d.%d:50000", i/250, i%250) // the viewer token counts as a wrong token
		r.Header.Set("Authorization", "Bearer "+viewerToken)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s with the viewer token: %d %s", to, w.Code, w.Body)
		}
	}
}
