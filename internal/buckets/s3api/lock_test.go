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

	"holdfast/internal/buckets"
)

func withLock(t testing.TB) *server {
	t.Helper()
	s := serve(t)
	s.do("PUT", "/photos", "", "x-amz-bucket-object-lock-enabled: true").want(200)
	return s
}

func after(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }

func retention(mode, until string) string {
	return "<Retention><Mode>" + mode + "</Mode><RetainUntilDate>" + until + "</RetainUntilDate></Retention>"
}

func lockRule(inside string) string {
	return "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>" + inside + "</DefaultRetention></Rule></ObjectLockConfiguration>"
}

const (
	lockEnabled = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"
	holdOn      = "<LegalHold><Status>ON</Status></LegalHold>"
	holdOff     = "<LegalHold><Status>OFF</Status></LegalHold>"
	withDigest  = "x-amz-checksum-crc32: x9UU9A==" // of hello
	bypassing   = "x-amz-bypass-governance-retention: true"
)

func TestLockConfiguration(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("GET", "/photos?object-lock", "").fails(404, "ObjectLockConfigurationNotFoundError")
	s.do("PUT", "/photos?object-lock", lockEnabled).fails(409, "InvalidBucketState")
	s.do("PUT", "/photos?versioning", versioningOff).want(200)
	s.do("PUT", "/photos?object-lock", lockEnabled).fails(409, "InvalidBucketState")
	s.do("PUT", "/photos?versioning", versioningOn).want(200)
	s.do("PUT", "/photos?object-lock", lockEnabled).want(200)
	s.do("GET", "/photos?object-lock", "").want(200).has("<ObjectLockEnabled>Enabled</ObjectLockEnabled>").hasNot("<Rule>")
	s.do("PUT", "/photos?versioning", versioningOff).fails(409, "InvalidBucketState")
	s.do("GET", "/photos?versioning", "").has("<Status>Enabled</Status>")
	for inside, code := range map[string]string{
		"<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>":            "MalformedXML",
		"<Mode>GOVERNANCE</Mode>":                                          "MalformedXML",
		"<Mode>governance</Mode><Days>1</Days>":                            "MalformedXML",
		"<Days>1</Days>":                                                   "MalformedXML",
		"<Mode>COMPLIANCE</Mode><Days>x</Days>":                            "MalformedXML",
		"<Mode>COMPLIANCE</Mode><Days>1</Days><Days>2</Days>":              "MalformedXML",
		"<Mode>COMPLIANCE</Mode><Days>99999999999999999999</Days>":         "MalformedXML",
		"<Mode>COMPLIANCE</Mode><Days>0</Days>":                            "InvalidRetentionPeriod",
		"<Mode>COMPLIANCE</Mode><Years>-1</Years>":                         "InvalidRetentionPeriod",
		"<Mode>COMPLIANCE</Mode><Years>101</Years>":                        "InvalidRetentionPeriod",
		"<Mode>COMPLIANCE</Mode><Days>36501</Days>":                        "InvalidRetentionPeriod",
		"<Mode>COMPLIANCE</Mode><Days>9223372036854775807</Days>":          "InvalidRetentionPeriod",
		"<Mode>COMPLIANCE</Mode><Years>-9223372036854775808</Years>":       "InvalidRetentionPeriod",
		"</DefaultRetention></Rule><Rule><DefaultRetention><Days>1</Days>": "MalformedXML",
	} {
		s.do("PUT", "/photos?object-lock", lockRule(inside)).fails(400, code)
	}
	for _, document := range []string{"", "<x", "<ObjectLockConfiguration></ObjectLockConfiguration>", strings.Replace(lockEnabled, "Enabled<", "Disabled<", 1), holdOn} {
		s.do("PUT", "/photos?object-lock", document).fails(400, "MalformedXML")
	}
	s.do("GET", "/photos?object-lock", "").hasNot("<Rule>")
	for _, inside := range []string{"<Mode>GOVERNANCE</Mode><Days>3</Days>", "<Mode>COMPLIANCE</Mode><Years>100</Years>"} {
		s.do("PUT", "/photos?object-lock", lockRule(inside), "x-amz-bucket-object-lock-token: x").want(200)
		s.do("GET", "/photos?object-lock", "").has(inside)
	}
	s.do("PUT", "/photos?object-lock", lockEnabled).want(200)
	s.do("GET", "/photos?object-lock", "").hasNot("<Rule>")
	s.do("DELETE", "/photos?object-lock", "").fails(405, "MethodNotAllowed")

	// CreateBucket with object lock fails if the bucket exists without it.
	s.do("PUT", "/plain", "").want(200)
	s.do("PUT", "/plain", "", "x-amz-bucket-object-lock-enabled: true").fails(409, "BucketAlreadyOwnedByYou")
	s.do("PUT", "/locked", "", "x-amz-bucket-object-lock-enabled: True").want(200)
	s.do("PUT", "/locked", "", "x-amz-bucket-object-lock-enabled: true").want(200)
	s.do("GET", "/locked?versioning", "").has("<Status>Enabled</Status>")
	s.do("GET", "/locked?object-lock", "").want(200)
}

