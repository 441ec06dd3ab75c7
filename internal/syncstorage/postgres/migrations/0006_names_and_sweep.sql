-- sync_name_v1 gives a name that the server does not know its id, or returns 0
-- when the user has brought in p_max already. It is a transaction of its own,
-- so that users who need the same new name wait for each other no longer than
-- it takes. On Citus it runs on the coordinator, which alone writes the
-- reference table.
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

-- sync_sweep_v1 removes at most p_limit of what has expired of one user, and
-- returns how much. It takes the user's lock like every write, which is why it
-- is done user by user. Nobody waits for it to be on disk: what a crash brings
-- back is swept again.
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
		RETURN 0; -- all deleted since it was found; the lock would make a new row
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
		-- A collection that was there only for its batches has no reason left.
		DELETE FROM user_collections c WHERE c.user_id = p_user AND c.collection_id = v_coll AND c.modified = 'epoch'
			AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.user_id = p_user AND b.collection_id = v_coll);
		v_swept := v_swept + v_count;
	END LOOP;
	RETURN v_swept;
END $$;

-- citus

SELECT create_distributed_function(
	'sync_sweep_v1(bigint, timestamp, bigint)',
	'p_user', colocate_with => 'user_collections');
