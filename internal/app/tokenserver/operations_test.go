package tokenserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/optional"
	"holdfast/internal/testdb"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

const (
	someAccount  = "0123456789abcdef0123456789abcdef"
	otherAccount = "fedcba9876543210fedcba9876543210"
)

type usedStorage struct {
	noStorage
	quota optional.Of[int64]
}

func (*usedStorage) IsOpen() bool { return true }

func (*usedStorage) Purge(context.Context, tokenserver.DueUser) error { return nil }

func (s *usedStorage) Usage(_ context.Context, u *tokenserver.User) (Usage, error) {
	return Usage{
		Bytes: 100 * u.UID, Quota: s.quota.Value, OwnQuota: s.quota.Set, ModifiedMillis: 1700000000000,
		Collections: []Collection{{"bookmarks", u.UID, 100 * u.UID}},
	}, nil
}

func (s *usedStorage) Totals(_ context.Context, users []tokenserver.User) (all []Total, _ error) {
	for i := range users {
		all = append(all, Total{Bytes: 100 * users[i].UID, Records: users[i].UID, Counted: true, ModifiedMillis: 1700000000000, Quota: s.quota})
	}
	return all, nil
}

func (s *usedStorage) SetQuota(_ context.Context, _ *tokenserver.User, bytes optional.Of[int64]) error {
	s.quota = bytes
	return nil
}

type operator struct {
	t *testing.T
	*servicetest.Operator
	*Accounts
}

func newOperator(t *testing.T, storage Storage) *operator {
	t.Helper()
	testdb.SQLite(t)
	s := New(storage)
	sv := s.Service()
	open := servicetest.Open(t, sv, nil)
	if err := open.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &operator{t, servicetest.NewOperator(t, sv, "../../tokenserver/httpapi/openapi-admin.json"), s}
}

func (o *operator) adopt(id string) tokenserver.User {
	o.t.Helper()
	account, err := o.opened.ParseAccount(id)
	if err != nil {
		o.t.Fatal(err)
	}
	u, err := o.opened.Adopt(o.t.Context(), account, 1, tokenserver.KeyID{})
	if err != nil {
		o.t.Fatal(err)
	}
	return u
}

func (o *operator) send(status int, method, path, body string, parts ...string) string {
	o.t.Helper()
	return o.Send(status, method, "/tokenserver/"+path, body, parts...).Text
}

func TestNodeRequests(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	var health atomic.Int64
	node := webtest.Serve(t, web.Service{
		Serve: func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
			web.SendJSONLine(w, int(health.Load()), []byte("{}"))
			return nil
		},
		Error: adminapi.WriteError, Route: func(string) string { return "" },
	}, web.Options{}).URL
	path := "nodes/" + url.PathEscape(node)
	health.Store(http.StatusServiceUnavailable)
	o.send(409, http.MethodPost, path, "", "answers 503, not 200: correct the URL", "nothing was added")
	health.Store(http.StatusOK)
	o.send(201, http.MethodPost, path, `{"capacity":5}`, `"node":"`+node+`","accounts":0,"capacity":5,"available":5,"down":false,"drained":false`)
	o.send(409, http.MethodPost, path, "", "already exists")
	o.send(200, http.MethodPost, path+"/drain", "", `"drained":true`)
	o.send(200, http.MethodGet, "nodes", "", `"node":"self"`, `"drained":true`, `"drained":false`)
	o.send(200, http.MethodPost, path+"/undo", "", `"drained":false`)
	o.send(404, http.MethodPost, "nodes/https:%2F%2Fa.example/drain", "", "does not exist")
	o.send(422, http.MethodPost, "nodes/a.example", "", "expected an http or https URL")
	o.send(422, http.MethodPost, "nodes/https:%2F%2Fa.example", `{"capacity":0,"noCheck":true}`, `"pointer":"/capacity"`, "must be at least 1")
	o.send(201, http.MethodPost, "nodes/https:%2F%2Fa.example", `{"noCheck":true}`, `"capacity":100000`)
}

