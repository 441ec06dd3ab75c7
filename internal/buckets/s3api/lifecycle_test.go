package s3api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const lifecycleRoot = "LifecycleConfiguration"

func lifecycleOf(rules ...string) string {
	return "<" + lifecycleRoot + ">" + strings.Join(rules, "") + "</" + lifecycleRoot + ">"
}

func ruleOf(members string) string { return "<Rule>" + members + "</Rule>" }

const (
	enabled  = "<Status>Enabled</Status>"
	all      = "<Filter/>" + enabled
	fiveDays = "<Expiration><Days>5</Days></Expiration>"
)

func TestLifecycleRoundTrip(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("GET", "/photos?lifecycle", "").fails(404, "NoSuchLifecycleConfiguration")
	const tag = "<Tag><Key>k &lt;</Key><Value>v</Value></Tag>"
	for name, c := range map[string]struct{ sent, want string }{
		// s3cmd 2.3 sends these spaces and no ID.
		"s3cmd": {
			"<LifecycleConfiguration>  <Rule>    <Filter>      <Prefix>logs/</Prefix>    </Filter>    <Status>Enabled</Status>    <Expiration>      <Days>30</Days>    </Expiration>  </Rule></LifecycleConfiguration>",
			"<Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>30</Days></Expiration>",
		},
		"s3cmd with a date": {
			"<LifecycleConfiguration>  <Rule>    <Filter>      <Prefix></Prefix>    </Filter>    <Status>Enabled</Status>    <Expiration>      <Date>2030-01-02</Date>    </Expiration>  </Rule></LifecycleConfiguration>",
			"<Filter><Prefix></Prefix></Filter><Status>Enabled</Status><Expiration><Date>2030-01-02T00:00:00.000Z</Date></Expiration>",
		},
		"minio-go": {
			`<LifecycleConfiguration><Rule><AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload><ID>a</ID><Filter><Prefix>a/</Prefix></Filter><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration><Status>Disabled</Status></Rule></LifecycleConfiguration>`,
			"<ID>a</ID><Filter><Prefix>a/</Prefix></Filter><Status>Disabled</Status><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration><AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
		},
		"aws-sdk-go-v2": {
			`<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration><Filter><And><Prefix>p</Prefix><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan><ObjectSizeLessThan>1024</ObjectSizeLessThan>` + tag + `<Tag><Key>l</Key><Value></Value></Tag></And></Filter><ID>b</ID><Status>Enabled</Status></Rule></LifecycleConfiguration>`,
			"<ID>b</ID><Filter><And><Prefix>p</Prefix>" + tag + "<Tag><Key>l</Key><Value></Value></Tag><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan><ObjectSizeLessThan>1024</ObjectSizeLessThan></And></Filter><Status>Enabled</Status><Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>",
		},
		"the older form":  {lifecycleOf(ruleOf("<ID>c</ID><Prefix/>" + enabled + fiveDays)), "<ID>c</ID><Prefix></Prefix>" + enabled + fiveDays},
		"an empty filter": {lifecycleOf(ruleOf("<ID>d</ID>" + all + fiveDays)), "<ID>d</ID><Filter></Filter>" + enabled + fiveDays},
		"one tag":         {lifecycleOf(ruleOf("<ID>e</ID><Filter>" + tag + "</Filter>" + enabled + fiveDays)), "<ID>e</ID><Filter>" + tag + "</Filter>" + enabled + fiveDays},
		"one size":        {lifecycleOf(ruleOf("<ID>f</ID><Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>" + enabled + fiveDays)), "<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>"},
		"delete markers":  {lifecycleOf(ruleOf("<ID>g</ID>" + all + "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>")), "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"},
		"boto3": {
			lifecycleOf(ruleOf("<Expiration><Days>5</Days><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration><ID>h</ID><Filter><Prefix>x</Prefix></Filter>" + enabled)),
			"<Expiration><Days>5</Days><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>",
		},
	} {
		if a := s.do("PUT", "/photos?lifecycle", c.sent); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		got := s.do("GET", "/photos?lifecycle", "").want(200).head("X-Amz-Transition-Default-Minimum-Object-Size: all_storage_classes_128K").has(c.want)
		if got.element("ID") == "" {
			t.Errorf("%s: no ID in %s", name, got.body)
		}
		s.do("PUT", "/photos?lifecycle", got.body).want(200)
		s.do("GET", "/photos?lifecycle", "").is(got.body)
	}
	s.do("PUT", "/photos?lifecycle", lifecycleOf(ruleOf(all+fiveDays)), "x-amz-transition-default-minimum-object-size: varies_by_storage_class").want(200)
	s.do("GET", "/photos?lifecycle", "").head("X-Amz-Transition-Default-Minimum-Object-Size: varies_by_storage_class")
	s.do("DELETE", "/photos?lifecycle", "").want(204)
	s.do("DELETE", "/photos?lifecycle", "").want(204)
	s.do("GET", "/photos?lifecycle", "").fails(404, "NoSuchLifecycleConfiguration")
}

