package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

type batchJSON struct {
	ID      *string       `json:"batch_id"`
	Expires string        `json:"expires,omitempty"`
	Garbage []garbageJSON `json:"garbage"`
}

// LargestRequest returns the most memory in bytes that a request uses, not counting object bodies. The largest
// request lists deleted objects with their metadata.
func LargestRequest() int64 {
	return buckets.MaxPage*batchMemory + textMemory*batchMemory + web.BlockBytes
}

// claimBatch handles POST on batches. Without garbage, batch_id is null.
func (x *exchange) claimBatch() error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.in, int64(limit)*batchMemory); err != nil {
		return err
	}
	b, err := x.Service.ClaimBatch(x.ctx(), limit)
	if err != nil {
		return err
	}
	if b.ID == "" {
		return x.answer(http.StatusOK, batchJSON{Garbage: []garbageJSON{}})
	}
	return x.sendBatch(http.StatusCreated, &batchJSON{ID: &b.ID, Expires: formatMoment(b.Expires)}, b.Garbage, limit)
}

// readBatch handles GET on a batch. An expired batch is empty.
func (x *exchange) readBatch() error {
	if err := web.ChargeMemory(x.in, buckets.MaxPage*batchMemory); err != nil {
		return err
	}
	id, err := x.batchID()
	if err != nil {
		return err
	}
	all, err := x.Service.ReadBatch(x.ctx(), id)
	if err != nil {
		return err
	}
	return x.sendBatch(http.StatusOK, &batchJSON{ID: &id}, all, buckets.MaxPage)
}

// sendBatch reduces the charge for limit entries to the actual entries.
func (x *exchange) sendBatch(status int, b *batchJSON, all []buckets.Garbage, limit int) error {
	need := int64(textMemory * batchMemory)
	for i := range all {
		need += int64(entryMemory + len(all[i].Name) + metadataBytes(all[i].Object))
	}
	if free := int64(limit)*batchMemory - need; free > 0 {
		web.ReleaseMemory(x.in, free)
	} else if err := web.ChargeMemory(x.in, -free); err != nil {
		return err
	}
	b.Garbage = []garbageJSON{}
	frame, err := json.Marshal(b)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode the response", err)
	}
	const end = "]}"
	d := x.newList(status, strings.TrimSuffix(string(frame), end))
	for i := range all {
		if err := d.add(ofGarbage(&all[i])); err != nil {
			return err
		}
	}
	return d.finish(end)
}

// freeBatch succeeds for an unknown batch, because a client repeats the request if it received no response.
func (x *exchange) freeBatch() error {
	if err := web.ChargeMemory(x.in, buckets.MaxPage*(entryMemory+buckets.MaxObjectName)); err != nil {
		return err
	}
	id, err := x.batchID()
	if err != nil {
		return err
	}
	if err := x.Service.FreeBatch(x.ctx(), id); err != nil {
		return err
	}
	return x.nothing()
}

// batchID parses the ID in the path.
func (x *exchange) batchID() (string, error) {
	id, err := buckets.ParseUUID(x.route.batch)
	if err != nil {
		return "", invalid("the ID of a batch " + err.Error())
	}
	return id, nil
}
