package httpapi

import (
	"net/http"

	"holdfast/internal/buckets"
)

func (x *exchange) getBucket() error { return x.answer(http.StatusOK, ofBucket(&x.bucket)) }

func (x *exchange) createBucket() error {
	if err := buckets.CheckBucketName(x.route.bucket); err != nil {
		return err
	}
	ref := buckets.BucketRef{Name: x.route.bucket, ID: buckets.BucketID(buckets.NewUUID())}
	b, err := x.Service.Store.CreateBucket(x.ctx(), x.owner, ref, x.now())
	if err != nil {
		return err
	}
	return x.answer(http.StatusCreated, ofBucket(&b))
}

func (x *exchange) deleteBucket() error {
	if err := x.Service.Store.DeleteBucket(x.ctx(), x.owner, x.bucket.BucketRef, x.now()); err != nil {
		return err
	}
	return x.nothing()
}
