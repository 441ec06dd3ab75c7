package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
)

// deletion is the body of DeleteObjects.
type deletion struct {
	Quiet   bool        `xml:"Quiet"`
	Objects deletedList `xml:"Object"`
}

type deletedKey struct {
	Key       string `xml:"Key"`
	VersionID string `xml:"VersionId"`
	ETag      string `xml:"ETag"`

	// Conditions of directory buckets.
	Modified *string `xml:"LastModifiedTime"`
	Size     *string `xml:"Size"`
}

type deletedList []deletedKey

// UnmarshalXML implements xml.Unmarshaler. A small document may have many elements.
func (l *deletedList) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	return appendXML((*[]deletedKey)(l), maxPage, d, start)
}

// deleters is how many objects of a DeleteObjects are deleted at once. Databases commit
// them together.
const deleters = 16

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
	errs := x.deleteAll(list.Objects)
	d := newDocument("DeleteResult")
	for i := range list.Objects {
		o := &list.Objects[i]
		switch err := errs[i]; {
		case err != nil:
			e := asError(err)
			if e.Status >= http.StatusInternalServerError {
				return err // the client repeats the request
			}
			d.begin("Error")
			d.text("Key", o.Key)
			d.text("Code", e.Code)
			d.text("Message", e.Message)
			d.end()
		case !list.Quiet:
			d.begin("Deleted")
			d.text("Key", o.Key)
			d.end()
		}
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// deleteAll deletes objects and returns the error of each.
func (x *request) deleteAll(list []deletedKey) []error {
	errs := make([]error, len(list))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(deleters, len(list)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = x.deleteOne(&list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
	return errs
}

func (x *request) deleteOne(o *deletedKey) error {
	if err := buckets.CheckObjectName(o.Key); err != nil {
		return err
	}
	if o.VersionID != "" && o.VersionID != "null" {
		return refuse(http.StatusBadRequest, "NoSuchVersion", "The specified version does not exist.")
	}
	var c buckets.Condition
	if tag := strings.Trim(o.ETag, `"`); tag == "*" {
		c.Match.Any = true
	} else if tag != "" {
		c.Match.Tags = []string{tag}
	}
	_, err := x.Service.Store.Delete(x.in.Context(), x.owner, x.bucket.BucketRef, o.Key, c, x.now())
	if errors.Is(err, buckets.ErrNoObject) && !c.IsSet() {
		return nil
	}
	return err
}
