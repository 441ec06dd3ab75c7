package s3api

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

type access struct {
	right   buckets.Right
	public  bool
	key     string
	version string
	actions []policy.Action
}

func (x *request) authorize(op operation) error {
	if op.also != "" && !x.permits(op.also) {
		return errAccessDenied
	}
	if !x.bucket.Settings.Policy.IsZero() {
		return x.authorizeByPolicy(op)
	}
	if x.isOwner() && x.permits(op.right) || op.public && x.bucket.Settings.IsOpen() && !x.query.Has("versionId") {
		return nil
	}
	return errAccessDenied
}

func (x *request) authorizeByPolicy(op operation) error {
	n := op.need
	if n.actions == nil {
		n = x.needs()
	}
	if n.late {
		if x.isOwner() && x.permits(op.right) || x.policies.Of(&x.bucket).Shares(x.account.ID) {
			return nil
		}
		return errAccessDenied
	}
	err := x.allow(access{op.right, op.public, x.key, x.query.Get("versionId"), n.actions})
	if err == nil && !x.isOwner() && x.parameter == "policy" {
		return errMethod // only the owner may do this, whatever the policy allows
	}
	return err
}

func (x *request) isOwner() bool { return x.signed != nil && x.owner == x.account.ID }

// allow rejects access that a policy denies, or that neither ownership nor policy nor canned ACL allows. An access key's
// limits do not affect access that everybody has.
func (x *request) allow(a access) error {
	may := x.isOwner() && x.permitsIn(a.right, a.key)
	public := a.public && x.bucket.Settings.IsOpen() && a.version == "" // only current objects are public
	p := x.policies.Of(&x.bucket)
	if p == nil {
		if may || public {
			return nil
		}
		return errAccessDenied
	}
	if len(a.actions) == 0 {
		return errAccessDenied
	}
	restricted := x.bucket.Settings.PublicAccessBlock.RestrictPolicy && !x.isOwner() && p.IsPublic()
	values := &conditionValues{request: x, key: a.key, version: a.version}
	for _, action := range a.actions {
		if a.version != "" {
			action = policy.OfVersion(action)
		}
		d, err := p.Evaluate(policy.Request{Account: x.account.ID, Action: action, Object: a.key, Context: values})
		switch {
		case err != nil:
			return err
		case x.isOwner() && ofPolicy(action): // owners cannot lock themselves out
			if !may {
				return errAccessDenied
			}
		case d == policy.Denied:
			return errAccessDenied
		case may, public:
		case restricted:
			return errAccessDenied
		case d == policy.AllowedEverybody, d == policy.AllowedAccount && x.permitsIn(a.right, a.key):
		default:
			return errAccessDenied
		}
	}
	return nil
}

func ofPolicy(a policy.Action) bool {
	return a == policy.GetBucketPolicy || a == policy.PutBucketPolicy || a == policy.DeleteBucketPolicy
}

func (x *request) allowTagging(tags map[string]string) error {
	if len(tags) == 0 || x.bucket.Settings.Policy.IsZero() {
		return nil
	}
	return x.allow(access{right: buckets.RightWrite, key: x.key, actions: []policy.Action{policy.PutObjectTagging}})
}

// allowTags checks permission to copy tags. x is the request for the source object.
func (x *request) allowTags(o *buckets.Object) error {
	if len(o.Tags) == 0 || x.bucket.Settings.Policy.IsZero() {
		return nil
	}
	return x.allow(access{right: buckets.RightRead, public: true, key: x.key, version: x.query.Get("versionId"), actions: []policy.Action{policy.GetObjectTagging}})
}

// allowPut authorizes a form upload. The form fields serve as request headers; sent are the client's HTTP headers.
func (x *request) allowPut(tags map[string]string, sent http.Header) error {
	for _, name := range []string{"User-Agent", "Referer"} {
		x.in.Header[name] = sent[name]
	}
	if x.tags = tags; tags == nil {
		x.tags = map[string]string{}
	}
	if err := x.allow(access{right: buckets.RightWrite, key: x.key, actions: []policy.Action{policy.PutObject}}); err != nil {
		return err
	}
	return x.allowTagging(tags)
}

