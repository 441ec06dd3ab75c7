package ext

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
	"holdfast/internal/testdb"
)

// put stores records of 3 bytes (a value and its metadata) in the test's install.
func (a *adminAPI) put(namespace ext.Namespace, keys ...ext.Key) {
	a.t.Helper()
	for _, key := range keys {
		r := ext.Request{Grant: ext.Grant{Owner: someInstall, Every: ext.Modify}}
		if _, err := a.opened.Do(a.t.Context(), r, ext.Task{Namespace: namespace, Key: key, Value: "1"}); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *adminAPI) read(v any, status int, method, path, body string) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.send(status, method, path, body)), v); err != nil {
		a.t.Fatal(err)
	}
}

func TestInstallOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	tenant := string(someInstall.Tenant)
	install := "installs/" + tenant + "/" + string(someInstall.Install)
	a.send(404, http.MethodGet, install, "")
	a.send(404, http.MethodPost, install+"/restore", "")
	a.put("a", "k", "l")
	var d installDetail
	a.read(&d, 200, http.MethodGet, install, "")
	if d.State != stateUnknown || d.Bytes.Used != 6 || len(d.ByNamespace) != 1 || d.RevokedAt != nil || d.Access != nil || !d.Created.IsZero() {
		t.Errorf("%+v", d)
	}
	until := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	body := `{"bytes":1000,"keys":3,"until":"` + until.Format(time.RFC3339) + `","namespace":["c=","b=r","a=rw"]}`
	a.read(&d, 200, http.MethodPost, install+"/set", body)
	if d.State != stateRegistered || d.Bytes.Limit != 1000 || d.Keys.PerNamespace != 3 || d.Access.String() != "a=rw b=r c=" || d.Overrides == nil || !d.Overrides.Until.Equal(until) {
		t.Errorf("%+v", d)
	}
	d = installDetail{}
	a.read(&d, 200, http.MethodPost, install+"/set", "") // removes omitted values
	if d.Overrides != nil || d.Access != nil || d.Keys.PerNamespace == 3 {
		t.Errorf("%+v", d)
	}
	a.send(200, http.MethodPost, install+"/revoke", "")
	a.read(&d, 200, http.MethodPost, install+"/set", `{"tier":null}`)
	if d.State != stateRevoked || d.RevokedAt == nil {
		t.Errorf("%+v", d)
	}
	var all struct {
		Installs []installRow
		Next     *string
	}
	a.read(&all, 200, http.MethodGet, "installs?revoked=true&tenant="+tenant, "")
	if len(all.Installs) != 1 || all.Installs[0].State != stateRevoked || all.Installs[0].Schemas != nil || all.Next != nil {
		t.Errorf("%+v", all)
	}
	a.send(200, http.MethodPost, install+"/restore", "")
	a.read(&all, 200, http.MethodGet, "installs?limit=1", "")
	if len(all.Installs) != 1 || all.Installs[0].State != stateRegistered || all.Next == nil {
		t.Fatalf("%+v", all)
	}
	a.read(&all, 200, http.MethodGet, "installs?limit=1&after="+url.QueryEscape(*all.Next), "")
	if len(all.Installs) != 0 || all.Next != nil {
		t.Errorf("%+v", all)
	}
	a.send(422, http.MethodGet, "installs?after=x", "")
	a.send(422, http.MethodGet, "installs?tenant=x", "")
	a.send(422, http.MethodGet, "installs?holdings=true", "")

	other := "installs/" + tenant + "/" + string(owned(9).Install)
	a.send(200, http.MethodPost, other+"/revoke", "")
	a.send(200, http.MethodPost, other+"/set", `{"restore":true}`)
	for _, c := range []struct{ body, field, says string }{
		{`{"tiers":""}`, "/tiers", "unknown member"},
		{`{"tier":1}`, "/tier", "expected a text"},
		{`{"tier":"gold"}`, "/tier", "must be a tier from the setting extstorage.tiers, or empty"},
		{`{"bytes":-1}`, "/bytes", "must be at least 1"},
		{`{"bytes":0}`, "/bytes", "must be at least 1"},
		{`{"bytes":1,"namespaces":0}`, "/namespaces", "must be at least 1"},
		{`{"bytes":1,"keys":0}`, "/keys", "must be at least 1"},
		{`{"bytes":1.5}`, "/bytes", "expected a whole number"},
		{`{"until":"` + until.Format(time.RFC3339) + `"}`, "/until", "must contain bytes, namespaces or keys in addition to until"},
		{`{"bytes":1,"until":"2020-01-01T00:00:00Z"}`, "/until", "must be in the future"},
		{`{"bytes":1,"until":"2999-01-01T00:00:00Z"}`, "/until", "must be at most 14 days in the future"},
		{`{"until":"tomorrow"}`, "/until", "expected a time, e.g."},
		{`{"namespace":["a=x"]}`, "/namespace", "a=x: access must be r, w or rw"},
		{`{"namespace":["A=r"]}`, "/namespace", "A=r: must be 1 to 64 characters"},
		{`{"namespace":"a=r"}`, "/namespace", "expected a list of words"},
		{`{"restore":"yes"}`, "/restore", "expected true or false"},
	} {
		if text := a.send(422, http.MethodPost, install+"/set", c.body); !strings.Contains(text, c.says) || !strings.Contains(text, `"`+c.field+`"`) {
			t.Errorf("%s: %s", c.body, text)
		}
	}
	for _, path := range []string{"installs/x/" + string(someInstall.Install), "installs/" + tenant + "/x"} {
		a.send(422, http.MethodGet, path, "")
		a.send(422, http.MethodPost, path+"/delete", "")
	}
}

