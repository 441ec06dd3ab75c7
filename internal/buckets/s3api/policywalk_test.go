//test:unraced the race detector makes it ten times as slow

package s3api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/buckets/s3api"
	"holdfast/internal/testdb"
)

// The walk sets, for each condition key, a policy that denies everything unless the key has an expected value, and one
// that denies everything unless the key is present. It then sends every write with the key absent, empty, blank,
// malformed, and as expected. If the store has changed, the effect must satisfy the policy. The expectation
// comes from the store, not from the code that decides.

const (
	approved = "approved body"
	another  = "another body"
	evil     = "the client's body"
	walkTo   = "https://approved.test/"
)

var walkUntil = time.Now().Add(100 * 24 * time.Hour).UTC().Truncate(time.Second)

// walkKey says how a client can state a condition key, and which effect an allowed write may have.
type walkKey struct {
	operator  string // in a condition that holds unless the key has the expected value
	expected  string
	malformed string
	headers   []string // that state the key; with %s for the value
	query     string   // that states the key; with %s for the value

	// value returns the key's value according to a write's effect. It is nil if no write that changes the store can
	// have the expected value, either because no operation applies the key or because the condition does not hold.
	value func(effect) string

	stated bool // the value has no effect on the store, so it must be as stated
	common bool // a client's property, so it is always present
}

// effect is a write's result in the store.
type effect struct {
	content string // the stored body's entity tag; "" without a body
	object  buckets.Object
	public  bool // the bucket
	creates bool
}

func header(name string) []string { return []string{name + ": %s"} }

