package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// deletion is the body of DeleteObjects.
type deletion struct {
	Quiet   bool        `xml:"Quiet"`
	Objects deletedList `xml:"Object"`
}

type deletedKey struct {
	Key       string `xml:"Key"` // if it is too long, only its beginning is kept: see trim
	VersionID string `xml:"VersionId"`
	ETag      string `xml:"ETag"`

	// Conditions of directory buckets.
	Modified *string `xml:"LastModifiedTime"`
	Size     *string `xml:"Size"`
}

// maxTagText is more than a version or an entity tag has.
const maxTagText = 128

// trim drops what no object has: a longer key stays too long, and longer texts match nothing.
func (k *deletedKey) trim() {
	if len(k.Key) > buckets.MaxObjectName {
		k.Key = cut(k.Key, buckets.MaxObjectName)
	}
	k.VersionID, k.ETag = cut(k.VersionID, maxTagText), cut(k.ETag, maxTagText)
}

type deletedList []deletedKey

// UnmarshalXML implements xml.Unmarshaler. A small document may have many elements.
func (l *deletedList) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if err := appendXML((*[]deletedKey)(l), maxPage, d, start); err != nil {
		return err
	}
	(*l)[len(*l)-1].trim()
	return nil
}

// deleteObjects is DeleteObjects. Each object is deleted by itself.
func (x *request) deleteObjects() error {
	var list deletion
	if err := x.readXML("Delete", &list, sigv4.BodyOptions{}); err != nil {
		return err
	}
	if len(list.Objects) == 0 {
		return errMalformedXML
	}
	if slices.ContainsFunc(list.Objects, func(o deletedKey) bool { return o.Modified != nil || o.Size != nil }) {
		return errNotImplemented("LastModifiedTime and Size of DeleteObjects")
	}
	errs, err := x.deleteAll(list.Objects)
	if err != nil {
		return err
	}
	d := x.newStream("DeleteResult")
	for i, err := range errs {
		if err != nil && asError(err).Status >= http.StatusInternalServerError {
			return err // the client repeats the request
		}
		o := &list.Objects[i]
		if err == nil && list.Quiet {
			continue
		}
		if err := d.room(maxEscaped*len(o.Key) + maxFixed); err != nil {
			return err
		}
		d.deleted(o.Key, err)
	}
	return d.finish()
}

// deleted writes the result for a key.
func (d *stream) deleted(key string, err error) {
	if err == nil {
		d.begin("Deleted")
		d.text("Key", key)
		d.end()
		return
	}
	e := asError(err)
	d.begin("Error")
	d.text("Key", key)
	d.text("Code", e.Code)
	d.text("Message", e.Message)
	d.end()
}

// deleteAll deletes objects and returns the error of each.
func (x *request) deleteAll(list []deletedKey) ([]error, error) {
	var (
		errs = make([]error, len(list))
		all  []buckets.Deletion
		of   []int // their indexes in list
	)
	actions := x.needs().actions
	for i := range list {
		d := buckets.Deletion{Name: list[i].Key, ETag: strings.Trim(list[i].ETag, `"`)}
		if errs[i] = list[i].check(); errs[i] == nil {
			errs[i] = x.allow(access{buckets.RightDelete, false, d.Name, list[i].VersionID != "", actions})
		}
		if errs[i] == nil {
			all, of = append(all, d), append(of, i)
		}
	}
	if len(all) == 0 {
		return errs, nil
	}
	done, err := x.Service.DeleteObjects(x.in.Context(), x.owner, x.bucket.BucketRef, all)
	if err != nil {
		return nil, err
	}
	for n, i := range of {
		if errs[i] = done[n]; all[n].ETag == "" && errors.Is(errs[i], buckets.ErrNoObject) {
			errs[i] = nil
		}
	}
	return errs, nil
}

// check rejects keys and versions that no object has.
func (k *deletedKey) check() error {
	if err := buckets.CheckObjectName(k.Key); err != nil {
		return err
	}
	if k.VersionID != "" && k.VersionID != "null" {
		return refuse(http.StatusBadRequest, "NoSuchVersion", "The specified version does not exist.")
	}
	return nil
}
