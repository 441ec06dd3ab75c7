package postgres

import (
	"strings"

	"holdfast/internal/db/pgdb"
)

// micros makes SQL return a time in microseconds since 1970, as text.
func micros(column string) string {
	return `(extract(epoch FROM ` + column + `) * 1000000)::bigint::text`
}

// Positions in objectColumns.
const (
	objectID = iota
	objectName
	objectCreated
	objectModified
	objectCreator
	objectLength
	objectMD5
	objectType
	objectHeaders
	objectRoles
	objectSharks
	objectProperties
)

// objectColumns are the columns of manta_bucket_object o as scanObject reads and bucket_delete_v2 returns them.
var objectColumns = array([]string{
	objectID: `o.id::text`, objectName: `o.name`, objectCreated: micros(`o.created`), objectModified: micros(`o.modified`), objectCreator: `o.creator::text`,
	objectLength: `o.content_length::text`, objectMD5: `encode(o.content_md5, 'hex')`, objectType: `o.content_type`,
	objectHeaders: `hstore_to_json(o.headers)::text`, objectRoles: `to_json(o.roles)::text`, objectSharks: `to_json(o.sharks)::text`,
	objectProperties: `o.properties::text`,
})

// array makes SQL return columns as a text array.
func array(columns []string) string { return `ARRAY[` + strings.Join(columns, `, `) + `]` }

// CRC-64/NVME and frames are set together: they describe the file format; CRC32C alone comes from an earlier release.
const sumColumns = `content_crc32c, content_crc64nvme, content_frames`

const (
	ofObject = ` FROM manta_bucket_object o WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text`
	ofUpload = ` FROM manta_bucket_upload WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text AND id = $4::uuid`
	ofParts  = ` FROM manta_bucket_part WHERE owner = $1::uuid AND upload_id = $2::uuid`
)

var (
	bucketColumns = `SELECT b.id::text, b.name, b.owner::text, b.created, s.settings::text, b.versioning, b.object_lock::text FROM manta_bucket b
		LEFT JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id`
	sqlBucket      = pgdb.Statement{Name: "buckets.bucket", Key: 1, SQL: bucketColumns + ` WHERE b.owner = $1::uuid AND b.name = $2::text`}
	sqlFindBuckets = pgdb.Statement{Name: "buckets.find_buckets", Wide: true, SQL: bucketColumns + `
		WHERE b.name >= $1::text AND b.name < $2::text ORDER BY b.name, b.owner LIMIT $3::bigint`}
	sqlListBuckets = pgdb.Statement{Name: "buckets.buckets", Key: 1, SQL: bucketColumns + `
		WHERE b.owner = $1::uuid AND b.name > $2::text AND b.name >= $3::text ORDER BY b.name LIMIT $4::bigint`}
	sqlCreateBucket = pgdb.Statement{Name: "buckets.create_bucket", Key: 1, SQL: `
		INSERT INTO manta_bucket (id, name, owner, created) VALUES ($3::uuid, $2::text, $1::uuid, $4::timestamptz)
		ON CONFLICT (owner, name) DO NOTHING`}
	sqlSetSettings  = pgdb.Statement{Name: "buckets.set_bucket", Key: 1, SQL: `SELECT bucket_set_settings_v2(p_owner => $1::uuid, p_bucket => $2::text, p_bucket_id => $3::uuid, p_settings => $4::jsonb, p_rules => $5::bigint)`}
	sqlDeleteBucket = pgdb.Statement{Name: "buckets.delete_bucket", Key: 1, SQL: `SELECT bucket_delete_bucket_v2(p_owner => $1::uuid, p_bucket => $2::text, p_bucket_id => $3::uuid, p_now => $4::timestamptz)`}
	sqlHasBucket    = pgdb.Statement{Name: "buckets.has_bucket", Key: 1, SQL: `SELECT 1 FROM manta_bucket WHERE owner = $1::uuid LIMIT 1`}

	// sqlLock locks a bucket and a name for a transaction that computes in Go. The lock ends with the connection.
	sqlLock = pgdb.Statement{Name: "buckets.lock", Key: 1, SQL: `
		SELECT set_config('idle_in_transaction_session_timeout', '10s', true) IS NOT NULL
			AND bucket_lock_v1(p_owner => $1::uuid, p_bucket => $2::text, p_bucket_id => $3::uuid, p_name => $4::text)`}
)

