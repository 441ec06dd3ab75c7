package s3api

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

// access is an access to authorize.
type access struct {
	right   buckets.Right
	public  bool   // a public bucket allows it to anyone
	key     string // object, "" for the bucket
	version string // "" for the current version
	actions []policy.Action
}

// authorize decides on the operation as a whole. The order: key limits for a second right, then the policy, then ownership or the canned ACL. The ACL never opens old versions to the
// public.
func (x *request) authorize() error {
	if x.op.also != "" && !x.permits(x.op.also) {
		return x.denied(x.op.also, x.key)
	}
	if !x.bucket.Settings.Policy.IsZero() {
		return x.authorizeByPolicy()
	}
	if x.isOwner() && x.permits(x.op.right) || x.op.public && x.bucket.Settings.IsOpen() && !x.query.Has("versionId") {
		return nil
	}
	return x.denied(x.op.right, x.key)
}

// denied refuses access, and tells the log the reason. The client does not learn it.
func (x *request) denied(right buckets.Right, key string) error {
	switch {
	case x.signed == nil:
		return errAccessDenied.because("the request is not signed, and nothing lets everybody do this")
	case x.owner != "" && !x.isOwner():
		return errAccessDenied.because("the bucket belongs to another account, and neither its policy nor its ACL allows this")
	case x.route.account != "" && x.route.account != x.account.Name:
		return errAccessDenied.because("the path names another account than the access key's")
	case !x.permitsIn(right, key):
		return errAccessDenied.because("the access key is limited to " + x.limits.Words())
	}
	return errAccessDenied.because("the bucket policy does not allow this")
}

// authorizeByPolicy decides by policy. If values are still missing (need.late), it only turns away clients that no
// statement can allow, and the operation calls allowLate.
func (x *request) authorizeByPolicy() error {
	n := x.needs()
	if n.late || x.isCopy() {
		if x.isOwner() && x.permits(x.op.right) || x.policies.Of(&x.bucket).Shares(x.account.ID) {
			return nil
		}
		return x.denied(x.op.right, x.key)
	}
	err := x.allow(access{x.op.right, x.op.public, x.key, x.version(), n.actions})
	if err == nil && !x.isOwner() && x.parameter == "policy" {
		return errMethod // only the owner may do this, whatever the policy allows
	}
	return err
}

// allowLate authorizes an operation that needs more than its headers: see need.late.
func (x *request) allowLate() error {
	if x.bucket.Settings.Policy.IsZero() {
		return nil
	}
	return x.allow(access{right: x.op.right, key: x.key, version: x.version(), actions: x.needs().actions})
}

// isOwner reports whether the signer owns the bucket.
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
		return x.denied(a.right, a.key)
	}
	if len(a.actions) == 0 {
		return errAccessDenied.because("no action of a bucket policy covers this request")
	}
	restricted := x.bucket.Settings.PublicAccessBlock.RestrictPolicy && !x.isOwner() && p.IsPublic()
	values := x.values(a)
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
				return x.denied(a.right, a.key)
			}
		case d == policy.Denied:
			return errAccessDenied.because("a statement of the bucket policy denies this")
		case may, public:
		case restricted:
			return errAccessDenied.because("the bucket restricts its public policy to its own account (RestrictPublicBuckets)")
		case d == policy.AllowedEverybody, d == policy.AllowedAccount && x.permitsIn(a.right, a.key):
		default:
			return x.denied(a.right, a.key)
		}
	}
	return nil
}

// ofPolicy reports actions on the policy itself. The owner can always repair a policy that locks everybody out.
func ofPolicy(a policy.Action) bool {
	return a == policy.GetBucketPolicy || a == policy.PutBucketPolicy || a == policy.DeleteBucketPolicy
}

// allowTagging checks permission to give a new object tags.
func (x *request) allowTagging() error {
	if len(x.parsed.object.Tags) == 0 || x.bucket.Settings.Policy.IsZero() {
		return nil
	}
	return x.allow(access{right: buckets.RightWrite, key: x.key, actions: []policy.Action{policy.PutObjectTagging}})
}

