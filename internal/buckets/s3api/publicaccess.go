package s3api

import (
	"encoding/xml"
	"net/http"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

var (
	errPublicPolicy  = refuse(http.StatusForbidden, "AccessDenied", "The bucket policy is public, and the bucket blocks public policies (BlockPublicPolicy)")
	errPublicACL     = refuse(http.StatusForbidden, "AccessDenied", "The bucket blocks public ACLs (BlockPublicAcls)")
	errOwnerEnforced = refuse(http.StatusBadRequest, "InvalidBucketAclWithObjectOwnership", "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
)

// checkPublicACL refuses to make the bucket public if its settings forbid that.
func (x *request) checkPublicACL() error {
	return x.bucket.Settings.CheckPublicRead()
}

type publicAccess struct {
	XMLName xml.Name `xml:"PublicAccessBlockConfiguration"`

	BlockACLs      bool `xml:"BlockPublicAcls"`
	IgnoreACLs     bool `xml:"IgnorePublicAcls"`
	BlockPolicy    bool `xml:"BlockPublicPolicy"`
	RestrictPolicy bool `xml:"RestrictPublicBuckets"`
}

// getPublicAccess serves GetPublicAccessBlock.
func (x *request) getPublicAccess() error {
	b := x.bucket.Settings.PublicAccessBlock
	if !b.Configured {
		return refuse(http.StatusNotFound, "NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")
	}
	d := newDocument("PublicAccessBlockConfiguration")
	d.flag("BlockPublicAcls", b.BlockACLs)
	d.flag("IgnorePublicAcls", b.IgnoreACLs)
	d.flag("BlockPublicPolicy", b.BlockPolicy)
	d.flag("RestrictPublicBuckets", b.RestrictPolicy)
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// putPublicAccess serves PutPublicAccessBlock. Missing elements are false.
func (x *request) putPublicAccess() error {
	var c publicAccess
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	b := buckets.PublicAccessBlock{Configured: true, BlockACLs: c.BlockACLs, IgnoreACLs: c.IgnoreACLs, BlockPolicy: c.BlockPolicy, RestrictPolicy: c.RestrictPolicy}
	return x.set(buckets.SettingsChange{PublicAccessBlock: &b}, http.StatusOK)
}

// deletePublicAccess serves DeletePublicAccessBlock.
func (x *request) deletePublicAccess() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{PublicAccessBlock: &buckets.PublicAccessBlock{}}, http.StatusNoContent)
}

const (
	ownerEnforced  = "BucketOwnerEnforced"
	ownerPreferred = "BucketOwnerPreferred"
)

// objectOwnership parses an ownership mode. All objects belong to the bucket owner, so the modes differ in whether the
// bucket allows ACLs.
func objectOwnership(name string) (enforced, preferred bool, err error) {
	switch name {
	case "", ownerEnforced, ownerPreferred:
		return name == ownerEnforced, name == ownerPreferred, nil
	case "ObjectWriter":
		return false, false, errNotImplemented("the object ownership " + name + "; use " + ownerEnforced + " or " + ownerPreferred)
	}
	return false, false, invalidArgument("x-amz-object-ownership", "Invalid x-amz-object-ownership header: "+name)
}

type ownershipControls struct {
	XMLName xml.Name `xml:"OwnershipControls"`
	Rules   []struct {
		Ownership string `xml:"ObjectOwnership" s3:"required"`
	} `xml:"Rule"`
}

// getOwnership serves GetBucketOwnershipControls.
func (x *request) getOwnership() error {
	name := ownerEnforced
	switch s := &x.bucket.Settings; {
	case s.OwnerEnforced:
	case s.OwnerPreferred:
		name = ownerPreferred
	default:
		return refuse(http.StatusNotFound, "OwnershipControlsNotFoundError", "The bucket ownership controls were not found")
	}
	d := newDocument("OwnershipControls")
	d.begin("Rule")
	d.text("ObjectOwnership", name)
	d.end()
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// putOwnership serves PutBucketOwnershipControls.
func (x *request) putOwnership() error {
	var c ownershipControls
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	if len(c.Rules) != 1 {
		return errMalformedXML
	}
	enforced, preferred, err := objectOwnership(c.Rules[0].Ownership)
	switch {
	case err != nil && asError(err).Status == http.StatusNotImplemented:
		return err
	case err != nil:
		return errMalformedXML
	}
	if enforced {
		if err := x.bucket.Settings.CheckOwnerEnforced(); err != nil {
			return err
		}
	}
	return x.set(buckets.SettingsChange{OwnerEnforced: &enforced, OwnerPreferred: &preferred}, http.StatusOK)
}

// deleteOwnership serves DeleteBucketOwnershipControls.
func (x *request) deleteOwnership() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{OwnerEnforced: new(bool), OwnerPreferred: new(bool)}, http.StatusNoContent)
}