const malformed, argument, request, missing = "MalformedXML", "InvalidArgument", "InvalidRequest", "NotImplemented"

var wrongRules = map[string]string{
	"":                           malformed,
	fiveDays:                     malformed, // no status
	enabled + fiveDays:           malformed, // no filter
	"<Prefix/>" + all + fiveDays: malformed,
	"<Filter/><Status>enabled</Status>" + fiveDays: malformed,
	"<Filter/><Status/>" + fiveDays:                malformed,
	all:                                            request,
	"<ID>" + strings.Repeat("ü", 256) + "</ID>" + all + fiveDays:                                                           argument,
	all + fiveDays + "<Unknown/>":                                                                                          malformed,
	all + "<expiration><Days>5</Days></expiration>":                                                                        malformed,
	all + fiveDays + "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>":                         missing,
	all + "<Transition><StorageClass>A</StorageClass></Transition><Transition><StorageClass>B</StorageClass></Transition>": missing,
	all + "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionTransition>":                  missing,
	all + "<Expiration><Days>5</Days><ExpiredObjectAllVersions>true</ExpiredObjectAllVersions></Expiration>":               missing,
	all + "<DelMarkerExpiration><Days>5</Days></DelMarkerExpiration>":                                                      missing,
	all + "<Expiration/>":                                                                                      malformed,
	all + "<Expiration><Days>0</Days></Expiration>":                                                            argument,
	all + "<Expiration><Days>-1</Days></Expiration>":                                                           argument,
	all + "<Expiration><Days>2147483648</Days></Expiration>":                                                   argument,
	all + "<Expiration><Days>9223372036854775808</Days></Expiration>":                                          malformed,
	all + "<Expiration><Days>1.5</Days></Expiration>":                                                          malformed,
	all + "<Expiration><Days/></Expiration>":                                                                   malformed,
	all + "<Expiration><Days>5</Days><Days>6</Days></Expiration>":                                              malformed,
	all + "<Expiration><Days>5</Days><Hours>1</Hours></Expiration>":                                            malformed,
	all + "<Expiration><Days>5</Days><Date>2030-01-01</Date></Expiration>":                                     malformed,
	all + "<Expiration><Date>2030-01-01T00:00:01Z</Date></Expiration>":                                         argument,
	all + "<Expiration><Date>2030-01-01T00:00:00.000000001Z</Date></Expiration>":                               argument,
	all + "<Expiration><Date>2030-01-01T00:00:00+01:00</Date></Expiration>":                                    argument,
	all + "<Expiration><Date>1970-01-01T00:00:00Z</Date></Expiration>":                                         argument,
	all + "<Expiration><Date>0001-01-01T00:00:00Z</Date></Expiration>":                                         argument,
	all + "<Expiration><Date>20300101</Date></Expiration>":                                                     malformed,
	all + "<Expiration><Date>tomorrow</Date></Expiration>":                                                     malformed,
	all + "<Expiration><Date/></Expiration>":                                                                   malformed,
	all + "<Expiration><Days>5</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>": malformed,
	all + "<Expiration><ExpiredObjectDeleteMarker>maybe</ExpiredObjectDeleteMarker></Expiration>":              malformed,
	"<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>" + enabled + "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>": request,
	all + "<NoncurrentVersionExpiration/>": malformed,
	all + "<NoncurrentVersionExpiration><NoncurrentDays>0</NoncurrentDays></NoncurrentVersionExpiration>":                                                       argument,
	all + "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>0</NewerNoncurrentVersions></NoncurrentVersionExpiration>":   argument,
	all + "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions></NoncurrentVersionExpiration>": argument,
	all + "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><Newer>1</Newer></NoncurrentVersionExpiration>":                                       malformed,
	all + "<AbortIncompleteMultipartUpload/>": malformed,
	all + "<AbortIncompleteMultipartUpload><DaysAfterInitiation>0</DaysAfterInitiation></AbortIncompleteMultipartUpload>":                                                                     argument,
	all + "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation><Days>1</Days></AbortIncompleteMultipartUpload>":                                                       malformed,
	"<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>" + enabled + "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>": request,
	"<Filter><Prefix>" + strings.Repeat("p", 1025) + "</Prefix></Filter>" + enabled + fiveDays:                                                                                                request,
	"<Filter><Suffix>a</Suffix></Filter>" + enabled + fiveDays:                                                                                                                                malformed,
	"<Filter><prefix>a</prefix></Filter>" + enabled + fiveDays:                                                                                                                                malformed,
	"<Filter><Prefix>a</Prefix><Prefix>b</Prefix></Filter>" + enabled + fiveDays:                                                                                                              malformed,
	"<Filter><Prefix>a</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></Filter>" + enabled + fiveDays:                                                                                         malformed,
	"<Filter><Tag><Key>a</Key><Value/></Tag><Tag><Key>b</Key><Value/></Tag></Filter>" + enabled + fiveDays:                                                                                    malformed,
	"<Filter><And/></Filter>" + enabled + fiveDays:                                                                                                                                            malformed,
	"<Filter><And><Or/></And></Filter>" + enabled + fiveDays:                                                                                                                                  malformed,
	"<Filter><Prefix>a</Prefix><And><Prefix>b</Prefix></And></Filter>" + enabled + fiveDays:                                                                                                   malformed,
	"<Filter><Tag><Value>b</Value></Tag></Filter>" + enabled + fiveDays:                                                                                                                       malformed,
	"<Filter><Tag><Key>" + strings.Repeat("k", 129) + "</Key><Value/></Tag></Filter>" + enabled + fiveDays:                                                                                    request,
	"<Filter><Tag><Key>k</Key><Value>" + strings.Repeat("v", 257) + "</Value></Tag></Filter>" + enabled + fiveDays:                                                                            request,
	"<Filter><And><Tag><Key>a</Key><Value/></Tag><Tag><Key>a</Key><Value/></Tag></And></Filter>" + enabled + fiveDays:                                                                         request,
	"<Filter><ObjectSizeGreaterThan>-1</ObjectSizeGreaterThan></Filter>" + enabled + fiveDays:                                                                                                 request,
	"<Filter><ObjectSizeLessThan>0</ObjectSizeLessThan></Filter>" + enabled + fiveDays:                                                                                                        request,
	"<Filter><ObjectSizeLessThan>1k</ObjectSizeLessThan></Filter>" + enabled + fiveDays:                                                                                                       malformed,
	"<Filter><And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>5</ObjectSizeLessThan></And></Filter>" + enabled + fiveDays:                                             request,
}

