package storetest

import (
	"testing"

	ext "holdfast/internal/extstorage"
)

// Migrated checks a backend on migrated data: everything is intact, and writes continue. For each schema version, the
// backend's testdata/schema has a script that writes an install into an empty database, at these milliseconds after
// second 1,700,000,000:
//
//	1   change 1  put settings/a, {"n":1.5} with the metadata {"m":1}
//	2   change 2  put settings/a, {"n":[2,"ü"]} with the metadata {"m":1}
//	3   change 3  put log/dies, 1 with a TTL of an hour, with the
//	              idempotency key "once" and a request hash ending in 1
//	4   change 4  put log/gone, "x"
//	5   change 5  delete log/gone: the only unpublished event
//	6   register true for settings, active since 7, deprecated since 9
//	8   register {"type":"object"} for settings, active since 9, by a user
//	10  registered with the tier big, 70 keys for a day, and settings as "rw"
//	11  changed so that log is "r"
func Migrated(t *testing.T, h Harness) {
	t.Helper()
	const then ext.Moment = 1_700_000_000_000
	u := &user{t: t, h: h, now: then + 20, quota: ext.DefaultQuota(), owner: ext.Owner{
		Tenant: "a0000000-0000-4000-8000-000000000001", Install: "b0000000-0000-4000-8000-000000000001",
	}}
	must(t, "Ping", h.Store.Ping(t.Context()))

	equal(t, "a record", u.get("settings", "a"), ext.Record{
		Namespace: "settings", Key: "a", Value: `{"n":[2,"ü"]}`, Metadata: `{"m":1}`,
		Header: ext.Header{Revision: 2, Seq: 2, CreatedAt: then + 1, UpdatedAt: then + 2, ValueBytes: 14, MetadataBytes: 7},
	})
	equal(t, "one that dies", u.get("log", "dies").ExpiresAt, then+3+hour)
	u.wantGone("log", "gone")
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 24, Keys: 2, Namespaces: 2})
	equal(t, "changes", u.changes(0), []ext.Change{
		{Seq: 1, Op: ext.ChangePut, Namespace: "settings", Key: "a", Revision: 1, At: then + 1},
		{Seq: 2, Op: ext.ChangePut, Namespace: "settings", Key: "a", Revision: 2, At: then + 2},
		{Seq: 3, Op: ext.ChangePut, Namespace: "log", Key: "dies", Revision: 1, At: then + 3},
		{Seq: 4, Op: ext.ChangePut, Namespace: "log", Key: "gone", Revision: 1, At: then + 4},
		{Seq: 5, Op: ext.ChangeDelete, Namespace: "log", Key: "gone", Revision: 1, At: then + 5},
	})
	w := u.write(put("log", "dies", `1`))
	w.IdempotencyKey = &ext.IdempotencyKey{Key: "once", Request: [32]byte{31: 1}}
	a, err := h.Store.Apply(t.Context(), u.owner, w)
	must(t, "Apply", err)
	equal(t, "the answer of then", a, ext.Applied{
		Items:    []ext.Item{{Revision: 1, Seq: 3, Created: true, CreatedAt: then + 3, UpdatedAt: then + 3, ExpiresAt: then + 3 + hour}},
		Replayed: true,
	})
	migratedRegistrations(u, then)

	// Writes continue with the next numbers, the active schema, and earlier preconditions.
	op := guarded(put("settings", "a", `{}`), ifMatch(2))
	op.Schema = 2
	item := u.apply(op, del("log", "dies")).Items[0]
	equal(t, "the next write", []any{item.Revision, item.Seq, item.CreatedAt}, []any{ext.Revision(3), ext.Seq(6), then + 1})
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 4, Keys: 1, Namespaces: 1})
	var events []int64
	for _, e := range h.Events(t, u.owner) {
		events = append(events, e.Seq)
	}
	equal(t, "events", events, []int64{5, 6, 7})
	u.now += 10 * day
	equal(t, "swept: changes and the answer", u.sweep(100), 8)
	must(t, "RevokeToken", h.Tokens.RevokeToken(t.Context(), u.owner, ext.RevokedToken{ID: "t", ExpiresAt: u.now + day, RevokedAt: u.now}))
	_, revoked, err := h.Installs.InstallState(t.Context(), u.owner, u.now)
	must(t, "InstallState", err)
	equal(t, "revoked tokens", revoked, []string{"t"})
}

func migratedRegistrations(u *user, then ext.Moment) {
	u.t.Helper()
	equal(u.t, "schemas", u.schemas("settings"), []ext.Schema{
		{
			Namespace: "settings", Version: 2, Status: ext.Active, Document: []byte(`{"type":"object"}`),
			CreatedAt: then + 8, UpdatedAt: then + 9, CreatedBy: "c0000000-0000-4000-8000-000000000001",
		},
		{Namespace: "settings", Version: 1, Status: ext.Deprecated, Document: []byte(`true`), CreatedAt: then + 6, UpdatedAt: then + 9},
	})
	in, err := u.h.Installs.Install(u.t.Context(), u.owner)
	must(u.t, "Install", err)
	equal(u.t, "the install", in, ext.Install{
		Registration: ext.Registration{
			Tier: "big", Overrides: ext.Overrides{Quota: ext.Quota{Keys: 70}, Until: then + 10 + day},
			Namespaces: map[ext.Namespace]ext.Access{"settings": ext.Read | ext.Modify, "log": ext.Read},
		},
		CreatedAt: then + 10, UpdatedAt: then + 11,
	})
}
