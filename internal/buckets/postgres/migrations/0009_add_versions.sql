-- 0: never versioned, 1: enabled, 2: suspended. bucket_set_versioning_v1 waits for all writes.
ALTER TABLE manta_bucket ADD COLUMN versioning smallint NOT NULL DEFAULT 0;

-- NULL: no object lock; otherwise the default retention as a JSON object, possibly {}. A version's own lock is
-- {s3,lock} in its properties.
ALTER TABLE manta_bucket ADD COLUMN object_lock jsonb;

-- Noncurrent object versions, and delete markers. The current object is in manta_bucket_object; without it, the newest
-- version here is a delete marker. A newer version has a smaller ID, which starts with 2^63 - 1 - its time in
-- microseconds. The name's lock protects all its rows.
CREATE TABLE manta_bucket_version (
	owner             uuid    NOT NULL,
	bucket_id         uuid    NOT NULL,
	name              text    COLLATE "C" NOT NULL,
	version           uuid    NOT NULL, -- clients do not see a null version's ID
	null_version      boolean NOT NULL,
	marker            boolean NOT NULL,
	superseded        timestamptz,      -- NULL: a current delete marker
	id                uuid    NOT NULL,
	created           timestamptz NOT NULL,
	modified          timestamptz NOT NULL,
	creator           uuid,
	content_length    bigint,
	content_md5       bytea,
	content_type      text,
	headers           hstore,
	roles             uuid[],
	sharks            text[],
	properties        jsonb,
	content_crc32c    bigint,
	content_crc64nvme bigint,
	content_frames    bigint,
	body              bytea,
	PRIMARY KEY (owner, bucket_id, name, version)
);

ALTER TABLE manta_bucket_version ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX manta_bucket_version_null_idx ON manta_bucket_version (owner, bucket_id, name) INCLUDE (version) WHERE null_version;

-- Enables or suspends versioning. -14: a bucket with object lock cannot be suspended.
CREATE FUNCTION bucket_set_versioning_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_versioning smallint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_bucket_id, 0))
		FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF p_versioning <> 1 THEN
		PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id AND object_lock IS NOT NULL;
		IF FOUND THEN
			RETURN -14;
		END IF;
	END IF;
	UPDATE manta_bucket SET versioning = p_versioning WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	RETURN CASE WHEN FOUND THEN 0 ELSE -1 END;
END $$;

-- Enables object lock and sets its default retention. -14: versioning is not enabled.
CREATE FUNCTION bucket_set_lock_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_lock jsonb) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_bucket_id, 0))
		FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	UPDATE manta_bucket SET object_lock = p_lock WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id AND versioning = 1;
	IF FOUND THEN
		RETURN 0;
	END IF;
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	RETURN CASE WHEN FOUND THEN -14 ELSE -1 END;
END $$;

-- Reports whether a lock forbids deleting a version. It uses the database's clock.
CREATE FUNCTION bucket_locked_v1(p_properties jsonb, p_bypass boolean) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_lock jsonb := p_properties #> '{s3,lock}';
BEGIN
	RETURN v_lock IS NOT NULL AND (coalesce(v_lock ->> 'hold', '') = 'ON'
		OR coalesce((v_lock ->> 'until')::bigint, 0) > extract(epoch FROM clock_timestamp()) * 1000000 AND NOT (p_bypass AND v_lock ->> 'mode' = 'GOVERNANCE'));
END $$;

-- Returns the first 16 digits of a version newer than p_newest, as a number. It is STABLE like extract, so PostgreSQL
-- inlines it, which saves 20 µs.
CREATE FUNCTION bucket_version_number_v1(p_at timestamptz, p_newest uuid) RETURNS bigint LANGUAGE sql STABLE AS $$
	SELECT least(9223372036854775807 - (extract(epoch FROM p_at) * 1000000)::bigint,
		('x' || substr(replace(p_newest::text, '-', ''), 1, 16))::bit(64)::bigint - 1)
$$;

-- Returns a version ID: the number as its first 16 digits, the others from the body ID.
CREATE FUNCTION bucket_version_v1(p_number bigint, p_id uuid) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
	SELECT (lpad(to_hex(p_number), 16, '0') || right(replace(p_id::text, '-', ''), 16))::uuid
$$;

