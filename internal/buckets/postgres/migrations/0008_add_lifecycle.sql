-- How far the lifecycle rules of buckets are applied.
CREATE TABLE manta_bucket_lifecycle (
	owner     uuid        NOT NULL,
	bucket_id uuid        NOT NULL,
	rules     timestamptz NOT NULL, -- when the rules that are applied were set
	due       timestamptz NOT NULL, -- when the run continues, or the next one begins
	run       jsonb       NOT NULL,
	PRIMARY KEY (owner, bucket_id)
);

-- Finds the buckets with rules.
CREATE INDEX manta_bucket_settings_lifecycle_idx ON manta_bucket_settings (owner, bucket_id) WHERE settings #>> '{lifecycle,rules}' IS NOT NULL;

-- Deletes objects of a bucket that are still as they were read, and returns the positions of those that were deleted
-- among the names, or '{-1}': the bucket does not exist. The names are in order and do not repeat. The locks are those
-- of bucket_delete_objects_v1.
CREATE FUNCTION bucket_expire_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_names text[], p_ids uuid[], p_modified timestamptz[], p_tags text[], p_now timestamptz
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_names    text[] := p_names; -- an element of a parameter takes longer
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
	-- Citus takes no volatile function here, so the IDs of garbage are hashes of a random one and the name.
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

SELECT create_distributed_table('manta_bucket_lifecycle', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_expire_v1(uuid, text, uuid, text[], uuid[], timestamptz[], text[], timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