func TestHostileLifecycle(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos?lifecycle", lifecycleOf(ruleOf("<ID>kept</ID>"+all+fiveDays))).want(200)
	was := s.do("GET", "/photos?lifecycle", "").body
	for members, code := range wrongRules {
		status := http.StatusBadRequest
		if code == missing {
			status = http.StatusNotImplemented
		}
		if a := s.do("PUT", "/photos?lifecycle", lifecycleOf(ruleOf(members))); a.status != status || a.element("Code") != code {
			t.Errorf("%s: %d %s, want %s", members, a.status, a.body, code)
		}
	}
	for document, code := range map[string]string{
		lifecycleOf(): malformed, lifecycleOf(ruleOf(all+fiveDays), "<Other/>"): malformed, "<Lifecycle/>": malformed, "": malformed,
		lifecycleOf(strings.Repeat(ruleOf(all+fiveDays), 1001)):            malformed,
		lifecycleOf(strings.Repeat(ruleOf("<ID>a</ID>"+all+fiveDays), 2)):  argument,
		lifecycleOf(ruleOf(all + fiveDays + strings.Repeat(" ", 600<<10))): "MaxMessageLengthExceeded",
	} {
		s.do("PUT", "/photos?lifecycle", document).fails(400, code)
	}
	s.do("PUT", "/photos?lifecycle", lifecycleOf(ruleOf(all+fiveDays)), "x-amz-transition-default-minimum-object-size: 1").fails(400, argument)
	s.do("GET", "/photos?lifecycle", "").is(was)
	s.do("PUT", "/photos?lifecycle", lifecycleOf(strings.Repeat(ruleOf(all+fiveDays), 1000))).want(200)
	if n := len(s.do("GET", "/photos?lifecycle", "").elements("ID")); n != 1000 {
		t.Errorf("%d rules, want 1000", n)
	}
	s.as(s.other, "GET", "/main:photos?lifecycle", "").fails(403, "AccessDenied")
	s.as(s.other, "DELETE", "/main:photos?lifecycle", "").fails(403, "AccessDenied")
	s.anonymous("GET", "/main:photos?lifecycle", "").fails(403, "AccessDenied")
}

