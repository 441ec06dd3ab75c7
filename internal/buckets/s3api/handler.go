package s3api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/checksum"
	"holdfast/internal/web"
)

// Handler serves S3 on its own listener. Service, Verifier, Keys and Region are required; Verifier must be for Region.
// The rest may be zero. Serve is safe for concurrent use; do not change fields or copy the Handler after its first
// request. Wrap it with package web, which provides the request's slot and memory:
//
//	web.Service{Name: "buckets", Serve: h.Serve, Error: s3api.WriteError, Route: s3api.Label, Conditions: web.CheckedByHandler}
//
// Without Conditions, package web would refuse all conditional writes.
type Handler struct {
	Service  *buckets.Service
	Verifier *sigv4.Verifier // checks signatures
	Keys     Keys            // access keys; a *buckets.Keyring
	Region   string          // that signatures must name
	Domain   string          // parent domain for buckets as host names, e.g. s3.example.org; may be empty

	// KeepAlive is the interval at which spaces are sent during a long copy or CompleteMultipartUpload, so that clients and
	// proxies do not time out. 0 means 10 seconds; it must not be negative.
	KeepAlive time.Duration

	// Observe, if set, is called concurrently when Serve returns: after the object was sent, and before WriteError writes
	// err. operation is a name from Operations.
	Observe func(operation string, r *http.Request, err error, took time.Duration)

	// Cores compute a body's MD5 while the body arrives; may be nil. Handlers share them.
	Cores *sigv4.Cores

	rules      ruleCache // for CORS headers on errors
	lifecycles lifecycleCache
	policies   policy.Cache // parsed bucket policies

	// Received and Sent count the bytes of request bodies (including chunk framing) and of returned objects.
	Received, Sent atomic.Int64
}

// Keys finds access keys. It is safe for concurrent use. The handler does not change the results.
type Keys interface {
	// Known answers from a cache, without the database, and does not block. known is false if it cannot tell; ok is as
	// in Find.
	Known(id string) (c buckets.Credential, ok, known bool)

	// Find returns ok = false for an unknown or revoked key. An expired key is found: check Credential.Expires.
	Find(ctx context.Context, id string) (c buckets.Credential, ok bool, err error)
}

// request is a request while it is served. serve fills the fields from top to bottom: address, signer, operation,
// parsed headers, bucket, object.
type request struct {
	*Handler
	in  *http.Request
	out http.ResponseWriter
	at  web.Address // public address, for redirects and locations
	route

	signed  *sigv4.Signed     // nil if the request is anonymous
	coding  sigv4.Coding      // of the body
	account buckets.Account   // the signer; zero if anonymous
	expires buckets.Moment    // of the access key; 0 if never
	limits  buckets.KeyLimits // of the access key
	owner   buckets.AccountID // of the bucket; the signer's account until it is known
	bucket  buckets.Bucket    // zero in serveByName until something needs it
	object  found             // read together with the bucket

	op     operation // from the table of operations
	parsed parsed
	sent   policy.Client // the headers of a form upload, whose fields replace in.Header

	originDecided bool // CORS headers are settled

	parameter string // query parameter that selected the operation, "" for the main operation
}

type found struct {
	wanted, read bool // read the object together with the bucket
	buckets.Object
}

// Serve implements web.Handler. It parses before it authorizes, and authorizes before it reads a body. The returned
// error is written by WriteError.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	began := time.Now()
	counting := *r // net/http inspects r.Body if the response precedes the body
	r = &counting
	r.Body = &counted{r.Body, &h.Received}
	x := &request{Handler: h, in: r, out: w, at: at}
	err := x.serve(w, r, at)
	if err != nil {
		x.allowRefused(err)
		err = x.explain(err)
	}
	if h.Observe != nil {
		h.Observe(x.name(), r, err, time.Since(began))
	}
	return err
}

