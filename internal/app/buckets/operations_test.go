package buckets

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
	"holdfast/internal/testdb"
)

type operator struct {
	t *testing.T
	*servicetest.Operator
}

func newOperator(t *testing.T, s *Buckets) *operator {
	t.Helper()
	s.serves.Store(true)
	sv := s.Service()
	runs := operate.RunsOf(sv.Operations)
	runs.Begin(t.Context(), time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(runs.End)
	return &operator{t, servicetest.NewOperator(t, sv, "../../buckets/httpapi/openapi-admin.json")}
}

func (o *operator) send(status int, part, method, path, body string) servicetest.Answer {
	o.t.Helper()
	return o.Send(status, method, path, body, part)
}

func (o *operator) await(a servicetest.Answer) string {
	o.t.Helper()
	for {
		if err := o.t.Context().Err(); err != nil {
			o.t.Fatal(err)
		}
		if text := o.send(http.StatusOK, "", http.MethodGet, a.Location, "").Text; strings.Contains(text, `"ended"`) {
			return text
		}
	}
}

// TestAdminAPI also checks that only the response that creates a secret contains it.
func TestAdminAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "a body")
	o := newOperator(t, s)
	o.send(200, `{"accounts":[{"account":"main",`, "GET", "/buckets/accounts?limit=1", "")
	o.send(200, `"objects":1,"bytes":6`, "GET", "/buckets/accounts/main", "")
	o.send(404, "the account does not exist", "GET", "/buckets/accounts/nobody", "")
	o.send(422, "invalid", "POST", "/buckets/accounts/a%20b/create", "")
	var made madeKey
	if err := json.Unmarshal([]byte(o.send(201, `"secretKey"`, "POST", "/buckets/accounts/other/create", "").Text), &made); err != nil || made.Account != "other" || len(made.SecretKey) < 20 {
		t.Errorf("%+v, %v", made, err)
	}
	o.send(409, "an account with this name exists", "POST", "/buckets/accounts/other/create", "")
	o.send(201, `"accessKey"`, "POST", "/buckets/keys/other/create", "")
	for _, path := range []string{"/buckets/keys/other", "/buckets/accounts", "/buckets/accounts/other"} {
		if text := o.send(200, "", "GET", path, "").Text; strings.Contains(text, made.SecretKey) || strings.Contains(text, "secretKey") {
			t.Errorf("%s has a secret: %s", path, text)
		}
	}
	o.send(422, "unknown parameter", "GET", "/buckets/keys/other?secrets=true", "")
	o.send(200, made.AccessKey, "POST", "/buckets/keys/"+made.AccessKey+"/revoke", "")
	o.send(200, `"state":"revoked"`, "GET", "/buckets/keys/other", "")
	o.send(404, "the access key does not exist", "POST", "/buckets/keys/HFUNKNOWN/revoke", "")
	o.send(200, `"bytesQuota":1073741824`, "POST", "/buckets/quotas/main/set", `{"bytes":"1GiB","objects":"7"}`)
	o.send(200, `"objectsQuota":7`, "GET", "/buckets/quotas/main", "")
	o.send(200, `"bytesQuota":1024`, "POST", "/buckets/quotas/main/set", `{"bytes":"1KiB","bucket":"photos"}`)
	o.send(422, `"pointer":"/objects"`, "POST", "/buckets/quotas/main/set", `{"objects":"0"}`)
	o.send(404, "the bucket does not exist", "GET", "/buckets/quotas/main?bucket=none", "")
	o.send(200, `"bucket":"photos","objects":1,"bytes":6,"bytesQuota":1024`, "GET", "/buckets/buckets/main?prefix=ph", "")
	o.send(201, `{"token":"`, "POST", "/buckets/tokens/main/create", `{"ttl":"2h","gc":true}`)
	o.send(422, "must be from 1s to 90d", "POST", "/buckets/tokens/main/create", `{"ttl":"9000h"}`)
	o.send(422, "expected a duration", "POST", "/buckets/tokens/main/create", `{"ttl":"many"}`)
	o.send(409, "the account has buckets", "POST", "/buckets/accounts/main/delete", "")
	o.send(200, `{"account":"other"}`, "POST", "/buckets/accounts/other/delete", "")
	o.send(200, `{"damages":[],"next":null}`, "GET", "/buckets/damages", "")
}

func TestKeysAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	o := newOperator(t, s)
	var made madeKey
	text := o.send(201, `"accessKey"`, "POST", "/buckets/keys/main/create",
		`{"name":"backup","bucket":["photos","logs-*"],"prefix":"in/","right":["read","list"],"network":["10.1.2.3/8","2001:db8::1"],"expiresIn":"1h"}`).Text
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	o.send(200, `"name":"backup","state":"active","created":"`, "GET", "/buckets/keys/main", "")
	o.send(200, `"buckets":["photos","logs-*"],"prefix":"in/","rights":["read","list"],"networks":["10.0.0.0/8","2001:db8::1/128"]}`, "GET", "/buckets/keys/main", "")
	key := "/buckets/keys/" + made.AccessKey
	o.send(200, `"rights":["write"]`, "POST", key+"/limit", `{"right":["write"]}`)
	o.send(200, `"buckets":["photos","logs-*"],"prefix":"in/","rights":["write"],"networks":["10.0.0.0/8","2001:db8::1/128"]}`, "GET", "/buckets/keys/main", "")
	unlimited := o.send(200, `"state":"active","created"`, "POST", key+"/limit",
		`{"name":"none","bucket":["none"],"prefix":"none","right":["none"],"network":["none"],"expiresIn":"none"}`).Text
	if strings.Contains(unlimited, "buckets") || strings.Contains(unlimited, "expires") {
		t.Errorf("without limits: %s", unlimited)
	}
	for member, value := range map[string]string{
		"name": `"` + strings.Repeat("a", 101) + `"`, "bucket": `["No"]`, "prefix": `"` + strings.Repeat("a", 1025) + `"`, "right": `["all"]`, "network": `["10.0.0.0/64"]`, "expiresIn": `"soon"`,
	} {
		o.send(422, `"pointer":"/`+member+`"`, "POST", key+"/limit", `{"`+member+`":`+value+`}`)
		o.send(422, `"pointer":"/`+member+`"`, "POST", "/buckets/keys/main/create", `{"`+member+`":`+value+`}`)
	}
	o.send(200, "", "POST", key+"/limit", `{"prefix":"in/"}`)
	o.send(422, "cannot manage buckets", "POST", key+"/limit", `{"right":["manage"]}`)
	o.send(200, "", "POST", key+"/revoke", "")
	o.send(404, "the access key does not exist", "POST", key+"/limit", `{"right":["read"]}`)
	o.send(404, "the access key does not exist", "POST", "/buckets/keys/HFUNKNOWN/limit", `{"right":["read"]}`)
}

func TestBucketsAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	owner, photos, _ := s.stored(t, "a body")
	o := newOperator(t, s)
	o.send(201, `{"account":"main","bucket":"extra"}`, "POST", "/buckets/buckets/main/extra/create", "")
	o.send(409, "already has a bucket", "POST", "/buckets/buckets/main/extra/create", "")
	o.send(422, "3 to 63", "POST", "/buckets/buckets/main/No/create", "")
	o.send(404, "the account does not exist", "POST", "/buckets/buckets/nobody/extra/create", "")
	for _, verb := range []string{"set-access", "set-cors", "set-versioning", "delete"} {
		o.send(404, "the bucket does not exist", "POST", "/buckets/buckets/main/none/"+verb, map[string]string{"set-access": `{"access":"private"}`, "set-cors": `{"origins":"*"}`, "set-versioning": `{"versioning":"enabled"}`}[verb])
	}

	const extra = "/buckets/buckets/main/extra"
	o.send(422, `"pointer":"/access"`, "POST", extra+"/set-access", `{"access":"public"}`)
	o.send(200, "", "POST", extra+"/set-access", `{"access":"public-read"}`)
	o.send(200, `"access":"public-read"`, "GET", extra, "")
	o.send(200, "", "POST", extra+"/set-access", `{"access":"private"}`)
	o.send(422, `"pointer":"/versioning"`, "POST", extra+"/set-versioning", `{"versioning":"off"}`)
	o.send(200, `"versioning":"off"`, "GET", extra, "")
	o.send(200, "", "POST", extra+"/set-versioning", `{"versioning":"enabled"}`)
	o.send(200, `"versioning":"enabled"`, "GET", extra, "")
	o.send(200, "", "POST", extra+"/set-versioning", `{"versioning":"suspended"}`)
	o.send(200, `"access":"private"`, "GET", extra, "")
	for body, wrong := range map[string]string{
		`{}`: "origins", `{"origins":" , "}`: "origins", `{"origins":"app.example.org"}`: "origins", `{"origins":"https://*.*.org"}`: "origins", `{"origins":"http://a\u0000"}`: "origins",
		`{"origins":"*","methods":"PATCH"}`: "methods", `{"origins":"*","methods":","}`: "methods",
		`{"origins":"*","headers":"a b"}`: "headers", `{"origins":"*","headers":"x-*-*"}`: "headers",
		`{"origins":"*","expose":"a:b"}`: "expose", `{"origins":"*","max-age":"-1s"}`: "max-age", `{"origins":"*","max-age":"25h"}`: "max-age",
	} {
		body, wrong = strings.Replace(body, "max-age", "maxAge", 1), strings.Replace(wrong, "max-age", "maxAge", 1)
		o.send(422, `"pointer":"/`+wrong+`"`, "POST", extra+"/set-cors", body)
	}
	o.send(200, "", "POST", extra+"/set-cors", `{"origins":"https://app.example.org, http://*.test","methods":"GET,PUT","headers":"x-*","expose":"ETag","maxAge":"10m"}`)
	b, err := s.opened.Bucket(t.Context(), owner, "extra")
	want := buckets.CORSRule{
		AllowedOrigins: []string{"https://app.example.org", "http://*.test"}, AllowedMethods: []string{"GET", "PUT"}, AllowedHeaders: []string{"x-*"}, ExposeHeaders: []string{"ETag"}, MaxAgeSeconds: 600,
	}
	if err != nil || !reflect.DeepEqual(b.Settings.CORS, []buckets.CORSRule{want}) {
		t.Errorf("%+v, %v", b.Settings.CORS, err)
	}
	o.send(200, "https://app.example.org", "GET", extra, "")
	o.send(200, "", "POST", extra+"/set-cors", `{"origins":"none"}`)
	if text := o.send(200, "", "GET", extra, "").Text; strings.Contains(text, "cors") {
		t.Errorf("the rule remains: %s", text)
	}

	id, err := s.opened.CreateUpload(t.Context(), owner, photos, buckets.Upload{Name: "videos/a.mp4", ContentType: "video/mp4"})
	if err != nil {
		t.Fatal(err)
	}
	upload := "/buckets/uploads/main/photos/videos%2Fa.mp4/" + string(id) + "/abort"
	o.send(200, `"upload":"`+string(id)+`"`, "GET", "/buckets/uploads/main/photos?prefix=vid&limit=1", "")
	o.send(422, "expected a page cursor", "GET", "/buckets/uploads/main/photos?after=a", "")
	o.send(404, "the bucket does not exist", "GET", "/buckets/uploads/main/none", "")
	o.send(404, "the upload does not exist", "POST", strings.Replace(upload, string(id), "none", 1), "")
	o.send(404, "the upload does not exist", "POST", strings.Replace(upload, "a.mp4", "b.mp4", 1), "")
	o.send(200, `"object":"videos/a.mp4"`, "POST", upload, "")
	o.send(404, "the upload does not exist", "POST", upload, "")
	o.send(200, `"uploads":[]`, "GET", "/buckets/uploads/main/photos", "")

	o.send(409, "the bucket is not empty", "POST", "/buckets/buckets/main/photos/delete", "")
	o.send(200, `"retained":[]`, "POST", extra+"/delete", "")
	o.send(404, "the bucket does not exist", "GET", extra, "")
}

// TestBackgroundJobs checks that audits and drains are answered at once with their run's location.
func TestBackgroundJobs(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, strings.Repeat("a body ", 10_000))
	o, disk := newOperator(t, s), filepath.Join(t.TempDir(), "disk")
	o.send(422, "DATACENTER:NAME", "POST", "/buckets/nodes/east", `{"url":"file://`+disk+`"}`)
	o.send(422, "url: must not be empty for a new node", "POST", "/buckets/nodes/east:1", "")
	o.send(201, `{"node":"east:1"}`, "POST", "/buckets/nodes/east:1", `{"url":"file://`+disk+`"}`)
	if err := s.nodes.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.cluster.Refresh(t.Context())
	o.send(200, `"id":"local:1","state":"active","free_bytes":`, "GET", "/buckets/nodes", "")
	o.send(200, `"bodies":1,"bytes":70000,`, "GET", "/buckets/nodes?bodies=true", "")

	o.send(422, `"pointer":"/grace"`, "POST", "/buckets/audits/run", `{"grace":"1m"}`)
	audited := o.await(o.send(202, `"operation":"audits/run"`, "POST", "/buckets/audits/run", `{"verify":true}`))
	if !strings.Contains(audited, `"state":"incomplete"`) || !strings.Contains(audited, `"found":[{"problem":"few-copies"`) || !strings.Contains(audited, `"account_name":"main"`) || !strings.Contains(audited, `"copies":1`) {
		t.Errorf("a body with one copy on two nodes: %s", audited)
	}
	if text := o.await(o.send(202, "", "POST", "/buckets/audits/run", `{"repair":true}`)); !strings.Contains(text, `"state":"done"`) {
		t.Errorf("the repair: %s", text)
	}
	if text := o.await(o.send(202, "", "POST", "/buckets/nodes/none:1/drain", "")); !strings.Contains(text, `"state":"failed"`) || !strings.Contains(text, "there is no storage node none:1") {
		t.Errorf("a node that does not exist: %s", text)
	}
	if text := o.await(o.send(202, `"node":"east:1"`, "POST", "/buckets/nodes/east:1/drain", `{"fewerCopies":true}`)); !strings.Contains(text, `"state":"done"`) || !strings.Contains(text, `"removed":true`) {
		t.Errorf("the drain: %s", text)
	}
	o.send(201, `{"node":"local:1"}`, "POST", "/buckets/nodes/local:1", "") // unescaped
	o.send(200, `{"runs":[{"id":`, "GET", "/buckets/runs", "")
	o.send(404, "no such run", "GET", "/buckets/runs/none", "")
}

func TestNotificationsAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "a body")
	o := newOperator(t, s)
	o.send(201, "", "POST", "/buckets/buckets/main/extra/create", "")
	const path = "/buckets/notifications/main/extra"
	o.send(200, `"account":"main"`, "GET", path, "")
	for _, bad := range []string{`{}`, `{"notifications":" "}`, `{"notifications":"{}"}`, `{"notifications":"{\"Other\":1}"}`,
		`{"notifications":"{\"QueueConfigurations\":[{\"QueueArn\":\"http://127.0.0.1/\",\"Events\":[\"s3:ObjectCreated:*\"]}]}"}`} {
		o.send(422, `"pointer":"/notifications"`, "POST", path+"/set", bad)
	}
	o.send(200, "", "POST", path+"/delete", "")
}

func TestPolicyAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	owner, _, _ := s.stored(t, "a body")
	o := newOperator(t, s)
	const extra = "/buckets/buckets/main/extra"
	o.send(201, "", "POST", extra+"/create", "")
	b, err := s.opened.Bucket(t.Context(), owner, "extra")
	if err != nil {
		t.Fatal(err)
	}
	const policyOf = "/buckets/policy/main/extra"
	statement := func(principal string) string {
		return `{"policy":"{\"Statement\": {\"Effect\": \"Allow\", \"Principal\": ` + principal + `, \"Action\": \"s3:GetObject\", \"Resource\": \"arn:aws:s3:::extra/*\"}}"}`
	}
	o.send(200, `"public":false`, "GET", policyOf, "")
	for _, bad := range []string{`{}`, `{"policy":" "}`, `{"policy":"{"}`, `{"policy":"{\"Statement\": []}"}`, statement(`{\"AWS\": \"nobody\"}`)} {
		o.send(422, `"pointer":"/policy"`, "POST", policyOf+"/set", bad)
	}
	o.send(404, "the bucket does not exist", "POST", "/buckets/policy/main/none/set", statement(`\"*\"`))
	o.send(200, "", "POST", policyOf+"/set", statement(`\"*\"`))
	o.send(200, `"public":true`, "GET", policyOf, "")
	blocks := buckets.PublicAccessBlock{Configured: true, BlockPolicy: true, BlockACLs: true}
	if err := s.opened.SetBucket(t.Context(), owner, b.BucketRef, buckets.SettingsChange{PublicAccessBlock: &blocks}); err != nil {
		t.Fatal(err)
	}
	o.send(409, "BlockPublicPolicy", "POST", policyOf+"/set", statement(`\"*\"`))
	o.send(409, "BlockPublicAcls", "POST", extra+"/set-access", `{"access":"public-read"}`)
	o.send(200, "", "POST", policyOf+"/set", statement(`{\"AWS\": \"main\"}`))
	o.send(200, `"publicAccessBlock":"BlockPublicAcls, BlockPublicPolicy"`, "GET", policyOf, "")
	o.send(200, "", "POST", policyOf+"/delete", "")
	if text := o.send(200, `"public":false`, "GET", policyOf, "").Text; strings.Contains(text, "Statement") {
		t.Errorf("the policy remains: %s", text)
	}
	o.send(422, `"pointer":"/block"`, "POST", policyOf+"/block-public", `{"block":"some"}`)
	for block, flags := range map[string]string{
		"all": "BlockPublicAcls, IgnorePublicAcls, BlockPublicPolicy, RestrictPublicBuckets", "acls": "BlockPublicAcls, IgnorePublicAcls", "policies": "BlockPublicPolicy, RestrictPublicBuckets",
	} {
		o.send(200, "", "POST", policyOf+"/block-public", `{"block":"`+block+`"}`)
		o.send(200, `"publicAccessBlock":"`+flags+`"`, "GET", policyOf, "")
	}
	o.send(200, "", "POST", policyOf+"/block-public", `{"block":"none"}`)
	if text := o.send(200, "", "GET", policyOf, "").Text; strings.Contains(text, "Block") {
		t.Errorf("the block remains: %s", text)
	}
}

