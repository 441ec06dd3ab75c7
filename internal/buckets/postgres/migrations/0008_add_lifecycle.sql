-- The progress of lifecycle rules in each bucket.
CREATE TABLE manta_bucket_lifecycle (
	owner     uuid        NOT NULL,
	bucket_id uuid        NOT NULL,
	rules     timestamptz NOT NULL, -- when the applied rules were set
	due       timestamptz NOT NULL, -- when the run continues or the next run starts
	run       jsonb       NOT NULL,
	PRIMARY KEY (owner, bucket_id)
);

-- Finds buckets with rules.
CREATE INDEX manta_bucket_settings_lifecycle_idx ON manta_bucket_settings (owner, bucket_id) WHERE settings #>> '{lifecycle,rules}' IS NOT NULL;

-- Deletes objects that have not changed since they were read and returns their positions in p_names, or '{-1}' if the
-- bucket does not exist. The names are sorted and unique. Locks rows like bucket_delete_objects_v1.
CREATE FUNCTION bucket_expire_v1(
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

SELECT create_distributed_table('manta_bucket_lifecycle', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_expire_v1(uuid, text, uuid, text[], uuid[], timestamptz[], text[], timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
