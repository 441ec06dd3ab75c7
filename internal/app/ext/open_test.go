//test:unraced SQLite takes twenty times as long under the race detector

package ext

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/broker"
	"holdfast/internal/conf"
	"holdfast/internal/engines/nats"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/schemas"
	"holdfast/internal/ident"
	"holdfast/internal/jsonschema"
	"holdfast/internal/operate"
	"holdfast/internal/testdb"
)

// TestMain also serves as the child process that tries schemas, because the server reruns its own program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == trialCommandName {
		if err := jsonschema.Main(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var someInstall = ext.Owner{Tenant: "7e000000-0000-4000-8000-000000000001", Install: "7e000000-0000-4000-8000-000000000011"}

type server struct {
	*Extensions
	*servicetest.Server
}

func open(t *testing.T, change func(*service.Deps), environ ...string) *server {
	t.Helper()
	x := New()
	x.UseBrokers(brokers)
	return &server{x, servicetest.Open(t, x.Service(), change, environ...)}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		bearer.ErrSignature:                         "bearer-signature",
		fmt.Errorf("detail: %w", bearer.ErrExpired): "bearer-expired",
		ext.ErrRevoked:                              "install-revoked",
		errcode.New(errcode.Quota, "full"):          "",
	} {
		if got := refusals.Reason(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func TestTokenKeys(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(t.TempDir(), "public.pem")
	if err := os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	a := open(t, nil, "HOLDFAST_EXTSTORAGE__TOKEN_KEYS__PLATFORM__ALG=EdDSA", "HOLDFAST_EXTSTORAGE__TOKEN_KEYS__PLATFORM__KEY_FILE="+public,
		"HOLDFAST_EXTSTORAGE__TOKEN_KEYS__PLATFORM__ID=2026-Q4")
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{
		{ID: "2026-Q4", Alg: bearer.EdDSA, Text: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	token, err := theirs.Sign(map[string]any{"tenant_id": someInstall.Tenant}, time.Now(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := a.tokens.Verify(token, time.Now()); err != nil || c.KeyID != "2026-Q4" {
		t.Errorf("their token: %+v, %v", c, err)
	}
	own, err := a.makeToken(tokenRequest{Owner: someInstall, Namespaces: map[ext.Namespace]ext.Access{"a": ext.Read}, Lifetime: operate.Lifetime{TTL: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.tokens.Verify(own.Token, time.Now())
	if err != nil || c.KeyID != ext.OwnTokenKey(a.cfg.TokenSecret) || !c.Expires.Equal(own.Expires) || c.ID == "" || c.ID != own.ID {
		t.Fatalf("our token: %+v, %v", c, err)
	}
	if g, err := ext.ParseGrant(c.Raw); err != nil || g.Owner != someInstall || g.In("a") != ext.Read || g.In("b") != 0 {
		t.Errorf("it grants %+v, %v", g, err)
	}
	if _, err := a.makeToken(tokenRequest{Owner: ext.Owner{Tenant: someInstall.Tenant}, Service: "Run ner", Lifetime: operate.Lifetime{TTL: time.Minute}}); err == nil || !strings.Contains(err.Error(), "service: invalid name") {
		t.Errorf("a service of a bad name: %v", err)
	}
}

// TestOldTokenSecrets checks that tokens from both secrets are valid on all processes during a change.
func TestOldTokenSecrets(t *testing.T) {
	t.Parallel()
	const secret, old = "HOLDFAST_EXTSTORAGE__TOKEN_SECRET=", "HOLDFAST_EXTSTORAGE__OLD_TOKEN_SECRETS="
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	before := open(t, nil, secret+first, old+second)
	after := open(t, nil, secret+second, old+first+","+second+","+first)
	dropped := open(t, nil, secret+second)
	for _, signer := range []struct {
		a     *server
		by    string
		still error
	}{{before, first, bearer.ErrSignature}, {after, second, nil}} {
		made, err := signer.a.makeToken(tokenRequest{Owner: someInstall, Namespaces: map[ext.Namespace]ext.Access{"a": ext.Read}, Lifetime: operate.Lifetime{TTL: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []*server{before, after} {
			if c, err := a.tokens.Verify(made.Token, time.Now()); err != nil || c.KeyID != ext.OwnTokenKey(signer.by) {
				t.Errorf("signed by %s: %+v, %v", signer.by, c, err)
			}
		}
		if _, err := dropped.tokens.Verify(made.Token, time.Now()); !errors.Is(err, signer.still) {
			t.Errorf("signed by %s, after the change: %v", signer.by, err)
		}
	}
}

func TestExtProblems(t *testing.T) {
	t.Parallel()
	const key = "HOLDFAST_EXTSTORAGE__TOKEN_KEYS__K__"
	secret := strings.Repeat("hunter2", 5)
	for _, tc := range []struct {
		environ []string
		want    string
	}{
		{[]string{key + "ALG=HS256", key + "KEY=hunter2"}, "token_keys.k"},
		{[]string{key + "ALG=none", key + "KEY=" + secret}, "alg must be"},
		{[]string{key + "ALG=HS256", key + "KEY=" + secret, key + "ID=own-2"}, "must not begin with own-"},
		{[]string{"HOLDFAST_EXTSTORAGE__TOKEN_SECRET=hunter2"}, "TOKEN_SECRET: must be at least 32 bytes"},
		{[]string{"HOLDFAST_EXTSTORAGE__OLD_TOKEN_SECRETS=hunter2"}, "OLD_TOKEN_SECRETS: must be at least 32 bytes"},
		{[]string{"HOLDFAST_EXTSTORAGE__AUDIT=somewhere"}, "AUDIT: must be empty, log, file:PATH, pubsub://PROJECT/TOPIC or nats://HOST:PORT/TOPIC"},
		{[]string{"HOLDFAST_EXTSTORAGE__RATES__READ_BURST=0"}, "READ_BURST: must be more than 0"},
	} {
		_, err := servicetest.Load(New().Service(), tc.environ...)
		wrong, ok := errors.AsType[*conf.Error](err)
		if !ok {
			t.Errorf("%v: %v", tc.environ, err)
			continue
		}
		var all strings.Builder
		for _, p := range wrong.Problems {
			all.WriteString(p.String() + "\n")
		}
		if !strings.Contains(all.String(), tc.want) || strings.Contains(all.String(), "hunter2") || len(wrong.Problems) != 1 {
			t.Errorf("%v: %s", tc.environ, &all)
		}
	}
	x := New()
	_, err := servicetest.Load(x.Service(), key+"ALG=HS256", key+"KEY="+secret, "HOLDFAST_EXTSTORAGE__TIERS__LARGE__BYTES=7", "HOLDFAST_EXTSTORAGE__RATES__WRITE_BURST=9")
	if err != nil || x.cfg.QuotaOf("large").Bytes != 7 || x.cfg.Rates.WriteBurst != 9 || x.cfg.TokenKeys["k"].Key != secret {
		t.Errorf("%+v, %v", x.cfg, err)
	}
}

// TestNoTokenByAKeyThatIsNotKept checks that an unsaved key creates no tokens, because no server would accept them.
func TestNoTokenByAKeyThatIsNotKept(t *testing.T) {
	t.Parallel()
	a := open(t, func(d *service.Deps) { d.Unsaved = map[string]bool{tokenSecret: true} })
	if _, err := a.makeToken(tokenRequest{Owner: someInstall, Lifetime: operate.Lifetime{TTL: time.Minute}}); err == nil || !strings.Contains(err.Error(), "start the server once to add it") {
		t.Errorf("a token: %v", err)
	}
}

// TestSchemas also checks that the program tries schemas in another process.
func TestSchemas(t *testing.T) {
	t.Parallel()
	j := schemas.NewValidator(0, trialCommand)
	document := []byte(`{"properties":{"n":{"type":"integer"}}}`)
	wantPlace := func(err error, pointer string) {
		t.Helper()
		if e, ok := err.(*ext.ValidationError); !ok || e.Pointer != pointer || e.Reason == "" {
			t.Errorf("%#v, want a refusal at %s", err, pointer)
		}
	}
	// On a busy machine a trial may time out.
	try := func(document string, samples ...[]byte) (err error) {
		for range 20 {
			if err = j.Trial(t.Context(), []byte(document), samples); !errcode.Is(err, errcode.Unavailable) {
				break
			}
		}
		return err
	}
	if err := errors.Join(j.Check(document), j.Validate(t.Context(), someInstall.Tenant, document, `{"n":1}`), try(string(document), []byte(`{"n":"x"}`))); err != nil {
		t.Error(err)
	}
	wantPlace(j.Check([]byte(`{"properties":{"n":{"type":"number or so"}}}`)), "/properties/n/type")
	if e, ok := errors.AsType[*ext.SchemaError](j.Validate(t.Context(), someInstall.Tenant, document, `{"n":"x"}`)); !ok || e.Failures[0].Location != "/n" {
		t.Errorf("%#v, want a refusal at /n", e)
	}
	wantPlace(try(`{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#"}}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`), "")
	c, err := j.Compatible(document, []byte(`{"properties":{"n":{"type":"string"}}}`))
	if err != nil || c.Effect != "breaking" || len(c.Changes) != 2 || c.Changes[0].Pointer != "/properties/n/type" {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = j.Compatible(document, []byte(`{"type":1}`))
	wantPlace(err, "/type")
}

// TestExtMetrics also checks that totals are at most a minute old.
func TestExtMetrics(t *testing.T) {
	t.Parallel()
	at := time.Now()
	a := open(t, func(d *service.Deps) { d.Clock = func() time.Time { return at } })
	main, internal := a.Handler(service.Main), a.Handler(service.Internal)
	token, err := a.makeToken(tokenRequest{Owner: someInstall, Namespaces: map[ext.Namespace]ext.Access{"a": ext.Read | ext.Modify}, Lifetime: operate.Lifetime{TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(status int, method, path, body string) {
		t.Helper()
		r := httptest.NewRequest(method, "http://127.0.0.1/ext/v1/installs/"+string(someInstall.Install)+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token.Token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if main.ServeHTTP(w, r); w.Code != status {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	a.WantMetric(t, `storage_namespace_keys 0`)
	for i := range 3 {
		send(http.StatusCreated, "PUT", fmt.Sprintf("/namespaces/a/records/k%d", i), `{"value":1}`)
	}
	send(http.StatusOK, "GET", "/namespaces/a/records", "")
	send(http.StatusBadRequest, "PUT", "/namespaces/a/records/k", `{"value":`)
	send(http.StatusNotFound, "GET", "/namespaces/a/records/none", "")
	send(http.StatusBadRequest, "POST", "/namespaces/a/records", `{"items":[{"key":"x","value":1},{"key":"y/z","value":1}]}`)
	token.Token = strings.Replace(token.Token, ".", ".e30", 1)
	send(http.StatusUnauthorized, "GET", "/usage", "")
	runner, err := a.makeToken(tokenRequest{Owner: ext.Owner{Tenant: someInstall.Tenant}, Service: "runner", Lifetime: operate.Lifetime{TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/internal/ext-storage/install/"+string(someInstall.Install), strings.NewReader(`{"operation":"usage"}`))
	r.Header.Set("X-Runner-Auth", runner.Token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if internal.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("a service: %d %s", w.Code, w.Body)
	}
	for _, line := range []string{
		`storage_host_ops_total{operation="usage",result="ok"} 1`,
		`storage_host_ops_total{operation="usage",result="refused"} 1`,
		`storage_host_ops_total{operation="put",result="ok"} 3`,
		`storage_host_ops_total{operation="put",result="refused"} 1`,
		`storage_host_ops_total{operation="list",result="ok"} 1`,
		`storage_host_ops_total{operation="get",result="refused"} 1`,
		`storage_host_errors_total{code="NOT_FOUND"} 1`,
		`storage_host_errors_total{code="VALIDATION_FAILED"} 2`,
		`storage_validation_failures_total 2`,
		`storage_host_inflight_requests 0`,
		`storage_namespace_keys 0`,
	} {
		a.WantMetric(t, line)
	}
	at = at.Add(totalsAge)
	a.WantMetric(t, `storage_namespace_keys 3`)
}

func TestEachOperationHasAName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ route, method, want string }{
		{"record", "HEAD", "get"}, {"records", "POST", "bulkPut"}, {"schema", "PATCH", "setSchema"}, {"schemas/check", "POST", "checkSchema"},
		{"changes", "GET", "changes"}, {"openapi", "GET", "other"}, {"record", "POST", "other"}, {"unknown", "GET", "other"},
	} {
		if got := operationOf(tc.route, tc.method); got != tc.want {
			t.Errorf("%s %s is %s, want %s", tc.method, tc.route, got, tc.want)
		}
	}
}

// TestAuditTo checks that the audit is complete at its configured destination when the relay ends.
func TestAuditTo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	for setting, read := range map[string]func(data string, log *bytes.Buffer) string{
		"":             func(data string, _ *bytes.Buffer) string { return readText(t, filepath.Join(data, auditFile)) },
		"file:" + file: func(string, *bytes.Buffer) string { return readText(t, file) },
		"log":          func(_ string, log *bytes.Buffer) string { return log.String() },
	} {
		var log bytes.Buffer
		a := open(t, func(d *service.Deps) { d.Log = slog.New(slog.NewTextHandler(&log, nil)) }, "HOLDFAST_EXTSTORAGE__AUDIT="+setting)
		end, err := a.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := ext.Request{Grant: ext.Grant{Owner: someInstall, Every: ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
		if _, err := a.opened.Do(t.Context(), r, ext.Task{Namespace: "a", Key: "written", Value: "1"}); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if text := read(a.Deps.Data, &log); strings.Count(text, "a/written") != 1 {
			t.Errorf("%q: %s", setting, text)
		}
	}
	a := open(t, nil, "HOLDFAST_EXTSTORAGE__AUDIT=file:"+file+"/x")
	if _, err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "extstorage.audit") {
		t.Errorf("a file that cannot be: %v", err)
	}
}

// brokers contains one broker; package engines/all tests the others.
var brokers = nats.Engine().Brokers

// TestAuditToBroker checks that every change is published in order, and that the topic is created.
func TestAuditToBroker(t *testing.T) {
	t.Parallel()
	topic := "audit" + ident.New()
	setting := "nats://" + testdb.NATS(t) + "/" + topic
	b, _, err := brokers.Broker(t.Context(), setting)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Ensure(t.Context(), topic, "sub-"+topic); err != nil {
		t.Fatal(err)
	}
	a := open(t, nil, "HOLDFAST_EXTSTORAGE__AUDIT="+setting)
	end, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := ext.Request{Grant: ext.Grant{Owner: someInstall, Every: ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
	want := []string{"a/0", "a/1", "a/2"}
	for _, name := range want {
		if _, err := a.opened.Do(t.Context(), r, ext.Task{Namespace: "a", Key: ext.Key(name[2:]), Value: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	got := audited(t, b, topic, len(want)) // events not published before the end stay in the database
	if err := end(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func audited(t *testing.T, b broker.Broker, topic string, n int) (subjects []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ids := map[string]bool{}
	if err := b.Subscribe(ctx, topic, "sub-"+topic, func(_ context.Context, m *broker.Delivery) {
		m.Ack()
		if !strings.HasPrefix(m.Type, "extstorage.") || m.Source != auditSource || !strings.Contains(m.Key, string(someInstall.Install)) {
			t.Errorf("%+v", m.Event)
		}
		if !ids[m.ID] {
			ids[m.ID], subjects = true, append(subjects, m.Subject)
		}
		if len(subjects) == n {
			cancel()
		}
	}); err != nil {
		t.Error(err)
	}
	return subjects
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
