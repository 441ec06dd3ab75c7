package app_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/cli"
	"holdfast/internal/suite"
)

// TestMain also serves as the child process that tries schemas, because the server reruns its own program.
//
// With the default limits, a third of the CPU time goes to garbage collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	if len(os.Args) == 2 && os.Args[1] == "schema-trial" {
		os.Exit(cli.Run(context.Background(), cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Services: app.Services()}))
	}
	suite.Main(m, "1")
}

// browser is an operator's browser without JavaScript.
type browser struct {
	t      *testing.T
	base   string
	client *http.Client
	viewer *browser // read-only operator; nil for the viewer itself
	linked map[string]bool

	at   string
	page *element
	raw  string

	kind, policy string
}

type element struct {
	name     string
	attrs    map[string]string
	children []*element
	text     string
}

func (e *element) all(names ...string) (found []*element) {
	for _, c := range e.children {
		if slices.Contains(names, c.name) {
			found = append(found, c)
		}
		found = append(found, c.all(names...)...)
	}
	return found
}

// String returns the trimmed text. It returns shortened IDs in full.
func (e *element) String() string {
	var b strings.Builder
	var walk func(*element)
	walk = func(e *element) {
		if e.name == "datalist" {
			return
		}
		if whole := e.attrs["title"]; e.name == "code" && whole != "" {
			b.WriteString(whole)
			return
		}
		b.WriteString(e.text)
		for _, c := range e.children {
			walk(c)
		}
	}
	walk(e)
	return strings.TrimSpace(b.String())
}

// parsePage requires that all elements are closed. HTML allows characters that XML refuses.
func parsePage(t *testing.T, text string) *element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff' {
			return '\ufffd'
		}
		return r
	}, text)))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	root := &element{}
	for open := []*element{root}; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return root
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		in := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			in.children = append(in.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			in.children = append(in.children, &element{text: string(token)})
		}
	}
}

func signIn(t *testing.T, base, token string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, base: base, client: &http.Client{Jar: jar, Transport: &http.Transport{}}, linked: map[string]bool{}}
	t.Cleanup(b.client.CloseIdleConnections)
	b.open("sign-in?next=sessions") // the overview counts rows, and keeps the counts
	b.submit("Sign in", "token", token)
	return b
}

// send repeats the request, because on a busy machine a schema trial may time out.
func (b *browser) send(method, address string, form url.Values) (status int) {
	b.t.Helper()
	for range 20 {
		if status = b.sendOnce(method, address, form); status != http.StatusServiceUnavailable {
			break
		}
	}
	return status
}

func (b *browser) sendOnce(method, address string, form url.Values) (status int) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.base)
	}
	return b.do(r)
}

func (b *browser) do(r *http.Request) (status int) {
	b.t.Helper()
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.kind, b.policy = resp.Header.Get("Content-Type"), resp.Header.Get("Content-Security-Policy")
	b.at, b.raw, b.page = resp.Request.URL.String(), string(body), &element{}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		b.page = parsePage(b.t, b.raw)
		b.check(resp.Header.Get("Content-Security-Policy"))
		for _, a := range b.page.all("a") {
			path, _, _ := strings.Cut(a.attrs["href"], "?")
			b.linked[path] = true
		}
	}
	return resp.StatusCode
}

// check checks that no text has become an element or a script.
func (b *browser) check(policy string) {
	b.t.Helper()
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';") {
		b.t.Errorf("%s: policy %q", b.at, policy)
	}
	ids, labels := map[string]bool{}, map[string]bool{}
	for _, l := range b.page.all("label") {
		labels[l.attrs["for"]] = true
	}
	var walk func(*element)
	walk = func(e *element) {
		if e.name != "" && !strings.Contains(elements, " "+e.name+" ") || e.name == "script" && !strings.HasPrefix(e.attrs["src"], "/console/static/") {
			b.t.Errorf("%s: element %s in\n%s", b.at, e.name, b.raw)
		}
		for name, value := range e.attrs {
			if strings.HasPrefix(name, "on") || name == "style" || (name == "href" || name == "src" || name == "action") && !strings.HasPrefix(value, "/console/") && !strings.HasPrefix(value, service.GuidePrefix) && value != "#main" && !strings.HasPrefix(value, "#form-") {
				b.t.Errorf("%s: attribute %s=%q", b.at, name, value)
			}
		}
		if id := e.attrs["id"]; id != "" && ids[id] {
			b.t.Errorf("%s: two elements have the id %s", b.at, id)
		}
		ids[e.attrs["id"]] = true
		if slices.Contains([]string{"input", "select", "textarea"}, e.name) && e.attrs["type"] != "hidden" && !labels[e.attrs["id"]] && e.attrs["aria-label"] == "" {
			b.t.Errorf("%s: field %s has no label", b.at, e.attrs["name"])
		}
		for _, c := range e.children {
			walk(c)
		}
	}
	walk(b.page)
	b.checkChoices()
	if len(b.page.all("h1")) != 1 || len(b.page.all("main")) != 1 {
		b.t.Errorf("%s: no title or no main part in\n%s", b.at, b.raw)
	}
}

