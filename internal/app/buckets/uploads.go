package buckets

import (
	"context"
	"strings"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// uploadOperations declares the multipart uploads that are not complete. Their parts count towards quotas.
func (s *Buckets) uploadOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "uploads", Doc: "List a bucket's incomplete multipart uploads", Title: "Multipart uploads", Empty: "There are no incomplete uploads.",
			Group: "Show and abort multipart uploads",
		}, on(s, s.listUploads)),
		operate.NewChange(operate.About{
			Path: "uploads/abort", Doc: "Abort a multipart upload and delete its parts", Button: "Abort", Danger: true,
			Ask: "Deletes the uploaded parts. The client must start again.",
		}, on(s, s.abortUpload)),
	}
}

// uploadsInput selects a bucket's uploads.
type uploadsInput struct {
	bucketInput
	Prefix string `flag:"prefix" doc:"only objects with this name prefix"`
	operate.Page[string]
}

// uploadOutput is an upload. Next is the position: the ID and the name, separated by a slash.
type uploadOutput struct {
	Object  string    `json:"object" title:"Object" main:"" subject:"object" example:"videos/a.mp4"`
	Upload  string    `json:"upload" title:"Upload" subject:"upload" example:"0198a3c2-7a40-7c00-8000-0123456789ab"`
	Created time.Time `json:"created" title:"Began"`
	Type    string    `json:"contentType" title:"Type" zero:"-"`
	Next    string    `json:"-" cursor:""`
}

// errAfter is returned for a position that this list did not print.
var errAfter = &operate.InputError{Input: "after", Reason: "expected a page cursor"}

// listUploads orders by object name, then by upload ID.
func (s *Buckets) listUploads(ctx context.Context, in uploadsInput) (all []uploadOutput, err error) {
	q := buckets.UploadQuery{Prefix: in.Prefix, Limit: min(in.Limit, buckets.MaxPage)}
	if in.After != "" {
		id, name, ok := strings.Cut(in.After, "/")
		if _, err := buckets.ParseUUID(id); !ok || err != nil {
			return nil, errAfter
		}
		q.After, q.AfterID = name, buckets.UploadID(id)
	}
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err != nil {
		return nil, err
	}
	page, err := s.opened.ListUploads(ctx, a.ID, b.ID, q)
	for i := range page.Uploads {
		u := &page.Uploads[i]
		all = append(all, uploadOutput{u.Name, string(u.ID), u.Created.Time(), u.ContentType, string(u.ID) + "/" + u.Name})
	}
	return all, err
}

// uploadInput names an upload by its object and its ID.
type uploadInput struct {
	bucketInput
	Object string `subject:"object" doc:"object name"`
	Upload string `subject:"upload" doc:"upload ID"`
}

// uploadChange is the aborted upload.
type uploadChange struct {
	Account string `json:"account" subject:"account" example:"main"`
	Bucket  string `json:"bucket" subject:"bucket" example:"photos"`
	Object  string `json:"object" subject:"object" example:"videos/a.mp4"`
	Upload  string `json:"upload" subject:"upload" example:"0198a3c2-7a40-7c00-8000-0123456789ab"`
}

func (c uploadChange) Notice() string { return "aborted the upload of " + c.Object }

// abortUpload returns buckets.ErrNoUpload for an ID that is not valid, too.
func (s *Buckets) abortUpload(ctx context.Context, in uploadInput) (c uploadChange, err error) {
	id, err := buckets.ParseUUID(in.Upload)
	if err != nil {
		return c, errcode.New(errcode.NotFound, errcode.Message(buckets.ErrNoUpload))
	}
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err == nil {
		err = s.opened.AbortUpload(ctx, buckets.UploadKey{Owner: a.ID, Bucket: b.BucketRef, Name: in.Object, ID: buckets.UploadID(id)})
	}
	return uploadChange{in.Account, in.Bucket, in.Object, in.Upload}, err
}
