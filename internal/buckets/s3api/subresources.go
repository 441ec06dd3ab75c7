package s3api

import (
	"encoding/xml"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// cannedACL accepts private and public-read. Some clients send private with every upload.
func cannedACL(name string) (public bool, err error) {
	switch name {
	case "", "private", "bucket-owner-full-control", "bucket-owner-read", "aws-exec-read":
		return false, nil
	case "public-read":
		return true, nil
	case "public-read-write", "authenticated-read", "log-delivery-write":
		return false, errNotImplemented("the canned ACL " + name + "; use private or public-read")
	}
	return false, invalidArgument("x-amz-acl", "The canned ACL is not one of private, public-read, bucket-owner-read and bucket-owner-full-control")
}

// maxSettings limits, in bytes, the documents for bucket settings, as in S3.
const maxSettings = buckets.MaxSettingBytes

const (
	allUsers  = "http://acs.amazonaws.com/groups/global/AllUsers" // S3's group for anyone
	schemaXSI = "http://www.w3.org/2001/XMLSchema-instance"
)

// getACL serves GetBucketAcl and GetObjectAcl. An object's ACL is the bucket's.
func (x *request) getACL() error {
	if x.key != "" {
		if _, err := x.storedVersion(); err != nil {
			return err
		}
	}
	d := newDocument("AccessControlPolicy")
	x.writeOwner(d, "Owner")
	d.begin("AccessControlList")
	grant := func(kind, permission string, who func()) {
		d.begin("Grant")
		d.b = append(d.b, `<Grantee xmlns:xsi="`+schemaXSI+`" xsi:type="`+kind+`">`...)
		who()
		d.b = append(d.b, `</Grantee>`...)
		d.text("Permission", permission)
		d.end()
	}
	grant("CanonicalUser", "FULL_CONTROL", func() {
		d.text("ID", string(x.owner))
		if x.isOwner() {
			d.text("DisplayName", x.account.Name)
		}
	})
	if x.bucket.Settings.IsOpen() {
		grant("Group", "READ", func() { d.text("URI", allUsers) })
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}

var errMalformedACL = refuse(http.StatusBadRequest, "MalformedACLError", "The ACL that you provided was not well formed or did not validate against our published schema")

// accessControlPolicy is the XML for an ACL. Clients send display names back as they read them.
type accessControlPolicy struct {
	XMLName xml.Name `xml:"AccessControlPolicy"`
	Owner   *struct {
		ID          string `xml:"ID" s3:"required"`
		DisplayName string `xml:"DisplayName" s3:"empty"`
	} `xml:"Owner"`
	List struct {
		Grants []grant `xml:"Grant"`
	} `xml:"AccessControlList" s3:"required"`
}

type grant struct {
	Grantee struct {
		Type        string     `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
		ID          string     `xml:"ID"`
		DisplayName string     `xml:"DisplayName" s3:"empty"`
		URI         string     `xml:"URI"`
		Email       notApplied `xml:"EmailAddress"`
	} `xml:"Grantee" s3:"required"`
	Permission string `xml:"Permission" s3:"required"`
}

// isTyped reports whether xsi:type is absent, or the grantee's type.
func (g *grant) isTyped() bool {
	switch of := &g.Grantee; of.Type {
	case "":
		return (of.ID == "") != (of.URI == "")
	case "CanonicalUser":
		return of.ID != "" && of.URI == ""
	case "Group":
		return of.ID == "" && of.URI != ""
	}
	return false
}

// requestedACL reads the ACL from the header or the body, and reports whether it is public. Only the owner's full
// control and READ for anyone are supported.
func (x *request) requestedACL() (public bool, err error) {
	document, err := x.readText(sigv4.BodyOptions{MaxSize: maxSettings})
	if err != nil {
		return false, err
	}
	if err := x.checkGrants(); err != nil {
		return false, err
	}
	x.parsed.acl = x.in.Header.Get("X-Amz-Acl")
	switch canned := x.parsed.acl; {
	case canned != "" && document.size > 0:
		return false, refuse(http.StatusBadRequest, "UnexpectedContent", "This request does not support content: an ACL is in the header x-amz-acl or in the body")
	case canned != "":
		return cannedACL(canned)
	case document.size == 0:
		return false, refuse(http.StatusBadRequest, "MissingSecurityHeader", "Your request was missing a required header: x-amz-acl, or a document in the body").with(Field{"MissingHeaderName", "x-amz-acl"})
	}
	var p accessControlPolicy
	if err := x.decode(document, &p); err != nil {
		if !errors.Is(err, errMalformedXML) {
			return false, err
		}
		return false, errMalformedACL
	}
	if p.Owner != nil && p.Owner.ID != string(x.owner) {
		return false, errAccessDenied.because("the ACL names another owner than the bucket's")
	}
	for i := range p.List.Grants {
		switch g := &p.List.Grants[i]; {
		case !g.isTyped():
			return false, errMalformedACL
		case g.Grantee.ID == string(x.owner) && g.Permission == "FULL_CONTROL":
		case g.Grantee.URI == allUsers && g.Permission == "READ":
			public = true
		default:
			return false, errNotImplemented("a grant other than READ to everybody")
		}
	}
	// Policies see a document with grants as the canned ACL that has the same effect.
	if x.parsed.acl = "private"; public {
		x.parsed.acl = "public-read"
	}
	return public, nil
}

// putACL serves PutBucketAcl.
func (x *request) putACL() error {
	public, err := x.requestedACL()
	if err != nil {
		return err
	}
	if err := x.allowLate(); err != nil {
		return err
	}
	if public {
		if err := x.checkPublicACL(); err != nil {
			return err
		}
	}
	return x.set(buckets.SettingsChange{PublicRead: &public}, http.StatusOK)
}

// putObjectACL accepts only the bucket's ACL.
func (x *request) putObjectACL() error {
	public, err := x.requestedACL()
	if err != nil {
		return err
	}
	if err := x.allowLate(); err != nil {
		return err
	}
	if public != x.bucket.Settings.PublicRead {
		return errNoACL
	}
	if _, err := x.storedVersion(); err != nil {
		return err
	}
	return x.send(http.StatusOK)
}

// set changes bucket settings and answers with status.
func (x *request) set(c buckets.SettingsChange, status int) error {
	defer x.rules.forget(x.bucket.ID) // even if it is unknown whether the change succeeded
	if err := x.Service.SetBucket(x.in.Context(), x.owner, x.bucket.BucketRef, c); err != nil {
		return err
	}
	return x.send(status)
}

// tagSet is the XML for tags.
type tagSet struct {
	XMLName xml.Name `xml:"Tagging"`
	Set     struct {
		Tags []tagElement `xml:"Tag"`
	} `xml:"TagSet" s3:"required"`
}

// tagElement converts to buckets.Tag. The tag rules refuse an empty key.
type tagElement struct {
	Key   string `xml:"Key" s3:"required,empty"`
	Value string `xml:"Value" s3:"required,empty"`
}

func tagList(all []tagElement) (tags []buckets.Tag) {
	for _, t := range all {
		tags = append(tags, buckets.Tag(t))
	}
	return tags
}

// readTags reads the tags in the body, at most maxTags.
func (x *request) readTags(maxTags int) (map[string]string, error) {
	var set tagSet
	if err := x.readXML(&set, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return nil, err
	}
	return set.tags(maxTags)
}

// tags converts the list and checks it.
func (set *tagSet) tags(maxTags int) (map[string]string, error) {
	tags, invalid := buckets.TagsOf(tagList(set.Set.Tags), maxTags)
	if invalid != nil {
		return nil, refusedTags(invalid)
	}
	return tags, nil
}

// sendTags writes the tags in a fixed order.
func (x *request) sendTags(tags map[string]string) error {
	d := newDocument("Tagging")
	d.begin("TagSet")
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		d.begin("Tag")
		d.text("Key", k)
		d.text("Value", tags[k])
		d.end()
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// getTags serves GetObjectTagging.
func (x *request) getTags() error {
	o, err := x.storedVersion()
	if err != nil {
		return err
	}
	return x.sendTags(o.Tags)
}

// putTags serves PutObjectTagging. Policies see the new tags, so access is decided after the body.
func (x *request) putTags() error {
	tags, err := x.readTags(buckets.MaxObjectTags)
	if err != nil {
		return err
	}
	x.parsed.object.Tags = tags
	if err := x.allowLate(); err != nil {
		return err
	}
	return x.setTags(tags, http.StatusOK)
}

// deleteTags serves DeleteObjectTagging.
func (x *request) deleteTags() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.setTags(nil, http.StatusNoContent)
}

// setTags replaces the tags of the named version.
func (x *request) setTags(tags map[string]string, status int) error {
	id, err := x.versionID()
	if err != nil {
		return err
	}
	o, err := x.Service.UpdateObject(x.in.Context(), x.owner, x.bucket.BucketRef, buckets.Update{Name: x.key, Version: id, Tags: &tags})
	if err != nil {
		return err
	}
	if x.bucket.Versioning != buckets.VersioningOff {
		x.versionHeader(o.VersionID())
	}
	return x.send(status)
}

// getBucketTags serves GetBucketTagging.
func (x *request) getBucketTags() error {
	if len(x.bucket.Settings.Tags) == 0 {
		return refuse(http.StatusNotFound, "NoSuchTagSet", "The TagSet does not exist")
	}
	return x.sendTags(x.bucket.Settings.Tags)
}

// putBucketTags serves PutBucketTagging.
func (x *request) putBucketTags() error {
	tags, err := x.readTags(buckets.MaxBucketTags)
	if err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{Tags: &tags}, http.StatusNoContent)
}

// deleteBucketTags serves DeleteBucketTagging.
func (x *request) deleteBucketTags() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{Tags: new(map[string]string)}, http.StatusNoContent)
}

// getAttributes serves GetObjectAttributes.
func (x *request) getAttributes() error {
	o, err := x.storedVersion()
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, v := range x.in.Header.Values("X-Amz-Object-Attributes") {
		for name := range strings.SplitSeq(v, ",") {
			asked[strings.TrimSpace(name)] = true
		}
	}
	if len(asked) == 0 {
		return invalidArgument("x-amz-object-attributes", "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty")
	}
	for name := range asked {
		switch name {
		case "ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize":
		default:
			return invalidArgument("x-amz-object-attributes", "Invalid attribute name specified.")
		}
	}
	x.out.Header().Set("Last-Modified", httpTime(o.Modified))
	d := x.newStream("GetObjectAttributesResponse")
	if asked["ETag"] {
		d.text("ETag", o.EntityTag())
	}
	if asked["Checksum"] && o.Checksum.Algorithm != "" {
		d.begin("Checksum")
		d.text("Checksum"+o.Checksum.Algorithm, o.Checksum.Value)
		d.text("ChecksumType", checksumType(o.Checksum))
		d.end()
	}
	if asked["ObjectParts"] && o.Parts > 0 {
		if err := x.objectParts(d, &o); err != nil {
			return err
		}
	}
	if asked["StorageClass"] {
		d.text("StorageClass", o.Class.Name())
	}
	if asked["ObjectSize"] {
		d.number("ObjectSize", o.Length)
	}
	return d.finish()
}

// objectParts writes the part list. Numbers are positions, from 1.
func (x *request) objectParts(d *stream, o *buckets.Object) error {
	limit, err := countOf("x-amz-max-parts", x.in.Header.Get("X-Amz-Max-Parts"), maxPage)
	if err != nil {
		return err
	}
	marker, err := partMarker(x.in.Header.Get("X-Amz-Part-Number-Marker"))
	if err != nil {
		return err
	}
	d.begin("ObjectParts")
	d.number("PartsCount", int64(o.Parts))
	d.number("PartNumberMarker", int64(marker))
	next := marker
	if limit > 0 && marker < o.Parts {
		if next, err = x.objectPartsAfter(d, o, marker, limit); err != nil {
			return err
		}
	}
	d.number("NextPartNumberMarker", int64(next))
	d.number("MaxParts", int64(limit))
	d.flag("IsTruncated", limit > 0 && next < o.Parts)
	d.end()
	return nil
}

// objectPartsAfter writes parts after marker. It must read from the first part, because only counting turns stored
// numbers into positions.
func (x *request) objectPartsAfter(d *stream, o *buckets.Object, marker, limit int) (next int, err error) {
	next = marker
	n, after := 0, 0
	more := func() bool { return n < o.Parts && next-marker < limit }
	err = d.Slices(partSlice*partMemory, func() (bool, error) {
		var page []buckets.Segment
		if err := d.Read(func() (err error) {
			page, err = x.Service.BodiesOf(x.in.Context(), x.owner, o, after, partSlice)
			return err
		}); err != nil {
			return false, err
		}
		if len(page) == 0 {
			return false, buckets.ErrNoObject // the object was overwritten, and its parts were collected
		}
		for i := range page {
			if n++; n > marker && n-marker <= limit {
				if err := d.grow(maxFixed); err != nil {
					return false, err
				}
				writePart(d.document, n, &page[i])
				next = n
			}
		}
		after = page[len(page)-1].Number
		if more() {
			return true, nil
		}
		return false, d.grow(maxFixed)
	})
	return next, err
}

// writePart writes a part of an object.
func writePart(d *document, number int, p *buckets.Segment) {
	d.begin("Part")
	d.number("PartNumber", int64(number))
	d.number("Size", p.Length)
	if p.Checksum.Algorithm != "" {
		d.text("Checksum"+p.Checksum.Algorithm, p.Checksum.Value)
	}
	d.end()
}