-- Turns an object into garbage.
CREATE FUNCTION bucket_bury_v1(p_owner uuid, p_bucket_id uuid, p_name text, p_now timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_garbage uuid := gen_random_uuid();
BEGIN
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now, v_garbage
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
END $$;

-- Deletes a noncurrent version or a delete marker.
CREATE FUNCTION bucket_drop_version_v1(p_owner uuid, p_bucket_id uuid, p_name text, p_version uuid, p_now timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_garbage uuid := gen_random_uuid();
BEGIN
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now, v_garbage
		FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = p_version AND NOT marker;
	DELETE FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = p_version;
END $$;

-- Returns the length of a name's null version, which a new null version replaces; NULL if there is no null version, -13
-- if it is locked.
CREATE FUNCTION bucket_null_v1(p_owner uuid, p_bucket_id uuid, p_name text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_length     bigint;
	v_properties jsonb;
BEGIN
	SELECT coalesce(content_length, 0), properties INTO v_length, v_properties
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND properties #> '{s3,version}' IS NULL;
	IF NOT FOUND THEN
		SELECT coalesce(content_length, 0), properties INTO v_length, v_properties
			FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND null_version FOR UPDATE;
	END IF;
	RETURN CASE WHEN bucket_locked_v1(v_properties, false) THEN -13 ELSE v_length END;
END $$;

-- Returns a new version's properties. Without its own retention it gets the bucket's default, in whole seconds.
CREATE FUNCTION bucket_versioned_v1(p_properties jsonb, p_version uuid, p_lock jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_s3 jsonb := coalesce(p_properties -> 's3', '{}') || jsonb_build_object('version', p_version);
BEGIN
	IF p_lock ? 'mode' AND v_s3 #> '{lock,mode}' IS NULL THEN
		v_s3 := v_s3 || jsonb_build_object('lock', coalesce(v_s3 -> 'lock', '{}') || jsonb_build_object('mode', p_lock -> 'mode', 'until', 1000000 * (1 + floor(extract(epoch FROM
			(clock_timestamp() AT TIME ZONE 'UTC' + make_interval(years => coalesce((p_lock ->> 'years')::integer, 0)) + make_interval(days => coalesce((p_lock ->> 'days')::integer, 0)))
			AT TIME ZONE 'UTC'))::bigint)));
	END IF;
	RETURN coalesce(p_properties, '{}') || jsonb_build_object('s3', v_s3);
END $$;

-- Prepares a write in a bucket with versions and returns the new version's number. If p_id is set, the current object
-- becomes a noncurrent version, or garbage if it is the null version and versioning is suspended. Its row
-- stays; the caller replaces it.
CREATE FUNCTION bucket_keep_v1(
	p_owner uuid, p_bucket_id uuid, p_name text, p_versioning smallint, p_now timestamptz, p_id uuid, p_created timestamptz, p_version uuid
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_newest uuid := p_version;
	v_null   uuid;
BEGIN
	IF p_version IS NULL THEN
		SELECT version INTO v_newest FROM manta_bucket_version
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name ORDER BY version LIMIT 1;
	END IF;
	IF p_versioning = 2 THEN
		SELECT version INTO v_null FROM manta_bucket_version
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND null_version;
	END IF;
	IF p_id IS NULL THEN
		UPDATE manta_bucket_version SET superseded = p_now
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = v_newest AND superseded IS NULL;
	ELSIF p_versioning = 2 AND p_version IS NULL THEN
		PERFORM bucket_bury_v1(p_owner, p_bucket_id, p_name, p_now);
	ELSE
		IF p_version IS NULL THEN
			v_newest := bucket_version_v1(bucket_version_number_v1(p_created, v_newest), p_id);
		END IF;
		INSERT INTO manta_bucket_version (owner, bucket_id, name, version, null_version, marker, superseded, id, created, modified, creator,
				content_length, content_md5, content_type, headers, roles, sharks, properties, content_crc32c, content_crc64nvme, content_frames, body)
			SELECT owner, bucket_id, name, v_newest, p_version IS NULL, false, p_now, id, created, modified, creator,
				content_length, content_md5, content_type, headers, roles, sharks, properties, content_crc32c, content_crc64nvme, content_frames, body
			FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	END IF;
	IF v_null IS NOT NULL THEN
		PERFORM bucket_drop_version_v1(p_owner, p_bucket_id, p_name, v_null, p_now);
	END IF;
	RETURN bucket_version_number_v1(p_now, v_newest);
END $$;

-- Makes a name's newest noncurrent version current if there is no current object.
CREATE FUNCTION bucket_reveal_v1(p_owner uuid, p_bucket_id uuid, p_name text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_version uuid;
	v_marker  boolean;
BEGIN
	SELECT version, marker INTO v_version, v_marker FROM manta_bucket_version
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name ORDER BY version LIMIT 1;
	IF v_marker THEN
		UPDATE manta_bucket_version SET superseded = NULL
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = v_version;
	ELSIF v_version IS NOT NULL THEN
		INSERT INTO manta_bucket_object (owner, bucket_id, name, id, created, modified, creator,
				content_length, content_md5, content_type, headers, roles, sharks, properties, content_crc32c, content_crc64nvme, content_frames, body)
			SELECT owner, bucket_id, name, id, created, modified, creator,
				content_length, content_md5, content_type, headers, roles, sharks, properties, content_crc32c, content_crc64nvme, content_frames, body
			FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = v_version;
		DELETE FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = v_version;
	END IF;
END $$;

-- bucket_put_v2 with versions. Returns 1 if the object existed, otherwise 0; in a bucket with versions also its
-- versioning and the version number.
CREATE FUNCTION bucket_put_v3(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_id uuid, p_creator uuid, p_length bigint, p_md5 bytea, p_type text, p_header_names text[], p_header_values text[],
	p_roles uuid[], p_sharks text[], p_properties jsonb, p_body bytea, p_crc64nvme bigint, p_frames bigint, p_bytes bigint,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz, p_all boolean
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_found      boolean;
	v_id         uuid;
	v_modified   timestamptz;
	v_length     bigint;
	v_etag       text;
	v_result     bigint;
	v_garbage    uuid;
	v_versioning smallint;
	v_lock       jsonb;
	v_created    timestamptz;
	v_version    uuid;
	v_null       bigint;
	v_number     bigint;
BEGIN
	IF p_bucket_id IS NULL THEN
		SELECT id INTO p_bucket_id FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	END IF;
	-- bucket_lock_v1, inlined because a call takes longer than the statement.
	PERFORM pg_advisory_xact_lock_shared(uuid_hash_extended(p_bucket_id, 0)),
			pg_advisory_xact_lock(hashtextextended(p_name, uuid_hash_extended(p_bucket_id, 1)))
		FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN '{-1}';
	END IF;
	SELECT versioning, object_lock INTO v_versioning, v_lock FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN '{-1}';
	END IF;
	-- The row lock excludes bucket_set_sharks_v2. RemoveNode waits for the table lock, which lasts until the commit.
	SELECT id, created, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), ''), (properties #>> '{s3,version}')::uuid
		INTO v_id, v_created, v_modified, v_length, v_etag, v_version
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name FOR UPDATE;
	v_found := FOUND;
	IF p_flags > 0 THEN
		v_result := bucket_refused_v1(v_found, v_id, v_etag, v_modified, p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since);
		IF v_result < 0 THEN
			RETURN ARRAY[v_result];
		END IF;
	END IF;
	IF bucket_removed_v1(p_sharks) THEN
		RETURN '{-9}';
	END IF;
	IF v_lock IS NULL AND p_properties #> '{s3,lock}' IS NOT NULL THEN
		RETURN '{-15}';
	END IF;
	IF v_versioning > 0 THEN
		IF v_versioning = 2 THEN
			v_null := bucket_null_v1(p_owner, p_bucket_id, p_name);
			IF v_null < 0 THEN
				RETURN ARRAY[v_null];
			END IF;
		END IF;
		v_result := bucket_count_v1(p_owner, p_bucket_id, CASE WHEN v_null IS NULL THEN 1 ELSE 0 END, p_bytes - coalesce(v_null, 0), p_all);
		IF v_result < 0 THEN
			RETURN ARRAY[v_result];
		END IF;
		IF v_version IS NOT NULL AND v_versioning = 1 THEN
			-- An inlined bucket_keep_v1 for most overwrites.
			INSERT INTO manta_bucket_version (owner, bucket_id, name, version, null_version, marker, superseded, id, created, modified, creator,
					content_length, content_md5, content_type, headers, roles, sharks, properties, content_crc32c, content_crc64nvme, content_frames, body)
				SELECT owner, bucket_id, name, v_version, false, false, p_now, id, created, modified, creator,
					content_length, content_md5, content_type, headers, roles, sharks, properties, content_crc32c, content_crc64nvme, content_frames, body
				FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
			v_number := bucket_version_number_v1(p_now, v_version);
		ELSE
			v_number := bucket_keep_v1(p_owner, p_bucket_id, p_name, v_versioning, p_now, v_id, v_created, v_version);
		END IF;
		IF v_lock IS NOT NULL AND v_versioning = 1 THEN
			p_properties := bucket_versioned_v1(p_properties, bucket_version_v1(v_number, p_id), v_lock);
		ELSIF v_versioning = 1 THEN
			p_properties := coalesce(p_properties, '{}') || jsonb_build_object('s3', coalesce(p_properties -> 's3', '{}')
				|| jsonb_build_object('version', bucket_version_v1(v_number, p_id)));
		END IF;
	ELSE
		IF v_found THEN
			v_result := bucket_count_v1(p_owner, p_bucket_id, 0, p_bytes - v_length, p_all);
		ELSE
			v_result := bucket_count_v1(p_owner, p_bucket_id, 1, p_bytes, p_all);
		END IF;
		IF v_result < 0 THEN
			RETURN ARRAY[v_result];
		END IF;
	END IF;
	v_result := CASE WHEN v_found THEN 1 ELSE 0 END;
	IF NOT v_found THEN
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
				content_type, headers, roles, sharks, properties, body, content_crc64nvme, content_frames)
			VALUES (p_id, p_name, p_owner, p_bucket_id, p_now, p_now, p_creator, p_length, p_md5,
				p_type, hstore(p_header_names, p_header_values), p_roles, p_sharks, p_properties, p_body, p_crc64nvme, p_frames);
		RETURN CASE WHEN v_versioning = 0 THEN ARRAY[v_result] ELSE ARRAY[v_result, v_versioning, v_number] END;
	END IF;
	IF v_versioning = 0 THEN
		v_garbage := gen_random_uuid();
		INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
				content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
			SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
				content_type, headers, roles, sharks, properties, p_now, v_garbage
			FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	END IF;
	UPDATE manta_bucket_object
		SET id = p_id, created = p_now, modified = p_now, creator = p_creator, content_length = p_length, content_md5 = p_md5,
			content_type = p_type, headers = hstore(p_header_names, p_header_values), roles = p_roles, sharks = p_sharks,
			properties = p_properties, body = p_body, content_crc32c = NULL, content_crc64nvme = p_crc64nvme, content_frames = p_frames
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	RETURN CASE WHEN v_versioning = 0 THEN ARRAY[v_result] ELSE ARRAY[v_result, v_versioning, v_number] END;
END $$;

-- bucket_complete_v1 with bucket_put_v3.
CREATE FUNCTION bucket_complete_v2(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_id uuid, p_creator uuid, p_length bigint, p_md5 bytea, p_type text, p_header_names text[], p_header_values text[],
	p_roles uuid[], p_sharks text[], p_properties jsonb, p_body bytea, p_crc64nvme bigint, p_frames bigint, p_bytes bigint,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz, p_all boolean,
	p_upload uuid, p_stored bytea, p_numbers integer[], p_starts bigint[]
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_stored bytea;
	v_result bigint[];
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, p_name) THEN
		RETURN '{-1}';
	END IF;
	PERFORM 1 FROM manta_bucket_upload
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR UPDATE;
	IF NOT FOUND THEN
		RETURN '{-7}';
	END IF;
	-- While the upload is locked, no part is stored.
	SELECT sha256(convert_to(string_agg(number::text || ' ' || id::text, ',' ORDER BY number), 'UTF8')) INTO v_stored
		FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload;
	IF v_stored IS DISTINCT FROM p_stored THEN
		RETURN '{-10}';
	END IF;
	v_result := bucket_put_v3(p_owner, p_bucket, p_bucket_id, p_name, p_now, p_id, p_creator, p_length, p_md5, p_type,
		p_header_names, p_header_values, p_roles, p_sharks, p_properties, p_body, p_crc64nvme, p_frames, p_bytes,
		p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since, p_all);
	IF v_result[1] >= 0 THEN
		PERFORM bucket_assemble_v1(p_owner, p_bucket_id, p_name, p_upload, p_numbers, p_starts, p_now);
	END IF;
	RETURN v_result;
END $$;

-- bucket_delete_v1 with versions: also returns the bucket's versioning and the new delete marker. The ID is NULL if
-- there was no object.
CREATE FUNCTION bucket_delete_v2(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz,
	p_marker uuid, p_exists boolean, p_all boolean
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_found      boolean;
	v_id         uuid;
	v_modified   timestamptz;
	v_length     bigint;
	v_etag       text;
	v_columns    text[];
	v_result     bigint;
	v_versioning smallint;
	v_created    timestamptz;
	v_version    uuid;
	v_null       bigint;
BEGIN
	IF p_bucket_id IS NULL THEN
		SELECT id INTO p_bucket_id FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	END IF;
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, p_name) THEN
		RETURN '{-1}';
	END IF;
	SELECT versioning INTO v_versioning FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	SELECT id, created, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), ''), (properties #>> '{s3,version}')::uuid,
			ARRAY['0', id::text, name, (extract(epoch FROM created) * 1000000)::bigint::text, (extract(epoch FROM modified) * 1000000)::bigint::text,
				creator::text, content_length::text, encode(content_md5, 'hex'), content_type,
				hstore_to_json(headers)::text, to_json(roles)::text, to_json(sharks)::text, properties::text]
		INTO v_id, v_created, v_modified, v_length, v_etag, v_version, v_columns
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name FOR UPDATE;
	v_found := FOUND;
	IF p_flags > 0 THEN
		v_result := bucket_refused_v1(v_found, v_id, v_etag, v_modified, p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since);
		IF v_result < 0 THEN
			RETURN ARRAY[v_result::text];
		END IF;
	END IF;
	IF NOT v_found AND (v_versioning = 0 OR p_exists) THEN
		RETURN '{-3}';
	END IF;
	IF v_versioning = 0 THEN
		PERFORM bucket_count_v1(p_owner, p_bucket_id, -1, -v_length, false);
		PERFORM bucket_bury_v1(p_owner, p_bucket_id, p_name, p_now);
		DELETE FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
		RETURN v_columns || ARRAY['0', NULL];
	END IF;
	IF v_versioning = 2 THEN
		v_null := bucket_null_v1(p_owner, p_bucket_id, p_name);
		IF v_null < 0 THEN
			RETURN ARRAY[v_null::text];
		END IF;
	END IF;
	v_result := bucket_count_v1(p_owner, p_bucket_id, CASE WHEN v_null IS NULL THEN 1 ELSE 0 END, -coalesce(v_null, 0), p_all);
	IF v_result < 0 THEN
		RETURN ARRAY[v_result::text];
	END IF;
	v_version := bucket_version_v1(bucket_keep_v1(p_owner, p_bucket_id, p_name, v_versioning, p_now, v_id, v_created, v_version), p_marker);
	DELETE FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	INSERT INTO manta_bucket_version (owner, bucket_id, name, version, null_version, marker, id, created, modified, properties)
		VALUES (p_owner, p_bucket_id, p_name, v_version, v_versioning = 2, true, p_marker, p_now, p_now,
			CASE WHEN v_versioning = 1 THEN jsonb_build_object('s3', jsonb_build_object('version', v_version)) END);
	IF NOT v_found THEN
		v_columns := array_fill(NULL::text, ARRAY[13]);
		v_columns[1] := '0';
	END IF;
	RETURN v_columns || ARRAY[v_versioning::text, CASE WHEN v_versioning = 1 THEN v_version::text ELSE 'null' END];
END $$;

-- Deletes a version, or the null version if p_version is NULL. Returns 0, its columns, and whether it was a delete
-- marker, or only a negative result. p_noncurrent refuses the current version. For a lock that p_bypass does not
-- override, returns -13 and the version's properties.
CREATE FUNCTION bucket_delete_version_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_version uuid, p_now timestamptz,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz, p_noncurrent boolean, p_bypass boolean
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_found      boolean;
	v_live       boolean;
	v_marker     boolean := false;
	v_id         uuid;
	v_modified   timestamptz;
	v_length     bigint;
	v_etag       text;
	v_columns    text[];
	v_result     bigint;
	v_properties jsonb;
	v_key        uuid;
	v_current    boolean;
BEGIN
	IF p_bucket_id IS NULL THEN
		SELECT id INTO p_bucket_id FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	END IF;
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, p_name) THEN
		RETURN '{-1}';
	END IF;
	SELECT id, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), ''), properties, true,
			ARRAY['0', id::text, name, (extract(epoch FROM created) * 1000000)::bigint::text, (extract(epoch FROM modified) * 1000000)::bigint::text,
				creator::text, content_length::text, encode(content_md5, 'hex'), content_type,
				hstore_to_json(headers)::text, to_json(roles)::text, to_json(sharks)::text, properties::text]
		INTO v_id, v_modified, v_length, v_etag, v_properties, v_current, v_columns
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name
			AND properties #>> '{s3,version}' IS NOT DISTINCT FROM p_version::text FOR UPDATE;
	v_live := FOUND;
	IF NOT v_live THEN
		IF p_version IS NULL THEN
			SELECT version INTO v_key FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND null_version;
		ELSE
			SELECT version INTO v_key FROM manta_bucket_version
				WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = p_version AND NOT null_version;
		END IF;
		SELECT id, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), ''), properties, superseded IS NULL,
				ARRAY['0', id::text, name, (extract(epoch FROM created) * 1000000)::bigint::text, (extract(epoch FROM modified) * 1000000)::bigint::text,
					creator::text, content_length::text, encode(content_md5, 'hex'), content_type,
					hstore_to_json(headers)::text, to_json(roles)::text, to_json(sharks)::text, properties::text], marker
			INTO v_id, v_modified, v_length, v_etag, v_properties, v_current, v_columns, v_marker
			FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND version = v_key FOR UPDATE;
		IF NOT FOUND THEN
			RETURN '{-11}';
		END IF;
	END IF;
	IF p_noncurrent AND v_current THEN
		RETURN '{-2}';
	END IF;
	IF p_flags > 0 THEN
		v_result := bucket_refused_v1(NOT v_marker, v_id, v_etag, v_modified, p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since);
		IF v_result < 0 THEN
			RETURN ARRAY[v_result::text];
		END IF;
	END IF;
	IF bucket_locked_v1(v_properties, p_bypass) THEN
		RETURN ARRAY['-13', v_properties::text];
	END IF;
	PERFORM bucket_count_v1(p_owner, p_bucket_id, -1, -v_length, false);
	IF v_live THEN
		PERFORM bucket_bury_v1(p_owner, p_bucket_id, p_name, p_now);
		DELETE FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	ELSE
		PERFORM bucket_drop_version_v1(p_owner, p_bucket_id, p_name, v_key, p_now);
	END IF;
	IF v_current THEN
		PERFORM bucket_reveal_v1(p_owner, p_bucket_id, p_name);
	END IF;
	RETURN v_columns || v_marker::text;