// TestRulesAPI checks that errors name the invalid value, and that operators cannot change a rule with more than their
// form contains.
func TestRulesAPI(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	owner, photos, _ := s.stored(t, "a body")
	o := newOperator(t, s)
	const rules = "/buckets/lifecycle/main/photos"
	set := func(status int, part, rule, body string) { o.send(status, part, "POST", rules+"/"+rule+"/set", body) }
	for member, body := range map[string]string{
		"prefix": `{"expireDays":1,"prefix":"` + strings.Repeat("a", 1025) + `"}`, "expireDays": `{}`, "noncurrentDays": `{"noncurrentDays":2147483648}`,
		"keepVersions": `{"expireDays":1,"keepVersions":1}`, "abortDays": `{"abortDays":2147483648}`,
	} {
		set(422, `"pointer":"/`+member+`"`, "r", body)
	}
	set(422, `"pointer":"/keepVersions"`, "r", `{"noncurrentDays":1,"keepVersions":101}`)
	for _, rule := range []string{"a%00", "a%FF", strings.Repeat("r", 256)} {
		set(422, `"parameter":"rule"`, rule, `{"expireDays":1}`)
	}
	o.send(404, "the bucket does not exist", "POST", "/buckets/lifecycle/main/none/r/set", `{"expireDays":1}`)

	set(200, "", "logs%2Fold", `{"prefix":"logs/","expireDays":30,"disabled":true}`)
	set(200, "", "all", `{"noncurrentDays":9,"keepVersions":3,"abortDays":2}`)
	o.send(200, `"id":"logs/old","status":"disabled","appliesTo":"names that begin with logs/","does":"deletes objects after 30 days"`, "GET", rules, "")
	o.send(200, `"prefix":"logs/","expireDays":30,"disabled":true},{"id":"all"`, "GET", rules, "")
	o.send(200, `"noncurrentDays":9,"keepVersions":3,"abortDays":2}]`, "GET", rules, "")
	set(200, "", "logs%2Fold", `{"expireDays":7}`)
	o.send(200, `"id":"logs/old","status":"enabled","appliesTo":"all objects","does":"deletes objects after 7 days"`, "GET", rules, "")
	o.send(200, "", "POST", rules+"/logs%2Fold/delete", "")
	o.send(404, "no rule logs/old", "POST", rules+"/logs%2Fold/delete", "")
	o.send(200, `"rules":[{"id":"all"`, "GET", rules, "")

	l := buckets.Lifecycle{}
	for i := range buckets.MaxLifecycleRules {
		l.Rules = append(l.Rules, buckets.LifecycleRule{ID: strconv.Itoa(i), AbortDays: 1, Prefix: new("a")})
	}
	more := int64(5)
	l.Rules[0] = buckets.LifecycleRule{ID: "0", Expiration: &buckets.Expiration{Days: 1}, Filter: &buckets.LifecycleFilter{GreaterThan: &more}}
	if err := s.opened.SetLifecycle(t.Context(), owner, photos, l); err != nil {
		t.Fatal(err)
	}
	set(409, "change it with an S3 client", "0", `{"expireDays":7}`)
	set(409, "1 to 1,000", "one-more", `{"expireDays":7}`)
	set(200, "", "1", `{"expireDays":7}`) // the rule has the older S3 form
	o.send(200, "", "POST", rules+"/0/delete", "")
	o.send(200, "", "POST", rules+"/clear", "")
	o.send(200, `"rules":[]`, "GET", rules, "")
}

// TestRulesAtOnce checks that no concurrently added rule is lost.
func TestRulesAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "a body")
	in := bucketInput{accountInput{firstAccount}, "photos"}
	const rules = 20
	for _, err := range testdb.Concurrently(rules, func(i int) error {
		_, err := s.setRule(t.Context(), setRuleInput{ruleInput{in, strconv.Itoa(i)}, ruleTerms{Abort: 1 + i}})
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	o, err := s.showLifecycle(t.Context(), in)
	if err != nil || len(o.Rules) != rules {
		t.Fatalf("%d rules of %d, %v", len(o.Rules), rules, err)
	}
	for _, r := range o.Rules {
		if id, err := strconv.Atoi(r.ID); err != nil || r.Abort != 1+id {
			t.Errorf("rule %+v", r)
		}
	}
}
