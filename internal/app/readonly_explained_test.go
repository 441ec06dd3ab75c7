package app

import (
	"bytes"
	"errors"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/console"
	"holdfast/internal/db/rows"
	"holdfast/internal/readonly"
)

// upload is a form of the console that takes a file, and the same request of the API.
type upload struct {
	service string // whose database it writes
	fields  []string
	file    string
	api     string // "": the API has no such route
}

const (
	uploadTenant  = "11111111-2222-4333-8444-555555555555"
	uploadID      = "aaaaaaaa-2222-4333-8444-555555555555"
	storageExport = `{"export":1,"records":1,"exportedAt":1}
{"collection":"tabs","modified":1700000000000}
{"collection":"tabs","id":"a","payload":"x","modified":1700000000000}
{"complete":true,"collections":1,"records":1}
`
)

var uploads = map[string]upload{
	"buckets/objects?upload": {"buckets", []string{"account", "main", "bucket", "pictures"}, "x", ""},
	"buckets/objects?put":    {"buckets", []string{"account", "main", "bucket", "pictures", "object", "b.txt"}, "x", "/buckets/objects/main/pictures/b.txt/put"},
	"extstorage/records?put": {
		"extstorage", []string{"tenant", uploadTenant, "install", uploadID, "namespace", "settings", "key", "b"},
		"1", "/ext/records/" + uploadTenant + "/" + uploadID + "/settings/b/put",
	},
	"extstorage/installs?import": {
		"extstorage", []string{"tenant", uploadTenant, "install", uploadID},
		`{"namespace":"settings","key":"a","value":1}` + "\n" + `{"complete":true,"records":1}` + "\n", "/ext/installs/" + uploadTenant + "/" + uploadID + "/import",
	},
	"extstorage/schemas?put": {
		"extstorage", []string{"tenant", uploadTenant, "install", uploadID, "namespace", "settings"},
		`{"type":"object"}`, "/ext/schemas/" + uploadTenant + "/" + uploadID + "/settings/put",
	},
	"tokenserver/accounts?import": {
		"tokenserver", []string{"account", someAccount},
		strings.Replace(storageExport, `"records":1,`, `"account":"`+someAccount+`","keys":"0000000000001-AAAAAAAAAAAAAAAAAAAAAA","generation":1,"records":1,`, 1), "/tokenserver/accounts/" + someAccount + "/import",
	},
	"tokenserver/users?import": {"syncstorage", []string{"uid", "77"}, storageExport, "/tokenserver/users/77/import"},
}

// wantUploads checks that every upload of the console is in uploads.
func wantUploads(t *testing.T, c *console.Console) {
	t.Helper()
	for i := range c.Sections {
		s := &c.Sections[i]
		for j := range s.Pages {
			for _, action := range s.Pages[j].Actions {
				if name := strings.TrimPrefix(consolePath(s, &s.Pages[j]), "/console/") + "?" + action.Name; action.Uploads && uploads[name].file == "" {
					t.Errorf("%s is not tested", name)
				}
			}
		}
	}
}

// serve sends a request from this machine.
func (o *operator) serve(r *http.Request) (int, string) {
	r.Host, r.RemoteAddr = "127.0.0.1:8001", "127.0.0.1:50000"
	w := httptest.NewRecorder()
	o.h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// upload sends the form of an upload. name is a key of uploads.
func (o *operator) upload(name string, u *upload) (int, string) {
	o.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	fields := append([]string{"csrf", o.form("/console/").Get("csrf")}, u.fields...)
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			o.t.Fatal(err)
		}
	}
	file, err := w.CreateFormFile("file", "a.txt")
	if err == nil {
		_, err = file.Write([]byte(u.file))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		o.t.Fatal(err)
	}
	page, action, _ := strings.Cut(name, "?")
	r := httptest.NewRequest(http.MethodPost, "/console/"+page+"?do="+action, &body)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Origin", "http://127.0.0.1:8001")
	r.Header.Set("Cookie", o.cookie)
	return o.serve(r)
}