func TestExpirationHeader(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos?lifecycle", lifecycleOf(
		ruleOf("<ID>ten ü</ID><Filter><Prefix>t/</Prefix></Filter>"+enabled+"<Expiration><Days>10</Days></Expiration>"),
		ruleOf("<ID>five</ID><Filter><Tag><Key>short</Key><Value>y</Value></Tag></Filter>"+enabled+fiveDays),
		ruleOf("<ID>off</ID><Filter/><Status>Disabled</Status><Expiration><Days>1</Days></Expiration>"),
	)).want(200)
	header := func(a answer, days int, rule string) {
		t.Helper()
		modified := time.Now()
		if text := s.do("HEAD", "/photos/t/k", "").want(200).header.Get("Last-Modified"); text != "" {
			modified, _ = http.ParseTime(text)
		}
		at := modified.UTC().Truncate(24*time.Hour).AddDate(0, 0, days+1).Format(http.TimeFormat)
		a.want(200).head(fmt.Sprintf(`X-Amz-Expiration: expiry-date="%s", rule-id="%s"`, at, rule))
	}
	for range 2 { // the second time, the rules are cached
		header(s.do("PUT", "/photos/t/k", hello), 10, "ten%20%C3%BC")
	}
	header(s.do("GET", "/photos/t/k", ""), 10, "ten%20%C3%BC")
	header(s.do("HEAD", "/photos/t/k", ""), 10, "ten%20%C3%BC")
	header(s.do("PUT", "/photos/t/k", hello, "x-amz-tagging: short=y"), 5, "five")
	header(s.do("PUT", "/photos/t/copy", "", "x-amz-copy-source: photos/t/k"), 5, "five")
	header(s.do("PUT", "/photos/t/copy", "", "x-amz-copy-source: photos/t/copy", "x-amz-tagging-directive: REPLACE"), 10, "ten%20%C3%BC")
	id := s.upload("/photos/t/m")
	header(s.complete("/photos/t/m", id, s.part("/photos/t/m", id, "1", hello)), 10, "ten%20%C3%BC")
	s.do("PUT", "/photos/other", hello).want(200).head("X-Amz-Expiration:")
	s.do("GET", "/photos/t/none", "").fails(404, "NoSuchKey").head("X-Amz-Expiration:")
	s.do("GET", "/photos/t/k", "", "Range: bytes=99999-").fails(416, "InvalidRange").head("X-Amz-Expiration:")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.anonymous("GET", "/main:photos/t/k", "").want(200).head("X-Amz-Expiration:")
	s.do("DELETE", "/photos?lifecycle", "").want(204)
	s.do("PUT", "/photos/t/k", hello).want(200).head("X-Amz-Expiration:")
	s.do("GET", "/photos/t/k", "").want(200).head("X-Amz-Expiration:")
}

