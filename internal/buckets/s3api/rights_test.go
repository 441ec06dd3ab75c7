package s3api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/s3api"
)

// settingsRequests are valid requests that change each bucket setting, by query parameter. They try to get access to the
// objects, or to make the server delete them.
var settingsRequests = map[string]struct {
	body    string
	headers []string
}{
	"policy":            {body: `{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]}}`},
	"acl":               {headers: []string{"x-amz-acl: public-read"}},
	"publicAccessBlock": {body: publicAccess("RestrictPublicBuckets")},
	"ownershipControls": {body: `<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>`},
	"lifecycle":         {body: `<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>`},
	"cors":              {body: `<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</AllowedHeader></CORSRule></CORSConfiguration>`},
	"tagging":           {body: `<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`},
	"versioning":        {body: `<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>`},
	"object-lock":       {body: `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>`},
	"notification":      {body: `<NotificationConfiguration/>`},
	"encryption":        {}, "replication": {}, "website": {}, "analytics": {}, "inventory": {}, "metrics": {}, "intelligent-tiering": {}, // not implemented
	"logging":        {body: `<BucketLoggingStatus/>`},
	"accelerate":     {body: `<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>`},
	"requestPayment": {body: `<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>`},
	"abac":           {body: `<AbacStatus><Status>Disabled</Status></AbacStatus>`},
	"delete":         {body: `<Delete><Object><Key>k</Key></Object></Delete>`},
	"":               {},
}

// changesAccess are the settings of the right policy.
var changesAccess = []string{"policy", "acl", "publicAccessBlock", "ownershipControls"}

// TestManageGrantsNothing calls every route of a bucket with the single right manage, in both orders, and
// checks after each call that neither the key nor anybody else can read, list, write or delete an object.
func TestManageGrantsNothing(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	manage := s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightManage}})
	routes := slices.DeleteFunc(s3api.Routes(), func(r s3api.Route) bool { return r.OfObject })
	if len(routes) < 20 {
		t.Fatalf("%d routes of a bucket", len(routes))
	}
	slices.SortStableFunc(routes, func(a, b s3api.Route) int { return strings.Compare(a.Parameter, b.Parameter) })
	backwards := slices.Clone(routes)
	slices.Reverse(backwards)
	accepted := map[string]bool{}
	for _, r := range append(routes, backwards...) {
		with, ok := settingsRequests[r.Parameter]
		if !ok && r.Method != http.MethodGet {
			t.Errorf("%s ?%s: add a request that changes this setting", r.Method, r.Parameter)
			continue
		}
		a := s.as(manage, r.Method, targetOf(r), with.body, with.headers...)
		what := r.Method + " " + targetOf(r)
		if r.Method == http.MethodPut && a.status < 300 {
			accepted[r.Parameter] = true
		}
		if slices.Contains(changesAccess, r.Parameter) && r.Method != http.MethodGet && a.status != 403 {
			t.Errorf("%s with manage: %d", what, a.status)
		}
		s.noAccess(what, manage)
	}
	for _, p := range []string{"cors", "tagging", "versioning"} { // otherwise the walk proves nothing
		if !accepted[p] {
			t.Errorf("manage could not set %s", p)
		}
	}
	if b, err := s.s3.Service.Bucket(t.Context(), s.accountID("main"), "photos"); err != nil || b.Settings.SetsAccess() || len(b.Settings.Lifecycle.Rules) > 0 {
		t.Errorf("the settings are %+v, %v", b.Settings, err)
	}
}

func (s *server) accountID(name string) buckets.AccountID {
	s.t.Helper()
	a, err := s.options.Backend.Account(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.ID
}

// noAccess checks that a key and anonymous clients are refused by every route of objects, and that object k is unchanged.
func (s *server) noAccess(what string, by sigv4test.Signer) {
	s.t.Helper()
	refused := func(how string, a answer) {
		s.t.Helper()
		if a.status != 403 && a.status != 501 {
			s.t.Errorf("after %s, %s %s: %d %s", what, how, a.what, a.status, a.body)
		}
	}
	for _, r := range s3api.Routes() {
		reads := !r.OfObject && slices.Contains([]buckets.Right{buckets.RightRead, buckets.RightList}, r.Right)
		if !r.OfObject && !reads {
			continue
		}
		refused("manage", s.as(by, r.Method, targetOf(r), ""))
		refused("anonymous", s.anonymous(r.Method, targetOf(r), ""))
	}
	refused("manage", s.as(by, "PUT", "/photos/copy", "", "x-amz-copy-source: photos/k"))
	presigned := s.request("GET", "/photos/k", "")
	by.Presign(presigned, time.Minute, time.Now())
	refused("presigned", s.send(presigned))
	signs := *s
	signs.main = by
	refused("form", s.send(signs.form(map[string]string{"key": "form"}, hello)))
	s.do("GET", "/photos/k", "").want(200).is(hello)
}

// TestManageKeepsAccess checks that manage cannot remove restrictions by deleting and creating a bucket again, or
// create a bucket that is public.
func TestManageKeepsAccess(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	manage := s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightManage}})
	both := s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightManage, buckets.RightPolicy}})
	for _, header := range []string{"x-amz-acl: public-read", "x-amz-object-ownership: BucketOwnerEnforced"} {
		s.as(manage, "PUT", "/fresh", "", header).fails(403, "AccessDenied")
		s.do("HEAD", "/fresh", "").want(404)
	}
	s.as(manage, "PUT", "/fresh", "", "x-amz-acl: private").want(200)
	s.as(manage, "DELETE", "/fresh", "").want(204)
	s.as(both, "PUT", "/fresh", "", "x-amz-acl: public-read").want(200)
	s.as(both, "DELETE", "/fresh", "").want(204)
	for _, parameter := range changesAccess {
		with := settingsRequests[parameter]
		if a := s.do("PUT", "/photos?"+parameter, with.body, with.headers...); a.status >= 300 {
			t.Fatalf("PUT ?%s: %d %s", parameter, a.status, a.body)
		}
		s.as(manage, "DELETE", "/photos", "").fails(403, "AccessDenied")
		s.as(both, "DELETE", "/photos", "").want(204)
		s.do("PUT", "/photos", "").want(200)
	}
	// Rules delete objects, so they need that right, too.
	lifecycle := settingsRequests["lifecycle"].body
	s.as(manage, "PUT", "/photos?lifecycle", lifecycle).fails(403, "AccessDenied")
	s.as(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightDelete}}), "PUT", "/photos?lifecycle", lifecycle).fails(403, "AccessDenied")
	s.as(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightManage, buckets.RightDelete}}), "PUT", "/photos?lifecycle", lifecycle).want(200)
}

// TestPolicyAmountsToAllRights is why the help of the right says so.
func TestPolicyAmountsToAllRights(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	key := s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightPolicy}})
	s.noAccess("nothing", key)
	s.as(key, "PUT", "/photos?policy", settingsRequests["policy"].body).want(204)
	s.as(key, "GET", "/photos/k", "").want(200)
	s.as(key, "DELETE", "/photos/k", "").want(204)
}