// Citus delegates a function call to the owner's node only if it is alone in the SELECT or FROM clause.
var (
	sqlPut           = pgdb.NewCall(pgdb.Statement{Name: "buckets.put", Key: 1, SQL: `SELECT bucket_put_v3(...)`}, put.write)
	sqlDelete        = pgdb.NewNamed(pgdb.Statement{Name: "buckets.delete", Key: 1, SQL: `SELECT bucket_delete_v2(...)`}, deletion.args)
	sqlDeleteObjects = pgdb.NewNamed(pgdb.Statement{Name: "buckets.delete_objects", Key: 1, SQL: `SELECT bucket_delete_objects_v2(...)`}, deletions.args)
	sqlList          = pgdb.NewCall(pgdb.Statement{Name: "buckets.list", Key: 1, SQL: `SELECT ` + entryColumns + ` FROM bucket_list_v2(...)`}, listing.write)
	sqlListed        = pgdb.Statement{Name: "buckets.listed", Key: 1, SQL: `
		SELECT ` + objectColumns + ` FROM manta_bucket_object o WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = ANY ($3::text[])`}
	sqlGet = pgdb.Statement{Name: "buckets.get", Key: 1, SQL: `SELECT ` + objectColumns + `, body, ` + sumColumns + ofObject}
	// sqlFind returns a row if the bucket exists. Its columns are NULL if the object does not exist.
	sqlFind = pgdb.Statement{Name: "buckets.find", Key: 1, SQL: `
		SELECT b.id::text, b.name, b.owner::text, b.created, s.settings::text, b.versioning, b.object_lock::text, ` + objectColumns + `, o.body, ` + sumColumns + `
		FROM manta_bucket b
		LEFT JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id
		LEFT JOIN manta_bucket_object o ON o.owner = b.owner AND o.bucket_id = b.id AND o.name = $3::text
		WHERE b.owner = $1::uuid AND b.name = $2::text`}
	sqlSetModified = pgdb.Statement{Name: "buckets.set_modified", Key: 1, SQL: `
		UPDATE manta_bucket_object SET modified = $4::timestamptz WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text`}
	sqlSetMarker = pgdb.Statement{Name: "buckets.set_marker", Key: 1, SQL: `
		UPDATE manta_bucket_version SET modified = $4::timestamptz, created = $4::timestamptz,
			properties = jsonb_build_object('s3', coalesce(properties -> 's3', '{}') || jsonb_build_object('imported', (extract(epoch FROM $4::timestamptz) * 1000000)::bigint))
		WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text AND marker AND superseded IS NULL`}
	sqlSetSuperseded = pgdb.Statement{Name: "buckets.set_superseded", Key: 1, SQL: `
		UPDATE manta_bucket_version SET superseded = $4::timestamptz
		WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text AND superseded = $5::timestamptz`}
	sqlHead   = pgdb.Statement{Name: "buckets.head", Key: 1, SQL: `SELECT ` + objectColumns + ofObject + ` FOR UPDATE`}
	sqlUpdate = pgdb.NewNamed(pgdb.Statement{Name: "buckets.update", Key: 1, SQL: `
		UPDATE manta_bucket_object SET modified = @modified, content_type = @type, headers = hstore(@header_names, @header_values),
			roles = @roles, properties = @properties
		WHERE owner = @owner AND bucket_id = @bucket_id AND name = @name`}, updated.args)
)