// allowTags checks permission to copy tags. x is the request for the source object.
func (x *request) allowTags(o *buckets.Object) error {
	if len(o.Tags) == 0 || x.bucket.Settings.Policy.IsZero() {
		return nil
	}
	return x.allow(access{right: buckets.RightRead, public: true, key: x.key, version: x.version(), actions: []policy.Action{policy.GetObjectTagging}})
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

// existing is the object that an access concerns. It is read at most once, and only if a condition depends on it.
type existing struct {
	*request
	key, version string

	looked bool              // all is valid
	all    map[string]string // its tags
}

// tags returns the object's tags for conditions, none for a missing object.
func (e *existing) tags() (map[string]string, error) {
	switch {
	case e.looked || e.key == "":
		return e.all, nil
	case e.key == e.request.key && e.version == "" && e.request.object.read:
		return e.request.object.Tags, nil
	}
	var o buckets.Object
	err := e.withSlot(func() (err error) {
		o, err = e.read()
		return err
	})
	if err != nil && !slices.Contains([]errcode.Code{errcode.NotFound, errcode.Invalid}, errcode.Of(err)) {
		return nil, err
	}
	if e.looked = true; err == nil {
		e.all = o.Tags
	}
	return e.all, nil
}

// read reads the object or version.
func (e *existing) read() (buckets.Object, error) {
	ctx := e.in.Context()
	if e.version == "" {
		return e.Service.Object(ctx, e.owner, e.bucket.ID, e.key)
	}
	id, err := buckets.ParseVersionID(e.version)
	if err != nil {
		return buckets.Object{}, err
	}
	version, err := e.Service.Version(ctx, e.owner, e.bucket.ID, e.key, id)
	return version.Object, err
}

// client describes the client to policies.
func (x *request) client() policy.Client {
	c := policy.Client{Secure: x.at.Origin.Scheme == "https", UserAgent: x.sent.UserAgent, Referer: x.sent.Referer}
	if !x.op.form {
		c.UserAgent, c.Referer = x.in.Header["User-Agent"], x.in.Header["Referer"]
	}
	c.IP, _ = web.ClientIP(x.in)
	if x.in.TLS != nil {
		c.TLSVersion = "1." + itoa(int(x.in.TLS.Version)-tls.VersionTLS10)
	}
	return c
}

// signature describes the signature to policies; zero if anonymous.
func (x *request) signature() (s policy.Signature) {
	if x.signed == nil {
		return s
	}
	s = policy.Signature{Type: "REST-HEADER", Version: "AWS4-HMAC-SHA256", Time: x.signed.Time, Payload: x.signed.Payload}
	if x.signed.Version2 {
		s.Version = policy.SignatureVersion2
	}
	switch {
	case x.op.form:
		s.Type = "POST"
	case x.signed.Presigned:
		s.Type = "REST-QUERY-STRING"
	}
	return s
}

// getPolicy serves GetBucketPolicy, with the document as it was stored.
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

// putPolicy serves PutBucketPolicy.
func (x *request) putPolicy() error {
	text, err := x.readText(sigv4.BodyOptions{MaxSize: maxSettings})
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.in, parsedPolicy*int64(min(text.size, policy.MaxSize))); err != nil {
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
	if err := x.bucket.Settings.CheckPolicy(p.IsPublic()); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{Policy: &stored}, http.StatusNoContent)
}

// deletePolicy serves DeleteBucketPolicy.
func (x *request) deletePolicy() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{Policy: &buckets.Policy{}}, http.StatusNoContent)
}

// getPolicyStatus serves GetBucketPolicyStatus.
func (x *request) getPolicyStatus() error {
	p := x.policies.Of(&x.bucket)
	d := newDocument("PolicyStatus")
	d.flag("IsPublic", x.bucket.Settings.IsOpen() || p != nil && p.IsPublic())
	sendXML(x.out, http.StatusOK, d)
	return nil
}