func TestAccessRequests(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	o.send(200, http.MethodGet, "access", "", `{"accounts":[],"next":null}`)
	o.send(200, http.MethodPost, "access/"+someAccount+"/allow", `{"note":"my sister"}`, `{"account":"`+someAccount+`","label":"","access":"allow"}`)
	o.send(200, http.MethodPost, "access/"+otherAccount+"/deny", "", `"access":"deny"`)
	o.send(200, http.MethodGet, "access?limit=1", "", `"note":"my sister"`, `"next":"`+someAccount+`"`)
	o.send(200, http.MethodGet, "access?after="+someAccount, "", otherAccount, `"next":null`)
	o.send(200, http.MethodPost, "access/"+otherAccount+"/remove", "", `"access":"unlisted"`)
	o.send(422, http.MethodPost, "access/abc/allow", "", "account: no account here begins with this ID", "expected 32 hexadecimal digits")
	if text := o.send(200, http.MethodGet, "access", ""); strings.Contains(text, otherAccount) {
		t.Errorf("the removed account is in %s", text)
	}
	o.send(200, http.MethodGet, "refused?limit=5", "", `{"accounts":[]}`)
}

func TestAccountRequests(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	first, second := o.adopt(someAccount), o.adopt(otherAccount)
	o.send(200, http.MethodGet, "accounts?limit=1", "", someAccount, fmt.Sprintf(`"next":"%d"`, first.UID))
	o.send(200, http.MethodGet, fmt.Sprintf("accounts?after=%d", first.UID), "", otherAccount, `"bytes":200,"quota":null,"records":2`, `"replacedAt":null`, `"next":null`)
	o.send(200, http.MethodGet, "accounts?sort=bytes&limit=1", "", otherAccount, fmt.Sprintf(`"next":"200:%d"`, second.UID))
	o.send(200, http.MethodGet, "accounts?sort=bytes&limit=1&after=200:2", "", someAccount)
	o.send(200, http.MethodGet, "accounts?sort=bytes&reverse=true&limit=1", "", someAccount)
	o.send(200, http.MethodGet, "accounts?prefix=FE&limit=1", "", otherAccount, `"next":"`+otherAccount+"@")
	o.send(200, http.MethodGet, "accounts?prefix=fe&after="+otherAccount+"@zz", "", `"accounts":[],"next":null`)
	for query, says := range map[string]string{
		"sort=size": "expected used, bytes, records, created or id", "after=x": "expected a uid", "sort=bytes&after=5": "e.g. 5000:17", "prefix=x": "hexadecimal digits", "limit=0": "at least 1",
	} {
		o.send(422, http.MethodGet, "accounts?"+query, "", says)
	}
	o.send(200, http.MethodGet, "accounts/"+someAccount, "", `"access":"unlisted"`, `"bytes":100`, `"name":"bookmarks","records":1,"bytes":100`)
	o.send(200, http.MethodGet, fmt.Sprintf("accounts/%d", second.UID), "", otherAccount)
	o.send(404, http.MethodGet, "accounts/999999", "", "no account has the UID 999999")
	o.send(404, http.MethodGet, "accounts/"+strings.Repeat("0", 32), "", "is unknown")
	o.send(422, http.MethodGet, "accounts/abc", "", "expected 32 hexadecimal digits")

	quota := "accounts/" + someAccount + "/quota"
	o.send(200, http.MethodPost, quota, "", `"quota":0,"ownQuota":false`)
	o.send(200, http.MethodPost, quota, `{"quota":"2KiB"}`, `"quota":2048,"ownQuota":true`)
	o.send(200, http.MethodPost, quota, "", `"quota":2048`)
	o.send(200, http.MethodPost, fmt.Sprintf("users/%d/quota", first.UID), `{"quota":"none"}`, `"ownQuota":false`)
	o.send(422, http.MethodPost, quota, `{"quota":"lots"}`, `"pointer":"/quota"`, "expected a number of bytes")
	o.send(422, http.MethodPost, "users/0/quota", "", `"parameter":"uid"`, "must be at least 1")
	o.send(422, http.MethodPost, "users/1/quota", `{"fxaKid":"x"}`, `"pointer":"/fxaKid"`, "expected the key ID")
	o.send(404, http.MethodPost, "accounts/"+strings.Repeat("0", 32)+"/quota", "", "has no storage here")

	o.deps.Retained = func(services ...string) (service.Copies, error) {
		if !slices.Equal(services, []string{Name, "syncstorage"}) {
			t.Errorf("copies of %v", services)
		}
		return service.Copies{{Kind: service.InBackup, Where: "/backup", At: time.Unix(0, 0)}}, nil
	}
	o.send(200, http.MethodPost, "accounts/"+someAccount+"/delete", "", `{"account":"`+someAccount+`","users":1,"retained":[{"kind":"backup","where":"/backup","at":"1970-01-01T00:00:00Z"}]}`)
	o.send(404, http.MethodPost, "accounts/"+strings.Repeat("0", 32)+"/delete", "", "has no storage here")
	o.send(200, http.MethodGet, "accounts/"+someAccount, "", `"state":"deleted"`)
	if text := o.send(200, http.MethodGet, "accounts", ""); strings.Contains(text, someAccount) {
		t.Errorf("the deleted account is in %s", text)
	}
	o.send(200, http.MethodGet, "accounts?replaced=true", "", someAccount)
}