// Null versions are also stored with a version, which determines their order.
var (
	ofName         = ` FROM manta_bucket_version o WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text`
	versionColumns = objectColumns + `, o.version::text AS key, o.marker, o.superseded`

	sqlSetVersioning = pgdb.Statement{Name: "buckets.set_versioning", Key: 1, SQL: `
		SELECT bucket_set_versioning_v1(p_owner => $1::uuid, p_bucket => $2::text, p_bucket_id => $3::uuid, p_versioning => $4::smallint)`}
	sqlSetBucketLock = pgdb.Statement{Name: "buckets.set_bucket_lock", Key: 1, SQL: `
		SELECT bucket_set_lock_v1(p_owner => $1::uuid, p_bucket => $2::text, p_bucket_id => $3::uuid, p_lock => $4::jsonb)`}
	sqlBucketLock = pgdb.Statement{Name: "buckets.bucket_lock", Key: 1, SQL: `
		SELECT object_lock::text, clock_timestamp() FROM manta_bucket WHERE owner = $1::uuid AND name = $2::text`}
	sqlDeleteVersion = pgdb.NewNamed(pgdb.Statement{Name: "buckets.delete_version", Key: 1, SQL: `SELECT bucket_delete_version_v1(...)`}, versionDeletion.args)
	sqlNull          = pgdb.Statement{Name: "buckets.null_version", Key: 1, SQL: `SELECT version::text` + ofName + ` AND null_version`}
	sqlCurrent       = pgdb.Statement{Name: "buckets.current_version", Key: 1, SQL: `
		(SELECT ` + objectColumns + `, NULL::text, false, NULL::timestamptz, body, ` + sumColumns + ofObject + `)
		UNION ALL
		(SELECT ` + versionColumns + `, body, ` + sumColumns + ofName + ` ORDER BY o.version LIMIT 1)`}
	// sqlVersion takes the version ID as clients know it ($4). NULL means the null version.
	sqlVersion = pgdb.Statement{Name: "buckets.version", Key: 1, SQL: `
		(SELECT ` + objectColumns + `, NULL::text, false, NULL::timestamptz, body, ` + sumColumns + ofObject + `
			AND properties #>> '{s3,version}' IS NOT DISTINCT FROM $4::uuid::text)
		UNION ALL
		(SELECT ` + versionColumns + `, body, ` + sumColumns + ofName + ` AND o.version = $4::uuid AND NOT null_version)
		UNION ALL
		(SELECT ` + versionColumns + `, body, ` + sumColumns + ofName + ` AND null_version AND $4::uuid IS NULL)`}
	sqlLockVersion = pgdb.Statement{Name: "buckets.lock_version", Key: 1, SQL: `
		SELECT ` + versionColumns + ofName + ` AND o.version = $4::uuid AND NOT null_version FOR UPDATE`}
	sqlLockNull = pgdb.Statement{Name: "buckets.lock_null_version", Key: 1, SQL: `
		SELECT ` + versionColumns + ofName + ` AND null_version FOR UPDATE`}
	sqlUpdateVersion = pgdb.NewNamed(pgdb.Statement{Name: "buckets.update_version", Key: 1, SQL: `
		UPDATE manta_bucket_version SET modified = @modified, content_type = @type, headers = hstore(@header_names, @header_values),
			roles = @roles, properties = @properties
		WHERE owner = @owner AND bucket_id = @bucket_id AND name = @name AND version = @version`}, updatedVersion.args)
	// sqlListVersions reads both tables. The current object of a name comes first.
	sqlListVersions = pgdb.Statement{Name: "buckets.list_versions", Key: 1, SQL: `
		SELECT columns, key, marker, superseded FROM (
			(SELECT ` + objectColumns + ` AS columns, NULL::text AS key, false AS marker, NULL::timestamptz AS superseded, name, '00000000-0000-0000-0000-000000000000'::uuid AS version
				FROM manta_bucket_object o WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name >= $3::text AND ($6::boolean OR name > $3::text)
				ORDER BY name LIMIT $5::bigint)
			UNION ALL
			(SELECT ` + objectColumns + `, o.version::text, o.marker, o.superseded, o.name, o.version
				FROM manta_bucket_version o WHERE owner = $1::uuid AND bucket_id = $2::uuid AND (o.name, o.version) > ($3::text, $4::uuid)
				ORDER BY o.name, o.version LIMIT $5::bigint)
		) both_tables ORDER BY name, version LIMIT $5::bigint`}
	sqlListNoncurrent = pgdb.Statement{Name: "buckets.list_noncurrent_versions", Key: 1, SQL: `
		SELECT ` + versionColumns + ` FROM manta_bucket_version o WHERE owner = $1::uuid AND bucket_id = $2::uuid AND (o.name, o.version) > ($3::text, $4::uuid)
		ORDER BY o.name, o.version LIMIT $5::bigint`}
)

// Positions in uploadColumns and partColumns.
const (
	uploadID = iota
	uploadName
	uploadCreated
	uploadCreator
	uploadType
	uploadHeaders
	uploadRoles
	uploadProperties
)

const (
	partNumber = iota
	partID
	partCreated
	partLength
	partMD5
	partChecksum
	partSharks
	partStart
)

