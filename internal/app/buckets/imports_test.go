package buckets

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/testdb"
)

// sourceSetting is a setting of a bucket at the source that a client could not set here.
type sourceSetting struct {
	parameter string // in the query that reads it
	document  string
	reason    string // in the finding
}

// badSettings gives each setting a bad value at the source.
var badSettings = map[buckets.Setting]sourceSetting{
	buckets.SettingPublicRead: {
		"acl", `<AccessControlPolicy><Owner><ID>o</ID></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group">` +
			`<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>`,
		"public by its ACL",
	},
	buckets.SettingCORS: {
		"cors", `<CORSConfiguration>` + strings.Repeat(`<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>`, buckets.MaxCORSRules+1) + `</CORSConfiguration>`,
		"must occur 1 to 100 times",
	},
	buckets.SettingTags: {"tagging", `<Tagging><TagSet><Tag><Key>aws:stack</Key><Value>x</Value></Tag></TagSet></Tagging>`, "is reserved"},
	buckets.SettingLifecycle: {
		"lifecycle", `<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/><Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition></Rule></LifecycleConfiguration>`,
		"another storage class",
	},
	buckets.SettingPolicy: {
		"policy", `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "nobody"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bad-policy/*"}}`,
		`the principal "nobody" is not an account`,
	},
	buckets.SettingNotifications: {
		"notification", `<NotificationConfiguration><QueueConfiguration><Id>a</Id><Queue>arn:minio:sqs::1:webhook</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>`,
		"destinations are those of the source",
	},
	buckets.SettingAccessBlock: {
		"publicAccessBlock", `<PublicAccessBlockConfiguration><BlockPublicAcls>perhaps</BlockPublicAcls></PublicAccessBlockConfiguration>`,
		"could not read it",
	},
	buckets.SettingOwnership: {
		"ownershipControls", `<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>`,
		`"ObjectWriter" is not supported`,
	},
	buckets.SettingVersioning: {"versioning", `<VersioningConfiguration><Status>Paused</Status></VersioningConfiguration>`, "is not Enabled or Suspended"},
	buckets.SettingLock: {
		"object-lock", `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>36501</Days></DefaultRetention></Rule></ObjectLockConfiguration>`,
		"the retention period is not valid",
	},
	buckets.SettingObjects: {
		"list-type", `<ListBucketResult><Contents><Key>` + strings.Repeat("k", buckets.MaxObjectName+1) + `</Key><Size>1</Size><ETag>"a"</ETag></Contents></ListBucketResult>`,
		"1 could not be imported",
	},
}

// badSource serves a bucket for each setting, which has a bad value for this one only.
type badSource struct {
	*httptest.Server
	isGood atomic.Bool // nothing is wrong any more
}

