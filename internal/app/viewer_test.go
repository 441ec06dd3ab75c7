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
	csrf := v.form("/console/").Get("csrf")
	clean := func(what, body string) {
		t.Helper()
		for _, s := range hidden {
			if strings.Contains(body, s) {
				t.Errorf("%s: a viewer gets a secret", what)
			}
		}
	}
	refused, allowed := 0, 0
	for i := range a.console.Sections {
		s := &a.console.Sections[i]
		for j := range s.Pages {
			p := &s.Pages[j]
			at := console.Prefix + strings.TrimPrefix(s.Name+"/"+p.Path, "/")
			want := p.Access == operate.ForViewers
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				for _, isUpdate := range []string{"", "true"} {
					v.edit = func(r *http.Request) { r.Header.Set("HX-Request", isUpdate) }
					status, body, h := v.do(method, at, nil)
					wantAccess(t, method+" "+at, want, status)
					clean(method+" "+at, body)
					if !want && (h.Get("Content-Disposition") != "" || method == http.MethodGet && !strings.Contains(body, "Your role may not")) {
						t.Errorf("%s %s: a viewer gets %v %s", method, at, h, body)
					}
				}
			}
			v.edit = nil
			if status, _, _ := o.do(http.MethodGet, at, nil); status == http.StatusForbidden || status >= 500 {
				t.Errorf("%s: the administrator gets %d", at, status)
			}
			for _, act := range p.Actions {
				open := want && act.Reads
				if refused++; open {
					refused, allowed = refused-1, allowed+1
				}
				for _, isFile := range []bool{false, true} {
					v.isFile = isFile
					status, body, _ := v.do(http.MethodPost, at+"?do="+url.QueryEscape(act.Name), url.Values{"csrf": {csrf}})
					if !isFile || !open {
						wantAccess(t, "POST "+at+" "+act.Name, open, status)
					}
					clean("POST "+at+" "+act.Name, body)
				}
				v.isFile = false
				if !act.Reads || !want {
					continue
				}
				for k := range s.Pages { // the form is shown again on the page that it came from
					back := &s.Pages[k]
					if back.Access == operate.ForViewers && k != j {
						continue
					}
					form := url.Values{"csrf": {csrf}, "confirm-with": {"x"}, "return-page": {back.Path}}
					status, body, _ := v.do(http.MethodPost, at+"?do="+url.QueryEscape(act.Name), form)
					if status >= 500 {
						t.Errorf("POST %s %s, back to %s: %d", at, act.Name, back.Path, status)
					}
					clean("POST "+at+" "+act.Name+" back to "+back.Path, body)
				}
			}
			if status, _, _ := v.do(http.MethodPost, at+"?do=nothing", url.Values{"csrf": {csrf}}); status != http.StatusNotFound && status != http.StatusForbidden {
				t.Errorf("POST %s?do=nothing: %d", at, status)
			}
		}
	}
	if refused < 80 || allowed < 8 {
		t.Errorf("walked only %d refused and %d allowed actions", refused, allowed)
	}
	viewerLinks(t, a, o, v, clean)
	viewerInAPI(t, a)
	if _, body, _ := o.do(http.MethodGet, "/console/changes", nil); strings.Contains(body, "viewer session") {
		t.Errorf("a viewer changed something:\n%s", body)
	}
}

func wantAccess(t *testing.T, what string, open bool, status int) {
	t.Helper()
	if open == (status == http.StatusForbidden) || status >= 500 {
		t.Errorf("%s: a viewer gets %d, and may open it: %v", what, status, open)
	}
}

// viewerLinks follows all links of a viewer, which lead only to pages that a viewer may open, and sends a viewer to all
// addresses that the administrator's pages link to.
func viewerLinks(t *testing.T, a *App, o, v *operator, clean func(what, body string)) {
	t.Helper()
	own, all := crawl(v, 150), crawl(o, 150)
	for at, status := range own {
		if status == http.StatusForbidden || status >= 500 {
			t.Errorf("a page of a viewer links to %s, which answers %d", at, status)
		}
	}
	if len(own) < 60 || len(all) < 60 {
		t.Errorf("found only %d links for a viewer, and %d for the administrator", len(own), len(all))
	}
	for at, status := range all {
		got, body, _ := v.do(http.MethodGet, at, nil)
		clean(at, body)
		if p := pageAt(a, at); p != nil && p.Access == operate.ForAdmins {
			status = http.StatusForbidden
		}
		if got != status {
			t.Errorf("%s: a viewer gets %d, want %d", at, got, status)
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
		r.RemoteAddr = fmt.Sprintf("10.2.%d.%d:50000", i/250, i%250) // the viewer token counts as a wrong one
		r.Header.Set("Authorization", "Bearer "+viewerToken)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s with the viewer token: %d %s", to, w.Code, w.Body)
		}
	}
}
