-- Both columns are unsigned, let readers verify each chunk of a body on storage nodes, and are NULL for bodies written
-- before this migration. A row with a CRC32C comes from an earlier release, which does not update these columns.
ALTER TABLE manta_bucket_object
	ADD COLUMN content_crc64nvme bigint,
	ADD COLUMN content_frames bigint; -- frame ID
ALTER TABLE manta_bucket_part
	ADD COLUMN content_crc64nvme bigint,
	ADD COLUMN content_frames bigint;

-- bucket_put_v1 with the new columns.
CREATE FUNCTION bucket_put_v2(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_id uuid, p_creator uuid, p_length bigint, p_md5 bytea, p_type text, p_header_names text[], p_header_values text[],
	p_roles uuid[], p_sharks text[], p_properties jsonb, p_body bytea, p_crc64nvme bigint, p_frames bigint, p_bytes bigint,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz, p_all boolean
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_found    boolean;
	v_id       uuid;
	v_modified timestamptz;
	v_length   bigint;
	v_etag     text;
	v_result   bigint;
	v_garbage  uuid;
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
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN '{-1}';
	END IF;
	-- The row lock excludes bucket_set_sharks_v1. RemoveNode waits for the table lock, which lasts until the commit.
	SELECT id, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), '')
		INTO v_id, v_modified, v_length, v_etag
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
	IF v_found THEN
		v_result := bucket_count_v1(p_owner, p_bucket_id, 0, p_bytes - v_length, p_all);
	ELSE
		v_result := bucket_count_v1(p_owner, p_bucket_id, 1, p_bytes, p_all);
	END IF;
	IF v_result < 0 THEN
		RETURN ARRAY[v_result];
	END IF;
	IF NOT v_found THEN
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
				content_type, headers, roles, sharks, properties, body, content_crc64nvme, content_frames)
			VALUES (p_id, p_name, p_owner, p_bucket_id, p_now, p_now, p_creator, p_length, p_md5,
				p_type, hstore(p_header_names, p_header_values), p_roles, p_sharks, p_properties, p_body, p_crc64nvme, p_frames);
		RETURN '{0}';
	END IF;
	v_garbage := gen_random_uuid();
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now, v_garbage
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	UPDATE manta_bucket_object
		SET id = p_id, created = p_now, modified = p_now, creator = p_creator, content_length = p_length, content_md5 = p_md5,
			content_type = p_type, headers = hstore(p_header_names, p_header_values), roles = p_roles, sharks = p_sharks,
			properties = p_properties, body = p_body, content_crc32c = NULL, content_crc64nvme = p_crc64nvme, content_frames = p_frames
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	RETURN '{1}';
END $$;

-- bucket_put_part_v1 with the new columns.
CREATE FUNCTION bucket_put_part_v2(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_upload uuid, p_number integer, p_created timestamptz,
	p_id uuid, p_length bigint, p_md5 bytea, p_checksum jsonb, p_sharks text[], p_body bytea, p_crc64nvme bigint, p_frames bigint, p_all boolean
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_length  bigint;
	v_found   boolean;
	v_result  bigint;
	v_garbage uuid;
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN -1;
	END IF;
	PERFORM 1 FROM manta_bucket_upload
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN -7;
	END IF;
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_upload, 2 + p_number)) FROM manta_bucket_upload
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload;
	SELECT content_length INTO v_length FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND number = p_number FOR UPDATE;
	v_found := FOUND;
	IF bucket_removed_v1(p_sharks) THEN
		RETURN -9;
	END IF;
	v_result := bucket_count_v1(p_owner, p_bucket_id, 0, p_length - coalesce(v_length, 0), p_all);
	IF v_result < 0 THEN
		RETURN v_result;
	END IF;
	IF NOT v_found THEN
		INSERT INTO manta_bucket_part (owner, upload_id, number, bucket_id, name, id, created, content_length, content_md5, checksum, sharks, body,
				content_crc64nvme, content_frames)
			VALUES (p_owner, p_upload, p_number, p_bucket_id, p_name, p_id, p_created, p_length, p_md5, p_checksum, p_sharks, p_body,
				p_crc64nvme, p_frames);
		RETURN 0;
	END IF;
	v_garbage := gen_random_uuid();
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, sharks, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, created AS modified, content_length, content_md5, sharks, p_created, v_garbage
		FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND number = p_number;
	UPDATE manta_bucket_part
		SET id = p_id, created = p_created, content_length = p_length, content_md5 = p_md5, checksum = p_checksum, sharks = p_sharks, body = p_body,
			content_crc32c = NULL, content_crc64nvme = p_crc64nvme, content_frames = p_frames
		WHERE owner = p_owner AND upload_id = p_upload AND number = p_number;
	RETURN 0;
END $$;

-- citus

SELECT create_distributed_function(
	'bucket_put_v2(uuid, text, uuid, text, timestamptz, uuid, uuid, bigint, bytea, text, text[], text[], uuid[], text[], jsonb, bytea, bigint, bigint, bigint, integer, text[], text[], timestamptz, timestamptz, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_put_part_v2(uuid, text, uuid, text, uuid, integer, timestamptz, uuid, bigint, bytea, jsonb, text[], bytea, bigint, bigint, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
