package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// maxBuckets is the largest and default page size.
const maxBuckets = 10000

// listBuckets serves ListBuckets, only for the signer's own account, and only buckets that the key may use.
func (x *request) listBuckets() error {
	q, limit, err := x.parseBuckets()
	if err != nil {
		return err
	}
	prefix := q.Prefix
	d := x.newStream("ListAllMyBucketsResult")
	d.begin("Owner")
	d.text("ID", string(x.account.ID))
	d.text("DisplayName", x.account.Name)
	d.end()
	d.begin("Buckets")
	if own := x.limits.BucketPrefix(); strings.HasPrefix(own, q.Prefix) {
		q.Prefix = own // a key for one bucket lists only that bucket
	}
	more := false
	if !x.has("bucket-region") || x.query.Get("bucket-region") == x.Region { // no bucket is in another region
		if more, err = x.writeBuckets(d, &q, limit); err != nil {
			return err
		}
	}
	d.end()
	if more {
		d.text("ContinuationToken", formatToken(buckets.Position{Name: q.After}))
	}
	d.optional("Prefix", prefix)
	return d.finish()
}

// parseBuckets parses the parameters of ListBuckets. Unlike other lists, S3 refuses a page size outside its range.
func (x *request) parseBuckets() (q buckets.BucketQuery, limit int, err error) {
	if err := x.checkText("prefix", "continuation-token"); err != nil {
		return q, 0, err
	}
	q.Prefix = x.query.Get("prefix")
	if token := x.query.Get("continuation-token"); token != "" {
		after, err := parseToken(token)
		if err != nil || after.Inclusive || buckets.CheckBucketName(after.Name) != nil {
			return q, 0, errToken
		}
		q.After = after.Name
	}
	if x.has("bucket-region") && x.query.Get("bucket-region") == "" {
		return q, 0, invalidArgument("bucket-region", "The bucket-region is empty: expected the name of a region, such as "+x.Region)
	}
	if !x.has("max-buckets") {
		return q, maxBuckets, nil
	}
	limit, err = strconv.Atoi(x.query.Get("max-buckets"))
	if err != nil || limit < 1 || limit > maxBuckets {
		return q, 0, invalidArgument("max-buckets", "Argument max-buckets must be an integer between 1 and 10000")
	}
	return q, limit, nil
}

// writeBuckets writes at most limit buckets, slice by slice. q.After becomes the last name, from which the next page
// continues.
func (x *request) writeBuckets(d *stream, q *buckets.BucketQuery, limit int) (more bool, err error) {
	q.Bytes = buckets.SliceBytes
	err = d.Slices(buckets.SliceMemory+maxSettings, func() (bool, error) {
		q.Limit = buckets.FirstSlice
		if x.limits.IsZero() {
			q.Limit = min(limit, q.Limit)
		}
		var page []buckets.Bucket
		if err := d.Read(func() (err error) {
			page, more, err = x.Service.Buckets(x.in.Context(), x.account.ID, *q)
			return err
		}); err != nil {
			return false, err
		}
		for i := range page {
			if limit == 0 {
				more = true
				break
			}
			q.After = page[i].Name
			if !x.limits.AllowBucket(page[i].Name) {
				continue
			}
			if err := d.grow(maxFixed); err != nil {
				return false, err
			}
			d.begin("Bucket")
			d.text("Name", page[i].Name)
			d.moment("CreationDate", page[i].Created)
			d.text("BucketRegion", x.Region)
			d.end()
			limit--
		}
		if more && limit > 0 {
			return true, nil
		}
		return false, d.grow(maxFixed)
	})
	return more, err
}

// refuseOutside rejects the creation of a bucket that the key may not create. If the key may use an existing bucket
// with this name, the error says that the bucket exists, because some clients create buckets before each write.
func (x *request) refuseOutside() error {
	if x.signed == nil || x.route.account != "" && x.route.account != x.account.Name || !x.permits(inBucket) {
		return x.denied(inBucket, "")
	}
	err := x.withSlot(func() error { return x.bucketIn(x.account.ID, x.route.bucket) })
	switch {
	case errors.Is(err, buckets.ErrNoBucket):
		return x.denied(x.op.right, "")
	case err != nil:
		return err
	}
	return buckets.ErrBucketExists
}

