package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

var (
	errNoSuchVersion = refuse(http.StatusNotFound, "NoSuchVersion", "The specified version does not exist.")
	errVersioning    = refuse(http.StatusBadRequest, "IllegalVersioningConfigurationException", "The versioning configuration specified in the request is invalid: Status is Enabled or Suspended.")
)

// versioningStates are S3's names.
var versioningStates = map[buckets.Versioning]string{buckets.VersioningEnabled: "Enabled", buckets.VersioningSuspended: "Suspended"}

// getVersioning omits the status until versioning was enabled.
func (x *request) getVersioning() error {
	d := newDocument("VersioningConfiguration")
	d.optional("Status", versioningStates[x.bucket.Versioning])
	sendXML(x.out, http.StatusOK, d)
	return nil
}

type versioningConfiguration struct {
	XMLName   xml.Name `xml:"VersioningConfiguration"`
	Status    string   `xml:"Status"`
	MFADelete string   `xml:"MfaDelete"`
}

// putVersioning serves PutBucketVersioning.
func (x *request) putVersioning() error {
	var c versioningConfiguration
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	if c.MFADelete == "Enabled" || x.in.Header.Get("X-Amz-Mfa") != "" {
		return errNotImplemented("MFA delete")
	}
	for v, status := range versioningStates {
		if c.Status == status && (c.MFADelete == "" || c.MFADelete == "Disabled") {
			defer x.rules.forget(x.bucket.ID)
			if err := x.Service.SetVersioning(x.in.Context(), x.owner, x.bucket.BucketRef, v); err != nil {
				return err
			}
			return x.send(http.StatusOK)
		}
	}
	return errVersioning
}

// versionID parses versionId; "" if it is missing.
func (x *request) versionID() (buckets.VersionID, error) {
	if !x.query.Has("versionId") {
		return "", nil
	}
	return buckets.ParseVersionID(x.query.Get("versionId"))
}

// versionHeader sets the version in the response; "" if the bucket is not versioned.
func (x *request) versionHeader(v buckets.VersionID) {
	if v != "" {
		x.out.Header().Set("X-Amz-Version-Id", string(v))
	}
}

// readVersion reads the named version, or the current object. Without an ID, it may return a delete marker in a
// versioned bucket.
func (x *request) readVersion() (v buckets.Version, err error) {
	id, err := x.versionID()
	if err != nil {
		return v, err
	}
	if id == "" {
		v.Object, err = x.stored()
		if x.bucket.Versioning == buckets.VersioningOff || !errors.Is(err, buckets.ErrNoObject) {
			return v, err
		}
	}
	err = x.withSlot(func() (err error) {
		v, err = x.Service.Version(x.in.Context(), x.owner, x.bucket.ID, x.key, id)
		return err
	})
	return v, err
}

// storedVersion is like readVersion, but sets the version header and rejects delete markers.
func (x *request) storedVersion() (buckets.Object, error) {
	v, err := x.readVersion()
	if err != nil {
		return v.Object, err
	}
	if x.bucket.Versioning != buckets.VersioningOff && (x.signed != nil || !v.Marker) {
		x.versionHeader(v.VersionID())
	}
	switch {
	case !v.Marker:
		return v.Object, nil
	case x.signed == nil:
		return v.Object, buckets.ErrNoObject
	}
	x.out.Header().Set("X-Amz-Delete-Marker", "true")
	if !x.query.Has("versionId") {
		return v.Object, buckets.ErrNoObject
	}
	x.out.Header().Set("Last-Modified", httpTime(v.Modified))
	return v.Object, buckets.ErrMarker
}

// listVersions serves ListObjectVersions.
func (x *request) listVersions() error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	q := buckets.VersionQuery{Prefix: l.Prefix, Delimiter: l.Delimiter, After: x.query.Get("key-marker")}
	if marker := x.query.Get("version-id-marker"); marker != "" {
		if q.After == "" {
			return invalidArgument("version-id-marker", "A version-id marker cannot be specified without a key marker.")
		}
		if q.AfterVersion, err = buckets.ParseVersionID(marker); err != nil {
			return invalidArgument("version-id-marker", "Invalid version id specified")
		}
	}
	d := x.newStream("ListVersionsResult")
	if err := x.beginList(d, &l); err != nil {
		return err
	}
	d.text("KeyMarker", l.encode(q.After))
	d.text("VersionIdMarker", string(q.AfterVersion))
	more, err := x.versions(d, &l, &q)
	if err != nil {
		return err
	}
	d.flag("IsTruncated", more)
	if more {
		d.text("NextKeyMarker", l.encode(q.After))
		d.optional("NextVersionIdMarker", string(q.AfterVersion))
	}
	return d.finish()
}

// versions writes slice by slice. q.After becomes where the next page begins.
func (x *request) versions(d *stream, l *listing, q *buckets.VersionQuery) (more bool, err error) {
	if l.limit == 0 {
		return false, nil
	}
	left := l.limit
	q.Bytes = buckets.SliceBytes
	err = d.Slices(min(buckets.SliceMemory, int64(l.limit)*buckets.MaxEntry), func() (bool, error) {
		q.Limit = min(left, buckets.FirstSlice)
		var p buckets.VersionPage
		if err := d.Read(func() (err error) {
			p, err = x.Service.ListVersions(x.in.Context(), x.owner, x.bucket.ID, *q)
			return err
		}); err != nil {
			return false, err
		}
		for i := range p.Versions {
			v := &p.Versions[i]
			if err := d.grow(maxEscaped*len(v.Name) + maxFixed); err != nil {
				return false, err
			}
			x.writeVersion(d, l, v)
		}
		for _, group := range p.Groups {
			if err := d.grow(maxEscaped*len(group) + maxFixed); err != nil {
				return false, err
			}
			d.begin("CommonPrefixes")
			d.text("Prefix", l.encode(group))
			d.end()
		}
		left -= len(p.Versions) + len(p.Groups)
		more = p.More
		if !more {
			return false, nil
		}
		q.After, q.AfterVersion = p.After, p.AfterVersion
		if left > 0 {
			return true, nil
		}
		return false, d.grow(maxEscaped*len(q.After) + maxFixed)
	})
	return more, err
}

// writeVersion writes a version or delete marker.
func (x *request) writeVersion(d *stream, l *listing, v *buckets.Version) {
	name := "Version"
	if v.Marker {
		name = "DeleteMarker"
	}
	d.begin(name)
	d.text("Key", l.encode(v.Name))
	d.text("VersionId", string(v.VersionID()))
	d.flag("IsLatest", v.Current)
	d.moment("LastModified", v.Modified)
	if !v.Marker {
		d.etag(&v.Object)
		d.number("Size", v.Length)
	}
	x.writeOwner(d.document, "Owner")
	if !v.Marker {
		d.text("StorageClass", v.Class.Name())
	}
	d.end()
}
