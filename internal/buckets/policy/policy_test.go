package policy_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
)

const (
	owner = buckets.AccountID("11111111-1111-4111-8111-111111111111")
	other = buckets.AccountID("22222222-2222-4222-8222-222222222222")
	third = buckets.AccountID("33333333-3333-4333-8333-333333333333")
)

type accounts struct{}

func (accounts) Account(_ context.Context, name string) (a buckets.Account, err error) {
	id, ok := map[string]buckets.AccountID{"main": owner, "other": other, "third": third}[name]
	if !ok {
		err = buckets.ErrNoAccount
	}
	return buckets.Account{ID: id, Name: name}, err
}

func (accounts) AccountByID(_ context.Context, id buckets.AccountID) (a buckets.Account, err error) {
	if id != owner && id != other && id != third {
		err = buckets.ErrNoAccount
	}
	return buckets.Account{ID: id}, err
}

// values is a Context with keys KEY or KEY/NAME in lower case.
type values map[string][]string

func (v values) Value(k policy.Key, name string) ([]string, error) {
	id := strings.ToLower(string(k))
	if name != "" {
		id += "/" + name
	}
	return v[id], nil
}

func of(t testing.TB, document string) *policy.Policy {
	t.Helper()
	p, stored, err := policy.New(t.Context(), accounts{}, "", "photos", []byte(document))
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	if stored.Document != document {
		t.Fatalf("stored %q", stored.Document)
	}
	return p
}