var things = []string{"account", "bucket", "to-bucket", "tenant", "install", "node", "tier", "key", "backup", "sweep", "service", "run"}

// made are fields for new or unlisted things, by form.
var made = map[string]string{
	"/console/buckets/accounts?do=create account":          "it is new",
	"/console/buckets/buckets?do=create bucket":            "it is new",
	"/console/buckets/nodes?do=add node":                   "it is new",
	"/console/extstorage/installs?do=set install":          "it is new",
	"/console/tokenserver/nodes?do=add node":               "it is new",
	"/console/extstorage/records/create?do=create key":     "it is new",
	"/console/guest/tenants?do=suspend tenant":             "the list has suspended tenants",
	"/console/guest/tokens?do=create tenant":               "the list has suspended tenants",
	"/console/guest/tokens?do=create service":              "other programs give themselves names",
	"/console/extstorage/service-tokens?do=create service": "other programs give themselves names",
}

// checkChoices checks that a field for a thing offers the existing things, even in a service's own forms.
func (b *browser) checkChoices() {
	b.t.Helper()
	for _, f := range b.page.all("form") {
		for _, e := range f.all("input") {
			name := e.attrs["name"]
			if e.attrs["type"] == "text" && slices.Contains(things, name) && e.attrs["list"] == "" && made[f.attrs["action"]+" "+name] == "" {
				b.t.Errorf("%s: the field %s of %s has no choices", b.at, name, f.attrs["action"])
			}
		}
	}
}

const elements = " html head meta title link script body main header nav section div span p a h1 h2 ul ol li dl dt dd table thead tbody tr th td form input label select option datalist textarea button meter pre code fieldset legend figure figcaption svg line path text img details summary kbd rect time small "

func (b *browser) open(path string) {
	b.t.Helper()
	if status := b.send(http.MethodGet, b.base+"/console/"+path, nil); status != http.StatusOK {
		b.t.Errorf("%s: %d\n%s", path, status, b.page)
	}
}

// upload sends a form with files: alternating names and contents.
func (b *browser) upload(status int, says, button string, sent url.Values, files ...string) {
	b.t.Helper()
	f := b.form(button)
	if f == nil || f.attrs["enctype"] != "multipart/form-data" {
		b.t.Fatalf("%s: no form with files and the button %q in\n%s", b.at, button, b.page)
	}
	if got := b.sendFiles(f, sent, files...); got != status || !strings.Contains(b.page.String(), says) {
		b.t.Errorf("%s %q: %d, want %d and %q in\n%s", button, files, got, status, says, b.page)
	}
}