// hideMissing converts the error for a missing object to AccessDenied if the policy allows reading but not listing.
func (x *request) hideMissing(err error) error {
	if !errors.Is(err, buckets.ErrNoObject) || x.bucket.Settings.Policy.IsZero() || x.isOwner() {
		return err
	}
	if denied := x.allow(access{right: buckets.RightList, public: true, actions: []policy.Action{policy.ListBucket}}); denied != nil {
		return denied
	}
	return err
}

// claimedBucket finds the bucket that claims the plain name. The rights of the client do not matter here, so nobody can
// put another bucket in its place. Signers to whom the bucket grants nothing learn nothing about it.
func (x *request) claimedBucket() error {
	missing := x.account.ID // if there is no bucket, signers may create it
	if x.hosted && strings.Contains(x.route.bucket, ".") {
		missing = "" // hides which accounts exist
	}
	x.owner = missing
	if buckets.CheckBucketName(x.route.bucket) != nil {
		return buckets.ErrNoBucket
	}
	holder, err := x.Service.NameHolder(x.in.Context(), x.route.bucket)
	if err != nil {
		return err
	}
	if holder == "" {
		return buckets.ErrNoBucket
	}
	err = x.bucketIn(holder, x.route.bucket)
	if err == nil && x.signed != nil && !x.bucket.Settings.IsOpen() && !x.policies.Of(&x.bucket).Shares(x.account.ID) {
		x.bucket, x.object = buckets.Bucket{}, found{wanted: x.object.wanted}
		err = buckets.ErrNoBucket
	}
	if errors.Is(err, buckets.ErrNoBucket) {
		x.owner = missing
	}
	return err
}

type conditionValues struct {
	*request
	key, version string

	looked bool
	object *buckets.Object
}

func (v *conditionValues) Value(k policy.Key, name string) ([]string, error) {
	switch k {
	case policy.ExistingObjectTag:
		o, err := v.existing()
		if o == nil {
			return nil, err
		}
		return valueOf(o.Tags, name), nil
	case policy.RequestObjectTag:
		tags, err := v.requestTags()
		return valueOf(tags, name), err
	case policy.RequestTagKeys:
		tags, err := v.requestTags()
		var all []string
		for name := range tags {
			all = append(all, name)
		}
		return all, err
	case policy.VersionID:
		if v.version == "" {
			return nil, nil
		}
		return []string{v.version}, nil
	}
	return v.ofRequest(k), nil
}

func (x *request) ofRequest(k policy.Key) []string {
	switch p := &x.parsed.condition; {
	case k == policy.IfMatch && p.Match.IsSet():
		return []string{p.Match.String()}
	case k == policy.IfNoneMatch && p.NoneMatch.IsSet():
		return []string{p.NoneMatch.String()}
	case k == policy.IfMatch, k == policy.IfNoneMatch:
		return nil
	}
	if header := k.Header(); header != "" {
		values := x.in.Header.Values(header)
		if k == policy.CopySource && len(values) > 0 {
			return []string{x.namedSource()}
		}
		return values
	}
	switch k {
	case policy.SourceIP:
		if ip, ok := web.ClientIP(x.out); ok {
			return []string{ip.String()}
		}
	case policy.SecureTransport:
		return []string{strconv.FormatBool(x.at.Origin.Scheme == "https")}
	case policy.CurrentTime, policy.EpochTime:
		return []string{strconv.FormatInt(x.Service.Now().Time().Unix(), 10)}
	case policy.ResourceAccount, policy.S3ResourceAccount:
		return []string{string(x.owner)}
	case policy.ObjectCreation:
		part := x.in.Method == http.MethodPut && x.parameter == "uploadId"
		return []string{strconv.FormatBool(!part && x.parameter != "uploads")}
	case policy.LockMode, policy.LockHold, policy.LockUntil, policy.LockDays:
		return x.lockValue(k)
	case policy.Prefix, policy.Delimiter, policy.MaxKeys:
		return x.parameterValue(strings.TrimPrefix(string(k), "s3:"))
	}
	return x.ofSignature(k)
}