// TestReadOnlyUploads walks everything that makes a service read-only and every upload of the console. The refusal in the
// page and in the API names who did it, since when, and how to end it.
func TestReadOnlyUploads(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	token := a.Config().Server.AdminToken.Reveal()
	o := browse(token)
	wantUploads(t, a.console)
	o.want("an account", http.StatusOK, "Secret key", http.MethodPost, "/console/buckets/accounts?do=create", o.form("/console/", "account", "main"))
	o.want("a bucket", http.StatusSeeOther, "", http.MethodPost, "/console/buckets/buckets?do=create", o.form("/console/", "account", "main", "bucket", "pictures"))
	o.want("a node", http.StatusSeeOther, "", http.MethodPost, "/console/tokenserver/nodes?do=add", o.form("/console/", "node", "https://sync.example.org", "no-check", "yes"))
	for _, c := range []struct {
		name     string
		set, end func(s *opened) error
		says     string // a regular expression, with SERVICE
	}{
		{
			"an operator", func(s *opened) error {
				o.want("on", http.StatusSeeOther, "", http.MethodPost, "/console/read-only?do=on", o.form("/console/", "service", s.Name))
				return nil
			}, func(s *opened) error { return s.Rows().Reopen(t.Context(), s.Name, s.Tables) },
			`SERVICE is read-only, by an operator \(admin session 1\) since TIME; run holdfast read-only off SERVICE, or end it on the console page Read-only`,
		},
		{
			"a command", func(s *opened) error {
				return s.Rows().Close(t.Context(), s.Name, readonly.ByOperator, 0, s.Tables)
			}, func(s *opened) error {
				return a.readOnly.Set(t.Context(), s.Name, false)
			}, `SERVICE is read-only, by an operator( \(admin session 1\))? since TIME; run holdfast read-only off SERVICE`,
		},
		{
			"the setting", func(*opened) error {
				a.readOnly.Setting.Store(true)
				a.readOnly.Where = func() string { return "holdfast.toml line 3" }
				return failedToSettle(a.readOnly.Settle(t.Context()))
			}, func(*opened) error {
				a.readOnly.Setting.Store(false)
				return failedToSettle(a.readOnly.Settle(t.Context()))
			}, `[a-z]+ is read-only, by server.read_only \(holdfast.toml line 3\) since TIME; remove server.read_only from the configuration and reload the server`,
		},
		{
			"a copy", func(s *opened) error {
				return s.Rows().Close(t.Context(), s.Name, readonly.ByCopy("1"), time.Hour, s.Tables)
			}, func(s *opened) error { return s.Rows().Reopen(t.Context(), s.Name, s.Tables) },
			`SERVICE is read-only, by holdfast copy since TIME, until TIME if it is not prolonged; wait until the copy ends`,
		},
		{
			"a copy that ended", func(s *opened) error {
				return s.Rows().Close(t.Context(), s.Name, readonly.ByCopy("1"), 0, s.Tables)
			}, func(s *opened) error { return s.Rows().Reopen(t.Context(), s.Name, s.Tables) },
			`SERVICE is read-only, by holdfast copy since TIME; set the database_url printed by holdfast copy, or continue with this database: holdfast copy SERVICE --reopen`,
		},
	} {
		for name, u := range uploads {
			s := a.opened[slices.IndexFunc(a.opened, func(s *opened) bool { return s.Name == u.service })]
			if err := c.set(s); err != nil {
				t.Fatal(err)
			}
			says := regexp.MustCompile("(?i)" + strings.NewReplacer("SERVICE", u.service, "TIME", "20[0-9T:-]+Z").Replace(c.says))
			if status, body := o.upload(name, &u); status != http.StatusServiceUnavailable || !says.MatchString(body) {
				t.Errorf("%s, %s: %d, want 503 and %s in\n%s", name, c.name, status, says, body)
			}
			if u.api != "" {
				r := httptest.NewRequest(http.MethodPost, u.api, strings.NewReader(u.file))
				r.Header.Set("Authorization", "Bearer "+token)
				if status, body := o.serve(r); status != http.StatusServiceUnavailable || !says.MatchString(body) {
					t.Errorf("%s, %s: %d, want 503 and %s in\n%s", u.api, c.name, status, says, body)
				}
			}
			if err := c.end(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, u := range uploads {
		if status, body := o.upload(name, &u); status == http.StatusServiceUnavailable {
			t.Errorf("%s, after all: %d\n%s", name, status, body)
		}
	}
	if err := a.readOnly.Explain(t.Context(), "buckets", rows.ErrReadOnly); !strings.Contains(err.Error(), "buckets was read-only for a moment") || !errors.Is(err, rows.ErrReadOnly) {
		t.Error(err)
	}
}

func failedToSettle(failed map[string]error) (err error) {
	for _, e := range failed {
		err = errors.Join(err, e)
	}
	return err
}