END $$;

-- bucket_delete_objects_v1 for buckets without versions. -12: the bucket has versions.
CREATE FUNCTION bucket_delete_objects_v2(p_owner uuid, p_bucket text, p_bucket_id uuid, p_names text[], p_now timestamptz, p_tags text[])
RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_names   text[] := p_names; -- faster to index than a parameter
	v_tags    text[] := p_tags;
	v_results bigint[];
	v_result  bigint;
	v_deleted text[] := '{}';
	v_bytes   bigint := 0;
	v_batch   uuid := gen_random_uuid();
	v_at      integer := 1;
	v_found   boolean;
	r         record;
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN '{-1}';
	END IF;
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id AND versioning > 0;
	IF FOUND THEN
		RETURN '{-12}';
	END IF;
	v_results := array(SELECT CASE WHEN t.tag = '*' THEN -2 ELSE -3 END::bigint FROM unnest(p_tags) WITH ORDINALITY t (tag, n) ORDER BY t.n);
	FOR r IN
		SELECT name, id, modified, coalesce(content_length, 0) AS length, coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), '') AS etag
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = ANY (p_names) ORDER BY name FOR UPDATE
	LOOP
		WHILE v_names[v_at] <> r.name LOOP
			v_at := v_at + 1;
		END LOOP;
		v_found := true;
		WHILE v_names[v_at] = r.name LOOP
			v_result := CASE WHEN v_found THEN 0 ELSE -3 END;
			IF v_tags[v_at] IS NOT NULL THEN
				v_result := bucket_refused_v1(v_found, r.id, r.etag, r.modified,
					CASE WHEN v_tags[v_at] = '*' THEN 2 ELSE 0 END, CASE WHEN v_tags[v_at] <> '*' THEN ARRAY[v_tags[v_at]] END, NULL, NULL, NULL);
			END IF;
			v_results[v_at] := v_result;
			IF v_result = 0 THEN
				v_found := false;
				v_deleted := v_deleted || r.name;
				v_bytes := v_bytes + r.length;
			END IF;
			v_at := v_at + 1;
		END LOOP;
	END LOOP;
	IF cardinality(v_deleted) = 0 THEN
		RETURN v_results;
	END IF;
	PERFORM bucket_count_v1(p_owner, p_bucket_id, -cardinality(v_deleted), -v_bytes, false);
	-- Citus accepts no volatile function here, so garbage IDs are hashes of a random ID and the name.
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now,
			encode(substr(sha256(uuid_send(v_batch) || int8send(hashtextextended(name, 0))), 1, 16), 'hex')::uuid
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = ANY (v_deleted);
	DELETE FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = ANY (v_deleted);
	RETURN v_results;
