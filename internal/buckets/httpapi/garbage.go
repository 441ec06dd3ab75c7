package httpapi

import (
	"net/http"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// batchJSON is a batch of deleted objects.
type batchJSON struct {
	ID      *string       `json:"batch_id"`          // null: there is no garbage
	Expires string        `json:"expires,omitempty"` // of a new batch
	Garbage []garbageJSON `json:"garbage"`
}

func (x *exchange) claimBatch() error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	if err := web.ChargeMemory(x.out, x.in, int64(limit)*entryMemory); err != nil {
		return err
	}
	b, err := x.Service.ClaimBatch(x.ctx(), limit)
	if err != nil {
		return err
	}
	if b.ID == "" {
		return x.answer(http.StatusOK, batchJSON{Garbage: []garbageJSON{}})
	}
	return x.sendBatch(http.StatusCreated, b.ID, formatMoment(b.Expires), b.Garbage)
}

func (x *exchange) readBatch() error {
	if err := web.ChargeMemory(x.out, x.in, buckets.MaxPage*entryMemory); err != nil {
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
	return x.sendBatch(http.StatusOK, id, "", all)
}

func (x *exchange) sendBatch(status int, id, expires string, all []buckets.Garbage) error {
	list, names := make([]garbageJSON, len(all)), 0
	for i := range all {
		list[i] = ofGarbage(&all[i])
		names += len(list[i].Name) + metadataBytes(all[i].Object)
	}
	if err := web.ChargeMemory(x.out, x.in, int64(names)*nameMemory); err != nil {
		return err
	}
	return x.answer(status, batchJSON{&id, expires, list})
}

// freeBatch removes what is left of a batch. It succeeds for one that does not exist any
// more: the client that repeats the request has not received the response.
func (x *exchange) freeBatch() error {
	if err := web.ChargeMemory(x.out, x.in, buckets.MaxPage*entryMemory); err != nil {
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

func (x *exchange) batchID() (string, error) {
	id, err := buckets.ParseUUID(x.route.batch)
	if err != nil {
		return "", invalid("the ID of a batch " + err.Error())
	}
	return id, nil
}
