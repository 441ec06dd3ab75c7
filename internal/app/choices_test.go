package app

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/operate"
	pages "holdfast/internal/operate/console"
)

// typed are inputs without choices, although a list contains the name.
var typed = map[string]string{
	"buckets accounts/create account":          "it is new",
	"buckets buckets/create bucket":            "it is new",
	"buckets nodes/add node":                   "it is new",
	"extstorage installs/set install":          "it is new",
	"extstorage records/put key":               "it may be new",
	"buckets objects/put object":               "it may be new",
	"tokenserver nodes/add node":               "it is new",
	"guest tenants/suspend tenant":             "the list has only tenants that are suspended already",
	"guest tokens/create tenant":               "the list has only suspended tenants",
	"buckets keys/create name":                 "people name keys for themselves",
	"buckets keys/limit name":                  "people name keys for themselves",
	"extstorage service-tokens/create service": "other programs give themselves names",
}

// short are lists with few rows, which are read whole.
var short = map[string]string{
	"read-only": "services", "databases": "one for each service", "backup": "a schedule keeps few", "sweeps": "a sweep of each table", "runs": "the latest fifty", "tokenserver nodes": "servers",
	"buckets nodes": "servers", "buckets keys": "of one account", "guest keys": "of booking sites", "guest jobs": "fixed", "guest event-schemas": "fixed", "guest tenants": "its rows have the buttons, so no field asks", "extstorage schemas": "of one namespace",
}

// TestInputsHaveChoices checks that each input for a thing in a service's list offers the list's rows, without reading
// the whole list.
func TestInputsHaveChoices(t *testing.T) {
	t.Parallel()
	a, _ := openConsole(t, "HOLDFAST_GUEST__ENABLED=true")
	used := map[string]bool{}
	n := walkInputs(t, "", a.operations, used)
	for _, s := range a.opened {
		n += walkInputs(t, s.Name, s.operations, used)
	}
	for name, why := range typed {
		if !used[name] {
			t.Errorf("%s (%s): no such input, or it has choices", name, why)
		}
	}
	if n < 100 {
		t.Errorf("only %d inputs have choices", n)
	}
}

func listsOf(all []operate.Operation) map[string]*operate.Operation {
	lists := map[string]*operate.Operation{}
	for i := range all {
		o := &all[i]
		if o.Kind != operate.List {
			continue
		}
		for _, name := range o.Names {
			if lists[name] == nil || len(o.Subjects())+len(o.Names) < len(lists[name].Subjects())+len(lists[name].Names) {
				lists[name] = o
			}
		}
	}
	return lists
}

func walkInputs(t *testing.T, service string, all []operate.Operation, used map[string]bool) (n int) {
	t.Helper()
	lists := listsOf(all)
	for i := range all {
		o := &all[i]
		for j := range o.Inputs {
			in := &o.Inputs[j]
			if slices.Contains([]string{"in", "kind", "field", "many"}, in.Name) {
				t.Errorf("%s %s: the requests for choices have a parameter %s", service, o.Path, in.Name)
			}
			kind, _ := pages.Kind(o, in, all)
			of, at := lists[kind], strings.TrimSpace(service+" "+o.Path+" "+in.Name)
			switch _, why := typed[at], typed[at]; {
			case kind != "" && of == nil && in.Names == "":
				t.Errorf("%s: no list has a %s", at, kind)
			case kind != "":
				n++
				if of != nil && of.Input("limit") == nil {
					name := strings.TrimSpace(service + " " + of.Noun())
					if short[of.Noun()] == "" && short[name] == "" {
						t.Errorf("%s: the list %s is read whole", at, of.Path)
					}
				}
			case why != "":
				used[at] = true
			case lists[in.Name] != nil && !in.IsBool() && !in.Local:
				t.Errorf("%s: the list %s has them, but the field has no choices", at, lists[in.Name].Path)
			}
		}
	}
	return n
}

