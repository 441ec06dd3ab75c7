-- Deletes, the sweep, and collection names. They never exceed a quota.

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
		RETURN ARRAY[2, 0, 0, 0, 0, 0];
	END IF;
	IF sync_refused_v1(p_modified_since, p_unmodified_since, v_modified) THEN
		RETURN ARRAY[1, sync_ms_v1(v_modified), 0, 0, 0, 0];
	END IF;
	DELETE FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = p_id;
	PERFORM sync_count_v1(p_user, p_coll, s.stamp, -1, -v_bytes);
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified), 0, 0, 0];
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
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0, 0, 0, 0];
	END IF;
	IF s.modified = 'epoch' THEN -- no such collection, only an open batch
		RETURN ARRAY[0, sync_ms_v1(s.last), 0, 0, 0, 0];
	END IF;
	SELECT count(*), coalesce(sum(octet_length(payload)), 0) INTO v_count, v_bytes
		FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = ANY (p_ids);
	DELETE FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = ANY (p_ids);
	PERFORM sync_count_v1(p_user, p_coll, s.stamp, -v_count, -v_bytes);
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified), 0, 0, 0];
END $$;

-- sync_delete_collection_v1 deletes the collection's row, which cascades to its records and batches. The row of
-- collection 0 keeps the timestamp.
CREATE FUNCTION sync_delete_collection_v1(
	p_user BIGINT, p_coll INTEGER,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0, 0, 0, 0];
	END IF;
	DELETE FROM user_collections WHERE user_id = p_user AND collection_id = p_coll;
	IF s.modified = 'epoch' THEN -- no such collection, only an open batch
		RETURN ARRAY[0, sync_ms_v1(s.last), 0, 0, 0, 0];
	END IF;
	UPDATE user_collections SET modified = s.stamp WHERE user_id = p_user AND collection_id = 0;
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified), 0, 0, 0];
END $$;

-- sync_delete_all_v1 keeps only the user's quota and number of added names.
CREATE FUNCTION sync_delete_all_v1(p_user BIGINT, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP)
RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, -1, 'epoch');
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.last) THEN
		RETURN ARRAY[1, sync_ms_v1(s.last), 0, 0, 0, 0];
	END IF;
	DELETE FROM user_collections WHERE user_id = p_user AND (collection_id <> 0 OR count = 0 AND quota IS NULL);
	UPDATE user_collections SET modified = 'epoch' WHERE user_id = p_user AND collection_id = 0;
	RETURN ARRAY[0, 0, 0, 0, 0, 0];
END $$;

-- sync_sweep_v1 deletes at most p_limit expired records and batches of a user and returns the number. Like every write
-- it takes the user's lock. It does not wait for the commit to reach the disk: rows restored by a crash are swept again.
CREATE FUNCTION sync_sweep_v1(p_user BIGINT, p_now TIMESTAMP, p_limit BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_coll  INTEGER;
	v_count BIGINT;
	v_bytes BIGINT;
	v_ids   TEXT[];
	v_swept BIGINT := 0;
BEGIN
	PERFORM 1 FROM user_collections WHERE user_id = p_user;
	IF NOT FOUND THEN
		RETURN 0; -- already deleted; the lock would create a row
	END IF;
	PERFORM set_config('synchronous_commit', 'off', true);
	PERFORM sync_lock_v1(p_user, -1, 'epoch');

	FOR v_coll IN SELECT DISTINCT collection_id FROM bsos WHERE user_id = p_user AND expiry <= p_now LOOP
		SELECT array_agg(d.bso_id), count(*), coalesce(sum(d.bytes), 0) INTO v_ids, v_count, v_bytes
			FROM (SELECT bso_id, octet_length(payload) AS bytes FROM bsos
				WHERE user_id = p_user AND collection_id = v_coll AND expiry <= p_now LIMIT p_limit - v_swept) d;
		DELETE FROM bsos WHERE user_id = p_user AND collection_id = v_coll AND bso_id = ANY (v_ids);
		UPDATE user_collections SET count = count - v_count, total_bytes = total_bytes - v_bytes
			WHERE user_id = p_user AND collection_id = v_coll;
		v_swept := v_swept + v_count;
		EXIT WHEN v_swept >= p_limit;
	END LOOP;

	FOR v_coll IN SELECT DISTINCT collection_id FROM batches WHERE user_id = p_user AND expiry <= p_now LOOP
		EXIT WHEN v_swept >= p_limit;
		SELECT array_agg(d.batch_id), count(*) INTO v_ids, v_count
			FROM (SELECT batch_id FROM batches
				WHERE user_id = p_user AND collection_id = v_coll AND expiry <= p_now LIMIT p_limit - v_swept) d;
		DELETE FROM batches WHERE user_id = p_user AND collection_id = v_coll AND batch_id = ANY (v_ids);
		-- The collection existed only for its batches.
		DELETE FROM user_collections c WHERE c.user_id = p_user AND c.collection_id = v_coll AND c.modified = 'epoch'
			AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.user_id = p_user AND b.collection_id = v_coll);
		v_swept := v_swept + v_count;
	END LOOP;
	RETURN v_swept;
END $$;

-- sync_name_v1 returns the ID of a collection name and adds a new name, or returns 0 if the user has added p_max names.
-- It is a separate transaction, so users who add the same name block each other only briefly. On Citus it runs on the
-- coordinator, the only node that writes the reference table.
CREATE FUNCTION sync_name_v1(p_user BIGINT, p_name TEXT, p_max BIGINT)
RETURNS INTEGER LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_id    INTEGER;
	v_count BIGINT;
BEGIN
	PERFORM sync_lock_v1(p_user, -1, 'epoch');
	SELECT collection_id INTO v_id FROM collections WHERE name = p_name;
	IF FOUND THEN
		RETURN v_id;
	END IF;
	SELECT count INTO v_count FROM user_collections WHERE user_id = p_user AND collection_id = 0;
	IF v_count >= p_max THEN
		RETURN 0;
	END IF;
	INSERT INTO collections (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING RETURNING collection_id INTO v_id;
	IF FOUND THEN
		UPDATE user_collections SET count = count + 1 WHERE user_id = p_user AND collection_id = 0;
	ELSE
		SELECT collection_id INTO v_id FROM collections WHERE name = p_name;
	END IF;
	RETURN v_id;
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
SELECT create_distributed_function(
	'sync_sweep_v1(bigint, timestamp, bigint)',
	'p_user', colocate_with => 'user_collections');