func walkKeys() map[policy.Key]walkKey {
	all := map[policy.Key]walkKey{
		policy.IfMatch:     {expected: `"00112233445566778899aabbccddeeff"`, malformed: `"x`, headers: header("If-Match")},
		policy.IfNoneMatch: {expected: "*", malformed: `*, "a"`, headers: header("If-None-Match")},
		policy.CopySource: {expected: "sources/approved", malformed: "%zz", headers: header("x-amz-copy-source"), value: func(e effect) string {
			return map[string]string{md5Tag(approved): "sources/approved", md5Tag(another): "sources/other"}[e.content]
		}},
		policy.RequestObjectTag: {expected: "ok", malformed: "%zz", headers: []string{"x-amz-tagging: class=%s"}, value: func(e effect) string {
			if v, ok := e.object.Tags["class"]; ok {
				return cmp.Or(v, "empty")
			}
			return ""
		}},
		policy.RequestTagKeys:    {operator: "ForAnyValue:StringNotEquals", expected: "class", malformed: "x&class=", headers: []string{"x-amz-tagging: class=%s"}, value: func(e effect) string { return strings.Join(slices.Sorted(maps.Keys(e.object.Tags)), ",") }},
		policy.ExistingObjectTag: {expected: "open", malformed: "x", headers: []string{"x-amz-tagging: state=open"}, query: "versionId=%s"},
		policy.ACL:               {expected: "bucket-owner-full-control", malformed: "everybody", headers: header("x-amz-acl"), stated: true},
		policy.StorageClass:      {expected: "STANDARD", malformed: "GLACIER", headers: header("x-amz-storage-class"), stated: true},
		policy.Redirect:          {expected: walkTo, malformed: ",", headers: header("x-amz-website-redirect-location"), value: func(e effect) string { return e.object.Headers["x-amz-website-redirect-location"] }},
		policy.MetadataDirective: {expected: "REPLACE", malformed: "replace", headers: header("x-amz-metadata-directive"), value: func(e effect) string {
			return map[string]string{"replaced": "REPLACE", "source": "COPY"}[e.object.Headers["m-from"]]
		}},
		policy.LockMode: {expected: "GOVERNANCE", malformed: "x", headers: []string{"x-amz-object-lock-mode: %s", "x-amz-object-lock-retain-until-date: " + walkUntil.Format(time.RFC3339)}, value: func(e effect) string { return string(e.object.Lock.Mode) }},
		policy.LockUntil: {operator: "DateNotEquals", expected: walkUntil.Format(time.RFC3339), malformed: "tomorrow", headers: []string{"x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: %s"}, value: func(e effect) string {
			return lockUntil(e.object.Lock).Format(time.RFC3339)
		}},
		policy.LockDays:    {operator: "NumericNotEquals", expected: "99", malformed: "tomorrow", headers: []string{"x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: " + walkUntil.Format(time.RFC3339)}, value: func(e effect) string { return fmt.Sprint(int(time.Until(lockUntil(e.object.Lock)) / (24 * time.Hour))) }},
		policy.LockHold:    {expected: "ON", malformed: "on", headers: header("x-amz-object-lock-legal-hold"), value: func(e effect) string { return string(e.object.Lock.Hold) }},
		policy.VersionID:   {expected: "null", malformed: "x", query: "versionId=%s", stated: true},
		policy.Prefix:      {expected: "in/", malformed: "%00", query: "prefix=%s", headers: header("x-amz-prefix")},
		policy.Delimiter:   {expected: "/", malformed: "%00", query: "delimiter=%s"},
		policy.MaxKeys:     {operator: "NumericNotEquals", expected: "1", malformed: "x", query: "max-keys=%s"},
		policy.UserAgent:   {expected: "tests", malformed: ",", headers: header("User-Agent"), stated: true, common: true},
		policy.Referer:     {expected: "https://app.test", malformed: ",", headers: header("Referer"), stated: true, common: true},
		policy.SourceIP:    {operator: "NotIpAddress", expected: "203.0.113.9", malformed: "x", headers: []string{"X-Forwarded-For: %s", "Forwarded: for=%s", "X-Real-IP: %s"}, common: true},
		policy.CurrentTime: {operator: "DateNotEquals", expected: "2001-02-03T04:05:06Z", malformed: "x", headers: header("Date"), common: true},
		policy.EpochTime:   {operator: "NumericNotEquals", expected: "981173106", malformed: "x", headers: header("Date"), common: true},
		policy.ObjectCreation: {operator: "BoolIfExists", expected: "false", malformed: "x", headers: header("x-amz-object-creation-operation"), value: func(e effect) string {
			return fmt.Sprint(e.creates)
		}},
		policy.SecureTransport:  {operator: "Bool", expected: "true", malformed: "x", headers: []string{"X-Forwarded-Proto: https", "Forwarded: proto=https"}, common: true},
		policy.PrincipalArn:     {operator: "ArnNotEquals", expected: "arn:aws:iam::other:root", malformed: "x", headers: header("x-amz-principal-arn"), common: true},
		policy.SignatureAge:     {operator: "NumericNotEquals", expected: "-1", malformed: "x", headers: header("x-amz-signature-age"), common: true},
		policy.TLSVersion:       {operator: "NumericNotEquals", expected: "1.3", malformed: "x", headers: header("x-amz-tls-version"), common: true},
		policy.AuthType:         {expected: "KERBEROS", malformed: "x", headers: header("x-amz-auth-type"), query: "X-Amz-Auth-Type=%s", common: true},
		policy.ContentSHA256:    {expected: "UNSIGNED", malformed: "x", query: "x-amz-content-sha256=%s", common: true},
		policy.SignatureVersion: {expected: "AWS", malformed: "x", headers: header("x-amz-signature-version"), common: true},
	}
	for _, k := range []policy.Key{policy.PrincipalAccount, policy.PrincipalType, policy.ResourceAccount, policy.S3ResourceAccount} {
		name := strings.ToLower(strings.ReplaceAll(string(k), ":", "-"))
		all[k] = walkKey{expected: "other", malformed: "x", headers: header("x-" + name), common: true}
	}
	for _, name := range []string{
		"grant-read", "grant-write", "grant-read-acp", "grant-write-acp", "grant-full-control", "server-side-encryption",
		"server-side-encryption-aws-kms-key-id", "server-side-encryption-customer-algorithm",
	} {
		all[policy.Key("s3:x-amz-"+name)] = walkKey{expected: "AES256", malformed: ",", headers: header("x-amz-" + name)}
	}
	return all
}

func lockUntil(l buckets.Lock) time.Time {
	if l.Until == 0 {
		return time.Time{}
	}
	return l.Until.Time().UTC()
}