// bucketConfiguration is CreateBucket's XML. Location and Bucket describe directory buckets.
type bucketConfiguration struct {
	XMLName   xml.Name   `xml:"CreateBucketConfiguration"`
	Location  string     `xml:"LocationConstraint" s3:"empty"`
	Zone      notApplied `xml:"Location"`
	Directory notApplied `xml:"Bucket"`
	Tags      notApplied `xml:"Tags"`
}

// createBucket serves CreateBucket in the signer's account. Everything is checked before the bucket is created, because
// a client may not expect a bucket after an error. A public or locked bucket takes several writes: after a failure, the
// client retries with the existing bucket.
func (x *request) createBucket() error {
	if x.signed == nil || x.route.account != "" && x.route.account != x.account.Name {
		return x.denied(x.op.right, "")
	}
	if err := buckets.CheckBucketName(x.route.bucket); err != nil {
		return err
	}
	if err := x.checkGrants(); err != nil {
		return err
	}
	public, err := cannedACL(x.in.Header.Get("X-Amz-Acl"))
	if err != nil {
		return err
	}
	enforced, preferred, err := objectOwnership(x.in.Header.Get("X-Amz-Object-Ownership"))
	if err != nil {
		return err
	}
	if enforced && public {
		return errOwnerEnforced
	}
	if (enforced || public) && !x.permits(buckets.RightPolicy) {
		return x.denied(buckets.RightPolicy, "")
	}
	locked := strings.EqualFold(x.in.Header.Get("X-Amz-Bucket-Object-Lock-Enabled"), "true")
	document, err := x.readText(sigv4.BodyOptions{MaxSize: maxSettings})
	if err != nil {
		return err
	}
	var c bucketConfiguration
	if document.size > 0 {
		if err := x.decode(document, &c); err != nil {
			return err
		}
	}
	if c.Location != "" && c.Location != x.Region && c.Location != "EU" {
		return refuse(http.StatusBadRequest, "InvalidLocationConstraint", "The specified location-constraint is not valid: expected "+x.Region).with(Field{"LocationConstraint", c.Location})
	}
	ctx := x.in.Context()
	b, err := x.Service.CreateBucket(ctx, x.account.ID, x.route.bucket)
	switch {
	case errors.Is(err, buckets.ErrBucketExists) && x.Region == "us-east-1" && (!locked || b.Lock.Enabled):
		// Succeed as in Amazon's oldest region, because some clients create the bucket before each upload.
	case err != nil:
		return err
	default:
		if locked {
			err = x.Service.LockNewBucket(ctx, x.account.ID, b.BucketRef)
		}
		if err == nil && (public || enforced || preferred) {
			err = x.Service.SetBucket(ctx, x.account.ID, b.BucketRef, buckets.SettingsChange{PublicRead: &public, OwnerEnforced: &enforced, OwnerPreferred: &preferred})
		}
		if err != nil {
			return err
		}
	}
	x.out.Header().Set("Location", "/"+x.route.bucket)
	return x.send(http.StatusOK)
}

// headBucket serves HeadBucket. Access was already checked.
func (x *request) headBucket() error {
	x.out.Header().Set("X-Amz-Bucket-Region", x.Region)
	return x.send(http.StatusOK)
}

// deleteBucket serves DeleteBucket for an empty bucket.
func (x *request) deleteBucket() error {
	if err := x.ready(); err != nil {
		return err
	}
	// Deleting the bucket and creating it again removes the restrictions on access to it.
	if x.bucket.Settings.SetsAccess() && !x.permits(buckets.RightPolicy) {
		return x.denied(buckets.RightPolicy, "")
	}
	if err := x.Service.DeleteBucket(x.in.Context(), x.owner, x.bucket.BucketRef); err != nil {
		return err
	}
	return x.send(http.StatusNoContent)
}

// getLocation omits the location us-east-1, like S3.
func (x *request) getLocation() error {
	d := newDocument("LocationConstraint")
	if x.Region != "us-east-1" {
		d.b = appendText(d.b, x.Region)
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}