func TestGoSDKLifecycle(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	c, ctx, bucket := s.client(), t.Context(), aws.String("photos")
	rules := []types.LifecycleRule{
		{
			ID: aws.String("one"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{
				Prefix: aws.String("a&b"), Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}, ObjectSizeGreaterThan: aws.Int64(1),
			}},
			Expiration: &types.LifecycleExpiration{Days: aws.Int32(3)},
		},
		{
			ID: aws.String("two"), Status: types.ExpirationStatusDisabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")},
			AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(7)},
			NoncurrentVersionExpiration:    &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(9), NewerNoncurrentVersions: aws.Int32(2)},
		},
		{ID: aws.String("three"), Status: types.ExpirationStatusEnabled, Prefix: aws.String("old"), Expiration: &types.LifecycleExpiration{Date: aws.Time(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC))}},
	}
	ok[*s3.PutBucketLifecycleConfigurationOutput](t)(c.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
		Bucket: bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules},
	}))
	got := ok[*s3.GetBucketLifecycleConfigurationOutput](t)(c.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: bucket}))
	if fmt.Sprintf("%+v", plainRules(got.Rules)) != fmt.Sprintf("%+v", plainRules(rules)) {
		t.Errorf("%+v, want %+v", plainRules(got.Rules), plainRules(rules))
	}
	put := ok[*s3.PutObjectOutput](t)(c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("old/k"), Body: strings.NewReader(hello)}))
	if want := `expiry-date="Wed, 01 Jan 2031 00:00:00 GMT", rule-id="three"`; aws.ToString(put.Expiration) != want {
		t.Errorf("%s, want %s", aws.ToString(put.Expiration), want)
	}
	ok[*s3.DeleteBucketLifecycleOutput](t)(c.DeleteBucketLifecycle(ctx, &s3.DeleteBucketLifecycleInput{Bucket: bucket}))
	if _, err := c.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: bucket}); code(err) != "NoSuchLifecycleConfiguration" {
		t.Error(err)
	}
}

func plainRules(rules []types.LifecycleRule) (all []string) {
	for _, r := range rules {
		text := aws.ToString(r.ID) + " " + string(r.Status)
		if f := r.Filter; f != nil {
			text += fmt.Sprintf(" filter %q", aws.ToString(f.Prefix))
			if f.And != nil {
				text += fmt.Sprintf(" and %q %s=%s %d", aws.ToString(f.And.Prefix), aws.ToString(f.And.Tags[0].Key), aws.ToString(f.And.Tags[0].Value), aws.ToInt64(f.And.ObjectSizeGreaterThan))
			}
		}
		text += fmt.Sprintf(" prefix %q", aws.ToString(r.Prefix)) //nolint:staticcheck // the older form
		if e := r.Expiration; e != nil {
			text += fmt.Sprintf(" expires %d %s", aws.ToInt32(e.Days), aws.ToTime(e.Date))
		}
		if n := r.NoncurrentVersionExpiration; n != nil {
			text += fmt.Sprintf(" noncurrent %d %d", aws.ToInt32(n.NoncurrentDays), aws.ToInt32(n.NewerNoncurrentVersions))
		}
		if a := r.AbortIncompleteMultipartUpload; a != nil {
			text += fmt.Sprintf(" abort %d", aws.ToInt32(a.DaysAfterInitiation))
		}
		all = append(all, text)
	}
	return all
}