// walkWrite is a write, with values other than the expected values.
type walkWrite struct {
	route   string // METHOD, "object" or "bucket", and the parameter
	name    string
	target  func(*walkTarget) string
	headers []string
	body    func(*walkTarget) string
	applies string // the condition keys that the operation applies, besides the common keys
	allowed string // the condition keys with which it succeeds if the client states the expected value
	refuses bool   // not implemented, so that nothing changes anyway
	how     string // "", presigned or form
	creates bool
}

// walkTarget is the object or upload that a write works on. It is made anew after each change.
type walkTarget struct {
	key, upload, part string
	tag, older        string // the current version's entity tag, and an older version's ID
}

func at(query string) func(*walkTarget) string {
	return func(t *walkTarget) string { return "/photos/" + t.key + query }
}

func bucketAt(query string) func(*walkTarget) string {
	return func(*walkTarget) string { return "/photos" + query }
}

func text(s string) func(*walkTarget) string { return func(*walkTarget) string { return s } }

const (
	ofLock  = " s3:object-lock-mode s3:object-lock-legal-hold s3:object-lock-retain-until-date s3:object-lock-remaining-retention-days"
	ofMade  = "s3:ExistingObjectTag s3:RequestObjectTag s3:RequestObjectTagKeys s3:ObjectCreationOperation s3:x-amz-website-redirect-location" + ofLock
	ofNew   = ofMade + " s3:if-match s3:if-none-match s3:x-amz-acl s3:x-amz-storage-class"
	ofPut   = ofNew + " s3:x-amz-copy-source s3:x-amz-metadata-directive"
	ofTags  = "s3:RequestObjectTag s3:RequestObjectTagKeys"
	stated  = "s3:x-amz-acl s3:x-amz-storage-class s3:x-amz-website-redirect-location " + ofTags + ofLock
	ofOne   = "s3:ExistingObjectTag s3:versionid"
	tagEvil = "<Tagging><TagSet><Tag><Key>class</Key><Value>evil</Value></Tag></TagSet></Tagging>"
)