// counted counts received bytes.
type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// serve runs the steps. Their order is deliberate: headers are parsed before access is checked, because policies decide
// on the parsed values; a read acquires its slot before the database is used; and a write that needs no settings skips
// the bucket (serveByName).
func (x *request) serve(w http.ResponseWriter, r *http.Request, at web.Address) (err error) {
	w.Header().Set("Server", "Holdfast")
	setRequestID(w.Header())
	if r.ContentLength == 0 && r.Header.Get("Expect") != "" {
		// net/http sends no 100 Continue for an empty body. Then botocore cannot read another response on this connection.
		w.Header().Set("Connection", "close")
	}
	if x.route, err = parseRoute(r, at, x.Domain); err != nil {
		return err
	}
	if err := checkHeaders(r.Header); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return x.preflight()
	}
	if r.Method == http.MethodPost && x.key == "" && x.route.bucket != "" && isForm(r) {
		return x.postForm()
	}
	if err := x.authenticate(); err != nil {
		return err
	}
	op, err := x.operation()
	if err != nil {
		return err
	}
	x.op = op
	if err := x.parseCoding(); err != nil {
		return err
	}
	if err := x.parse(); err != nil {
		return x.unlessMissing(err)
	}
	if op.reads {
		if err := web.AcquireSlot(r); err != nil {
			return err
		}
	}
	byName := op.byName && x.namesOwnBucket()
	if byName && x.Service.IsPlain(x.account.ID, x.route.bucket) {
		return x.serveByName(op)
	}
	var began buckets.Moment
	if byName {
		began = x.Service.Now()
	}
	if !op.needsBucket && !x.permits(op.right) {
		return x.refuseOutside()
	}
	if op.needsBucket {
		x.object.wanted = op.object
		if err := x.resolve(); err != nil {
			return err
		}
		if err := x.expectOwner("X-Amz-Expected-Bucket-Owner"); err != nil {
			return err
		}
		x.allowOrigin()
		if byName {
			x.Service.Note(&x.bucket, began.Time())
		}
	}
	return op.serve(x)
}

// authenticate verifies the signature. Without credentials the request is anonymous, and x.signed stays nil.
func (x *request) authenticate() error {
	req := sigv4.FromHTTP(x.in)
	if !req.HasCredentials() {
		return nil
	}
	if x.hosted {
		req.HostBucket = x.route.bucket
	}
	var err error
	x.signed, err = x.Verifier.Verify(x.in.Context(), req, x.lookup)
	if err != nil {
		return err
	}
	if err := x.admit(); err != nil {
		return err
	}
	if x.signed.Presigned {
		return x.hoisted()
	}
	return nil
}

var (
	errKeyExpired = refuse(http.StatusForbidden, "AccessDenied", "The access key has expired")
	errKeyNetwork = refuse(http.StatusForbidden, "AccessDenied", "The access key may not be used from this network")
	errKeyVersion = refuse(http.StatusForbidden, "AccessDenied", "The access key has limits, so it does not sign with Signature Version 2: sign with version 4 (AWS4-HMAC-SHA256)")
)

// admit checks the key's expiry and networks after the signature, so that strangers learn nothing about a key.
func (x *request) admit() error {
	web.Identify(x.in, "buckets "+string(x.account.ID))
	if x.expires != 0 && x.Service.Now() >= x.expires {
		return errKeyExpired
	}
	if ip, _ := web.ClientIP(x.in); !x.limits.AllowNetwork(ip) {
		return errKeyNetwork
	}
	if x.signed.Version2 && !x.limits.AllowVersion2() {
		return errKeyVersion
	}
	return nil
}

// permits reports whether the access key's limits allow a right to the request's key.
func (x *request) permits(right buckets.Right) bool {
	return x.permitsIn(right, x.key)
}

// permitsIn is permits for another key, e.g. in a list of deletes. A right "" is never allowed.
func (x *request) permitsIn(right buckets.Right, key string) bool {
	bucket := cmp.Or(x.bucket.Name, x.route.bucket)
	switch {
	case right == "":
		return false
	case right == inBucket:
		return bucket == "" || x.limits.AllowBucket(bucket)
	case right == buckets.RightList:
		return x.limits.Allow(right, bucket, x.parsed.prefix.Value)
	}
	return x.limits.Allow(right, bucket, key)
}

