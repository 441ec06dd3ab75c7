package storetest

import (
	"encoding/hex"

	"holdfast/internal/buckets"
)

func (u *user) createUpload(name string, created buckets.Moment) buckets.UploadID {
	u.t.Helper()
	id := buckets.NewUploadID(created)
	must(u.t, "CreateUpload", u.h.Uploads.CreateUpload(u.t.Context(), u.owner, u.ref(), buckets.Upload{ID: id, Name: name, Created: created}))
	return id
}

func part(number int, length int64, created buckets.Moment) buckets.Part {
	return buckets.Part{Number: number, Body: stored(length), Created: created}
}

func hexTag(p buckets.Part) string { return hex.EncodeToString(p.MD5) }

func (u *user) putPart(name string, id buckets.UploadID, p buckets.Part) buckets.PartRef {
	u.t.Helper()
	must(u.t, "PutPart", u.h.Uploads.PutPart(u.t.Context(), u.key(name, id), p))
	return buckets.PartRef{Number: p.Number, ETag: hexTag(p)}
}

func (u *user) tryComplete(name string, id buckets.UploadID, parts []buckets.PartRef, c buckets.Condition) (buckets.Written, error) {
	return u.h.Uploads.Complete(u.t.Context(), u.key(name, id), buckets.Completion{
		Object: buckets.ObjectID(buckets.NewUUID()), Parts: parts, Condition: c, Now: u.now,
	})
}

func (u *user) complete(name string, id buckets.UploadID, parts ...buckets.PartRef) buckets.Object {
	u.t.Helper()
	w, err := u.tryComplete(name, id, parts, buckets.Condition{})
	must(u.t, "Complete", err)
	return w.Object
}

type everything struct {
	Buckets    []buckets.Bucket
	Objects    map[string]buckets.Object
	Uploads    []buckets.Upload
	Parts      map[buckets.UploadID][]buckets.Part
	References map[buckets.ObjectID]buckets.Reference
	Usage      buckets.AccountUsage
	Keys       []buckets.Key
	Account    buckets.Account
}

func (u *user) everything() (e everything) {
	u.t.Helper()
	ctx := u.t.Context()
	var err error
	e.Buckets, _, err = u.h.Store.Buckets(ctx, u.owner, buckets.BucketQuery{Limit: buckets.MaxPage})
	must(u.t, "Buckets", err)
	e.Objects, e.Parts = map[string]buckets.Object{}, map[buckets.UploadID][]buckets.Part{}
	for _, b := range e.Buckets {
		page, err := u.h.Store.List(ctx, u.owner, b.ID, buckets.Query{Limit: buckets.MaxPage})
		must(u.t, "List", err)
		for _, name := range entryNames(page) {
			o, err := u.h.Store.Get(ctx, u.owner, b.ID, name)
			must(u.t, "Get", err)
			e.Objects[b.Name+"/"+name] = o
		}
		uploads, err := u.h.Uploads.ListUploads(ctx, u.owner, b.ID, buckets.UploadQuery{Limit: buckets.MaxPage})
		must(u.t, "ListUploads", err)
		e.Uploads = append(e.Uploads, uploads.Uploads...)
		for _, up := range uploads.Uploads {
			e.Parts[up.ID], _, err = u.h.Uploads.Parts(ctx, buckets.UploadKey{Owner: u.owner, Bucket: buckets.BucketRef{ID: b.ID}, Name: up.Name, ID: up.ID}, 0, buckets.MaxPage)
			must(u.t, "Parts", err)
		}
	}
	e.References, e.Usage = u.references(), u.usage()
	e.Keys, err = u.h.Accounts.Keys(ctx, u.owner, "", buckets.MaxPage)
	must(u.t, "Keys", err)
	e.Account, err = u.h.Accounts.AccountByID(ctx, u.owner)
	must(u.t, "AccountByID", err)
	u.wantAudit()
	return e
}