var (
	uploadColumns = array([]string{
		uploadID: `id::text`, uploadName: `name`, uploadCreated: micros(`created`), uploadCreator: `creator::text`, uploadType: `content_type`,
		uploadHeaders: `hstore_to_json(headers)::text`, uploadRoles: `to_json(roles)::text`, uploadProperties: `properties::text`,
	})
	partColumns = array([]string{
		partNumber: `number::text`, partID: `id::text`, partCreated: micros(`created`), partLength: `content_length::text`, partMD5: `encode(content_md5, 'hex')`,
		partChecksum: `checksum::text`, partSharks: `to_json(sharks)::text`, partStart: `start::text`,
	})

	sqlCreateUpload = pgdb.NewNamed(pgdb.Statement{Name: "buckets.create_upload", Key: 1, SQL: `SELECT bucket_create_upload_v1(...)`}, newUpload.args)
	sqlUpload       = pgdb.Statement{Name: "buckets.upload", Key: 1, SQL: `SELECT ` + uploadColumns + ofUpload}
	sqlLockUpload   = pgdb.Statement{Name: "buckets.lock_upload", Key: 1, SQL: `SELECT ` + uploadColumns + ofUpload + ` FOR UPDATE`}
	sqlListUploads  = pgdb.Statement{Name: "buckets.list_uploads", Key: 1, SQL: `
		SELECT ` + uploadColumns + ` FROM manta_bucket_upload WHERE owner = $1::uuid AND bucket_id = $2::uuid
			AND (name, id) > ($3::text, $4::uuid) ORDER BY name, id LIMIT $5::bigint`}
	sqlOldUploads = pgdb.Statement{Name: "buckets.old_uploads", Wide: true, SQL: `
		SELECT owner::text, bucket_id::text, name, id::text FROM manta_bucket_upload WHERE created < $1::timestamptz ORDER BY created LIMIT $2::bigint`}
	sqlPutPart = pgdb.NewNamed(pgdb.Statement{Name: "buckets.put_part", Key: 1, SQL: `SELECT bucket_put_part_v2(...)`}, newPart.args)
	sqlParts   = pgdb.Statement{Name: "buckets.parts", Key: 1, SQL: `SELECT ` + partColumns + ofParts + ` AND number > $3::integer ORDER BY number LIMIT $4::bigint`}
	sqlBodies  = pgdb.Statement{Name: "buckets.upload_bodies", Key: 1, SQL: `SELECT ` + partColumns + `, NULL::bytea, ` + sumColumns + ofParts + `
		AND number > $3::integer ORDER BY number LIMIT $4::bigint`}
	sqlMarkRestored = pgdb.Statement{Name: "buckets.mark_restored_uploads", Wide: true, SQL: `
		UPDATE manta_bucket_upload SET properties = coalesce(properties, '{}') || jsonb_build_object('s3', coalesce(properties -> 's3', '{}') || '{"restored": true}')`}
	sqlSegments = pgdb.Statement{Name: "buckets.segments", Key: 1, SQL: `SELECT ` + partColumns + `, body, ` + sumColumns + ofParts + `
		AND start + content_length > $3::bigint ORDER BY number LIMIT $4::bigint`}
	sqlAssemble        = pgdb.NewNamed(pgdb.Statement{Name: "buckets.assemble", Key: 1, SQL: `SELECT bucket_assemble_v1(...)`}, assembling.args)
	sqlUploadWithParts = pgdb.Statement{Name: "buckets.upload_with_parts", Key: 1, SQL: `
		SELECT 'bucket', NULL::text[] FROM manta_bucket WHERE owner = $1::uuid AND name = $5::text AND id = $2::uuid
		UNION ALL SELECT 'upload', ` + uploadColumns + ofUpload + `
		UNION ALL SELECT 'part', ` + partColumns + ` FROM manta_bucket_part WHERE owner = $1::uuid AND upload_id = $4::uuid`}
	sqlComplete = pgdb.NewCall(pgdb.Statement{Name: "buckets.complete", Key: 1, SQL: `SELECT bucket_complete_v2(...)`}, completion.write)
	sqlAbort    = pgdb.Statement{Name: "buckets.abort", Key: 1, SQL: `
		SELECT bucket_abort_v1(p_owner => $1::uuid, p_bucket_id => $2::uuid, p_name => $3::text, p_upload => $4::uuid, p_now => $5::timestamptz)`}
)

// Positions in deletedColumns.
const (
	deletedCreated = iota
	deletedModified
	deletedCreator
	deletedMD5
	deletedType
	deletedHeaders
	deletedRoles
	deletedProperties
)