func TestRetention(t *testing.T) {
	t.Parallel()
	s := withLock(t)
	until, later := after(time.Hour), after(2*time.Hour)
	id := s.do("PUT", "/photos/k", hello, "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until, withDigest).want(200).version()
	k := "/photos/k?versionId=" + id
	for _, method := range []string{"GET", "HEAD"} {
		s.do(method, "/photos/k", "").want(200).head("X-Amz-Object-Lock-Mode: GOVERNANCE", "X-Amz-Object-Lock-Retain-Until-Date: "+until, "X-Amz-Object-Lock-Legal-Hold")
	}
	s.do("GET", "/photos/k?retention", "").want(200).has("<Mode>GOVERNANCE</Mode>", "<RetainUntilDate>"+until+"</RetainUntilDate>").head("X-Amz-Version-Id: " + id)
	s.do("GET", "/photos/k?legal-hold", "").fails(404, "NoSuchObjectLockConfiguration")
	s.do("DELETE", k, "").fails(403, "AccessDenied").has("governance mode until")
	s.do("DELETE", k, "", "x-amz-bypass-governance-retention: false").fails(403, "AccessDenied")
	marker := s.do("DELETE", "/photos/k", "").want(204).head("X-Amz-Delete-Marker: true").version()
	s.do("DELETE", "/photos/k?versionId="+marker, "").want(204)
	s.do("POST", "/photos?delete", "<Delete><Object><Key>k</Key><VersionId>"+id+"</VersionId></Object></Delete>").want(200).has("<Code>AccessDenied</Code>")

	s.do("PUT", k+"&retention", retention("GOVERNANCE", after(time.Minute))).fails(403, "AccessDenied")
	s.do("PUT", k+"&retention", retention("COMPLIANCE", later)).fails(403, "AccessDenied")
	s.do("PUT", k+"&retention", "<Retention/>").fails(403, "AccessDenied")
	s.do("PUT", "/photos/k?retention", retention("GOVERNANCE", later)).want(200).head("X-Amz-Version-Id: " + id)
	s.do("PUT", k+"&retention", retention("GOVERNANCE", until), bypassing).want(200)
	s.do("PUT", k+"&retention", "<Retention/>", bypassing).want(200)
	s.do("GET", "/photos/k?retention", "").fails(404, "NoSuchObjectLockConfiguration")
	s.do("HEAD", "/photos/k", "").want(200).head("X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date")
	s.do("PUT", k+"&retention", retention("GOVERNANCE", until)).want(200)
	s.do("PUT", k+"&retention", retention("COMPLIANCE", until), bypassing).want(200)
	s.do("DELETE", k, "", bypassing).fails(403, "AccessDenied").has("compliance mode until")
	s.do("POST", "/photos?delete", "<Delete><Object><Key>k</Key><VersionId>"+id+"</VersionId></Object></Delete>", bypassing).want(200).has("<Code>AccessDenied</Code>")
	s.do("PUT", k+"&retention", retention("COMPLIANCE", after(time.Minute)), bypassing).fails(403, "AccessDenied")
	s.do("PUT", k+"&retention", retention("GOVERNANCE", later), bypassing).fails(403, "AccessDenied")
	s.do("PUT", k+"&retention", retention("COMPLIANCE", later)).want(200)
	s.do("DELETE", "/photos", "").fails(409, "BucketNotEmpty")
	s.do("GET", k, "").want(200).is(hello)

	governed := s.do("PUT", "/photos/g", hello, "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until, "Content-MD5: "+md5Of(hello)).want(200).version()
	s.do("POST", "/photos?delete", "<Delete><Object><Key>g</Key><VersionId>"+governed+"</VersionId></Object></Delete>", bypassing).want(200).has("<Deleted>")
}

func TestLegalHold(t *testing.T) {
	t.Parallel()
	s := withLock(t)
	id := s.do("PUT", "/photos/k", hello, "x-amz-object-lock-legal-hold: ON", withDigest).want(200).version()
	k := "/photos/k?versionId=" + id
	s.do("HEAD", "/photos/k", "").head("X-Amz-Object-Lock-Legal-Hold: ON", "X-Amz-Object-Lock-Mode")
	s.do("GET", "/photos/k?legal-hold", "").has("<Status>ON</Status>")
	s.do("DELETE", k, "", bypassing).fails(403, "AccessDenied").has("legal hold")
	s.do("PUT", k+"&retention", retention("GOVERNANCE", after(time.Hour))).want(200)
	s.do("PUT", k+"&legal-hold", holdOff).want(200)
	s.do("GET", k+"&legal-hold", "").has("<Status>OFF</Status>")
	s.do("DELETE", k, "").fails(403, "AccessDenied").has("governance")
	s.do("PUT", k+"&legal-hold", holdOn).want(200)
	s.do("DELETE", k, "", bypassing).fails(403, "AccessDenied")
	s.do("PUT", k+"&legal-hold", holdOff).want(200)
	s.do("DELETE", k, "", bypassing).want(204)
	marker := s.do("DELETE", "/photos/k", "").want(204).version()
	s.do("PUT", "/photos/k?legal-hold&versionId="+marker, holdOn).fails(405, "MethodNotAllowed")
	s.do("PUT", "/photos/k?legal-hold", holdOn).fails(404, "NoSuchKey")
	s.do("GET", "/photos/none?legal-hold", "").fails(404, "NoSuchKey")
}

// TestLockOfNewObjects covers copies, multipart uploads and forms. A copy does not inherit the source's lock.
func TestLockOfNewObjects(t *testing.T) {
	t.Parallel()
	s := withLock(t)
	until := after(time.Hour)
	headers := []string{"x-amz-object-lock-mode: COMPLIANCE", "x-amz-object-lock-retain-until-date: " + until, "x-amz-object-lock-legal-hold: ON"}
	locked := []string{"X-Amz-Object-Lock-Mode: COMPLIANCE", "X-Amz-Object-Lock-Retain-Until-Date: " + until, "X-Amz-Object-Lock-Legal-Hold: ON"}
	unlocked := []string{"X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date", "X-Amz-Object-Lock-Legal-Hold"}
	s.do("PUT", "/photos/k", hello, append(headers, withDigest)...).want(200)
	s.do("PUT", "/photos/copy", "", "x-amz-copy-source: photos/k").want(200)
	s.do("HEAD", "/photos/copy", "").head(unlocked...)
	s.do("PUT", "/photos/copy", "", append(headers, "x-amz-copy-source: photos/copy", "x-amz-metadata-directive: REPLACE")...).want(200)
	s.do("HEAD", "/photos/copy", "").head(locked...)
	id := s.upload("/photos/parts", headers...)
	s.do("PUT", "/photos/parts?partNumber=1&uploadId="+id, hello, headers...).fails(400, "InvalidRequest")
	s.complete("/photos/parts", id, s.part("/photos/parts", id, "1", hello)).want(200)
	s.do("HEAD", "/photos/parts", "").head(locked...)
	form := map[string]string{
		"key": "form", "x-amz-object-lock-mode": "COMPLIANCE", "x-amz-object-lock-retain-until-date": until, "x-amz-object-lock-legal-hold": "ON",
		"x-amz-checksum-crc32": "x9UU9A==",
	}
	s.send(s.form(form, hello)).want(204)
	s.do("HEAD", "/photos/form", "").head(locked...)
	s.do("PUT", "/photos?object-lock", lockRule("<Mode>GOVERNANCE</Mode><Days>1</Days>")).want(200)
	s.do("PUT", "/photos/default", hello).want(200)
	s.do("HEAD", "/photos/default", "").head("X-Amz-Object-Lock-Mode: GOVERNANCE", "X-Amz-Object-Lock-Legal-Hold")
	until = s.do("HEAD", "/photos/default", "").header.Get("X-Amz-Object-Lock-Retain-Until-Date")
	s.do("PUT", "/photos/default?retention", retention("GOVERNANCE", until)).want(200) // not shorter than before
	s.do("PUT", "/photos/k", hello, append(headers, withDigest)...).want(200)
	s.do("HEAD", "/photos/k", "").head(locked...)
	s.do("PUT", "/photos/k?tagging", "<Tagging><TagSet></TagSet></Tagging>").want(200)
	s.anonymous("HEAD", "/photos/k", "").want(403).head(unlocked...)
	s.do("GET", "/photos/k", "", "If-None-Match: *").want(304)
	s.do("GET", "/photos/k", "", "Range: bytes=99-").want(416).head(unlocked...)
}

func TestHostileLocks(t *testing.T) {
	t.Parallel()
	s := withLock(t)
	s.do("PUT", "/plain", "").want(200)
	until, past := after(time.Hour), after(-time.Second)
	mode, date, hold := "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: ", "x-amz-object-lock-legal-hold: "
	for _, c := range []struct {
		code    string
		headers []string
	}{
		{"InvalidArgument", []string{mode}},
		{"InvalidArgument", []string{date + until}},
		{"InvalidArgument", []string{mode, date + past}},
		{"InvalidArgument", []string{mode, date + "tomorrow"}},
		{"InvalidArgument", []string{mode, date + "2999-01-01"}},
		{"InvalidArgument", []string{mode, date + "99999-01-01T00:00:00Z"}},
		{"InvalidArgument", []string{mode, date + "2999-13-01T00:00:00Z"}},
		{"InvalidArgument", []string{mode, date + "0000-01-01T00:00:00Z"}},
		{"InvalidArgument", []string{mode, date + "9999-12-31T23:59:59-23:59"}},
		{"InvalidArgument", []string{"x-amz-object-lock-mode: governance", date + until}},
		{"InvalidArgument", []string{"x-amz-object-lock-mode: <script>", date + until}},
		{"InvalidArgument", []string{hold + "on"}},
		{"InvalidArgument", []string{mode, mode, date + until}},
		{"InvalidArgument", []string{mode, date + until, hold + "MAYBE"}},
	} {
		s.do("PUT", "/photos/k", hello, append(c.headers, withDigest)...).fails(400, c.code)
		s.do("POST", "/photos/k?uploads", "", c.headers...).fails(400, c.code)
	}
	for _, headers := range [][]string{{mode, date + until}, {hold + "OFF"}} {
		s.do("PUT", "/photos/k", hello, headers...).fails(400, "InvalidRequest").has("Content-MD5")
		s.do("PUT", "/plain/k", hello, append(headers, withDigest)...).fails(400, "InvalidRequest").has("missing Object Lock")
		s.do("POST", "/plain/k?uploads", "", headers...).fails(400, "InvalidRequest")
		s.do("PUT", "/none/k", hello, append(headers, withDigest)...).fails(404, "NoSuchBucket")
	}
	s.nothing("k")
	id := s.do("PUT", "/photos/k", hello).want(200).version()
	s.do("PUT", "/plain/k", hello).want(200)
	for _, sub := range []string{"retention", "legal-hold"} {
		s.do("GET", "/plain/k?"+sub, "").fails(400, "InvalidRequest")
		s.do("GET", "/photos/k?"+sub+"&versionId=x", "").fails(400, "InvalidArgument")
		s.do("GET", "/photos/k?"+sub+"&versionId=null", "").fails(404, "NoSuchVersion")
		s.do("PUT", "/photos/k?"+sub, "").fails(400, "MalformedXML")
		s.do("PUT", "/photos/k?"+sub, "<x").fails(400, "MalformedXML")
		s.do("PUT", "/photos/k?"+sub, lockEnabled).fails(400, "MalformedXML")
		s.do("PUT", "/photos/k?"+sub, strings.Repeat(" ", 65<<10)).fails(400, "MaxMessageLengthExceeded")
		s.do("DELETE", "/photos/k?"+sub, "").fails(405, "MethodNotAllowed")
		s.anonymous("GET", "/photos/k?"+sub, "").fails(403, "AccessDenied")
	}
	for _, document := range []string{
		retention("governance", until), retention("", until), retention("GOVERNANCE", ""), retention("GOVERNANCE", until) + "x",
		strings.Replace(retention("GOVERNANCE", until), "<Mode>", "<Mode>COMPLIANCE</Mode><Mode>", 1),
	} {
		s.do("PUT", "/photos/k?retention", document).fails(400, "MalformedXML")
	}
	s.do("PUT", "/photos/k?retention", retention("GOVERNANCE", past)).fails(400, "InvalidArgument")
	s.do("PUT", "/photos/k?retention", retention("GOVERNANCE", "x")).fails(400, "InvalidArgument")
	s.do("PUT", "/plain/k?retention", retention("GOVERNANCE", until)).fails(400, "InvalidRequest")
	s.do("PUT", "/plain/k?legal-hold", holdOn).fails(400, "InvalidRequest")
	s.do("PUT", "/photos/k?legal-hold", strings.Replace(holdOn, "ON", "On", 1)).fails(400, "MalformedXML")
	s.do("PUT", "/photos/k?legal-hold", "<LegalHold></LegalHold>").fails(400, "MalformedXML")
	s.do("DELETE", "/photos/k?versionId="+id, "").want(204)
}

func TestBypassIsARight(t *testing.T) {
	t.Parallel()
	s := withLock(t)
	put := func() string {
		return s.do("PUT", "/photos/k", hello, "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+after(time.Hour), withDigest).want(200).version()
	}
	id := put()
	k := "/photos/k?versionId=" + id
	all := []buckets.Right{buckets.RightRead, buckets.RightWrite, buckets.RightDelete, buckets.RightList, buckets.RightManage, buckets.RightPolicy}
	without := s.limited(buckets.KeyLimits{Rights: all})
	batch := "<Delete><Object><Key>k</Key><VersionId>" + id + "</VersionId></Object></Delete>"
	s.as(without, "DELETE", k, "", bypassing).fails(403, "AccessDenied")
	s.as(without, "POST", "/photos?delete", batch, bypassing).want(200).has("<Code>AccessDenied</Code>")
	s.as(without, "PUT", k+"&retention", "<Retention/>", bypassing).fails(403, "AccessDenied")
	s.as(s.limited(buckets.KeyLimits{Rights: []buckets.Right{buckets.RightBypass}}), "DELETE", k, "", bypassing).fails(403, "AccessDenied")
	with := s.limited(buckets.KeyLimits{Rights: append(all, buckets.RightBypass)})
	s.as(with, "PUT", k+"&retention", retention("GOVERNANCE", after(time.Minute)), bypassing).want(200)
	s.as(with, "DELETE", k, "").fails(403, "AccessDenied")
	s.as(with, "DELETE", k, "", bypassing).want(204)

	id = put()
	k = "/photos/k?versionId=" + id
	s.policy(`{` + toOther + `, "NotAction": "s3:BypassGovernanceRetention"}`)
	s.as(s.other, "HEAD", k, "").want(200).head("X-Amz-Object-Lock-Mode: GOVERNANCE")
	s.as(s.other, "DELETE", k, "", bypassing).fails(403, "AccessDenied")
	s.policy(`{` + fromAll + `, "Action": "s3:BypassGovernanceRetention"}`)
	s.do("DELETE", k, "", bypassing).fails(403, "AccessDenied")
	s.policy(`{` + toOther + `, "Action": ["s3:GetObject", "s3:GetObjectVersion", "s3:DeleteObjectVersion", "s3:BypassGovernanceRetention"]}`)
	s.as(s.other, "HEAD", k, "").want(200).head("X-Amz-Object-Lock-Mode")
	s.as(s.other, "DELETE", k, "", bypassing).want(204)
}

func TestLockConditions(t *testing.T) {
	t.Parallel()
	s := withLock(t)
	put := func(mode string, d time.Duration, hold string) answer {
		return s.as(s.other, "PUT", "/photos/k", hello, "x-amz-object-lock-mode: "+mode, "x-amz-object-lock-retain-until-date: "+after(d), "x-amz-object-lock-legal-hold: "+hold, withDigest)
	}
	s.policy(`{` + toOther + `, "Action": "s3:PutObject"}`)
	put("GOVERNANCE", time.Hour, "ON").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/photos/k", hello).want(200)
	actions := `"Action": ["s3:PutObject", "s3:PutObjectRetention", "s3:PutObjectLegalHold"]`
	s.policy(`{`+toOther+`, `+actions+`}`,
		`{`+fromAll+`, "Action": "s3:PutObjectRetention", "Condition": {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}}}`,
		`{`+fromAll+`, "Action": "s3:PutObjectRetention", "Condition": {"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}}}`,
		`{`+fromAll+`, "Action": "s3:PutObjectRetention", "Condition": {"DateGreaterThan": {"s3:object-lock-retain-until-date": "2999-01-01T00:00:00Z"}}}`,
		`{`+fromAll+`, "Action": "s3:PutObjectLegalHold", "Condition": {"StringEquals": {"s3:object-lock-legal-hold": "OFF"}}}`)
	put("GOVERNANCE", time.Hour, "ON").want(200)
	put("GOVERNANCE", time.Hour, "OFF").fails(403, "AccessDenied")
	put("COMPLIANCE", time.Hour, "ON").fails(403, "AccessDenied")
	put("GOVERNANCE", 12*24*time.Hour, "ON").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/photos/k?legal-hold", holdOff).fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/photos/k?retention", retention("GOVERNANCE", after(12*24*time.Hour))).fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/photos/k?retention", retention("GOVERNANCE", after(9*24*time.Hour))).want(200)
	s.do("PUT", "/photos/k?retention", retention("GOVERNANCE", "3000-01-01T00:00:00Z")).fails(403, "AccessDenied") // the owner, too
}

func TestLocksOfSDK(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.client()
	ctx := t.Context()
	bucket, key := aws.String("photos"), aws.String("k")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket, ObjectLockEnabledForBucket: aws.Bool(true)})
	must(err)
	rule := &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Years: aws.Int32(1)}}
	_, err = c.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{
		Bucket: bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled, Rule: rule},
	})
	must(err)
	config, err := c.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: bucket})
	must(err)
	if got := config.ObjectLockConfiguration.Rule.DefaultRetention; got.Mode != rule.DefaultRetention.Mode || *got.Years != 1 || got.Days != nil {
		t.Errorf("the default retention is %+v", got)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	put, err := c.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: key, Body: strings.NewReader(hello), ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &until,
	})
	must(err)
	_, err = c.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{Bucket: bucket, Key: key, LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOn}})
	must(err)
	head, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key})
	must(err)
	if head.ObjectLockMode != types.ObjectLockModeCompliance || !head.ObjectLockRetainUntilDate.Equal(until) || head.ObjectLockLegalHoldStatus != types.ObjectLockLegalHoldStatusOn {
		t.Errorf("the lock is %s %v %s", head.ObjectLockMode, head.ObjectLockRetainUntilDate, head.ObjectLockLegalHoldStatus)
	}
	later := until.Add(time.Hour)
	_, err = c.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{
		Bucket: bucket, Key: key, VersionId: put.VersionId, Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeCompliance, RetainUntilDate: &later},
	})
	must(err)
	got, err := c.GetObjectRetention(ctx, &s3.GetObjectRetentionInput{Bucket: bucket, Key: key})
	must(err)
	if !got.Retention.RetainUntilDate.Equal(later) {
		t.Errorf("until %v", got.Retention.RetainUntilDate)
	}
	_, err = c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key, VersionId: put.VersionId, BypassGovernanceRetention: aws.Bool(true)})
	if err == nil || !strings.Contains(fmt.Sprint(err), "AccessDenied") {
		t.Errorf("DeleteObject: %v", err)
	}
	_, err = c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key})
	must(err)
	if a := s.do(http.MethodGet, "/photos/k?versionId="+*put.VersionId, ""); a.status != http.StatusOK {
		t.Errorf("the version is %d", a.status)
	}
}