END $$;

-- Deletes a bucket. -8: it has objects or versions.
CREATE FUNCTION bucket_delete_bucket_v2(p_owner uuid, p_bucket text, p_bucket_id uuid, p_now timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	-- Waits for all writers, and blocks new ones.
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_bucket_id, 0))
		FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN -1;
	END IF;
	PERFORM 1 FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id LIMIT 1;
	IF FOUND THEN
		RETURN -8;
	END IF;
	PERFORM 1 FROM manta_bucket_version WHERE owner = p_owner AND bucket_id = p_bucket_id LIMIT 1;
	IF FOUND THEN
		RETURN -8;
	END IF;
	INSERT INTO manta_bucket_deleted_bucket (id, name, owner, created, deleted_at)
		SELECT id, name, owner, created, p_now FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	DELETE FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	RETURN 0;
END $$;

-- bucket_set_sharks_v1 with versions: a body may also be in a noncurrent version, to which parts belong after the object
-- and before garbage.
CREATE FUNCTION bucket_set_sharks_v2(
	p_owner uuid, p_bucket_id uuid, p_name text, p_upload uuid, p_number integer, p_garbage boolean, p_id uuid, p_was text[], p_is text[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_added text[] := array(SELECT unnest(p_is) EXCEPT SELECT unnest(p_was));
	v_noncurrent boolean := false;
BEGIN
	IF p_upload IS NOT NULL THEN
		PERFORM 1 FROM manta_bucket_upload
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR SHARE;
		PERFORM 1 FROM manta_bucket_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND properties #>> '{s3,upload}' = p_upload::text FOR SHARE;
		PERFORM 1 FROM manta_bucket_version
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND properties #>> '{s3,upload}' = p_upload::text FOR SHARE;
		PERFORM 1 FROM manta_bucket_deleted_object
			WHERE owner = p_owner AND properties #>> '{s3,upload}' = p_upload::text FOR UPDATE;
		PERFORM 1 FROM manta_bucket_part
			WHERE owner = p_owner AND upload_id = p_upload AND number = p_number AND id = p_id AND sharks = p_was FOR UPDATE;
	ELSIF p_garbage THEN
		PERFORM 1 FROM manta_bucket_deleted_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was FOR UPDATE;
	ELSE
		PERFORM 1 FROM manta_bucket_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was FOR UPDATE;
		IF NOT FOUND THEN
			v_noncurrent := true;
			PERFORM 1 FROM manta_bucket_version
				WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was FOR UPDATE;
		END IF;
	END IF;
	IF NOT FOUND THEN
		RETURN 0;
	ELSIF bucket_removed_v1(v_added) THEN
		RETURN -9;
	END IF;
	IF p_upload IS NOT NULL THEN
		UPDATE manta_bucket_part SET sharks = p_is WHERE owner = p_owner AND upload_id = p_upload AND number = p_number;
		UPDATE manta_bucket_deleted_object SET claim = NULL, claim_expires = NULL
			WHERE owner = p_owner AND properties #>> '{s3,upload}' = p_upload::text AND claim IS NOT NULL;
	ELSIF p_garbage THEN
		UPDATE manta_bucket_deleted_object SET sharks = p_is, claim = NULL, claim_expires = NULL
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was;
	ELSIF v_noncurrent THEN
		UPDATE manta_bucket_version SET sharks = p_is WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id;
	ELSE
		UPDATE manta_bucket_object SET sharks = p_is WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	END IF;
	RETURN 1;
END $$;

-- bucket_expire_v1 for buckets without versions. -12: the bucket has versions.
CREATE FUNCTION bucket_expire_v2(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_names text[], p_ids uuid[], p_modified timestamptz[], p_tags text[], p_now timestamptz
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_names    text[] := p_names; -- faster to index than a parameter
	v_ids      uuid[] := p_ids;
	v_modified timestamptz[] := p_modified;
	v_tags     text[] := p_tags;
	v_at       integer := 1;
	v_deleted  text[] := '{}';
	v_results  bigint[] := '{}';
	v_bytes    bigint := 0;
	v_batch    uuid := gen_random_uuid();
	r          record;
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN '{-1}';
	END IF;
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id AND versioning > 0;
	IF FOUND THEN
		RETURN '{-12}';
	END IF;
	FOR r IN
		SELECT name, id, modified, coalesce(content_length, 0) AS length, properties #> '{s3,tags}' AS tags
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = ANY (p_names) ORDER BY name FOR UPDATE
	LOOP
		WHILE v_names[v_at] <> r.name LOOP
			v_at := v_at + 1;
		END LOOP;
		IF r.id = v_ids[v_at] AND r.modified = v_modified[v_at] AND r.tags IS NOT DISTINCT FROM v_tags[v_at]::jsonb THEN
			v_results := v_results || v_at::bigint;
			v_deleted := v_deleted || r.name;
			v_bytes := v_bytes + r.length;
		END IF;
	END LOOP;
	IF cardinality(v_deleted) = 0 THEN
		RETURN v_results;
	END IF;
	PERFORM bucket_count_v1(p_owner, p_bucket_id, -cardinality(v_deleted), -v_bytes, false);
	-- Citus accepts no volatile function here, so garbage IDs are hashes of a random ID and the name.
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now,
			encode(substr(sha256(uuid_send(v_batch) || int8send(hashtextextended(name, 0))), 1, 16), 'hex')::uuid
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = ANY (v_deleted);
	DELETE FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = ANY (v_deleted);
	RETURN v_results;
END $$;

-- citus

SELECT create_distributed_table('manta_bucket_version', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_set_versioning_v1(uuid, text, uuid, smallint)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_put_v3(uuid, text, uuid, text, timestamptz, uuid, uuid, bigint, bytea, text, text[], text[], uuid[], text[], jsonb, bytea, bigint, bigint, bigint, integer, text[], text[], timestamptz, timestamptz, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_complete_v2(uuid, text, uuid, text, timestamptz, uuid, uuid, bigint, bytea, text, text[], text[], uuid[], text[], jsonb, bytea, bigint, bigint, bigint, integer, text[], text[], timestamptz, timestamptz, boolean, uuid, bytea, integer[], bigint[])',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_delete_v2(uuid, text, uuid, text, timestamptz, integer, text[], text[], timestamptz, timestamptz, uuid, boolean, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_set_lock_v1(uuid, text, uuid, jsonb)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_delete_version_v1(uuid, text, uuid, text, uuid, timestamptz, integer, text[], text[], timestamptz, timestamptz, boolean, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_delete_objects_v2(uuid, text, uuid, text[], timestamptz, text[])', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_delete_bucket_v2(uuid, text, uuid, timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_set_sharks_v2(uuid, uuid, text, uuid, integer, boolean, uuid, text[], text[])', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_expire_v2(uuid, text, uuid, text[], uuid[], timestamptz[], text[], timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