// A claim takes three statements under a lock. On Citus, no statement locks rows on several shards in order, and no
// writing statement returns rows through functions such as to_json.
var (
	sqlGarbage = pgdb.Statement{Name: "buckets.garbage", Wide: true, SQL: `
		SELECT id::text, garbage_id::text FROM manta_bucket_deleted_object
		WHERE deleted_at <= $1::timestamptz AND (claim_expires IS NULL OR claim_expires <= $2::timestamptz)
		ORDER BY deleted_at LIMIT $3::bigint`}
	sqlClaim = pgdb.Statement{Name: "buckets.claim", Wide: true, SQL: `
		UPDATE manta_bucket_deleted_object SET claim = $1::uuid, claim_expires = $2::timestamptz
		WHERE id = ANY ($3::text[]::uuid[]) AND garbage_id = ANY ($4::text[]::uuid[]) AND (claim_expires IS NULL OR claim_expires <= $5::timestamptz)`}
	sqlTaken = pgdb.Statement{Name: "buckets.taken", Wide: true, SQL: `
		SELECT ` + garbageColumns + `, CASE WHEN $4::boolean THEN ` + deletedColumns + ` END FROM manta_bucket_deleted_object
		WHERE claim = $1::uuid AND id = ANY ($2::text[]::uuid[]) AND garbage_id = ANY ($3::text[]::uuid[])`}
	garbageColumns = `owner::text, bucket_id::text, name, id::text, coalesce(content_length, 0), sharks, coalesce(properties #>> '{s3,upload}', ''), deleted_at`
	deletedColumns = array([]string{
		deletedCreated: micros(`created`), deletedModified: micros(`modified`), deletedCreator: `creator::text`, deletedMD5: `encode(content_md5, 'hex')`,
		deletedType: `content_type`, deletedHeaders: `hstore_to_json(headers)::text`, deletedRoles: `to_json(roles)::text`, deletedProperties: `properties::text`,
	})
	sqlClaimed = pgdb.Statement{Name: "buckets.claimed", Wide: true, SQL: `
		SELECT ` + garbageColumns + `, CASE WHEN $3::boolean THEN ` + deletedColumns + ` END
		FROM manta_bucket_deleted_object WHERE claim = $1::uuid AND claim_expires > $2::timestamptz`}

	sqlUnclaim = pgdb.Statement{Name: "buckets.unclaim", Wide: true, SQL: `
		UPDATE manta_bucket_deleted_object SET claim = NULL, claim_expires = NULL WHERE claim = $1::uuid`}
	sqlWaiting = pgdb.Statement{Name: "buckets.waiting", Wide: true, SQL: `
		SELECT count(*), count(*) FILTER (WHERE deleted_at > $1::timestamptz), min(deleted_at) FILTER (WHERE deleted_at > $1::timestamptz),
			count(*) FILTER (WHERE deleted_at <= $1::timestamptz AND claim_expires > $2::timestamptz),
			max(claim_expires) FILTER (WHERE deleted_at <= $1::timestamptz AND claim_expires > $2::timestamptz)
		FROM manta_bucket_deleted_object`}

	sqlLockHolds   = pgdb.Statement{Name: "buckets.lock_holds", Wide: true, SQL: `SELECT 1 FROM manta_bucket_hold WHERE id = '' FOR UPDATE`}
	sqlHeld        = pgdb.Statement{Name: "buckets.held", SQL: `SELECT max(expires) FROM manta_bucket_hold WHERE id <> '' AND expires > $1::timestamptz`}
	sqlEndHolds    = pgdb.Statement{Name: "buckets.end_holds", Wide: true, SQL: `DELETE FROM manta_bucket_hold WHERE id <> '' AND expires <= $1::timestamptz`}
	sqlReleaseHold = pgdb.Statement{Name: "buckets.release_hold", Wide: true, SQL: `DELETE FROM manta_bucket_hold WHERE id = $1::text AND id <> ''`}
	sqlHold        = pgdb.Statement{Name: "buckets.hold", Wide: true, SQL: `
		INSERT INTO manta_bucket_hold (id, expires) VALUES ($1::text, $2::timestamptz) ON CONFLICT (id) DO UPDATE SET expires = EXCLUDED.expires`}

	sqlRemove         = pgdb.NewNamed(pgdb.Statement{Name: "buckets.remove", Key: 1, SQL: `SELECT bucket_remove_garbage_v1(...)`}, removal.args)
	sqlDeletedBuckets = pgdb.Statement{Name: "buckets.deleted_buckets", Wide: true, SQL: `
		SELECT id::text, name, owner::text, created, deleted_at FROM manta_bucket_deleted_bucket b
		WHERE deleted_at <= $1::timestamptz AND NOT EXISTS (
			SELECT 1 FROM manta_bucket_deleted_object o WHERE o.owner = b.owner AND o.bucket_id = b.id)
		ORDER BY deleted_at LIMIT $2::bigint`}
	sqlRemoveBucket = pgdb.Statement{Name: "buckets.remove_bucket", Key: 1, SQL: `
		SELECT bucket_remove_bucket_v1(p_owner => $1::uuid, p_bucket_id => $2::uuid, p_name => $3::text, p_now => $4::timestamptz, p_limit => $5::integer)`}
	sqlBacklog = pgdb.Statement{Name: "buckets.backlog", Wide: true, SQL: `
		SELECT count(*), coalesce(sum(content_length), 0)::bigint, min(deleted_at) FROM manta_bucket_deleted_object`}

	sqlFrameObject = pgdb.Statement{Name: "buckets.frame_object", Key: 1, SQL: `
		UPDATE manta_bucket_object SET content_crc32c = NULL, content_crc64nvme = $5::bigint, content_frames = $6::bigint
		WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text AND id = $4::uuid AND sharks IS NOT NULL
			AND (content_crc32c IS NOT NULL OR content_frames IS NULL)`}
	sqlFrameVersion = pgdb.Statement{Name: "buckets.frame_version", Key: 1, SQL: `
		UPDATE manta_bucket_version SET content_crc32c = NULL, content_crc64nvme = $5::bigint, content_frames = $6::bigint
		WHERE owner = $1::uuid AND bucket_id = $2::uuid AND name = $3::text AND id = $4::uuid AND sharks IS NOT NULL
			AND (content_crc32c IS NOT NULL OR content_frames IS NULL)`}
	sqlFramePart = pgdb.Statement{Name: "buckets.frame_part", Key: 1, SQL: `
		UPDATE manta_bucket_part SET content_crc32c = NULL, content_crc64nvme = $5::bigint, content_frames = $6::bigint
		WHERE owner = $1::uuid AND upload_id = $2::uuid AND number = $3::integer AND id = $4::uuid AND sharks IS NOT NULL
			AND (content_crc32c IS NOT NULL OR content_frames IS NULL)`}

	sqlReferences = pgdb.Statement{Name: "buckets.references", Wide: true, SQL: `
		SELECT owner, bucket_id, name, NULL::uuid, 0, false, id, content_length, content_md5, sharks, ` + sumColumns + ` FROM manta_bucket_object WHERE sharks IS NOT NULL
		UNION ALL
		SELECT owner, bucket_id, name, NULL::uuid, 0, false, id, content_length, content_md5, sharks, ` + sumColumns + ` FROM manta_bucket_version WHERE sharks IS NOT NULL
		UNION ALL
		SELECT owner, bucket_id, name, upload_id, number, EXISTS (
				SELECT FROM manta_bucket_deleted_object d WHERE d.owner = p.owner AND d.properties #>> '{s3,upload}' = p.upload_id::text
			), id, content_length, content_md5, sharks, ` + sumColumns + `
			FROM manta_bucket_part p WHERE sharks IS NOT NULL
		UNION ALL
		SELECT owner, bucket_id, name, NULL::uuid, 0, true, id, content_length, content_md5, sharks, NULL, NULL, NULL FROM manta_bucket_deleted_object WHERE sharks IS NOT NULL`}
	sqlSetSharks = pgdb.NewNamed(pgdb.Statement{Name: "buckets.set_sharks", Key: 1, SQL: `SELECT bucket_set_sharks_v2(...)`}, placement.args)
)

