package httpapi

import (
	"net/http"
)

// getBucket handles GET and HEAD.
func (x *exchange) getBucket() error { return x.answer(http.StatusOK, ofBucket(&x.bucket)) }

// createBucket handles PUT on a bucket. An existing bucket is an error, unlike in S3.
func (x *exchange) createBucket() error {
	b, err := x.Service.CreateBucket(x.ctx(), x.owner, x.route.bucket)
	if err != nil {
		return err
	}
	return x.answer(http.StatusCreated, ofBucket(&b))
}

// deleteBucket deletes an empty bucket.
func (x *exchange) deleteBucket() error {
	if err := x.Service.DeleteBucket(x.ctx(), x.owner, x.bucket.BucketRef); err != nil {
		return err
	}
	return x.nothing()
}
