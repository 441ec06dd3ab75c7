-- Deletes. None can break a quota.

CREATE FUNCTION sync_delete_bso_v1(
	p_user BIGINT, p_coll INTEGER, p_id TEXT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_modified TIMESTAMP;
	v_bytes    BIGINT;
BEGIN
	SELECT modified, octet_length(payload) INTO v_modified, v_bytes
		FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = p_id
			AND (expiry IS NULL OR expiry > s.stamp);
	IF NOT FOUND THEN
		RETURN ARRAY[2, 0, 0];
	END IF;
	IF sync_refused_v1(p_modified_since, p_unmodified_since, v_modified) THEN
		RETURN ARRAY[1, sync_ms_v1(v_modified), 0];
	END IF;
	DELETE FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = p_id;
	PERFORM sync_count_v1(p_user, p_coll, s.stamp, -1, -v_bytes);
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified)];
END $$;

CREATE FUNCTION sync_delete_bsos_v1(
	p_user BIGINT, p_coll INTEGER, p_ids TEXT[],
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_count BIGINT;
	v_bytes BIGINT;
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0];
	END IF;
	IF s.modified = 'epoch' THEN -- no such collection, at most an open batch of it
		RETURN ARRAY[0, sync_ms_v1(s.last), 0];
	END IF;
	SELECT count(*), coalesce(sum(octet_length(payload)), 0) INTO v_count, v_bytes
		FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = ANY (p_ids);
	DELETE FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = ANY (p_ids);
	PERFORM sync_count_v1(p_user, p_coll, s.stamp, -v_count, -v_bytes);
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified)];
END $$;

-- The collection's records and batches go with its row; its stamp lives on in
-- the row of collection 0.
CREATE FUNCTION sync_delete_collection_v1(
	p_user BIGINT, p_coll INTEGER,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0];
	END IF;
	DELETE FROM user_collections WHERE user_id = p_user AND collection_id = p_coll;
	IF s.modified = 'epoch' THEN -- at most an open batch was there
		RETURN ARRAY[0, sync_ms_v1(s.last), 0];
	END IF;
	UPDATE user_collections SET modified = s.stamp WHERE user_id = p_user AND collection_id = 0;
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified)];
END $$;

-- Nothing stays but the count of the names that the user brought in.
CREATE FUNCTION sync_delete_all_v1(p_user BIGINT, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP)
RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, -1, 'epoch');
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.last) THEN
		RETURN ARRAY[1, sync_ms_v1(s.last), 0];
	END IF;
	DELETE FROM user_collections WHERE user_id = p_user AND (collection_id <> 0 OR count = 0);
	UPDATE user_collections SET modified = 'epoch' WHERE user_id = p_user AND collection_id = 0;
	RETURN ARRAY[0, 0, 0];
END $$;

-- citus

SELECT create_distributed_function(
	'sync_delete_bso_v1(bigint, integer, text, timestamp, timestamp, timestamp)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_delete_bsos_v1(bigint, integer, text[], timestamp, timestamp, timestamp)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_delete_collection_v1(bigint, integer, timestamp, timestamp, timestamp)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_delete_all_v1(bigint, timestamp, timestamp)',
	'p_user', colocate_with => 'user_collections');