// hoisted reads headers from the query of a presigned URL, where e.g. the JavaScript SDK puts them. It rejects
// unsupported headers, because the signer relies on them.
func (x *request) hoisted() error {
	all := x.in.Header.Clone()
	for name, values := range x.query {
		header := http.CanonicalHeaderKey(name)
		if !strings.HasPrefix(header, "X-Amz-") || staysInQuery(header) || len(x.in.Header[header]) > 0 {
			continue
		}
		for _, v := range values {
			if strings.IndexFunc(v, isControl) >= 0 {
				return invalidArgument(strings.ToLower(header), "The value has a control character")
			}
			all[header] = append(all[header], v)
		}
	}
	x.in.Header = all
	return checkHeaders(all)
}

// staysInQuery reports whether a query parameter is not a header, because it belongs to the signature or describes
// the body. SDKs presign the hash and checksum of an empty body, because the signer does not know the body.
func staysInQuery(header string) bool {
	switch header {
	case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signedheaders", "X-Amz-Signature", "X-Amz-Security-Token",
		"X-Amz-Content-Sha256", "X-Amz-Decoded-Content-Length", "X-Amz-Trailer", "X-Amz-Sdk-Checksum-Algorithm", "X-Amz-User-Agent":
		return true
	}
	algorithm, ok := strings.CutPrefix(header, "X-Amz-Checksum-")
	if ok {
		_, ok = checksum.ParseAlgorithm(algorithm)
	}
	return ok
}

// lookup finds an access key. It charges its slot to the client address, because the signature is not verified yet.
func (x *request) lookup(ctx context.Context, id string) (secret string, ok bool, err error) {
	c, ok, known := x.Keys.Known(id)
	if !known {
		err = x.withSlot(func() error {
			c, ok, err = x.Keys.Find(ctx, id)
			return err
		})
	}
	x.account, x.expires, x.limits = c.Account, c.Expires, c.Limits
	return c.Secret, ok, err
}

// resolve finds the bucket and authorizes the request. Clients without access do not learn whether the bucket exists.
func (x *request) resolve() error {
	err := x.withSlot(x.findBucket)
	switch {
	case errors.Is(err, buckets.ErrNoBucket) && !(x.isOwner() && x.permits(inBucket)):
		return errAccessDenied.because(x.whyMissing())
	case err != nil:
		return err
	}
	return x.authorize()
}

// whyMissing explains to the operator why findBucket found no bucket for a client that may not know which buckets exist.
// An account may well have a private bucket with the plain name: only its own requests find it.
func (x *request) whyMissing() string {
	switch {
	case x.route.account != "":
		return "the path names an account or a bucket that does not exist"
	case x.signed == nil:
		return "the request is not signed, and this name finds no public or shared bucket: sign the request, or make the bucket public"
	case x.isOwner() && !x.permits(inBucket):
		return "the account has no bucket with this name, and the access key is limited to " + x.limits.Words()
	}
	return "the account has no bucket with this name, and the name finds no public or shared bucket of another account"
}

// unlessMissing returns the error for a missing bucket instead of err, because clients create a missing bucket and retry.
// Only an owner learns that the bucket is missing.
func (x *request) unlessMissing(err error) error {
	if !x.op.needsBucket || x.signed == nil || x.route.account != "" {
		return err
	}
	missing := x.withSlot(x.findBucket)
	if errors.Is(missing, buckets.ErrNoBucket) && x.isOwner() && x.permits(inBucket) {
		return missing
	}
	return err
}

// namesOwnBucket reports whether the bucket can only be the signer's, and its settings do not matter.
func (x *request) namesOwnBucket() bool {
	return x.signed != nil && x.route.account == "" && x.in.Header.Get("Origin") == "" && !x.parsed.public &&
		(!x.hosted || !strings.Contains(x.route.bucket, ".")) && buckets.CheckBucketName(x.route.bucket) == nil
}

// serveByName lets the write find the bucket by name, which saves a query. The error for a missing bucket takes
// precedence over the write's error.
func (x *request) serveByName(op operation) error {
	x.owner, x.bucket.Name = x.account.ID, x.route.bucket
	if !x.permits(op.right) {
		return x.denied(op.right, x.key)
	}
	err := x.expectOwner("X-Amz-Expected-Bucket-Owner")
	if err == nil {
		err = op.serve(x)
	}
	if err == nil {
		return nil
	}
	if missing := x.identifyBucket(); errors.Is(missing, buckets.ErrNoBucket) {
		return missing
	}
	return err
}