// TestQuotaOperation checks that changing a quota keeps all other settings, including concurrent changes.
func TestQuotaOperation(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	install := "installs/" + string(someInstall.Tenant) + "/" + string(someInstall.Install)
	if text := a.send(404, http.MethodPost, install+"/quota", `{"bytes":1}`); !strings.Contains(text, "register it with ext installs set") {
		t.Error(text)
	}
	until := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	a.send(200, http.MethodPost, install+"/set", `{"bytes":1000,"until":"`+until.Format(time.RFC3339)+`","namespace":["a=rw"]}`)
	a.send(200, http.MethodPost, install+"/revoke", "")
	change := func(body string) (d installDetail) {
		t.Helper()
		a.read(&d, 200, http.MethodPost, install+"/quota", body)
		if d.State != stateRevoked || d.Access.String() != "a=rw" {
			t.Errorf("%s: the access is %v, %v", body, d.State, d.Access)
		}
		return d
	}
	if d := change(`{"keys":3}`); d.Bytes.Limit != 1000 || d.Keys.PerNamespace != 3 || !d.Overrides.Until.Equal(until) {
		t.Errorf("%+v", d)
	}
	later := until.Add(time.Hour)
	if d := change(`{"until":"` + later.Format(time.RFC3339) + `"}`); d.Bytes.Limit != 1000 || !d.Overrides.Until.Equal(later) {
		t.Errorf("%+v", d)
	}
	if d := change(`{"reset":true}`); d.Overrides != nil || d.Tier != "" || d.Bytes.Limit == 1000 {
		t.Errorf("%+v", d)
	}
	fields := []string{"bytes", "namespaces", "keys"}
	errs := testdb.Concurrently(len(fields), func(i int) error {
		_, err := a.opened.ChangeQuota(t.Context(), someInstall, ext.QuotaChange{Overrides: ext.Overrides{Quota: []ext.Quota{{Bytes: 7}, {Namespaces: 7}, {Keys: 7}}[i]}})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var d installDetail
	a.read(&d, 200, http.MethodGet, install, "")
	if d.Bytes.Limit != 7 || d.Namespaces.Limit != 7 || d.Keys.PerNamespace != 7 {
		t.Errorf("after changes of %v together: %+v", fields, d)
	}
	for body, says := range map[string]string{
		"": "give a tier, a quota", `{"tier":"gold"}`: "must be a tier from the setting", `{"bytes":0}`: "must be at least 1",
		`{"until":"2999-01-01T00:00:00Z"}`: "at most 14 days", `{"reset":true,"until":"` + until.Format(time.RFC3339) + `"}`: "must contain bytes",
	} {
		if text := a.send(422, http.MethodPost, install+"/quota", body); !strings.Contains(text, says) {
			t.Errorf("%s: %s", body, text)
		}
	}
	a.send(200, http.MethodPost, install+"/delete", "")
	a.send(409, http.MethodPost, install+"/quota", `{"bytes":1}`)
}

func owned(n byte) ext.Owner {
	o := someInstall
	o.Install = ext.InstallID(string(o.Install)[:35] + string('0'+n))
	return o
}

func TestDeleteOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	tenant := "tenants/" + string(someInstall.Tenant)
	install := "installs/" + string(someInstall.Tenant) + "/" + string(someInstall.Install)
	for _, path := range []string{install, tenant} {
		if text := a.send(404, http.MethodPost, path+"/delete", ""); !strings.Contains(text, "is unknown, without data or registration") {
			t.Error(text)
		}
	}
	a.send(404, http.MethodGet, tenant, "")
	a.put("a", "k")
	var d deletionOutput
	a.read(&d, 200, http.MethodPost, install+"/delete", `{"dryRun":true}`)
	if one := (ext.Holdings{Records: 1, Bytes: 3, Changes: 1}); d.State != "active" || d.Holdings != one || !d.StartedAt.IsZero() {
		t.Errorf("%+v", d)
	}
	a.read(&d, 200, http.MethodPost, install+"/delete", "")
	if d.State != stateDeleted || d.Records != 1 || d.Install != string(someInstall.Install) || d.FinishedAt.IsZero() {
		t.Errorf("%+v", d)
	}
	a.send(409, http.MethodPost, install+"/set", "")
	a.send(200, http.MethodPost, install+"/restore", "")
	a.put("a", "k")
	a.send(409, http.MethodPost, tenant+"/restore", "")
	d = deletionOutput{}
	a.read(&d, 200, http.MethodPost, tenant+"/delete", "")
	if d.State != stateDeleted || d.Records != 1 || d.Installs != 1 || d.Install != "" {
		t.Errorf("%+v", d)
	}
	var shown tenantDetail
	a.read(&shown, 200, http.MethodGet, tenant, "")
	if shown.State != stateDeleted || shown.Offers("delete") || !shown.Offers("restore") {
		t.Errorf("%+v", shown)
	}
	a.send(409, http.MethodPost, install+"/restore", "") // because the tenant is deleted
	schemas := strings.Replace(install, "installs/", "schemas/", 1) + "/settings"
	for _, path := range []string{schemas, schemas + "/1", schemas + "/export"} {
		a.send(404, http.MethodGet, path, "")
	}
	for _, path := range []string{schemas + "/1/delete", schemas + "/delete-all", strings.Replace(install, "installs/", "tokens/", 1) + "/an-id/revoke-id"} {
		a.send(404, http.MethodPost, path, "")
	}
	a.send(200, http.MethodPost, tenant+"/restore", "")
	a.send(200, http.MethodPost, install+"/restore", "")
	unknown := "tenants/" + string(someInstall.Install) // not a tenant's ID
	a.send(404, http.MethodPost, unknown+"/delete", `{"dryRun":true}`)
	a.send(200, http.MethodPost, unknown+"/delete", `{"allowMissing":true}`)

	var all struct {
		Tenants []tenantOutput
		Next    *string
	}
	a.read(&all, 200, http.MethodGet, "tenants?limit=1", "")
	if len(all.Tenants) != 1 || all.Tenants[0].Tenant != string(someInstall.Tenant) || all.Next == nil {
		t.Fatalf("%+v", all)
	}
	a.read(&all, 200, http.MethodGet, "tenants?after="+*all.Next, "")
	if len(all.Tenants) != 0 {
		t.Errorf("%+v", all)
	}
	a.send(422, http.MethodGet, "tenants?after=x", "")
}

func TestUsageOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	a.put("a", "k")
	var all struct{ Installs []installRow }
	a.read(&all, 200, http.MethodGet, "usage", "")
	if len(all.Installs) != 1 || all.Installs[0].Bytes.Used != 3 {
		t.Errorf("%+v", all)
	}
	audit := func(body string, parts ...string) {
		t.Helper()
		begun := a.Send(202, http.MethodPost, "/ext/usage/audit", body)
		for text := begun.Text; ; text = a.Send(200, http.MethodGet, begun.Location, "").Text {
			if t.Context().Err() != nil || strings.Contains(text, `"ended"`) {
				for _, part := range parts {
					if !strings.Contains(text, part) {
						t.Errorf("no %s in %s", part, text)
					}
				}
				return
			}
		}
	}
	audit("", `"state":"done"`, `"found":[]`, `"result":{"audited":1,"different":0}`)
	install := `{"tenant":"` + string(someInstall.Tenant) + `","install":"` + string(someInstall.Install) + `"}`
	audit(install, `"state":"done"`, `"result":{"audited":1,"different":0}`)
	c, err := sqlite.OpenConn(filepath.Join(a.deps.Data, "extstorage.db"), sqlite.OpenReadWrite)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteTransient(c, `UPDATE ext_storage_usage SET bytes_used = 7`, nil), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	found := `"right":false,"counters":{"bytes":7,"keys":1,"namespaces":1},"rows":{"bytes":3,"keys":1,"namespaces":1}`
	audit("", `"state":"failed"`, "the counters differ from the rows for 1 of 1 install", found)
	audit(install, `"state":"failed"`, "the install's counters differ from the rows", found)
	for body, says := range map[string]string{`{"install":"x"}`: "requires a tenant", `{"tenant":"x"}`: "must be a UUID", `{"all":true}`: "unknown member"} {
		if text := a.send(422, http.MethodPost, "usage/audit", body); !strings.Contains(text, says) {
			t.Errorf("%s: %s", body, text)
		}
	}
}

func TestSchemaOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	schemas := "schemas/" + string(someInstall.Tenant) + "/" + string(someInstall.Install) + "/settings"
	var all struct{ Schemas []schemaOutput }
	a.read(&all, 200, http.MethodGet, schemas, "")
	if all.Schemas == nil || len(all.Schemas) != 0 {
		t.Errorf("%+v", all)
	}
	upload := func(status int, query, document string) string {
		t.Helper()
		return a.upload(status, schemas+"/put"+query, "application/schema+json", document)
	}
	var c schemaChange
	if err := json.Unmarshal([]byte(upload(200, "?activate=true", `{"type":"object"}`)), &c); err != nil || c.Version != 1 || c.Status != "active" {
		t.Errorf("%+v, %v", c, err)
	}
	upload(200, "", `{"type":"string"}`)
	for document, says := range map[string]string{"": "the schema is empty", "{": "JSON", `{"type":"nothing"}`: "/type", strings.Repeat(" ", 4*ext.MaxSchemaBytes+1): "larger than"} {
		status := 422
		if strings.Contains(says, "larger") {
			status = 413
		}
		if text := upload(status, "", document); !strings.Contains(text, says) {
			t.Errorf("%.20s: %s", document, text)
		}
	}
	a.read(&all, 200, http.MethodGet, schemas, "")
	if len(all.Schemas) != 2 || all.Schemas[0].Status != "draft" || all.Schemas[1].Status != "active" || all.Schemas[1].Offers("activate") || !all.Schemas[0].Offers("activate") {
		t.Errorf("%+v", all)
	}
	var d schemaDetail
	a.read(&d, 200, http.MethodGet, schemas+"/1", "")
	if string(d.Schema) != `{"type":"object"}` {
		t.Errorf("%+v", d)
	}
	if text := a.send(200, http.MethodGet, schemas+"/export", ""); text != `{"type":"string"}`+"\n"+`{"type":"object"}` {
		t.Errorf("exported is %s", text)
	}
	var check schemaCheck
	a.read(&check, 200, http.MethodGet, schemas+"/2/check", "")
	if check.Version != 2 || check.Status != "draft" || check.Active != 1 || check.Effect != "breaking" || len(check.Changes) == 0 || check.Failed != 0 || check.Next != "" {
		t.Errorf("%+v", check)
	}
	if text := a.send(422, http.MethodGet, schemas+"/2/check?after=x", ""); !strings.Contains(text, `"parameter":"after"`) {
		t.Error(text)
	}
	a.send(404, http.MethodGet, schemas+"/7/check", "")
	a.send(200, http.MethodPost, schemas+"/2/activate", "")
	a.send(200, http.MethodPost, schemas+"/2/deprecate", "")
	a.send(409, http.MethodPost, schemas+"/2/delete", "")
	a.send(200, http.MethodPost, schemas+"/1/delete", "")
	for _, verb := range []string{"activate", "deprecate", "delete"} {
		a.send(404, http.MethodPost, schemas+"/7/"+verb, "")
	}
	a.send(404, http.MethodGet, schemas+"/7", "")
	a.send(422, http.MethodGet, schemas+"/0", "")
	a.send(422, http.MethodGet, strings.Replace(schemas, "settings", "UPPER", 1), "")
	if text := a.send(200, http.MethodPost, schemas+"/delete-all", ""); text != `{"namespace":"settings","deleted":1}` {
		t.Error(text)
	}
}