func (b *browser) sendFiles(f *element, sent url.Values, files ...string) (status int) {
	b.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, values := range asSent(sent) {
		if name == "files" {
			continue
		}
		if err := w.WriteField(name, values[0]); err != nil {
			b.t.Fatal(err)
		}
	}
	for i := 0; i < len(files); i += 2 {
		part, err := w.CreateFormFile("files", files[i])
		if err == nil {
			_, err = io.WriteString(part, files[i+1])
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+f.attrs["action"], &body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Origin", b.base)
	return b.do(r)
}

func (b *browser) follow(text string) {
	b.t.Helper()
	for _, a := range b.page.all("a") {
		if a.String() == text {
			if status := b.send(http.MethodGet, b.base+a.attrs["href"], nil); status != http.StatusOK {
				b.t.Errorf("%s: %d\n%s", text, status, b.page)
			}
			return
		}
	}
	b.t.Fatalf("%s: no link %q in\n%s", b.at, text, b.page)
}

func (b *browser) form(button string) *element {
	for _, f := range b.page.all("form") {
		for _, one := range f.all("button") {
			if one.String() == button || one.attrs["aria-label"] == button {
				own := *f
				own.attrs = maps.Clone(f.attrs)
				own.attrs["action"] = cmp.Or(one.attrs["formaction"], f.attrs["action"])
				return &own
			}
		}
	}
	return nil
}

func (b *browser) fill(f *element, values ...string) url.Values {
	b.t.Helper()
	sent := url.Values{}
	for _, e := range f.all("input", "select", "textarea") {
		name, value := e.attrs["name"], e.attrs["value"]
		_, checked := e.attrs["checked"]
		switch {
		case e.name == "textarea":
			value = e.String()
		case e.name == "select":
			value = e.all("option")[0].attrs["value"]
			for _, o := range e.all("option") {
				if _, selected := o.attrs["selected"]; selected {
					value = o.attrs["value"]
				}
			}
		case e.attrs["type"] == "checkbox" && !checked:
			value = ""
		case e.attrs["type"] == "text":
			value = strings.NewReplacer("\r", "", "\n", "").Replace(value) // as browsers do
		}
		sent.Set(name, value)
	}
	for i := 0; i < len(values); i += 2 {
		if !sent.Has(values[i]) {
			b.t.Fatalf("%s: no field %s in %v", b.at, values[i], sent)
		}
		sent.Set(values[i], values[i+1])
	}
	return sent
}

// asSent returns a form's values as browsers send them: each line break is CR LF.
func asSent(form url.Values) url.Values {
	sent := url.Values{}
	for name, values := range form {
		for _, v := range values {
			v = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(v)
			sent.Add(name, strings.ReplaceAll(v, "\n", "\r\n"))
		}
	}
	return sent
}

func (b *browser) post(f *element, sent url.Values) (status int) {
	b.t.Helper()
	to := b.base + f.attrs["action"]
	sent = asSent(sent)
	if f.attrs["method"] == "get" {
		return b.send(http.MethodGet, to+"?"+sent.Encode(), nil)
	}
	status = b.send(http.MethodPost, to, sent)
	path, _, _ := strings.Cut(strings.TrimPrefix(b.at, b.base), "?")
	b.linked[path] = true
	return status
}

func (b *browser) try(status int, says, button string, values ...string) {
	b.t.Helper()
	f := b.form(button)
	if f == nil {
		b.t.Fatalf("%s: no button %q in\n%s", b.at, button, b.page)
	}
	sent := b.fill(f, values...)
	if got := b.post(f, sent); got != status || !strings.Contains(b.page.String(), says) {
		b.t.Errorf("%s %v: %d, want %d and %q in\n%s", button, values, got, status, says, b.page)
	}
}

// submit submits a change. TestConsoleRefusesChanges checks that each one needs its CSRF token and an administrator.
func (b *browser) submit(button string, values ...string) {
	b.t.Helper()
	b.try(http.StatusOK, "", button, values...)
}

func (b *browser) shows(texts ...string) {
	b.t.Helper()
	text := b.page.String()
	for _, want := range texts {
		if !strings.Contains(text, want) {
			b.t.Errorf("%s: no %q in\n%s", b.at, want, text)
		}
	}
}

func (b *browser) hides(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if strings.Contains(b.page.String(), text) {
			b.t.Errorf("%s: %q in\n%s", b.at, text, b.page)
		}
	}
}

func serveConsole(t *testing.T, settings ...string) (b *browser, text string, environ []string) {
	t.Helper()
	const viewer = "viewer-token-of-a-test-0123456789"
	data := t.TempDir()
	environ = append([]string{
		"HOLDFAST_DATA=" + data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0",
		"HOLDFAST_LOG__LEVEL=error", "HOLDFAST_SERVER__VIEWER_TOKEN=" + viewer, "HOLDFAST_GUEST__ENABLED=true",
	}, settings...)
	cfg, _, err := app.Load(onAllEngines(), "", environ)
	if err != nil {
		t.Fatal(err)
	}
	reload := app.Reload{Read: func() (*app.Config, error) {
		again, _, err := app.Load(onAllEngines(), "", environ)
		return again, err
	}}
	server, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: app.ModeServeMigrating, Reload: reload})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- server.Serve(ctx, announcement(started)) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, server.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case text = <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	admin := addressOf(t, text, "admin")
	deadline := time.Now().Add(time.Minute)
	for status, reason := do(t, http.MethodGet, admin+"/readyz", ""); status != http.StatusOK; status, reason = do(t, http.MethodGet, admin+"/readyz", "") {
		if time.Now().After(deadline) {
			t.Fatalf("the server is not ready: %s", reason)
		}
		time.Sleep(20 * time.Millisecond)
	}
	b = signIn(t, admin, server.Config().Server.AdminToken.Reveal())
	b.viewer = signIn(t, admin, viewer)
	return b, text, environ
}

func addressOf(t *testing.T, text, listener string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^  ` + listener + ` +(http://\S+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no listener %s in\n%s", listener, text)
	}
	return found[1]
}