// identifyBucket reads the bucket if serveByName skipped it.
func (x *request) identifyBucket() error {
	if x.bucket.ID != "" {
		return nil
	}
	return x.withSlot(func() error { return x.bucketIn(x.owner, x.route.bucket) })
}

// expectOwner refuses the request if the header names another owner: the client guards against a bucket that changed
// hands.
func (x *request) expectOwner(header string) error {
	if owner := x.in.Header[header]; len(owner) > 0 && owner[0] != string(x.owner) {
		return errAccessDenied.because("the bucket has another owner than the client's header says")
	}
	return nil
}

// findBucket finds the bucket that the request names: ACCOUNT:BUCKET, then the signer's own bucket, then BUCKET.ACCOUNT
// in the host if there is such an account and the signature covers the host, and then the bucket that claims the plain name. An account name comes before
// a claim, because otherwise a bucket called photos.main could take the requests for the bucket photos of main.
func (x *request) findBucket() error {
	if x.route.account != "" {
		_, err := x.bucketOf(x.route.account, x.route.bucket)
		return err
	}
	if x.signed != nil {
		if err := x.bucketIn(x.account.ID, x.route.bucket); !errors.Is(err, buckets.ErrNoBucket) {
			return err
		}
	}
	// Signature Version 2 does not cover the host: a link to the bucket photos.main by path could be sent to the host
	// photos.main, where it would mean main's bucket photos.
	if x.signed == nil || !x.signed.Version2 {
		if known, err := x.bucketOfLabels(); known || !errors.Is(err, buckets.ErrNoBucket) {
			return err
		}
	}
	return x.claimedBucket()
}

// bucketOfLabels finds BUCKET.ACCOUNT in the host. known reports whether the account exists.
func (x *request) bucketOfLabels() (known bool, err error) {
	i := strings.LastIndexByte(x.route.bucket, '.')
	if !x.hosted || i < 0 {
		return false, buckets.ErrNoBucket
	}
	return x.bucketOf(x.route.bucket[i+1:], x.route.bucket[:i])
}

// bucketOf finds a bucket by the name of its account. known reports whether the account exists.
func (x *request) bucketOf(account, name string) (known bool, err error) {
	x.owner = ""
	if buckets.CheckAccountName(account) != nil {
		return false, buckets.ErrNoBucket
	}
	a, err := x.Service.Account(x.in.Context(), account)
	if errors.Is(err, buckets.ErrNoAccount) {
		return false, buckets.ErrNoBucket
	}
	if err != nil {
		return false, err
	}
	return true, x.bucketIn(a.ID, name)
}

// bucketIn finds an owner's bucket. It does not look up invalid names, because some databases cannot store them.
func (x *request) bucketIn(owner buckets.AccountID, name string) (err error) {
	x.owner = owner
	if buckets.CheckBucketName(name) != nil {
		return buckets.ErrNoBucket
	}
	if !x.object.wanted {
		x.bucket, err = x.Service.Bucket(x.in.Context(), owner, name)
		return err
	}
	x.bucket, x.object.Object, err = x.Service.Find(x.in.Context(), owner, name, x.key)
	x.object.read = err == nil
	if errors.Is(err, buckets.ErrNoObject) {
		return nil // stored reads it again after access is granted
	}
	return err
}

// stored returns the current object, which resolve may have read already.
func (x *request) stored() (o buckets.Object, err error) {
	if x.object.read {
		return x.object.Object, nil
	}
	err = x.withSlot(func() error {
		o, err = x.Service.Object(x.in.Context(), x.owner, x.bucket.ID, x.key)
		return err
	})
	return o, x.hideMissing(err)
}

// ready acquires the slot for using the database. Calls after the first return at once.
func (x *request) ready() error { return web.AcquireSlot(x.in) }

// withSlot runs fn with a slot, and then gives it back if the request had none before.
func (x *request) withSlot(fn func() error) error { return web.WithSlot(x.in, fn) }

// send answers without a body.
func (x *request) send(status int) error {
	if status != http.StatusNoContent {
		x.out.Header().Set("Content-Length", "0")
	}
	x.out.WriteHeader(status)
	return nil
}