func TestLabelRequests(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	o.adopt(someAccount)
	o.adopt(otherAccount)
	label := "accounts/" + someAccount + "/label"
	o.send(200, http.MethodPost, label, `{"label":" Anna "}`, `{"account":"`+someAccount+`","label":"Anna"}`)
	o.send(200, http.MethodPost, "accounts/"+otherAccount+"/label", `{"label":"anna@example.org"}`)
	o.send(200, http.MethodGet, "accounts", "", `"label":"Anna"`, `"label":"anna@example.org"`)
	o.send(200, http.MethodGet, "accounts?label=ANN&limit=1", "", someAccount, `"next":"`+someAccount+` Anna"`)
	o.send(200, http.MethodGet, "accounts?label=ann&limit=1&after="+someAccount+"%20Anna", "", otherAccount)
	o.send(200, http.MethodGet, "accounts?label=b", "", `"accounts":[]`)
	o.send(200, http.MethodGet, "accounts/"+someAccount, "", `"label":"Anna","labelFrom":"operator"`)
	o.send(200, http.MethodPost, "access/"+someAccount+"/allow", "")
	o.send(200, http.MethodGet, "access", "", `"label":"Anna"`)
	for body, says := range map[string]string{`{"label":"a\u0000b"}`: "printable", `{"label":"` + strings.Repeat("a", 101) + `"}`: "at most 100"} {
		o.send(422, http.MethodPost, label, body, `"pointer":"/label"`, says)
	}
	o.send(422, http.MethodPost, "accounts/abc/label", `{"label":"a"}`, "expected 32 hexadecimal digits")
	o.send(422, http.MethodGet, "accounts?label=a&prefix=a", "", "must not be given with prefix")
	o.send(422, http.MethodGet, "accounts?label=a%0A", "", "printable")

	const labelledOnly = "00000000000000000000000000000000"
	o.send(200, http.MethodPost, "accounts/"+labelledOnly+"/label", `{"label":"annas brother"}`)
	o.send(200, http.MethodGet, "accounts/"+labelledOnly, "", `"label":"annas brother"`, `"users":[]`)
	if text := o.send(200, http.MethodGet, "accounts?label=ann", ""); strings.Contains(text, labelledOnly) {
		t.Errorf("an account without storage is in %s", text)
	}
	o.send(200, http.MethodPost, label, "", `"label":""`)
	o.send(200, http.MethodGet, "accounts/"+someAccount, "", `"label":"",`)
	o.send(200, http.MethodPost, "accounts/"+otherAccount+"/delete", "")
	o.send(200, http.MethodGet, "accounts/"+otherAccount, "", `"label":"",`)
}

// TestSortsFewAccounts checks that only commands sort accounts if that reads too many counters.
func TestSortsFewAccounts(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	o.adopt(someAccount)
	o.mostServed = 0
	o.send(200, http.MethodGet, "accounts?sort=created", "", someAccount)
	o.serves.Store(true)
	o.send(422, http.MethodGet, "accounts?sort=created", "", "there are more than 0 accounts", "--sort created")
	o.send(200, http.MethodGet, "accounts", "", someAccount)
	o.mostServed = 1
	o.send(200, http.MethodGet, "accounts?sort=created", "", someAccount)
}

func TestShowsAccountWithoutStorage(t *testing.T) {
	t.Parallel()
	o := newOperator(t, noStorage{})
	o.adopt(someAccount)
	out, err := o.showAccount(t.Context(), showInput{someAccount})
	if err != nil || len(out.Users) != 1 || out.Users[0].Stored.Cell().Text != "unknown: syncstorage is disabled on this server" {
		t.Errorf("%+v, %v", out, err)
	}
	var shown struct{ Users []map[string]any }
	if err := json.Unmarshal([]byte(o.send(200, http.MethodGet, "accounts/"+someAccount, "")), &shown); err != nil || shown.Users[0]["bytes"] != nil {
		t.Errorf("%+v, %v", shown, err)
	}
	o.send(409, http.MethodPost, "accounts/"+someAccount+"/quota", "", "syncstorage.enabled = true")
}