func (x *request) ofSignature(k policy.Key) []string {
	if k == policy.TLSVersion && x.in.TLS != nil {
		return []string{"1." + itoa(int(x.in.TLS.Version)-tls.VersionTLS10)}
	}
	if x.signed == nil {
		return nil
	}
	switch k {
	case policy.AuthType:
		switch {
		case x.signed.Presigned:
			return []string{"REST-QUERY-STRING"}
		case x.key != "" && x.in.Method == http.MethodPost && x.parameter == "":
			return []string{"POST"}
		}
		return []string{"REST-HEADER"}
	case policy.SignatureVersion:
		return []string{"AWS4-HMAC-SHA256"}
	case policy.SignatureAge:
		if age := x.Service.Now().Time().Sub(x.signed.Time); !x.signed.Time.IsZero() {
			return []string{strconv.FormatInt(max(0, age.Milliseconds()), 10)}
		}
	}
	return nil
}

func (x *request) parameterValue(name string) []string {
	if !x.has(name) {
		return nil
	}
	return []string{x.query.Get(name)}
}

func (x *request) namedSource() string {
	source, _, err := x.parseCopySource()
	if err != nil {
		return "" // copySource rejects this
	}
	return strings.TrimPrefix(source, x.account.Name+":")
}

func (v *conditionValues) existing() (*buckets.Object, error) {
	if v.looked || v.key == "" {
		return v.object, nil
	}
	if v.key == v.request.key && v.version == "" && v.request.object.read {
		return &v.request.object.Object, nil
	}
	var o buckets.Object
	err := v.withSlot(func() (err error) {
		o, err = v.read()
		return err
	})
	if err != nil && !slices.Contains([]errcode.Code{errcode.NotFound, errcode.Invalid}, errcode.Of(err)) {
		return nil, err
	}
	if v.looked = true; err == nil {
		v.object = &o
	}
	return v.object, nil
}

func (v *conditionValues) read() (buckets.Object, error) {
	if v.version == "" {
		return v.Service.Object(v.in.Context(), v.owner, v.bucket.ID, v.key)
	}
	id, err := buckets.ParseVersionID(v.version)
	if err != nil {
		return buckets.Object{}, err
	}
	found, err := v.Service.Version(v.in.Context(), v.owner, v.bucket.ID, v.key, id)
	return found.Object, err
}

func (x *request) requestTags() (map[string]string, error) {
	if x.tags != nil {
		return x.tags, nil
	}
	return x.tagsHeader()
}

func valueOf(tags map[string]string, name string) []string {
	if v, ok := tags[name]; ok {
		return []string{v}
	}
	return nil
}

func (x *request) getPolicy() error {
	document := x.bucket.Settings.Policy.Document
	if document == "" {
		return refuse(http.StatusNotFound, "NoSuchBucketPolicy", "The bucket policy does not exist")
	}
	x.out.Header().Set("Content-Type", "application/json")
	x.out.Header().Set("Content-Length", itoa(len(document)))
	x.out.WriteHeader(http.StatusOK)
	if x.in.Method == http.MethodHead {
		return nil
	}
	_, err := io.WriteString(x.out, document)
	return err
}

// parsedPolicy is the maximum memory of a parsed policy per byte of its document.
const parsedPolicy = 64

func (x *request) putPolicy() error {
	text, err := x.readText(sigv4.BodyOptions{MaxSize: maxSettings})
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, parsedPolicy*int64(min(text.size, policy.MaxSize))); err != nil {
		return err
	}
	document, err := io.ReadAll(text.reader())
	if err != nil {
		return err
	}
	p, stored, err := policy.New(x.in.Context(), x.Service, x.owner, x.bucket.Name, document)
	if err != nil {
		return err
	}
	if x.bucket.Settings.PublicAccessBlock.BlockPolicy && p.IsPublic() {
		return errPublicPolicy
	}
	return x.set(buckets.SettingsChange{Policy: &stored}, http.StatusNoContent)
}

func (x *request) deletePolicy() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{Policy: &buckets.Policy{}}, http.StatusNoContent)
}

func (x *request) getPolicyStatus() error {
	p := x.policies.Of(&x.bucket)
	d := newDocument("PolicyStatus")
	d.flag("IsPublic", x.bucket.Settings.IsOpen() || p != nil && p.IsPublic())
	sendXML(x.out, http.StatusOK, d)
	return nil
}