// If bucket_id is the nil UUID, the row counts the account.
var (
	// The account's row has an empty name, so it comes first.
	sqlUsage = pgdb.Statement{Name: "buckets.usage", Key: 1, SQL: `
		SELECT coalesce(b.name, ''), u.bucket_id::text, u.objects, u.bytes, u.max_objects, u.max_bytes
		FROM (
			SELECT bucket_id, sum(objects)::bigint AS objects, sum(bytes)::bigint AS bytes, max(max_objects) AS max_objects, max(max_bytes) AS max_bytes
			FROM manta_bucket_usage WHERE owner = $1::uuid GROUP BY bucket_id
		) u LEFT JOIN manta_bucket b ON b.owner = $1::uuid AND b.id = u.bucket_id
		WHERE b.name IS NOT NULL OR u.bucket_id = '00000000-0000-0000-0000-000000000000'
		UNION ALL
		SELECT b.name, b.id::text, 0, 0, 0, 0 FROM manta_bucket b WHERE b.owner = $1::uuid AND NOT EXISTS (
			SELECT FROM manta_bucket_usage u WHERE u.owner = $1::uuid AND u.bucket_id = b.id)
		ORDER BY 1`}
	sqlTotals = pgdb.Statement{Name: "buckets.totals", Wide: true, SQL: `
		SELECT owner::text, sum(objects)::bigint, sum(bytes)::bigint, max(max_objects), max(max_bytes)
		FROM manta_bucket_usage WHERE owner = ANY($1::uuid[]) AND bucket_id = '00000000-0000-0000-0000-000000000000' GROUP BY owner`}
	sqlBucketTotals = pgdb.Statement{Name: "buckets.bucket_totals", Key: 1, SQL: `
		SELECT bucket_id::text, sum(objects)::bigint, sum(bytes)::bigint, max(max_objects), max(max_bytes)
		FROM manta_bucket_usage WHERE owner = $1::uuid AND bucket_id = ANY($2::uuid[]) GROUP BY bucket_id`}
	sqlSetQuota = pgdb.Statement{Name: "buckets.set_quota", Key: 1, SQL: `
		SELECT bucket_set_quota_v1(p_owner => $1::uuid, p_bucket => $2::text, p_bucket_id => $3::uuid, p_objects => $4::bigint, p_bytes => $5::bigint)`}
	sqlSetAccountQuota = pgdb.Statement{Name: "buckets.set_account_quota", Wide: true, SQL: `
		UPDATE manta_bucket_account SET max_objects = $2::bigint, max_bytes = $3::bigint WHERE id = $1::uuid`}
	// sqlCount counts the rows of each bucket, including deleted buckets with uploads, and reads the slots in the same
	// snapshot.
	sqlCount = pgdb.Statement{Name: "buckets.count", Key: 1, SQL: `
		SELECT counted, bucket_id::text, sum(objects)::bigint, sum(bytes)::bigint FROM (
			SELECT true AS counted, bucket_id, objects, bytes FROM manta_bucket_usage WHERE owner = $1::uuid
			UNION ALL
			SELECT false, bucket_id, 1, CASE WHEN properties #>> '{s3,upload}' IS NULL THEN content_length ELSE 0 END
				FROM manta_bucket_object WHERE owner = $1::uuid
			UNION ALL
			SELECT false, bucket_id, 1, CASE WHEN properties #>> '{s3,upload}' IS NULL THEN coalesce(content_length, 0) ELSE 0 END
				FROM manta_bucket_version WHERE owner = $1::uuid
			UNION ALL
			SELECT false, bucket_id, 0, content_length FROM manta_bucket_part p WHERE owner = $1::uuid AND NOT EXISTS (
				SELECT FROM manta_bucket_deleted_object d
					WHERE d.owner = $1::uuid AND d.bucket_id = p.bucket_id AND d.properties #>> '{s3,upload}' = p.upload_id::text)
		) everything GROUP BY counted, bucket_id`}
	sqlLockUsage = pgdb.Statement{Name: "buckets.lock_usage", Key: 1, SQL: `SELECT bucket_lock_usage_v1(p_owner => $1::uuid)`}
	sqlSetUsage  = pgdb.Statement{Name: "buckets.set_usage", Key: 1, SQL: `
		SELECT bucket_set_usage_v1(p_owner => $1::uuid, p_bucket_id => $2::uuid, p_objects => $3::bigint, p_bytes => $4::bigint)`}
)