func walkWrites() []walkWrite {
	digest := "Content-MD5: " + md5Of(evil)
	fromOther := []string{"x-amz-copy-source: sources/other", "x-amz-meta-from: replaced", "Content-MD5: " + md5Of("")}
	replacing := append(slices.Clone(fromOther), "x-amz-metadata-directive: REPLACE", "x-amz-tagging-directive: REPLACE")
	part := func(t *walkTarget) string { return "/photos/" + t.key + "?partNumber=1&uploadId=" + t.upload }
	upload := func(t *walkTarget) string { return "/photos/" + t.key + "?uploadId=" + t.upload }
	all := []walkWrite{
		{route: "PUT object ", name: "PUT", target: at(""), headers: []string{digest}, body: text(evil), applies: ofPut, allowed: stated + " s3:x-amz-copy-source", creates: true},
		{route: "PUT object ", name: "presigned PUT", target: at(""), body: text(evil), applies: ofPut, how: "presigned", creates: true},
		{route: "PUT object ", name: "copy", target: at(""), headers: fromOther, applies: ofPut, allowed: "s3:x-amz-copy-source s3:x-amz-metadata-directive s3:x-amz-acl s3:x-amz-storage-class" + ofLock, creates: true},
		{route: "PUT object ", name: "copy with new metadata", target: at(""), headers: replacing, applies: ofPut, allowed: stated + " s3:x-amz-copy-source s3:x-amz-metadata-directive", creates: true},
		{route: "POST bucket ", name: "form", target: bucketAt(""), body: text(evil), applies: ofNew, allowed: stated, how: "form", creates: true},
		{route: "DELETE object ", name: "DELETE", target: at(""), applies: ofOne},
		{route: "DELETE object ", name: "DELETE of a version", target: func(t *walkTarget) string { return "/photos/" + t.key + "?versionId=" + t.older }, headers: []string{bypassing}, applies: ofOne},
		{route: "POST object uploads", name: "new upload", target: at("?uploads"), applies: ofNew, allowed: stated + " s3:ObjectCreationOperation"},
		{route: "PUT object uploadId", name: "part", target: part, body: text(evil), applies: ofMade + " s3:x-amz-copy-source", allowed: "s3:x-amz-copy-source s3:ObjectCreationOperation"},
		{route: "PUT object uploadId", name: "copied part", target: part, headers: []string{"x-amz-copy-source: sources/other"}, applies: ofMade + " s3:x-amz-copy-source", allowed: "s3:x-amz-copy-source s3:ObjectCreationOperation"},
		{route: "POST object uploadId", name: "completion", target: upload, creates: true, applies: ofMade + " s3:if-match s3:if-none-match", body: func(t *walkTarget) string {
			return "<CompleteMultipartUpload>" + t.part + "</CompleteMultipartUpload>"
		}},
		{route: "DELETE object uploadId", name: "abortion", target: upload, applies: "s3:ExistingObjectTag"},
		{route: "PUT object acl", name: "object ACL", target: at("?acl"), body: text("<AccessControlPolicy><AccessControlList></AccessControlList></AccessControlPolicy>"), applies: ofOne + " s3:x-amz-acl"},
		{route: "PUT object tagging", name: "tags", target: at("?tagging"), body: text(tagEvil), applies: ofOne + " s3:RequestObjectTag s3:RequestObjectTagKeys"},
		{route: "DELETE object tagging", name: "no tags", target: at("?tagging"), applies: ofOne},
		{route: "PUT object legal-hold", name: "legal hold", target: at("?legal-hold"), body: text(holdOff), applies: ofOne + " s3:object-lock-legal-hold"},
		{route: "PUT object retention", name: "retention", target: at("?retention"), body: text(retention("GOVERNANCE", after(5*24*time.Hour))), applies: ofOne + strings.ReplaceAll(ofLock, " s3:object-lock-legal-hold", "")},
		{route: "POST bucket delete", name: "DeleteObjects", target: bucketAt("?delete"), applies: ofOne, body: func(t *walkTarget) string {
			return "<Delete><Object><Key>" + t.key + "</Key></Object></Delete>"
		}},
		{route: "PUT bucket acl", name: "ACL", target: bucketAt("?acl"), body: text(`<AccessControlPolicy><AccessControlList><Grant><Grantee><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>`), applies: "s3:x-amz-acl"},
		{route: "DELETE bucket ", name: "DeleteBucket", target: bucketAt(""), refuses: true}, // it has objects
	}
	for parameter, body := range map[string]string{
		"versioning": versioningOn, "cors": "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>",
		"tagging": tagEvil, "ownershipControls": "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
		"publicAccessBlock": "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>", "object-lock": lockEnabled,
		"lifecycle":    "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter><Prefix>x/</Prefix></Filter><Expiration><Days>900</Days></Expiration></Rule></LifecycleConfiguration>",
		"notification": "<NotificationConfiguration></NotificationConfiguration>",
		"encryption":   "", "replication": "", "website": "", "analytics": "", "inventory": "", "metrics": "", "intelligent-tiering": "",
		"logging": "<BucketLoggingStatus/>", "accelerate": "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>",
		"requestPayment": "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>", "abac": "<AbacStatus><Status>Disabled</Status></AbacStatus>",
	} {
		all = append(all, walkWrite{route: "PUT bucket " + parameter, name: "PUT ?" + parameter, target: bucketAt("?" + parameter), body: text(body), refuses: body == ""})
		all = append(all, walkWrite{route: "DELETE bucket " + parameter, name: "DELETE ?" + parameter, target: bucketAt("?" + parameter)})
	}
	return all
}

type walk struct {
	*server
	made   int
	policy string
	set    string // the policy in the bucket
}

func TestPolicyWalk(t *testing.T) {
	testdb.CheckOnly(t, "it sends every request with every condition key")
	t.Parallel()
	keys, writes := walkKeys(), walkWrites()
	for _, k := range policy.KnownKeys() {
		if _, ok := keys[k]; !ok {
			t.Errorf("the walk does not know the condition key %s", k)
		}
	}
	checkWrites(t, writes)
	w := &walk{server: withLock(t)}
	w.do("PUT", "/sources", "").want(200)
	targets := map[string]*walkTarget{}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		w.sources(k == policy.RequestObjectTag || k == policy.RequestTagKeys)
		for _, statements := range keys[k].statements(k) {
			w.walkPolicy(k, keys[k], statements, writes, targets)
		}
	}
}

