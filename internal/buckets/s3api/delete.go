package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// deletion is the body for DeleteObjects.
type deletion struct {
	XMLName xml.Name    `xml:"Delete"`
	Quiet   bool        `xml:"Quiet"` // report errors only
	Objects deletedList `xml:"Object"`
}

type deletedKey struct {
	Key       string `xml:"Key" s3:"required,empty"`
	VersionID string `xml:"VersionId"`
	// ETag is the condition of the deletion; nil: unconditional.
	ETag *string `xml:"ETag" s3:"empty"`

	// Directory bucket conditions.
	Modified notApplied `xml:"LastModifiedTime"`
	Size     notApplied `xml:"Size"`
}

// maxTagText is longer than any version or entity tag.
const maxTagText = 128

// trim shortens texts to limit memory. A shortened key is still too long, and a shortened version or entity tag still
// matches nothing.
func (k *deletedKey) trim() {
	if len(k.Key) > buckets.MaxObjectName {
		k.Key = cut(k.Key, buckets.MaxObjectName)
	}
	k.VersionID = cut(k.VersionID, maxTagText)
	if k.ETag != nil {
		*k.ETag = cut(*k.ETag, maxTagText)
	}
}

type deletedList []deletedKey

// UnmarshalXML limits the list, because a small document may have many elements.
func (l *deletedList) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if err := appendXML((*[]deletedKey)(l), maxPage, d, start); err != nil {
		return err
	}
	(*l)[len(*l)-1].trim()
	return nil
}

// deleteObjects serves DeleteObjects. Each element gets its own result. A server error fails the whole request, so that
// clients repeat it.
func (x *request) deleteObjects() error {
	var list deletion
	if err := x.readXML(&list, sigv4.BodyOptions{}); err != nil {
		return err
	}
	if len(list.Objects) == 0 {
		return errMalformedXML
	}
	done, err := x.deleteAll(list.Objects)
	if err != nil {
		return err
	}
	d := x.newStream("DeleteResult")
	for i := range done {
		err := done[i].Err
		if err != nil && asError(err).Status >= http.StatusInternalServerError {
			return err
		}
		o := &list.Objects[i]
		if err == nil && list.Quiet {
			continue
		}
		if err := d.grow(maxEscaped*len(o.Key) + maxFixed); err != nil {
			return err
		}
		d.deleted(o, &done[i])
	}
	return d.finish()
}

// deleted writes an element's result.
func (d *stream) deleted(k *deletedKey, done *buckets.Deleted) {
	if done.Err != nil {
		e := asError(done.Err)
		d.begin("Error")
		d.text("Key", k.Key)
		d.optional("VersionId", k.VersionID)
		d.text("Code", e.Code)
		d.text("Message", e.Message)
		d.end()
		return
	}
	d.begin("Deleted")
	d.text("Key", k.Key)
	d.optional("VersionId", k.VersionID)
	if done.Marker {
		d.flag("DeleteMarker", true)
		d.text("DeleteMarkerVersionId", string(done.Version))
	}
	d.end()
}

// deleteAll authorizes and deletes each element. Results are in the order of list; a missing object is a success, as S3
// defines, unless the element names an entity tag.
func (x *request) deleteAll(list []deletedKey) ([]buckets.Deleted, error) {
	var (
		done = make([]buckets.Deleted, len(list))
		all  []buckets.Deletion
		of   []int
	)
	actions := x.needs().actions
	for i := range list {
		d, err := list[i].parse()
		if err == nil {
			err = x.allow(access{right: buckets.RightDelete, key: d.Name, version: string(d.Version), actions: actions})
		}
		if err == nil && d.Version != "" {
			d.Bypass, err = x.bypasses(d.Name, string(d.Version))
		}
		if done[i].Err = err; err == nil {
			all, of = append(all, d), append(of, i)
		}
	}
	if len(all) == 0 {
		return done, nil
	}
	deleted, err := x.Service.DeleteObjects(x.writing(), x.owner, x.bucket.BucketRef, all)
	if err != nil {
		return nil, err
	}
	for n, i := range of {
		done[i] = deleted[n]
		if err := done[i].Err; all[n].ETag == "" && (errors.Is(err, buckets.ErrNoObject) || errors.Is(err, buckets.ErrNoVersion)) {
			done[i].Err = nil
		}
	}
	return done, nil
}

// parse rejects an empty or malformed entity tag. Without a condition, the object would be deleted in any state.
func (k *deletedKey) parse() (d buckets.Deletion, err error) {
	d = buckets.Deletion{Name: k.Key, Version: buckets.VersionID(k.VersionID)}
	if err := buckets.CheckObjectName(k.Key); err != nil {
		return d, err
	}
	if k.VersionID != "" {
		if _, err := buckets.ParseVersionID(k.VersionID); err != nil {
			return d, errNoSuchVersion
		}
	}
	if k.ETag == nil {
		return d, nil
	}
	switch tags, err := buckets.ParseTags([]string{*k.ETag}); {
	case err != nil:
		return d, invalidArgument("ETag", err.Error())
	case tags.Any:
		d.ETag = "*"
	case len(tags.Tags) != 1 || tags.Tags[0] == "" || tags.Tags[0] == "*": // these have another meaning in a Deletion
		return d, invalidArgument("ETag", "expected one entity tag, or *")
	default:
		d.ETag = tags.Tags[0]
	}
	return d, nil
}