// TestChoices checks fields with no, a single, several and many accounts. Many are searched by prefix.
func TestChoices(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	field := func(says ...string) string {
		t.Helper()
		body := o.want("the page", http.StatusOK, "Create bucket", http.MethodGet, "/console/buckets/buckets", nil)
		_, form, _ := strings.Cut(body, `action="/console/buckets/buckets?do=create"`)
		form, _, _ = strings.Cut(form, "</form>")
		for _, want := range says {
			if !strings.Contains(form, want) {
				t.Errorf("no %q in\n%s", want, form)
			}
		}
		return form
	}
	made := 0
	makes := func(n int) {
		t.Helper()
		form := o.form("/console/buckets/accounts")
		for ; made < n; made++ {
			form.Set("account", fmt.Sprintf("site-%02d", made))
			o.want("an account", http.StatusOK, "site-", http.MethodPost, "/console/buckets/accounts?do=create", form)
		}
	}
	field(`There is no account yet.`, `<a href="/console/buckets/accounts#form--create">Create an account</a>`)
	makes(1)
	if form := field(`<option value="site-00" selected>`); strings.Contains(form, "Choose") || strings.Count(form, "<option") != 1 {
		t.Errorf("the only account:\n%s", form)
	}
	makes(3)
	field(`<select `, `<option value="" selected>Choose…`, `<option value="site-00">`, `<option value="site-02">`)
	makes(60)
	if form := field(`<input `, ` list="`); strings.Count(form, "<option") != 50 || strings.Contains(form, "<select") {
		t.Errorf("%d choices of 60 accounts in\n%s", strings.Count(form, "<option"), form)
	}
	suggested := func(want string, query ...string) {
		t.Helper()
		values := url.Values{}
		for i := 0; i < len(query); i += 2 {
			values.Set(query[i], query[i+1])
		}
		body := o.want("suggestions", http.StatusOK, "", http.MethodGet, "/console/choices?"+values.Encode(), nil)
		var got []string
		for _, option := range regexp.MustCompile(`<option value="([^"]*)">`).FindAllStringSubmatch(body, -1) {
			got = append(got, option[1])
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%v: %s, want %s", query, got, want)
		}
	}
	suggested("site-55", "in", "buckets", "kind", "account", "field", "account", "account", "site-55")
	suggested("", "in", "buckets", "kind", "account", "field", "account", "account", `"><b>`)
	suggested("", "in", "buckets", "kind", "bucket", "field", "bucket", "bucket", "p")
	suggested("", "in", "buckets", "kind", "anything", "field", "x")
	form := o.form("/console/buckets/buckets", "account", "site-07")
	for _, name := range []string{"backups", "photos", "press"} {
		form.Set("bucket", name)
		o.want("a bucket", http.StatusSeeOther, "", http.MethodPost, "/console/buckets/buckets?do=create", form)
	}
	suggested("photos,press", "in", "buckets", "kind", "bucket", "field", "bucket", "account", "site-07", "bucket", "p")
	suggested("backups photos,backups press", "in", "buckets", "kind", "bucket", "field", "bucket", "many", "yes", "account", "site-07", "bucket", "backups p")
	for _, query := range []string{"in=nothing", "in=buckets&kind=account&field=account&account=" + strings.Repeat("a", 2000)} {
		if status, body, _ := o.do(http.MethodGet, "/console/choices?"+query, nil); strings.Contains(body, "site-") || status != http.StatusNotFound {
			t.Errorf("%s: %d", query, status)
		}
	}
	if status, body, _ := browse("").do(http.MethodGet, "/console/choices?in=buckets&kind=account", nil); status != http.StatusSeeOther || strings.Contains(body, "site-") {
		t.Errorf("without a session: %d %s", status, body)
	}
}

func TestChoicesOfKeys(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	o := browse(a.Config().Server.AdminToken.Reveal())
	o.want("an account", http.StatusOK, "", http.MethodPost, "/console/buckets/accounts?do=create", o.form("/console/buckets/accounts", "account", "main"))
	o.want("a bucket", http.StatusSeeOther, "", http.MethodPost, "/console/buckets/buckets?do=create", o.form("/console/buckets/buckets", "account", "main", "bucket", "photos"))
	const keys = "/console/buckets/keys?account=main"
	form := o.form(keys, "account", "main", "bucket", "photos", "right", "read list", "return-to", "account=main")
	page := o.want("the form", http.StatusOK, `name="bucket" type="checkbox" value="photos"`, http.MethodGet, keys, nil)
	for _, want := range []string{"<legend>In these buckets</legend>", `<option value="read list">`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	form.Set("network", "nowhere")
	page = o.want("a wrong network", http.StatusBadRequest, `<option value="read list" selected>`, http.MethodPost, "/console/buckets/keys?do=create", form)
	if !strings.Contains(page, `value="photos" checked`) || !strings.Contains(page, `<details class="details" open>`) {
		t.Errorf("the chosen bucket, and the field with the error:\n%s", page)
	}
	form.Del("network")
	o.want("a key", http.StatusOK, "Secret", http.MethodPost, "/console/buckets/keys?do=create", form)
	page = o.want("its limits", http.StatusOK, "buckets photos; rights read, list", http.MethodGet, keys, nil)
	show := regexp.MustCompile(`/console/buckets/keys/show\?[^"]+`).FindAllString(page, -1)
	limit := o.want("the page of the key", http.StatusOK, `name="right" type="checkbox" value="none"`, http.MethodGet, strings.ReplaceAll(show[len(show)-1], "&amp;", "&"), nil)
	if !strings.Contains(limit, `<option value="photos">`) || !strings.Contains(limit, "account=main&amp;field=bucket") {
		t.Errorf("no buckets of the account in\n%s", limit)
	}
}