func decide(t testing.TB, p *policy.Policy, account buckets.AccountID, what string, v values) policy.Decision {
	t.Helper()
	action, object, _ := strings.Cut(what, " ")
	d, err := p.Evaluate(policy.Request{Account: account, Action: policy.Action(action), Object: object, Context: v})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestExamples evaluates the S3 documentation's policies.
func TestExamples(t *testing.T) { //nolint:funlen // a table
	t.Parallel()
	type request struct {
		account buckets.AccountID
		what    string
		values  values
		want    policy.Decision
	}
	tls, plain := values{"aws:securetransport": {"true"}}, values{"aws:securetransport": {"false"}}
	for name, example := range map[string]struct {
		document string
		public   bool
		requests []request
	}{
		"read access for everybody": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "PublicRead", "Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": ["arn:aws:s3:::photos/*"]}]}`,
			true,
			[]request{
				{"", "s3:GetObject a", nil, policy.AllowedEverybody}, {"", "s3:GetObjectVersion a/b", nil, policy.AllowedEverybody},
				{"", "s3:PutObject a", nil, policy.None}, {"", "s3:ListBucket", nil, policy.None},
			},
		},
		"HTTPS only": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "RestrictToTLSRequestsOnly", "Action": "s3:*", "Effect": "Deny", "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"], "Condition": {"Bool": {"aws:SecureTransport": "false"}}, "Principal": "*"}]}`,
			false,
			[]request{{owner, "s3:GetObject a", plain, policy.Denied}, {owner, "s3:ListBucket", plain, policy.Denied}, {owner, "s3:GetObject a", tls, policy.None}},
		},
		"upload by another account that gives the owner control": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "PolicyForAllowUploadWithACL", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::other:root"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}}]}`,
			false,
			[]request{
				{other, "s3:PutObject a", values{"s3:x-amz-acl": {"bucket-owner-full-control"}}, policy.AllowedAccount},
				{other, "s3:PutObject a", nil, policy.None}, {third, "s3:PutObject a", values{"s3:x-amz-acl": {"bucket-owner-full-control"}}, policy.None},
			},
		},
		"specific addresses": {
			`{"Version": "2012-10-17", "Id": "S3PolicyId1", "Statement": [{"Sid": "IPAllow", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"], "Condition": {"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}]}`,
			false,
			[]request{
				{owner, "s3:GetObject a", values{"aws:sourceip": {"192.0.2.7"}}, policy.None}, {owner, "s3:GetObject a", values{"aws:sourceip": {"::ffff:192.0.2.7"}}, policy.None},
				{owner, "s3:GetObject a", values{"aws:sourceip": {"203.0.113.1"}}, policy.Denied}, {owner, "s3:GetObject a", nil, policy.Denied},
			},
		},
		"IPv4 and IPv6 addresses": {
			`{"Id": "PolicyId2", "Version": "2012-10-17", "Statement": [{"Sid": "AllowIPmix", "Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"], "Condition": {"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:DB8:1234:5678::/64"]}, "NotIpAddress": {"aws:SourceIp": ["203.0.113.0/24", "2001:DB8:1234:5678:ABCD::/80"]}}}]}`,
			false,
			[]request{
				{"", "s3:GetObject a", values{"aws:sourceip": {"2001:db8:1234:5678::1"}}, policy.AllowedEverybody}, {"", "s3:GetObject a", values{"aws:sourceip": {"2001:db8:1234:5678:abcd::1"}}, policy.None},
				{"", "s3:GetObject a", values{"aws:sourceip": {"192.0.2.1"}}, policy.AllowedEverybody}, {"", "s3:GetObject a", values{"aws:sourceip": {"198.51.100.1"}}, policy.None},
			},
		},
		"referer": {
			`{"Version": "2012-10-17", "Id": "HTTP referer policy example", "Statement": [{"Sid": "Allow only GET requests originating from www.example.com and example.com.", "Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringLike": {"aws:Referer": ["http://www.example.com/*", "http://example.com/*"]}}}]}`,
			true,
			[]request{{"", "s3:GetObject a", values{"aws:referer": {"http://example.com/page"}}, policy.AllowedEverybody}, {"", "s3:GetObject a", values{"aws:referer": {"http://example.org/"}}, policy.None}, {"", "s3:GetObject a", nil, policy.None}},
		},
		"folder of a list": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "statement1", "Effect": "Allow", "Principal": {"AWS": "other"}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::photos", "Condition": {"StringEquals": {"s3:prefix": "projects"}}}, {"Sid": "statement2", "Effect": "Deny", "Principal": {"AWS": "other"}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::photos", "Condition": {"StringNotEquals": {"s3:prefix": "projects"}}}]}`,
			false,
			[]request{{other, "s3:ListBucket", values{"s3:prefix": {"projects"}}, policy.AllowedAccount}, {other, "s3:ListBucket", values{"s3:prefix": {"x"}}, policy.Denied}, {other, "s3:ListBucket", nil, policy.Denied}, {third, "s3:ListBucket", nil, policy.None}},
		},
		"at most ten keys": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "statement1", "Effect": "Allow", "Principal": {"AWS": ["other"]}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::photos", "Condition": {"NumericLessThanEquals": {"s3:max-keys": "10"}}}, {"Sid": "statement2", "Effect": "Deny", "Principal": {"AWS": ["other"]}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::photos", "Condition": {"NumericGreaterThan": {"s3:max-keys": "10"}}}]}`,
			false,
			[]request{{other, "s3:ListBucket", values{"s3:max-keys": {"10"}}, policy.AllowedAccount}, {other, "s3:ListBucket", values{"s3:max-keys": {"11"}}, policy.Denied}, {other, "s3:ListBucket", nil, policy.None}},
		},
		"copies of a folder of a source": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "cross-account permission to user in your own account", "Effect": "Allow", "Principal": {"AWS": "other"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*"}, {"Sid": "Deny your user permission to upload object if copy source is not /bucket/prefix", "Effect": "Deny", "Principal": {"AWS": "other"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringNotLike": {"s3:x-amz-copy-source": "source/public/*"}}}]}`,
			false,
			[]request{{other, "s3:PutObject a", values{"s3:x-amz-copy-source": {"source/public/k"}}, policy.AllowedAccount}, {other, "s3:PutObject a", values{"s3:x-amz-copy-source": {"source/k"}}, policy.Denied}, {other, "s3:PutObject a", nil, policy.Denied}},
		},
		"objects with a tag": {
			`{"Version": "2012-10-17", "Statement": [{"Principal": {"AWS": ["other"]}, "Effect": "Allow", "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": "arn:aws:s3:::photos/*", "Condition": {"StringEquals": {"s3:ExistingObjectTag/environment": "production"}}}]}`,
			false,
			[]request{{other, "s3:GetObject a", values{"s3:existingobjecttag/environment": {"production"}}, policy.AllowedAccount}, {other, "s3:GetObject a", values{"s3:existingobjecttag/Environment": {"production"}}, policy.None}},
		},
		"keys of tags": {
			`{"Version": "2012-10-17", "Statement": [{"Principal": {"AWS": ["other"]}, "Effect": "Allow", "Action": ["s3:PutObjectTagging"], "Resource": ["arn:aws:s3:::photos/*"], "Condition": {"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["Owner", "CreationDate"]}}}]}`,
			false,
			[]request{{other, "s3:PutObjectTagging a", values{"s3:requestobjecttagkeys": {"Owner"}}, policy.AllowedAccount}, {other, "s3:PutObjectTagging a", values{"s3:requestobjecttagkeys": {"Owner", "x"}}, policy.None}, {other, "s3:PutObjectTagging a", nil, policy.AllowedAccount}},
		},
		"a tag key with a value": {
			`{"Version": "2012-10-17", "Statement": [{"Principal": {"AWS": ["other"]}, "Effect": "Allow", "Action": ["s3:PutObjectTagging"], "Resource": ["arn:aws:s3:::photos/*"], "Condition": {"StringEquals": {"s3:RequestObjectTag/Project": "X"}, "ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["Project"]}}}]}`,
			false,
			[]request{{other, "s3:PutObjectTagging a", values{"s3:requestobjecttagkeys": {"Project"}, "s3:requestobjecttag/Project": {"X"}}, policy.AllowedAccount}, {other, "s3:PutObjectTagging a", nil, policy.None}},
		},
		"only encrypted uploads": {
			`{"Version": "2012-10-17", "Id": "PutObjPolicy", "Statement": [{"Sid": "DenyObjectsThatAreNotSSEKMS", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"Null": {"s3:x-amz-server-side-encryption-aws-kms-key-id": "true"}}}]}`,
			false,
			[]request{{owner, "s3:PutObject a", nil, policy.Denied}, {owner, "s3:PutObject a", values{"s3:x-amz-server-side-encryption-aws-kms-key-id": {"k"}}, policy.None}},
		},
		"conditional writes": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "BlockNonConditionalObjectCreation", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"Null": {"s3:if-none-match": "true", "s3:if-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}}]}`,
			false,
			[]request{{owner, "s3:PutObject a", values{"s3:objectcreationoperation": {"true"}}, policy.Denied}, {owner, "s3:PutObject a", values{"s3:objectcreationoperation": {"true"}, "s3:if-none-match": {"*"}}, policy.None}, {owner, "s3:PutObject a", values{"s3:objectcreationoperation": {"false"}}, policy.None}},
		},
		"old signatures of links": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "Deny a presigned URL request if the signature is more than 10 min old", "Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*", "Condition": {"NumericGreaterThan": {"s3:signatureAge": "600000"}}}]}`,
			false,
			[]request{{owner, "s3:GetObject a", values{"s3:signatureage": {"600001"}}, policy.Denied}, {owner, "s3:GetObject a", values{"s3:signatureage": {"1"}}, policy.None}},
		},
		"TLS 1.2": {
			`{"Version": "2012-10-17", "Statement": [{"Sid": "EnforceTLSv12orHigher", "Principal": {"AWS": "*"}, "Action": ["s3:*"], "Effect": "Deny", "Resource": ["arn:aws:s3:::photos/*", "arn:aws:s3:::photos"], "Condition": {"NumericLessThan": {"s3:TlsVersion": 1.2}}}]}`,
			false,
			[]request{{owner, "s3:GetObject a", values{"s3:tlsversion": {"1.1"}}, policy.Denied}, {owner, "s3:GetObject a", values{"s3:tlsversion": {"1.3"}}, policy.None}},
		},
		"folders of accounts": {
			`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/home/${aws:PrincipalAccount}/*"}]}`,
			true,
			[]request{{other, "s3:GetObject home/" + string(other) + "/k", nil, policy.AllowedEverybody}, {other, "s3:GetObject home/" + string(third) + "/k", nil, policy.None}, {"", "s3:GetObject home//k", nil, policy.None}},
		},
		"everything but deletion": {
			`{"Version": "2008-10-17", "Statement": {"Effect": "Allow", "Principal": {"CanonicalUser": "` + string(other) + `"}, "NotAction": ["s3:Delete*", "S3:PUTBUCKET*"], "NotResource": "arn:aws:s3:::photos/secret/*"}}`,
			false,
			[]request{{other, "s3:GetObject a", nil, policy.AllowedAccount}, {other, "s3:GetObject secret/a", nil, policy.None}, {other, "s3:DeleteObject a", nil, policy.None}, {other, "s3:PutBucketPolicy", nil, policy.None}, {other, "s3:ListBucket", nil, policy.AllowedAccount}},
		},
		"explicit deny": {
			`{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/a"}, {"Effect": "Allow", "Principal": {"AWS": ["main", "` + strings.ToUpper(string(other)) + `"]}, "Action": "s3:Get*", "Resource": "arn:aws:s3:::photos/?"}]}`,
			false,
			[]request{{other, "s3:GetObject a", nil, policy.Denied}, {other, "s3:GetObject b", nil, policy.AllowedAccount}, {other, "s3:GetObject bb", nil, policy.None}, {other, "s3:GetObject ü", nil, policy.AllowedAccount}},
		},
	} {
		p := of(t, example.document)
		if got := p.IsPublic(); got != example.public {
			t.Errorf("%s: public is %v", name, got)
		}
		for _, r := range example.requests {
			if got := decide(t, p, r.account, r.what, r.values); got != r.want {
				t.Errorf("%s: %s by %q with %v: %v, want %v", name, r.what, r.account, r.values, got, r.want)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	statement := func(s string) string { return `{"Version": "2012-10-17", "Statement": [{` + s + `}]}` }
	const valid = `"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"`
	condition := func(s string) string { return statement(valid + `, "Condition": {` + s + `}`) }
	of(t, statement(valid))
	for document, reason := range map[string]string{
		``: "JSON", `[]`: "not a JSON object", `null`: "not a JSON object", `{} {}`: "after the document", `{"Version": "2012-10-17", "Version": "2012-10-17"}`: "twice",
		`{"Statement": ` + strings.Repeat("[", 20) + `}`:                                    "nested",
		"{\"Id\": \"\xff\"}":                                                                "UTF-8",
		`{"Version": "2020-01-01", "Statement": []}`:                                        "Version",
		`{"version": "2012-10-17"}`:                                                         `"version" is not known`,
		`{"Id": 7}`:                                                                         "Id",
		`{"Statement": []}`:                                                                 "no Statement",
		`{"Statement": [7]}`:                                                                "statement 1 is not an object",
		statement(valid + `, "Comment": ""`):                                                `"Comment" is not known`,
		statement(valid + `, "Sid": 7`):                                                     "Sid",
		statement(strings.Replace(valid, "Allow", "allow", 1)):                              "neither Allow nor Deny",
		statement(strings.Replace(valid, `"Effect": "Allow", `, "", 1)):                     "no Effect",
		statement(strings.Replace(valid, `"Principal": "*", `, "", 1)):                      "no Principal",
		statement(strings.Replace(valid, `"Principal": "*"`, `"NotPrincipal": "*"`, 1)):     "NotPrincipal is not supported",
		statement(strings.Replace(valid, `"*"`, `"other"`, 1)):                              "Principal",
		statement(strings.Replace(valid, `"*"`, `{}`, 1)):                                   "Principal",
		statement(strings.Replace(valid, `"*"`, `{"AWS": []}`, 1)):                          "AWS",
		statement(strings.Replace(valid, `"*"`, `{"AWS": "absent"}`, 1)):                    `"absent" is not an account`,
		statement(strings.Replace(valid, `"*"`, `{"AWS": "oth*"}`, 1)):                      `"oth*" is not valid`,
		statement(strings.Replace(valid, `"*"`, `{"AWS": "arn:aws:iam::other:user/a"}`, 1)): "no users and roles",
		statement(strings.Replace(valid, `"*"`, `{"AWS": "`+strings.Repeat("0", 8)+`-0000-4000-8000-000000000009"}`, 1)): "is not an account",
		statement(strings.Replace(valid, `"*"`, `{"CanonicalUser": "other"}`, 1)):                                        "canonical user",
		statement(strings.Replace(valid, `"*"`, `{"Service": "logging.s3.amazonaws.com"}`, 1)):                           `"Service" is not supported`,
		statement(strings.Replace(valid, "s3:GetObject", "s3:Brew", 1)):                                                  `"s3:Brew" is not known`,
		statement(strings.Replace(valid, "s3:GetObject", "s3:Brew*", 1)):                                                 `"s3:Brew*" is not known`,
		statement(strings.Replace(valid, "s3:GetObject", "ec2:RunInstances", 1)):                                         "is not known",
		statement(strings.Replace(valid, `"s3:GetObject"`, `[]`, 1)):                                                     "Action",
		statement(strings.Replace(valid, `"s3:GetObject"`, `[7]`, 1)):                                                    "Action",
		statement(valid + `, "NotAction": "s3:GetObject"`):                                                               "either Action or NotAction",
		statement(valid + `, "NotResource": "arn:aws:s3:::photos"`):                                                      "either Resource or NotResource",
		statement(strings.Replace(valid, "photos/*", "photo", 1)):                                                        "not of this bucket",
		statement(strings.Replace(valid, "photos/*", "*", 1)):                                                            "not of this bucket",
		statement(strings.Replace(valid, "photos/*", "photos2/*", 1)):                                                    "not of this bucket",
		statement(strings.Replace(valid, "photos/*", "photos/${aws:username}/*", 1)):                                     "variable ${aws:username} is not known",
		statement(strings.Replace(valid, "photos/*", "photos/${aws:PrincipalAccount", 1)):                                "no }",
		statement(strings.Replace(valid, "photos/*", "photos", 1)):                                                       "no action applies",
		statement(strings.Replace(valid, "s3:GetObject", "s3:ListBucket", 1)):                                            "no action applies",
		statement(valid + `, "Condition": []`):                                                                           "Condition",
		condition(`"StringEquals": 7`):                                                                                   "StringEquals is not an object",
		condition(`"StringSame": {}`):                                                                                    `"StringSame" is not known`,
		condition(`"ForSomeValue:StringEquals": {"aws:Referer": "a"}`):                                                   "is not known",
		condition(`"ForAllValues:Null": {"aws:Referer": "true"}`):                                                        "is not known",
		condition(`"NullIfExists": {"aws:Referer": "true"}`):                                                             "is not known",
		condition(`"StringEquals": {"aws:SourceVpc": "a"}`):                                                              `"aws:SourceVpc" is not known`,
		condition(`"StringEquals": {"s3:ExistingObjectTag": "a"}`):                                                       "is not known",
		condition(`"StringEquals": {"aws:Referer/x": "a"}`):                                                              "is not known",
		condition(`"StringEquals": {"aws:Referer": []}`):                                                                 "no value",
		condition(`"StringEquals": {"aws:Referer": {}}`):                                                                 "neither a string",
		condition(`"StringEquals": {"aws:Referer": null}`):                                                               "neither a string",
		condition(`"StringEquals": {"aws:Referer": "a", "AWS:referer": "b"}`):                                            "twice",
		condition(`"StringEquals": {"s3:prefix": "a"}`):                                                                  "applies to none",
		condition(`"StringEquals": {"s3:RequestObjectTagKeys": "a"}`):                                                    "ForAllValues:StringEquals",
		condition(`"StringEquals": {"aws:SourceIp": "192.0.2.1"}`):                                                       "does not apply",
		condition(`"IpAddress": {"aws:Referer": "192.0.2.1"}`):                                                           "does not apply",
		condition(`"IpAddress": {"aws:SourceIp": "everywhere"}`):                                                         "expected an address",
		condition(`"IpAddress": {"aws:SourceIp": "192.0.2.1/33"}`):                                                       "expected an address",
		condition(`"NumericEquals": {"s3:signatureAge": "ten"}`):                                                         "expected a number",
		condition(`"NumericEquals": {"s3:signatureAge": "Inf"}`):                                                         "expected a number",
		condition(`"DateEquals": {"aws:CurrentTime": "tomorrow"}`):                                                       "expected a date",
		condition(`"Bool": {"aws:SecureTransport": "yes"}`):                                                              "expected true or false",
	} {
		p, _, err := policy.New(t.Context(), accounts{}, "", "photos", []byte(document))
		wrong, ok := errors.AsType[*policy.Error](err)
		if !ok || p != nil || !strings.Contains(wrong.Reason, reason) {
			t.Errorf("%s\n%v, want %q", document, err, reason)
		}
	}
	if _, err := policy.Parse([]byte(statement(valid)+strings.Repeat(" ", policy.MaxSize)), "photos"); err == nil {
		t.Error("a policy of more than 20 KB is accepted")
	}
}

// TestOperators evaluates each operator with a matching value, another value and no value.
func TestOperators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		operator, key, value     string
		holds, not               string
		without, withoutIfExists bool
	}{
		{"StringEquals", "aws:Referer", "aB", "aB", "ab", false, true},
		{"StringNotEquals", "aws:Referer", "aB", "ab", "aB", true, true},
		{"StringEqualsIgnoreCase", "aws:Referer", "aB", "Ab", "b", false, true},
		{"StringNotEqualsIgnoreCase", "aws:Referer", "aB", "b", "AB", true, true},
		{"StringLike", "aws:Referer", "a*c?", "abbcü", "abbc", false, true},
		{"StringNotLike", "aws:Referer", "a*c?", "abbc", "ac!", true, true},
		{"StringEquals", "aws:Referer", "${*}${?}${$}", "*?$", "ab$", false, true},
		{"StringLike", "aws:Referer", "${*}*", "*a", "ba", false, true},
		{"StringEquals", "aws:Referer", "${aws:UserAgent, 'none'}", "none", "x", false, true},
		{"StringEquals", "aws:SecureTransport", "true", "true", "false", false, true},
		{"ArnLike", "aws:PrincipalArn", "arn:aws:iam::" + string(other) + ":*", "", "", true, true}, // the requester's account
		{"ArnNotEquals", "aws:PrincipalArn", "arn:aws:iam::" + string(other) + ":root", "", "", false, false},
		{"Bool", "aws:SecureTransport", "True", "true", "false", false, true},
		{"IpAddress", "aws:SourceIp", "10.1.0.0/16", "10.1.2.3", "10.2.2.3", false, true},
		{"NotIpAddress", "aws:SourceIp", "10.1.2.3", "10.1.2.4", "::ffff:10.1.2.3", true, true},
		{"NumericEquals", "s3:signatureAge", "10", "10.0", "11", false, true},
		{"NumericNotEquals", "s3:signatureAge", "10", "11", "1e1", true, true},
		{"NumericLessThan", "s3:signatureAge", "10", "9", "10", false, true},
		{"NumericLessThanEquals", "s3:signatureAge", "10", "10", "11", false, true},
		{"NumericGreaterThan", "s3:signatureAge", "10", "11", "10", false, true},
		{"NumericGreaterThanEquals", "s3:signatureAge", "10", "10", "9", false, true},
		{"NumericLessThan", "aws:EpochTime", "100", "99", "100", false, true},
		{"DateEquals", "aws:CurrentTime", "2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31T00:00:01Z", false, true},
		{"DateNotEquals", "aws:CurrentTime", "2026-01-31", "2026-02-01", "1769817600", true, true},
		{"DateLessThan", "aws:CurrentTime", "2026-01-31T12:00:00+02:00", "2026-01-31T09:59:59Z", "2026-01-31T10:00:00Z", false, true},
		{"DateLessThanEquals", "aws:CurrentTime", "2026-01-31T12:00Z", "2026-01-31T12:00:00Z", "2026-01-31T12:00:01Z", false, true},
		{"DateGreaterThan", "aws:CurrentTime", "0", "1", "0", false, true},
		{"DateGreaterThanEquals", "aws:CurrentTime", "10", "10", "9", false, true},
	} {
		for _, ifExists := range []bool{false, true} {
			name, without := c.operator, c.without
			if ifExists {
				name, without = name+"IfExists", c.withoutIfExists
			}
			p := of(t, `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {"`+name+`": {"`+c.key+`": "`+c.value+`"}}}}`)
			holds := func(v values) bool { return decide(t, p, other, "s3:GetObject k", v) == policy.AllowedEverybody }
			key := strings.ToLower(c.key)
			if c.holds != "" && (!holds(values{key: {c.holds}}) || holds(values{key: {c.not}})) {
				t.Errorf("%s %s %s: %v for %s, %v for %s", c.key, name, c.value, holds(values{key: {c.holds}}), c.holds, holds(values{key: {c.not}}), c.not)
			}
			if holds(nil) != without {
				t.Errorf("%s %s %s: %v without a value", c.key, name, c.value, !without)
			}
		}
	}
}

func TestSetOperators(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]map[string]bool{ // tag keys of the request, and whether the condition holds
		`"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}`:    {"": true, "a": true, "a b": true, "a c": false, "c": false},
		`"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}`:     {"": false, "a": true, "a c": true, "c": false},
		`"ForAllValues:StringNotEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}`: {"": true, "a": false, "a c": false, "c d": true},
		`"ForAnyValue:StringNotEquals": {"s3:RequestObjectTagKeys": ["a", "b"]}`:  {"": false, "a": false, "a c": true, "a b": false},
		`"ForAnyValue:StringLikeIfExists": {"s3:RequestObjectTagKeys": "a*"}`:     {"": true, "ab": true, "b": false},
		`"Null": {"s3:RequestObjectTagKeys": "true"}`:                             {"": true, "a": false},
		`"Null": {"s3:RequestObjectTagKeys": false}`:                              {"": false, "a": true},
	} {
		p := of(t, `{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {`+condition+`}}}`)
		for names, holds := range want {
			if got := decide(t, p, "", "s3:PutObject k", values{"s3:requestobjecttagkeys": strings.Fields(names)}); (got == policy.AllowedEverybody) != holds {
				t.Errorf("%s with %q: %v", condition, names, got)
			}
		}
	}
}

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]bool{
		``: true, `"Bool": {"aws:SecureTransport": "true"}`: true, `"StringEquals": {"aws:Referer": "a"}`: true,
		`"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}`: false, `"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "0.0.0.0/1"]}`: true,
		`"IpAddress": {"aws:SourceIp": "2001:db8::/31"}`: true, `"IpAddress": {"aws:SourceIp": "2001:db8::/32"}`: false,
		`"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}`: true, `"IpAddressIfExists": {"aws:SourceIp": "10.0.0.0/8"}`: true,
		`"StringEquals": {"aws:PrincipalAccount": "a"}`: false, `"StringLike": {"aws:PrincipalAccount": "a*"}`: true,
		`"StringNotEquals": {"aws:PrincipalAccount": "a"}`: true, `"StringEqualsIfExists": {"aws:PrincipalAccount": "a"}`: true,
		`"StringEquals": {"aws:PrincipalAccount": "${aws:ResourceAccount}"}`: true, `"Null": {"aws:PrincipalAccount": "false"}`: true,
		`"ForAllValues:StringEquals": {"aws:PrincipalAccount": "a"}`: true,
	} {
		p := of(t, `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": ["main", "*"]}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*", "Condition": {`+condition+`}}}`)
		if p.IsPublic() != want {
			t.Errorf("%s: public is %v", condition, !want)
		}
	}
}

// TestStoredPolicy checks that a later account with a name from the policy gets no rights, and that a policy that
// cannot be parsed denies everything.
func TestStoredPolicy(t *testing.T) {
	t.Parallel()
	document := `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "other"}, "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*"}}`
	p := policy.Load(buckets.Policy{Document: document, Accounts: map[string]buckets.AccountID{"other": third}}, "photos")
	if decide(t, p, third, "s3:GetObject k", nil) != policy.AllowedAccount || decide(t, p, other, "s3:GetObject k", nil) != policy.None || !p.Shares(third) || p.Shares(other) || p.Shares("") {
		t.Error("the policy does not use the stored account")
	}
	p = policy.Load(buckets.Policy{Document: `{"Later": true}`}, "photos")
	for _, a := range policy.KnownActions() {
		if decide(t, p, owner, string(a)+" k", nil) != policy.Denied {
			t.Errorf("%s is not denied", a)
		}
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	var c policy.Cache
	b := buckets.Bucket{BucketRef: buckets.BucketRef{Name: "photos", ID: "a"}}
	if c.Of(&b) != nil {
		t.Error("a bucket without a policy has one")
	}
	b.Settings.Policy = buckets.Policy{Document: `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "other"}, "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*"}}`, Accounts: map[string]buckets.AccountID{"other": other}}
	first := c.Of(&b)
	if c.Of(&b) != first {
		t.Error("the policy is parsed again")
	}
	b.Settings.Policy.Accounts = map[string]buckets.AccountID{"other": third}
	if p := c.Of(&b); p.Shares(other) || !p.Shares(third) {
		t.Error("an old account is used")
	}
	for i := range 3000 {
		b.ID = buckets.BucketID(strings.Repeat("x", i))
		c.Of(&b)
	}
	if c.Len() > 1000 {
		t.Errorf("%d policies are cached", c.Len())
	}
}
