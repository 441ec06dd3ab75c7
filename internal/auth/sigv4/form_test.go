package sigv4_test

import (
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/checksum"
)

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

var formTime = time.Date(2015, 12, 30, 12, 0, 0, 0, time.UTC)

// changed returns the example form with one field replaced, or removed if value is "-".
func changed(name, value string) map[string]string {
	fields := exampleForm()
	fields[name] = value
	if value == "-" {
		delete(fields, name)
	}
	return fields
}

func TestVerifyForm(t *testing.T) {
	t.Parallel()
	credential := "/20151229/us-east-1/s3/aws4_request"
	for name, c := range map[string]struct {
		field, value string
		want         sigv4.Kind
	}{
		"no policy":             {"policy", "-", sigv4.InvalidPolicy},
		"long policy":           {"policy", strings.Repeat("A", 20<<10+1), sigv4.InvalidPolicy},
		"another policy":        {"policy", base64Of(strings.Replace(examplePolicy, "2015-12-30", "2025-12-30", 1)), sigv4.Mismatch},
		"no signature":          {"x-amz-signature", "-", sigv4.MalformedHeader},
		"another signature":     {"x-amz-signature", emptyHash, sigv4.Mismatch},
		"short signature":       {"x-amz-signature", "abc", sigv4.MalformedHeader},
		"no algorithm":          {"x-amz-algorithm", "-", sigv4.Unsupported},
		"another algorithm":     {"x-amz-algorithm", "AWS4-ECDSA-P256-SHA256", sigv4.Unsupported},
		"no credential":         {"x-amz-credential", "-", sigv4.MalformedHeader},
		"another access key":    {"x-amz-credential", "OTHER" + credential, sigv4.UnknownKey},
		"another service":       {"x-amz-credential", exampleKey + "/20151229/us-east-1/sts/aws4_request", sigv4.MalformedHeader},
		"another region":        {"x-amz-credential", exampleKey + "/20151229/US/s3/aws4_request", sigv4.MalformedHeader},
		"another day":           {"x-amz-credential", exampleKey + "/20151230/us-east-1/s3/aws4_request", sigv4.MalformedHeader},
		"no date":               {"x-amz-date", "-", sigv4.MissingDate},
		"wrong date":            {"x-amz-date", "2015-12-29", sigv4.MissingDate},
		"session token":         {"x-amz-security-token", "token", sigv4.SessionToken},
		"version 2, off":        {"awsaccesskeyid", "key", sigv4.Unsupported},
		"a field of no meaning": {"x-ignore-it", "1", 0},
	} {
		_, err := verifierAt(formTime).VerifyForm(t.Context(), changed(c.field, c.value), exampleLookup)
		if kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := verifierAt(formTime).VerifyForm(t.Context(), map[string]string{"key": "a"}, exampleLookup); kindOf(t, err) != sigv4.NoCredentials {
		t.Errorf("anonymous: %v", err)
	}
	_, err := verifierAt(formTime.Add(1)).VerifyForm(t.Context(), exampleForm(), exampleLookup)
	if e, ok := errors.AsType[*sigv4.Error](err); !ok || e.Kind != sigv4.PolicyExpired || !e.Expires.Equal(formTime) {
		t.Errorf("expired: %v", err)
	}
}

func TestSignForm(t *testing.T) {
	t.Parallel()
	fields := map[string]string{"bucket": "b", "key": "k"}
	policy := `{"expiration": "2015-12-30T12:00:00Z", "conditions": [{"bucket": "b"}, {"key": "k"}, ` + exampleSigner.FormConditions(formTime) + `]}`
	exampleSigner.SignForm(fields, policy, formTime)
	form, err := verifierAt(formTime).VerifyForm(t.Context(), fields, exampleLookup)
	if err != nil {
		t.Fatal(err)
	}
	if err := form.Policy.Check(fields); err != nil {
		t.Error(err)
	}
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	policy, err := sigv4.ParsePolicy(base64Of(examplePolicy))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		field, value string
		want         sigv4.Kind
	}{
		"another bucket":            {"bucket", "other", sigv4.PolicyConditionFailed},
		"no bucket":                 {"bucket", "-", sigv4.PolicyConditionFailed},
		"another prefix":            {"key", "user/user2/photo.jpg", sigv4.PolicyConditionFailed},
		"the prefix alone":          {"key", "user/user1/", 0},
		"no key":                    {"key", "-", sigv4.PolicyConditionFailed},
		"another acl":               {"acl", "private", sigv4.PolicyConditionFailed},
		"acl with more behind":      {"acl", "public-read-write", sigv4.PolicyConditionFailed},
		"no acl":                    {"acl", "-", sigv4.PolicyConditionFailed},
		"no tag":                    {"x-amz-meta-tag", "-", 0},
		"any tag":                   {"x-amz-meta-tag", "red, green", 0},
		"several content types":     {"content-type", "image/png, image/jpeg", 0},
		"one of them is another":    {"content-type", "image/png,text/html", sigv4.PolicyConditionFailed},
		"a field without condition": {"x-amz-meta-other", "1", sigv4.PolicyConditionMissing},
		"a field to ignore":         {"x-ignore-other", "1", 0},
		"the file":                  {"file", "", 0},
	} {
		err := policy.Check(changed(c.field, c.value))
		if kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if e, ok := errors.AsType[*sigv4.Error](err); ok && e.Field != c.field {
			t.Errorf("%s: the error names %s", name, e.Field)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	with := func(conditions string) string {
		return `{"expiration": "2015-12-30T12:00:00.000Z", "conditions": [` + conditions + `]}`
	}
	for document, want := range map[string]sigv4.Kind{
		with(``): 0,
		with(`{"acl": "private", "bucket": "b"}`):                                0,
		with(`["EQ", "$acl", "private"]`):                                        0,
		with(`["content-length-range", 1, 10]`):                                  0,
		with(`["content-length-range", "1", "10"]`):                              0,
		with(`["content-length-range", 0, 10], ["content-length-range", 1, 20]`): 0,

		``:             sigv4.InvalidPolicy,
		`null`:         sigv4.InvalidPolicy,
		`[]`:           sigv4.InvalidPolicy,
		`{}`:           sigv4.InvalidPolicy,
		with(``) + `x`: sigv4.InvalidPolicy,
		`{"expiration": "2015-12-30T12:00:00.000Z"}`:                               sigv4.InvalidPolicy,
		`{"expiration": "2015-12-30T12:00:00.000Z", "conditions": null}`:           sigv4.InvalidPolicy,
		`{"expiration": "2015-12-30T12:00:00.000Z", "conditions": {}}`:             sigv4.InvalidPolicy,
		`{"expiration": "2015-12-30T12:00:00.000Z", "CONDITIONS": []}`:             sigv4.InvalidPolicy,
		`{"expiration": "2015-12-30T12:00:00.000Z", "conditions": [], "other": 1}`: sigv4.InvalidPolicy,
		`{"expiration": "30 December 2015", "conditions": []}`:                     sigv4.InvalidPolicy,
		`{"expiration": 0, "conditions": []}`:                                      sigv4.InvalidPolicy,
		`{"expiration": null, "conditions": []}`:                                   sigv4.InvalidPolicy,
		`{"conditions": []}`:                                                       sigv4.InvalidPolicy,
		with(`1`):                                                                  sigv4.InvalidPolicy,
		with(`null`):                                                               sigv4.InvalidPolicy,
		with(`[]`):                                                                 sigv4.InvalidPolicy,
		with(`{}`):                                                                 sigv4.InvalidPolicy,
		with(`{"acl": 1}`):                                                         sigv4.InvalidPolicy,
		with(`{"acl": null}`):                                                      sigv4.InvalidPolicy,
		with(`{"acl": ["private"]}`):                                               sigv4.InvalidPolicy,
		with(`["eq", "$acl"]`):                                                     sigv4.InvalidPolicy,
		with(`["eq", "$acl", "a", "b"]`):                                           sigv4.InvalidPolicy,
		with(`["eq", "acl", "a"]`):                                                 sigv4.InvalidPolicy,
		with(`["eq", "$", "a"]`):                                                   sigv4.InvalidPolicy,
		with(`["eq", "$acl", null]`):                                               sigv4.InvalidPolicy,
		with(`["ends-with", "$acl", "a"]`):                                         sigv4.InvalidPolicy,
		with(`["content-length-range", 1]`):                                        sigv4.InvalidPolicy,
		with(`["content-length-range", -1, 10]`):                                   sigv4.InvalidPolicy,
		with(`["content-length-range", 10, 1]`):                                    sigv4.InvalidPolicy,
		with(`["content-length-range", 1.5, 2]`):                                   sigv4.InvalidPolicy,
		with(`["content-length-range", 1, 1e3]`):                                   sigv4.InvalidPolicy,
		with(`["content-length-range", 0, 9223372036854775808]`):                   sigv4.InvalidPolicy,
		with(`["content-length-range", null, 1]`):                                  sigv4.InvalidPolicy,
		strings.Repeat(`[`, 10_000):                                                sigv4.InvalidPolicy,
	} {
		p, err := sigv4.ParsePolicy(base64Of(document))
		if kindOf(t, err) != want {
			t.Errorf("%.100s: got %v, want %v", document, err, want)
		}
		low, high := int64(0), int64(math.MaxInt64)
		if strings.Contains(document, "content-length-range") {
			low, high = 1, 10
		}
		if want == 0 && (p.MinSize != low || p.MaxSize != high || !p.Expiration.Equal(formTime)) {
			t.Errorf("%s: %+v", document, p)
		}
	}
	if _, err := sigv4.ParsePolicy("not base64"); kindOf(t, err) != sigv4.InvalidPolicy {
		t.Errorf("not base64: %v", err)
	}
}

func TestFormBody(t *testing.T) {
	t.Parallel()
	crc := checksum.Sum(checksum.CRC32, []byte("hello")).String()
	for name, c := range map[string]struct {
		fields  map[string]string
		options sigv4.BodyOptions
		want    sigv4.Kind
	}{
		"plain":                        {nil, sigv4.BodyOptions{MinSize: 5, MaxSize: 5}, 0},
		"too small":                    {nil, sigv4.BodyOptions{MinSize: 6, MaxSize: 10}, sigv4.TooSmall},
		"too large":                    {nil, sigv4.BodyOptions{MaxSize: 4}, sigv4.TooLarge},
		"digests":                      {map[string]string{"content-md5": md5Of("hello"), "x-amz-checksum-crc32": crc, "x-amz-checksum-algorithm": "CRC32"}, allowed, 0},
		"another MD5":                  {map[string]string{"content-md5": md5Of("x")}, allowed, sigv4.DigestMismatch},
		"wrong MD5":                    {map[string]string{"content-md5": "x"}, allowed, sigv4.InvalidMD5},
		"another CRC":                  {map[string]string{"x-amz-checksum-crc32": "AAAAAA=="}, allowed, sigv4.DigestMismatch},
		"a payload hash means nothing": {map[string]string{"x-amz-content-sha256": emptyHash}, allowed, 0},
	} {
		fields := exampleForm()
		maps.Copy(fields, c.fields)
		body, err := sigv4.NewFormBody(fields, strings.NewReader("hello"), c.options)
		if err == nil {
			_, err = io.ReadAll(body)
		}
		if kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}
