package guest_test

import (
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/suite"
)

// TestStoredAnswers checks that version 1 of the encoding never changes, because a later release may have to
// decode it for a repeated request.
func TestStoredAnswers(t *testing.T) {
	t.Parallel()
	w := guest.Wish{ID: "wsh_1", Tenant: "t", Item: "p", Source: "list", Note: "<ü>", Added: now}
	plain := w
	plain.Note = ""
	answered(t, guest.AddedWish{Outcome: guest.WishAdded, Wish: w},
		`{"outcome":"added","wish":{"id":"wsh_1","tenant":"t","property":"p","source":"list","note":"\u003cü\u003e","added":"2026-09-21T14:13:20.123Z"}}`)
	answered(t, guest.AddedWish{Outcome: guest.WishKept, Wish: plain},
		`{"outcome":"kept","wish":{"id":"wsh_1","tenant":"t","property":"p","source":"list","added":"2026-09-21T14:13:20.123Z"}}`)
	answered(t, guest.AddedWish{Outcome: guest.WishlistFull}, `{"outcome":"full"}`)
	answered(t, guest.AddedWish{Outcome: guest.WishOfOtherTenant}, `{"outcome":"other-tenant"}`)
	answered(t, guest.ChangedWish{Wish: plain}, `{"wish":{"id":"wsh_1","tenant":"t","property":"p","source":"list","added":"2026-09-21T14:13:20.123Z"}}`)
	answered(t, guest.RemovedWish{Removed: true}, `{"removed":true}`)
	answered(t, guest.RemovedWish{}, `{"removed":false}`)
	answered(t, guest.Cleared{}, `{}`)
	answered(t, telemetry.Recorded{IDs: []guest.ID{"mpv_1", "mpv_2"}}, `{"ids":["mpv_1","mpv_2"]}`)
	answered(t, handoffs.Minted{ID: "bhd_1", Token: "bh1.t", URL: "https://book.example/?t=bh1.t", Expires: now},
		`{"id":"bhd_1","token":"bh1.t","url":"https://book.example/?t=bh1.t","expires":"2026-09-21T14:13:20.123Z"}`)

	var m guest.Mutation
	for name, c := range map[string]struct {
		a    guest.StoredAnswer
		want errcode.Code
	}{
		"another version": {guest.StoredAnswer{Version: 2, Body: []byte(`{}`)}, errcode.Unavailable},
		"malformed":       {guest.StoredAnswer{Version: 1, Body: []byte(`{`)}, errcode.Internal},
	} {
		o, done, err := guest.Begin[guest.Cleared](&m, c.a, true, true)
		suite.WantCode(t, name, err, c.want)
		suite.Equal(t, name+": done", done, true)
		suite.Equal(t, name+": replayed", o.Replayed, false)
	}
}

func answered[R any](t *testing.T, result R, text string) {
	t.Helper()
	var m guest.Mutation
	a, err := m.Encode(result)
	suite.Must(t, "Encode", err)
	suite.Equal(t, "version", a.Version, 1)
	suite.Equal(t, "encoded", string(a.Body), text)
	o, done, err := guest.Begin[R](&m, guest.StoredAnswer{Version: 1, Body: []byte(text)}, true, true)
	suite.Must(t, "Begin", err)
	suite.Equal(t, "done", done && o.Replayed, true)
	suite.Equal(t, "decoded", o.Result, result)
}
