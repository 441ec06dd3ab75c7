package ext

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"holdfast/client/internal/retry"
)

// Results of the function of an Update.
var (
	ErrUnchanged = errors.New("leave the record as it is")
	ErrDelete    = errors.New("delete the record")
)

// maxUpdates is how often an Update tries. Each failure means that another client wrote the record.
const maxUpdates = 100

// Update changes a record without losing another client's change: it reads the record, calls change, and writes the
// result on the condition that nobody wrote in between. Otherwise it starts again, until ctx is done, but at most 100
// times. So change may run several times.
//
// Without a record, change gets nil, and its result creates the record. If it returns ErrUnchanged, nothing is
// written; ErrDelete deletes the record; Update returns other errors. The metadata stay if Put.Metadata is nil. As with
// Put, a record without a TTL does not expire. The result is zero if there is no record afterwards. Update writes with
// an idempotency key, so it is retried after a lost response; errors from the server are like those of Batch.
func (r Records) Update(ctx context.Context, key string, change func(*Record) (Put, error)) (RecordMeta, error) {
	for failed := 0; ; failed++ {
		meta, err := r.update(ctx, key, change)
		if !errors.Is(err, CodeRevisionMismatch) || failed+1 >= maxUpdates {
			return meta, err
		}
		// Let another client finish.
		if !retry.Pause(ctx, rand.N(25*time.Millisecond<<min(failed, 5))) {
			return meta, errors.Join(err, ctx.Err())
		}
	}
}

// update tries once.
func (r Records) update(ctx context.Context, key string, change func(*Record) (Put, error)) (meta RecordMeta, err error) {
	var stored *Record
	guard := IfAbsent()
	rec, err := r.Get(ctx, key)
	switch {
	case err == nil:
		stored, guard = &rec, IfMatch(rec.Etag)
		meta = RecordMeta{
			Namespace: rec.Namespace, Key: rec.Key, Revision: rec.Revision, Etag: rec.Etag,
			TTLExpiresAt: rec.TTLExpiresAt, CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt,
		}
	case !errors.Is(err, CodeNotFound):
		return RecordMeta{}, err
	}
	put, err := change(stored)
	deletes := errors.Is(err, ErrDelete)
	if errors.Is(err, ErrUnchanged) || deletes && stored == nil {
		return meta, nil
	}
	if err != nil && !deletes {
		return RecordMeta{}, err
	}
	if put.Metadata == nil && stored != nil {
		put.Metadata = stored.Metadata
	}
	op := r.PutOp(key, put, guard)
	if deletes {
		op = r.DeleteOp(key, guard)
	}
	results, err := r.install.Batch(ctx, op)
	if err != nil || deletes {
		return RecordMeta{}, err
	}
	w := results[0]
	return RecordMeta{
		Namespace: w.Namespace, Key: w.Key, Revision: w.Revision, Etag: w.Etag, TTLExpiresAt: w.TTLExpiresAt, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}, nil
}
