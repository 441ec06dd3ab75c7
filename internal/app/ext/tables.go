package ext

import "holdfast/internal/db/rows"

// ownerColumns begin every table of an install.
const ownerColumns = `tenant_id uuid, extension_install_id uuid, `

// eventColumns are shared by the waiting and the refused audit events.
const eventColumns = ownerColumns + `seq integer, topic text, key text, payload rawjson, created_at micros`

// part computes outbox.Partition in SQLite.
const part = `((unicode(substr({tenant_id}, -1)) & 15) + 9 * (unicode(substr({tenant_id}, -1)) >> 6) +
	(unicode(substr({extension_install_id}, -1)) & 15) + 9 * (unicode(substr({extension_install_id}, -1)) >> 6)) % 16`

// tables lists the tables of all engines. In the second group, the owner is the install; a tenant's own rows have
// ext.Services as install. ext_storage_floor is the number below which no new change is numbered after a restore.
var tables = []rows.Group{{Tables: []*rows.Table{
	{Name: "ext_storage_floor", Key: 1, Seeded: true, Replace: true, Columns: rows.Columns(`one integer, seq integer`)},
}}, {Owner: 2, Tables: []*rows.Table{
	{Name: "ext_storage_usage", Key: 2, Columns: rows.Columns(ownerColumns +
		`bytes_used integer, keys_count integer, namespaces_count integer, updated_at millis, change_seq integer, counted_at millis, closed_seq integer, schema_floor integer,
		floor_seq integer`)},
	{Name: "ext_storage_installs", Key: 2, Columns: rows.Columns(ownerColumns +
		`tier text, overrides json, override_until millis, namespaces json, revoked_at millis, created_at millis, updated_at millis,
		deleting_at millis, deleted_at millis, kept_until millis, deletion json, tokens_after millis`)},
	{Name: "ext_storage_namespaces", Key: 3, Columns: rows.Columns(ownerColumns + `namespace text, keys_count integer`)},
	// At most one version is active.
	{Name: "ext_storage_schemas", Key: 4, Replace: true, Columns: rows.Columns(ownerColumns +
		`namespace text, schema_version integer, status text, created_at millis, updated_at millis, created_by uuid, schema_document json`)},
	{Name: "ext_storage_records", Key: 4, Columns: rows.Columns(ownerColumns +
		`namespace text, key text, revision integer, change_seq integer, created_at millis, updated_at millis, ttl_expires_at millis,
		value_bytes integer, metadata_bytes integer, metadata json, value json`)},
	{Name: "ext_storage_changes", Key: 3, Columns: rows.Columns(ownerColumns + `seq integer, op text, namespace text, key text, revision integer, at millis`)},
	{Name: "ext_storage_answers", Key: 3, Columns: rows.Columns(ownerColumns + `once_key text, request bytes, answer rawjson, at millis`)},
	{Name: "ext_storage_revoked_tokens", Key: 3, Columns: rows.Columns(ownerColumns + `token_id text, expires_at millis, revoked_at millis`)},
	// Its key differs between engines.
	{Name: "ext_storage_outbox", Key: 3, Replace: true, Unindexed: true, Columns: rows.Columns(eventColumns), SQLite: map[string]string{"part": part}},
	{Name: "ext_storage_outbox_refused", Key: 3, Columns: rows.Columns(eventColumns + `, attempts integer, reason text, refused_at micros, next_at micros`)},
}}}