// checkWrites compares the walk with the listener's operations.
func checkWrites(t *testing.T, writes []walkWrite) {
	t.Helper()
	walked := map[string]map[policy.Key]bool{}
	for _, w := range writes {
		if walked[w.route] == nil {
			walked[w.route] = map[policy.Key]bool{}
		}
		for k := range strings.FieldsSeq(w.applies) {
			walked[w.route][policy.Key(k)] = true
		}
	}
	for _, r := range s3api.Routes() {
		route := r.Method + " " + map[bool]string{true: "object", false: "bucket"}[r.OfObject] + " " + r.Parameter
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Parameter == "policy" || route == "PUT bucket " {
			continue // reads; the owner's right to the policy; and CreateBucket, to which no policy applies
		}
		applies, ok := walked[route]
		if !ok {
			t.Errorf("the walk does not send %s", route)
		}
		declared := map[policy.Key]bool{}
		for _, k := range r.Keys {
			declared[k] = true
		}
		if !maps.Equal(applies, declared) {
			t.Errorf("%s declares %v, the walk expects %v", route, slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(applies)))
		}
	}
}

// statements returns the policies that require the expected value, and that require any value.
func (k walkKey) statements(name policy.Key) (all [][]string) {
	full := string(name) + map[policy.Key]string{policy.RequestObjectTag: "/class", policy.ExistingObjectTag: "/state"}[name]
	denied := func(operator, value string) string {
		return `{` + fromAll + `, "Action": "s3:*", "Condition": {"` + operator + `": {"` + full + `": ` + quote(value) + `}}}`
	}
	operator, value := k.operator, k.expected
	switch {
	case operator == "":
		operator = "StringNotEquals"
	case strings.HasPrefix(operator, "Bool"):
		value = map[string]string{"true": "false", "false": "true"}[value]
	}
	absent := denied("Null", "true")
	all = [][]string{{denied(operator, value)}}
	if strings.HasPrefix(operator, "ForAnyValue") {
		all[0] = append(all[0], absent)
	}
	if !k.common {
		all = append(all, []string{absent})
	}
	return all
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func (w *walk) walkPolicy(name policy.Key, k walkKey, statements []string, writes []walkWrite, targets map[string]*walkTarget) {
	w.policy = `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ", ") + `]}`
	onlyPresent := strings.Contains(statements[0], `"Null"`) && len(statements) == 1
	for i := range writes {
		one := &writes[i]
		stated := map[string]bool{"": true, " ": true, k.malformed: true, k.expected: true}
		for _, value := range append(slices.Sorted(maps.Keys(stated)), "absent") {
			if !one.tries(value, k) {
				continue
			}
			if targets[one.name] == nil {
				targets[one.name] = w.target(one)
			}
			t := targets[one.name]
			w.setPolicy()
			before := w.state(t.key)
			a := w.write(one, t, k, value)
			after := w.state(t.key)
			done := a.status < 300 && !strings.Contains(a.body, "<Error>")
			if value == k.expected && !done && slices.Contains(strings.Fields(one.allowed), string(name)) {
				w.t.Errorf("%s with %s %q is refused (%d)\n%s\n%s", one.name, name, value, a.status, a.body, w.policy)
			}
			if before == after && (!done || one.refuses) {
				continue
			}
			targets[one.name] = nil
			if bad := k.contradicts(name, w.effect(one, t), one, value, onlyPresent); bad != "" {
				w.t.Errorf("%s with %s %q took effect (%d) although %s\n%s", one.name, name, value, a.status, bad, w.policy)
			}
		}
	}
}

// sources makes the objects to copy. Their tags are only set if the key is about tags, because tags need another action,
// to which most keys do not apply.
func (w *walk) sources(tagged bool) {
	for name, body := range map[string]string{"approved": approved, "other": another} {
		w.do("PUT", "/sources/"+name, body, "x-amz-meta-from: source").want(200)
		if tagged {
			w.do("PUT", "/sources/"+name+"?tagging", strings.ReplaceAll(tagEvil, "evil", "source")).want(200)
		}
	}
}

// tries skips values that cannot make a difference.
func (one *walkWrite) tries(value string, k walkKey) bool {
	switch {
	case value == "absent", value == k.expected:
		return true
	case k.value == nil && !k.stated && k.expected == "AES256": // no operation applies these, so all values are alike
		return false
	case value == " ": // net/http trims headers
		return one.how == "form" || k.query != ""
	}
	return !strings.HasPrefix(one.name, "PUT ?") && !strings.HasPrefix(one.name, "DELETE ?") // these apply no key
}

func (w *walk) setPolicy() {
	if w.set != w.policy {
		w.do("PUT", "/photos?policy", w.policy).want(204)
		w.set = w.policy
	}
}

// contradicts returns why the policy forbids the effect, or "".
func (k walkKey) contradicts(name policy.Key, e effect, one *walkWrite, value string, onlyPresent bool) string {
	applies := k.common || slices.Contains(strings.Fields(one.applies), string(name))
	have := ""
	switch {
	case !applies:
		return "the operation does not apply the key"
	case name == policy.ACL && one.name == "ACL":
		have = map[bool]string{true: "public-read", false: "private"}[e.public]
		if value == k.expected {
			have = k.expected
		}
	case name == policy.VersionID && one.name == "DELETE of a version":
		have = "another"
	case name == policy.ACL && one.name == "object ACL" && value != k.expected:
		have = "private" // the document gives no grants
	case name == policy.ExistingObjectTag:
		have = "closed"
		if (value != "absent" || one.name == "DELETE of a version") && e.object.Tags["state"] == "closed" && slices.Contains(strings.Fields(one.applies), string(policy.VersionID)) {
			have = k.expected // it changed the older version
		}
	case k.stated && value == k.expected:
		have = value
	case k.value != nil:
		have = k.value(e)
	}
	switch {
	case have == "":
		return "the value is absent"
	case !onlyPresent && have != k.expected:
		return "the value is " + have
	}
	return ""
}

// target makes an object with the tag state=closed, an older version with state=open, and an upload.
func (w *walk) target(one *walkWrite) *walkTarget {
	w.do("DELETE", "/photos?policy", "").want(204)
	w.set = ""
	w.do("PUT", "/photos?acl", "", "x-amz-acl: private").want(200)
	w.do("DELETE", "/photos?ownershipControls", "").want(204)
	w.do("DELETE", "/photos?publicAccessBlock", "").want(204)
	w.made++
	t := &walkTarget{key: fmt.Sprintf("target-%06d", w.made)}
	t.older = w.do("PUT", "/photos/"+t.key, "old", "x-amz-tagging: state=open").want(200).version()
	t.tag = w.do("PUT", "/photos/"+t.key, "current", "x-amz-tagging: state=closed").want(200).header.Get("Etag")
	if strings.HasSuffix(one.route, "uploadId") {
		t.upload = w.upload("/photos/" + t.key)
		t.part = w.part("/photos/"+t.key, t.upload, "1", "first part")
	}
	return t
}

// write sends a write that states the key by every header and parameter, and by every field in a form.
func (w *walk) write(one *walkWrite, t *walkTarget, k walkKey, value string) answer {
	target, body := one.target(t), ""
	if one.body != nil {
		body = one.body(t)
	}
	headers := slices.Clone(one.headers)
	if value != "absent" {
		for _, h := range k.headers {
			h = filled(h, value)
			name, _, _ := strings.Cut(h, ":")
			headers = slices.DeleteFunc(headers, func(s string) bool { return strings.HasPrefix(strings.ToLower(s), strings.ToLower(name)+":") })
			headers = append(headers, h)
		}
		if k.query != "" && !strings.Contains(target, "versionId=") {
			v := value
			if strings.HasPrefix(k.query, "versionId") && k.expected == "open" {
				v = t.older // which has the expected tag
			}
			target += map[bool]string{true: "&", false: "?"}[strings.Contains(target, "?")] + filled(k.query, url.QueryEscape(v))
		}
	}
	method, _, _ := strings.Cut(one.route, " ")
	switch one.how {
	case "form":
		return w.send(w.form(formFields(t, headers), body))
	case "presigned":
		r := w.request(method, target, body)
		q := url.Values{}
		for _, h := range headers {
			name, v, _ := strings.Cut(h, ":")
			if strings.HasPrefix(name, "x-amz-") {
				q.Set("X-Amz-"+name[len("x-amz-"):], strings.TrimSpace(v))
			} else {
				r.Header.Set(name, strings.TrimSpace(v))
			}
		}
		r.URL.RawQuery = strings.Trim(r.URL.RawQuery+"&"+q.Encode(), "&")
		w.main.Presign(r, time.Minute, time.Now())
		return w.send(r)
	}
	return w.do(method, target, body, headers...)
}

func filled(pattern, value string) string { return strings.ReplaceAll(pattern, "%s", value) }

func formFields(t *walkTarget, headers []string) map[string]string {
	fields := map[string]string{"key": t.key, "content-md5": md5Of(evil)}
	for _, h := range headers {
		name, v, _ := strings.Cut(h, ":")
		name, v = strings.ToLower(name), strings.TrimPrefix(v, " ")
		if fields[name] = v; name == "x-amz-tagging" {
			k, text, _ := strings.Cut(v, "=")
			fields["tagging"] = "<Tagging><TagSet><Tag><Key>" + k + "</Key><Value>" + text + "</Value></Tag></TagSet></Tagging>"
		}
		if name == "x-amz-acl" {
			fields["acl"] = v
		}
	}
	return fields
}

// state describes the bucket's settings, and a key's versions and uploads.
func (w *walk) state(key string) string {
	b := w.bucket("photos")
	ctx := w.t.Context()
	v, err1 := w.options.Backend.ListVersions(ctx, b.Owner, b.ID, buckets.VersionQuery{Prefix: key, Limit: 5})
	u, err2 := w.options.Backend.ListUploads(ctx, b.Owner, b.ID, buckets.UploadQuery{Prefix: key, Limit: 5})
	if err1 != nil || err2 != nil {
		w.t.Fatal(err1, err2)
	}
	b.Settings.Policy = buckets.Policy{}
	text := fmt.Sprintf("%+v %+v %+v", b.Settings, b.Lock, v.Versions)
	for i := range u.Uploads {
		parts, _, err := w.options.Backend.Parts(ctx, buckets.UploadKey{Owner: b.Owner, Bucket: b.BucketRef, Name: key, ID: u.Uploads[i].ID}, 0, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		text += fmt.Sprintf(" %+v %+v", u.Uploads[i], parts)
	}
	return text
}

// effect reads the stored object, or the upload and its part.
func (w *walk) effect(one *walkWrite, t *walkTarget) effect {
	b := w.bucket("photos")
	ctx := w.t.Context()
	e := effect{public: b.Settings.PublicRead, creates: one.creates}
	if o, err := w.s3.Service.Object(ctx, b.Owner, b.ID, t.key); err == nil {
		e.object, e.content = o, o.EntityTag()
	}
	if one.route == "POST object uploads" || one.route == "PUT object uploadId" {
		u, err := w.options.Backend.ListUploads(ctx, b.Owner, b.ID, buckets.UploadQuery{Prefix: t.key, Limit: 1})
		if err != nil || len(u.Uploads) != 1 {
			w.t.Fatal(len(u.Uploads), err)
		}
		e.object = buckets.Object{Headers: u.Uploads[0].Headers, Properties: u.Uploads[0].Properties}
		e.content = ""
		parts, _, err := w.options.Backend.Parts(ctx, buckets.UploadKey{Owner: b.Owner, Bucket: b.BucketRef, Name: t.key, ID: u.Uploads[0].ID}, 0, 1)
		if err == nil && len(parts) == 1 {
			e.content = fmt.Sprintf("%x", parts[0].MD5)
		}
	}
	return e
}
