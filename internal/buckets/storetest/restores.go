package storetest

import (
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

func restoreChecks() []check {
	return []check{
		{"Uploads", restoredUploads},
	}
}

// restoredUploads marks uploads after a restore. Each completion of a marked upload is refused until the bodies of its
// parts are verified. Later uploads are not marked.
func restoredUploads(t *testing.T, u *user) {
	o := full("full")
	plain, tagged := u.createUpload("plain", u.now), buckets.NewUploadID(u.now)
	must(t, "CreateUpload", u.h.Uploads.CreateUpload(t.Context(), u.owner, u.ref(), buckets.Upload{
		ID: tagged, Name: "full", Created: u.now, ContentType: o.ContentType, Properties: o.Properties,
	}))
	refs := map[string]buckets.PartRef{"plain": u.putPart("plain", plain, part(1, 10, u.now)), "full": u.putPart("full", tagged, part(1, 10, u.now))}
	for range 2 {
		must(t, "MarkRestored", u.h.Uploads.MarkRestored(t.Context()))
	}
	later := u.createUpload("later", u.now)
	u.complete("later", later, u.putPart("later", later, part(1, 10, u.now)))
	for name, id := range map[string]buckets.UploadID{"plain": plain, "full": tagged} {
		up, err := u.h.Uploads.Upload(t.Context(), u.key(name, id))
		must(t, "Upload", err)
		equal(t, name+" is restored", up.Restored, true)
		if name == "full" {
			equal(t, "properties of the client", decoded(t, up.Extra), decoded(t, o.Extra))
			equal(t, "tags", up.Tags, o.Tags)
		}
		done := buckets.Completion{Object: buckets.ObjectID(buckets.NewUUID()), Parts: []buckets.PartRef{refs[name]}, Now: u.now}
		_, err = u.h.Uploads.Complete(t.Context(), u.key(name, id), done)
		equal(t, "code before the parts are verified", errcode.Of(err), errcode.Internal)
		u.wantNone(name)
		done.Verified = true
		w, err := u.h.Uploads.Complete(t.Context(), u.key(name, id), done)
		must(t, "Complete", err)
		equal(t, name+" stays marked", w.Object.Restored || u.get(name).Restored, false)
	}
}