func (a *adminAPI) upload(status int, path, kind, file string) string {
	a.t.Helper()
	return a.Upload(status, "/ext/"+path, kind, file).Text
}

func TestTransferOperations(t *testing.T) {
	t.Parallel()
	a := newAdminAPI(t)
	a.put("a", "k", "l")
	from := "installs/" + string(someInstall.Tenant) + "/" + string(someInstall.Install)
	to := "installs/" + string(someInstall.Tenant) + "/" + string(owned(7).Install)
	whole := a.send(200, http.MethodGet, from+"/export", "")
	lines := strings.SplitAfter(whole, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[3], `{"complete":true,"records":2`) {
		t.Fatal(whole)
	}
	const media = "application/x-ndjson"
	if text := a.upload(422, to+"/import", media, lines[0]+lines[1]); !strings.Contains(text, "incomplete import: received 1 record of 2") {
		t.Error(text)
	}
	if text := a.upload(422, to+"/import", media, lines[1]+`{"namespace":"a","key":"x/y","value":1}`); !strings.Contains(text, "line 2: /key") {
		t.Error(text)
	}
	if text := a.upload(200, to+"/import?preserve=true", media, whole); text != `{"lines":4,"records":2,"written":2,"unchanged":0,"expired":0,"newer":0,"schemas":0,"unmatched":[]}` {
		t.Error(text)
	}
	if text := a.upload(200, to+"/import?preserve=true", media, whole); !strings.Contains(text, `"written":0,"unchanged":2,`) {
		t.Error(text)
	}
	a.upload(422, to+"/import?preserve=maybe", media, whole)
	a.send(200, http.MethodPost, to+"/revoke", "")
	a.upload(409, to+"/import", media, whole)
	if text := a.send(200, http.MethodGet, to+"/export", ""); !strings.Contains(text, `"key":"l"`) {
		t.Error(text)
	}

	in := map[string]string{"tenant": string(someInstall.Tenant), "install": string(owned(8).Install)}
	for i := range a.all {
		if o := &a.all[i]; o.Path == "installs/import" {
			cut := io.MultiReader(strings.NewReader(whole), iotest.ErrReader(errors.New("the connection was cut")))
			if _, err := o.Upload(t.Context(), in, operate.Body{Reader: cut}, nil); err == nil {
				t.Error("a body that breaks after its last line is imported")
			}
		}
	}
}
