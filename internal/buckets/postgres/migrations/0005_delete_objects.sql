-- Deletes objects like bucket_delete_v1 and returns a result for each, or one element, -1. The names are sorted and
-- may repeat. An element of p_tags is NULL for no condition, '*' if the object must exist, or its ETag.
--
-- Locks rows instead of names: every other write also locks the object's row, and a name without a row needs no
-- delete. A thousand advisory locks would fill the server's lock table. Locking in name order prevents deadlocks.
CREATE FUNCTION bucket_delete_objects_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_names text[], p_now timestamptz, p_tags text[])
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

-- citus

SELECT create_distributed_function('bucket_delete_objects_v1(uuid, text, uuid, text[], timestamptz, text[])', 'p_owner', colocate_with => 'manta_bucket');
