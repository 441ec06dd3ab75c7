package s3api_test

import (
	"strings"
	"testing"
)

func publicAccess(all ...string) string {
	var b strings.Builder
	b.WriteString(`<PublicAccessBlockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for _, name := range all {
		b.WriteString("<" + name + ">true</" + name + ">")
	}
	return b.String() + "</PublicAccessBlockConfiguration>"
}

func TestPublicAccessBlock(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	s.do("GET", "/photos?publicAccessBlock", "").fails(404, "NoSuchPublicAccessBlockConfiguration")
	s.do("PUT", "/photos?publicAccessBlock", publicAccess()).want(200)
	s.do("GET", "/photos?publicAccessBlock", "").want(200).has("<BlockPublicAcls>false<", "<IgnorePublicAcls>false<", "<BlockPublicPolicy>false<", "<RestrictPublicBuckets>false<")
	s.do("PUT", "/photos?publicAccessBlock", "<PublicAccessBlockConfiguration><BlockPublicAcls>maybe</BlockPublicAcls></PublicAccessBlockConfiguration>").fails(400, "MalformedXML")
	s.do("PUT", "/photos?publicAccessBlock", "").fails(400, "MalformedXML")

	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.anonymous("GET", "/photos/k", "").want(200)
	s.do("PUT", "/photos?publicAccessBlock", publicAccess("BlockPublicAcls")).want(200)
	s.do("GET", "/photos?publicAccessBlock", "").has("<BlockPublicAcls>true<", "<IgnorePublicAcls>false<")
	s.anonymous("GET", "/photos/k", "").want(200)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").fails(403, "AccessDenied")
	s.do("PUT", "/photos/k", hello, "x-amz-acl: public-read").fails(403, "AccessDenied")
	s.do("PUT", "/photos/k?acl", "", "x-amz-acl: private").fails(400, "AccessControlListNotSupported")
	s.do("PUT", "/photos?publicAccessBlock", publicAccess("IgnorePublicAcls")).want(200)
	s.anonymous("GET", "/photos/k", "").fails(403, "AccessDenied")
	s.as(s.other, "GET", "/photos/k", "").fails(404, "NoSuchBucket")
	s.do("GET", "/photos?policyStatus", "").has("<IsPublic>false<")
	s.do("GET", "/photos?acl", "").want(200).hasNot("AllUsers")
	s.do("DELETE", "/photos?publicAccessBlock", "").want(204)
	s.do("GET", "/photos?publicAccessBlock", "").fails(404, "NoSuchPublicAccessBlockConfiguration")
	s.anonymous("GET", "/photos/k", "").want(200)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: private").want(200)

	public := `{"Statement": {` + toAll + `, "Action": "s3:GetObject"}}`
	private := `{"Statement": {` + toOther + `, "Action": "s3:GetObject"}}`
	s.do("PUT", "/photos?publicAccessBlock", publicAccess("BlockPublicPolicy")).want(200)
	s.do("PUT", "/photos?policy", public).fails(403, "AccessDenied").has("BlockPublicPolicy")
	s.do("PUT", "/photos?policy", private).want(204)
	s.do("PUT", "/photos?publicAccessBlock", publicAccess("RestrictPublicBuckets")).want(200)
	s.as(s.other, "GET", "/photos/k", "").want(200) // the policy is not public
	s.policy(`{`+toAll+`, "Action": "s3:GetObject"}`, `{`+toOther+`, "Action": "s3:PutObject"}`)
	s.anonymous("GET", "/photos/k", "").fails(403, "AccessDenied")
	s.as(s.other, "GET", "/main:photos/k", "").fails(403, "AccessDenied")
	s.as(s.other, "PUT", "/main:photos/k", hello).fails(403, "AccessDenied")
	s.as(s.other, "GET", "/photos/k", "").fails(404, "NoSuchBucket") // nothing is shared, so the name is free
	s.do("GET", "/photos/k", "").want(200)
	s.do("DELETE", "/photos?publicAccessBlock", "").want(204)
	s.anonymous("GET", "/photos/k", "").want(200)
}

func TestOwnershipControls(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	controls := func(all ...string) string {
		return "<OwnershipControls><Rule><ObjectOwnership>" + strings.Join(all, "</ObjectOwnership></Rule><Rule><ObjectOwnership>") + "</ObjectOwnership></Rule></OwnershipControls>"
	}
	s.do("GET", "/photos?ownershipControls", "").fails(404, "OwnershipControlsNotFoundError")
	s.do("PUT", "/photos?ownershipControls", controls("ObjectWriter")).fails(501, "NotImplemented")
	s.do("PUT", "/photos?ownershipControls", controls("Nobody")).fails(400, "MalformedXML")
	s.do("PUT", "/photos?ownershipControls", controls("BucketOwnerEnforced", "BucketOwnerEnforced")).fails(400, "MalformedXML")
	s.do("PUT", "/photos?ownershipControls", "<OwnershipControls></OwnershipControls>").fails(400, "MalformedXML")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.do("PUT", "/photos?ownershipControls", controls("BucketOwnerEnforced")).fails(400, "InvalidBucketAclWithObjectOwnership")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: private").want(200)
	s.do("PUT", "/photos?ownershipControls", controls("BucketOwnerEnforced")).want(200)
	s.do("GET", "/photos?ownershipControls", "").want(200).has("<ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").fails(400, "AccessControlListNotSupported")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: private").want(200)
	s.do("PUT", "/photos/k", hello, "x-amz-acl: bucket-owner-full-control").want(200)
	s.do("DELETE", "/photos?ownershipControls", "").want(204)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)

	// BucketOwnerPreferred allows ACLs, like no controls.
	s.do("PUT", "/photos?ownershipControls", controls("BucketOwnerPreferred")).want(200)
	s.do("GET", "/photos?ownershipControls", "").want(200).has("<ObjectOwnership>BucketOwnerPreferred</ObjectOwnership>")
	s.do("PUT", "/photos?acl", "", "x-amz-acl: private").want(200)
	s.do("PUT", "/photos?ownershipControls", controls("BucketOwnerEnforced")).want(200)
	s.do("GET", "/photos?ownershipControls", "").want(200).has("<ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>")
	s.do("PUT", "/photos?ownershipControls", controls("BucketOwnerPreferred")).want(200)
	s.do("PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	s.do("DELETE", "/photos?ownershipControls", "").want(204)
	s.do("GET", "/photos?ownershipControls", "").fails(404, "OwnershipControlsNotFoundError")
	s.do("PUT", "/preferred", "", "x-amz-object-ownership: BucketOwnerPreferred", "x-amz-acl: public-read").want(200)
	s.do("GET", "/preferred?ownershipControls", "").want(200).has("<ObjectOwnership>BucketOwnerPreferred</ObjectOwnership>")

	s.do("PUT", "/enforced", "", "x-amz-object-ownership: BucketOwnerEnforced").want(200)
	s.do("GET", "/enforced?ownershipControls", "").want(200)
	s.do("PUT", "/fresh", "", "x-amz-object-ownership: ObjectWriter").fails(501, "NotImplemented")
	s.do("PUT", "/fresh", "", "x-amz-object-ownership: Nobody").fails(400, "InvalidArgument")
	s.do("PUT", "/fresh", "", "x-amz-object-ownership: BucketOwnerEnforced", "x-amz-acl: public-read").fails(400, "InvalidBucketAclWithObjectOwnership")
	s.do("GET", "/fresh", "").fails(404, "NoSuchBucket")
}