func newBadSource(t *testing.T) *badSource {
	t.Helper()
	s := &badSource{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func bucketWith(k buckets.Setting) string { return "bad-" + strings.ReplaceAll(string(k), "_", "-") }

func (s *badSource) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.Trim(r.URL.Path, "/")
	q := r.URL.Query()
	if name == "" {
		list := ""
		for k := range badSettings {
			list += "<Bucket><Name>" + bucketWith(k) + "</Name></Bucket>"
		}
		_, _ = io.WriteString(w, `<ListAllMyBucketsResult><Buckets>`+list+`</Buckets></ListAllMyBucketsResult>`)
		return
	}
	for k, bad := range badSettings {
		if bucketWith(k) == name && q.Has(bad.parameter) && !s.isGood.Load() {
			_, _ = io.WriteString(w, bad.document)
			return
		}
	}
	switch {
	case q.Has("list-type"):
		_, _ = io.WriteString(w, `<ListBucketResult/>`)
	case q.Has("versions"):
		_, _ = io.WriteString(w, `<ListVersionsResult/>`)
	case q.Has("versioning") && name == bucketWith(buckets.SettingLock):
		_, _ = io.WriteString(w, `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `<Error><Code>NoSuchConfiguration</Code></Error>`)
	}
}

// settingsFindings returns the findings of `holdfast check` about settings.
func (s *Buckets) settingsFindings(t *testing.T) (all []string) {
	t.Helper()
	found, err := s.inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.What == settingsWhat {
			if f.State != service.OK && f.Fix == "" {
				t.Errorf("without advice: %+v", f)
			}
			all = append(all, string(f.State)+" "+f.Says)
		}
	}
	return all
}

// TestImportedSettings walks all settings. It imports a bad value for each, and checks that the import's end
// and `holdfast check` name it, until a later import finds a good value or an operator accepts the loss.
func TestImportedSettings(t *testing.T) {
	t.Parallel()
	for _, k := range buckets.AllSettings() {
		if _, ok := badSettings[k.Setting]; !ok {
			t.Errorf("%s: add a bad value at the source", k.Setting)
		}
		if settingFixes[k.Setting] == "" {
			t.Errorf("%s: say how to set it", k.Setting)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		s, _ := openBuckets(t, t.TempDir())
		s.importBadSettings(t)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		s, _ := openBucketsAt(t, t.TempDir(), clock.System, "HOLDFAST_BUCKETS__DATABASE_URL="+testdb.PostgresDatabase(t))
		s.importBadSettings(t)
	})
}

func (s *Buckets) importBadSettings(t *testing.T) {
	source := newBadSource(t)
	in := importInput{accountInput: accountInput{Account: firstAccount}, Endpoint: source.URL, AccessKey: "key", SecretKey: "secret", Parallel: 2}
	run := func(dryRun bool) importOutput {
		in.DryRun = dryRun
		o, err := s.importBuckets(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const valid = "ok 11 buckets examined: all settings are valid"
	first := run(true)
	if all := s.settingsFindings(t); !slices.Equal(all, []string{"ok 0 buckets examined: all settings are valid"}) {
		t.Errorf("after a dry run: %q", all)
	}
	for _, o := range []importOutput{first, run(false)} {
		for k, bad := range badSettings {
			want := k.Words() + ": not imported: "
			if k == buckets.SettingObjects {
				want = "longer than 1,024 bytes"
			}
			if !slices.ContainsFunc(o.problems, func(p importProblem) bool {
				return p.Bucket == bucketWith(k) && strings.Contains(p.Reason, want) && (k == buckets.SettingObjects || strings.Contains(p.Reason, bad.reason))
			}) {
				t.Errorf("%s: the import does not name it: %+v", k, o.problems)
			}
		}
		if len(o.problems) != len(badSettings) || !strings.Contains(o.Note(), "note: s3://bad-tags: tags: not imported: ") {
			t.Errorf("%d findings: %s", len(o.problems), o.Note())
		}
	}
	all := s.settingsFindings(t)
	for k, bad := range badSettings {
		begin := fmt.Sprintf("warn main/%s: the last import left out its %s: ", bucketWith(k), k.Words())
		if !slices.ContainsFunc(all, func(says string) bool { return strings.HasPrefix(says, begin) && strings.Contains(says, bad.reason) }) {
			t.Errorf("%s: check does not name it: %q", k, all)
		}
	}
	if len(all) != len(badSettings)+1 {
		t.Errorf("check: %q", all)
	}
	if o, err := s.showBucket(t.Context(), s.inBucket(buckets.SettingTags)); err != nil || !strings.HasPrefix(o.LeftOut, "tags: ") || !o.Offers("accept-import") {
		t.Errorf("the bucket: %+v, %v", o, err)
	}
	if _, err := s.acceptImport(t.Context(), s.inBucket(buckets.SettingTags)); err != nil {
		t.Fatal(err)
	}
	if left := s.settingsFindings(t); len(left) != len(badSettings) {
		t.Errorf("after one was accepted: %q", left)
	}
	source.isGood.Store(true)
	if o := run(false); len(o.problems) > 0 {
		t.Errorf("a valid source: %s", o.Note())
	}
	if all := s.settingsFindings(t); !slices.Equal(all, []string{valid}) {
		t.Errorf("after a valid import: %q", all)
	}
	s.storeBadSettings(t)
}

func (s *Buckets) inBucket(k buckets.Setting) bucketInput {
	return bucketInput{accountInput{Account: firstAccount}, bucketWith(k)}
}

// storeBadSettings stores values that no check saw, as an older release might have, and looks for them with `holdfast
// check`.
func (s *Buckets) storeBadSettings(t *testing.T) {
	t.Helper()
	isTrue := true
	changes := map[buckets.Setting]*buckets.SettingsChange{
		buckets.SettingPublicRead: nil, // nothing can be wrong by itself
		buckets.SettingCORS:       {CORS: &[]buckets.CORSRule{{AllowedOrigins: []string{"**"}, AllowedMethods: []string{"GET"}}}},
		buckets.SettingTags:       {Tags: &map[string]string{"aws:x": ""}},
		buckets.SettingLifecycle:  {Lifecycle: &buckets.Lifecycle{Rules: []buckets.LifecycleRule{{ID: "a"}}}},
		buckets.SettingPolicy: {Policy: &buckets.Policy{
			Document: `{"Statement": {"Effect": "Deny", "Principal": {"AWS": "deleted"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bad-policy/*"}}`,
		}},
		buckets.SettingNotifications: {Notifications: &buckets.Notifications{Rules: []buckets.NotificationRule{{ID: "a", ARN: "arn:holdfast:webhook:::removed", Events: []string{"s3:ObjectCreated:*"}}}}},
		buckets.SettingAccessBlock:   {PublicAccessBlock: &buckets.PublicAccessBlock{BlockACLs: true}},
		buckets.SettingOwnership:     {PublicRead: &isTrue, OwnerEnforced: &isTrue},
		buckets.SettingVersioning:    nil, // the stores refuse it
		buckets.SettingLock:          nil, // likewise
	}
	for _, k := range buckets.AllSettings() {
		c, known := changes[k.Setting]
		if !known {
			t.Errorf("%s: add a bad value", k.Setting)
		}
		if c == nil {
			continue
		}
		a, b, err := s.bucketOf(t.Context(), s.inBucket(k.Setting))
		if err == nil {
			err = s.opened.SetBucket(t.Context(), a.ID, b.BucketRef, *c)
		}
		if err != nil {
			t.Fatal(err)
		}
		begin := fmt.Sprintf("warn main/%s: its %s would be refused today: ", b.Name, k.Words)
		if all := s.settingsFindings(t); len(all) != 2 || !strings.HasPrefix(all[0], begin) {
			t.Errorf("%s: %q", k.Setting, all)
		}
		if err := s.opened.SetBucket(t.Context(), a.ID, b.BucketRef, buckets.SettingsChange{
			PublicRead: new(bool), CORS: new([]buckets.CORSRule), Tags: new(map[string]string), Lifecycle: &buckets.Lifecycle{}, Policy: &buckets.Policy{},
			Notifications: &buckets.Notifications{}, PublicAccessBlock: &buckets.PublicAccessBlock{}, OwnerEnforced: new(bool),
		}); err != nil {
			t.Fatal(err)
		}
	}
}