var (
	sqlLockTimeout = pgdb.Statement{Name: "buckets.lock_timeout", SQL: `SELECT set_config('lock_timeout', '2s', true)`}

	sqlShareAccount = pgdb.Statement{Name: "buckets.share_account", Key: 1, SQL: `SELECT bucket_share_account_v1(p_id => $1::uuid)`}
	sqlLockAccount  = pgdb.Statement{Name: "buckets.lock_account", SQL: `SELECT pg_advisory_xact_lock(uuid_hash_extended($1::uuid, 2))`}

	accountColumns   = `SELECT id::text, name, created, max_objects, max_bytes FROM manta_bucket_account`
	sqlAccount       = pgdb.Statement{Name: "buckets.account", SQL: accountColumns + ` WHERE name = $1::text`}
	sqlAccountByID   = pgdb.Statement{Name: "buckets.account_by_id", SQL: accountColumns + ` WHERE id = $1::uuid`}
	sqlListAccounts  = pgdb.Statement{Name: "buckets.list_accounts", SQL: accountColumns + ` WHERE name > $1::text ORDER BY name LIMIT $2::bigint`}
	sqlCreateAccount = pgdb.Statement{Name: "buckets.create_account", Wide: true, SQL: `
		INSERT INTO manta_bucket_account (id, name, created, max_objects, max_bytes)
		VALUES ($1::uuid, $2::text, $3::timestamptz, $4::bigint, $5::bigint) ON CONFLICT DO NOTHING`}
	sqlDeleteAccount = pgdb.Statement{Name: "buckets.delete_account", Wide: true, SQL: `DELETE FROM manta_bucket_account WHERE id = $1::uuid`}
	sqlDeleteKeys    = pgdb.Statement{Name: "buckets.delete_keys", Wide: true, SQL: `DELETE FROM manta_bucket_key WHERE account = $1::uuid`}

	keyColumns   = `SELECT id, account::text, secret, created, revoked, name, expires, limits::text FROM manta_bucket_key`
	sqlKey       = pgdb.Statement{Name: "buckets.key", SQL: keyColumns + ` WHERE id = $1::text`}
	sqlKeys      = pgdb.Statement{Name: "buckets.keys", SQL: keyColumns + ` WHERE account = $1::uuid AND id > $2::text ORDER BY id LIMIT $3::bigint`}
	sqlListKeys  = pgdb.Statement{Name: "buckets.list_keys", SQL: keyColumns + ` WHERE id > $1::text ORDER BY id LIMIT $2::bigint`}
	sqlCreateKey = pgdb.Statement{Name: "buckets.create_key", Wide: true, SQL: `
		INSERT INTO manta_bucket_key (id, account, secret, created, revoked, name, expires, limits)
		VALUES ($1::text, $2::uuid, $3::bytea, $4::timestamptz, $5::timestamptz, $6::text, $7::timestamptz, $8::jsonb) ON CONFLICT (id) DO NOTHING`}
	sqlChangeKey = pgdb.Statement{Name: "buckets.change_key", Wide: true, SQL: `
		UPDATE manta_bucket_key SET name = $2::text, expires = $3::timestamptz, limits = $4::jsonb
		WHERE id = $1::text AND revoked IS NULL AND name = $5::text AND expires IS NOT DISTINCT FROM $6::timestamptz AND limits = $7::jsonb`}
	sqlRevokeKey = pgdb.Statement{Name: "buckets.revoke_key", Wide: true, SQL: `
		UPDATE manta_bucket_key SET revoked = coalesce(revoked, $2::timestamptz) WHERE id = $1::text`}

	sqlNodes   = pgdb.Statement{Name: "buckets.nodes", SQL: `SELECT id, url, state, added FROM manta_bucket_node ORDER BY id`}
	sqlSetNode = pgdb.Statement{Name: "buckets.set_node", Wide: true, SQL: `
		INSERT INTO manta_bucket_node (id, url, state, added) VALUES ($1::text, $2::text, $3::text, $4::timestamptz)
		ON CONFLICT (id) DO UPDATE SET url = EXCLUDED.url, state = EXCLUDED.state, added = EXCLUDED.added`}
	sqlNodeState = pgdb.Statement{Name: "buckets.node_state", Wide: true, SQL: `SELECT state FROM manta_bucket_node WHERE id = $1::text FOR UPDATE`}
	sqlSetState  = pgdb.Statement{Name: "buckets.set_node_state", Wide: true, SQL: `UPDATE manta_bucket_node SET state = $2::text WHERE id = $1::text`}
	sqlNodeInUse = pgdb.Statement{Name: "buckets.node_in_use", Wide: true, SQL: `
		SELECT 1 FROM (
			SELECT owner, sharks FROM manta_bucket_object WHERE $1::text = ANY (sharks)
			UNION ALL SELECT owner, sharks FROM manta_bucket_version WHERE $1::text = ANY (sharks)
			UNION ALL SELECT owner, sharks FROM manta_bucket_part WHERE $1::text = ANY (sharks)
			UNION ALL SELECT owner, sharks FROM manta_bucket_deleted_object WHERE $1::text = ANY (sharks)
		) bodies LIMIT 1`}
)
