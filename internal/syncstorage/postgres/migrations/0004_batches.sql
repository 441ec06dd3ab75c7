-- Batches: staged records become visible together.

-- sync_staged_v1 returns how staging the records would change a batch's counters.
CREATE FUNCTION sync_staged_v1(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT, p_ids TEXT[], p_sizes BIGINT[],
	OUT o_count BIGINT, OUT o_bytes BIGINT
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	SELECT count(*) FILTER (WHERE s.batch_bso_id IS NULL),
			coalesce(sum(u.size - coalesce(octet_length(s.payload), 0)), 0)
		INTO o_count, o_bytes
		FROM unnest(p_ids, p_sizes) AS u (id, size)
		LEFT JOIN LATERAL (
			SELECT batch_bso_id, payload FROM batch_bsos
			WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch AND batch_bso_id = u.id LIMIT 1
		) s ON true;
END $$;

-- sync_stage_v1 is syncstorage.Stage: a later request replaces only the fields that it sets.
CREATE FUNCTION sync_stage_v1(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[]
) RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO batch_bsos AS s (user_id, collection_id, batch_id, batch_bso_id, sortindex, payload, ttl)
		SELECT p_user, p_coll, p_batch, u.id, u.sortindex, u.payload, u.ttl
			FROM unnest(p_ids, p_sortindexes, p_payloads, p_ttls) AS u (id, sortindex, payload, ttl)
		ON CONFLICT (user_id, collection_id, batch_id, batch_bso_id) DO UPDATE
		SET sortindex = coalesce(EXCLUDED.sortindex, s.sortindex),
			payload = coalesce(EXCLUDED.payload, s.payload),
			ttl = coalesce(EXCLUDED.ttl, s.ttl);
END $$;

-- sync_pending_v1 returns how a commit at p_stamp would change the user's live bytes.
CREATE FUNCTION sync_pending_v1(p_user BIGINT, p_coll INTEGER, p_batch TEXT, p_stamp TIMESTAMP)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_bytes BIGINT;
BEGIN
	SELECT coalesce(sum(
			CASE WHEN s.ttl = 0 THEN 0 ELSE coalesce(octet_length(s.payload), octet_length(b.payload), 0) END
			- coalesce(octet_length(b.payload), 0)), 0)
		INTO v_bytes
		FROM batch_bsos s
		LEFT JOIN LATERAL (
			SELECT payload FROM bsos
			WHERE user_id = p_user AND collection_id = p_coll AND bso_id = s.batch_bso_id AND (expiry IS NULL OR expiry > p_stamp) LIMIT 1
		) b ON true
		WHERE s.user_id = p_user AND s.collection_id = p_coll AND s.batch_id = p_batch;
	RETURN v_bytes;
END $$;

-- sync_append_v1 adds records to a batch, or with p_create to a new batch.
CREATE FUNCTION sync_append_v1(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT, p_create BOOLEAN, p_expiry TIMESTAMP,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_max_records BIGINT, p_max_bytes BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_limit  BIGINT := CASE WHEN p_own THEN coalesce(sync_own_quota_v1(p_user), p_user_limit) ELSE p_user_limit END;
	v_count  BIGINT := 0; -- staged so far
	v_bytes  BIGINT := 0;
	v_more   RECORD;      -- added by the request
	v_new    BIGINT;      -- bytes in total
	v_before BIGINT[];
	v_used   BIGINT[] := '{0,0}';
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0, 0, 0, 0];
	END IF;
	IF NOT p_create THEN
		SELECT count, total_bytes INTO v_count, v_bytes FROM batches
			WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch AND expiry > p_now;
		IF NOT FOUND THEN
			RETURN ARRAY[3, 0, 0, 0, 0, 0];
		END IF;
	END IF;
	v_more := sync_staged_v1(p_user, p_coll, p_batch, p_ids, p_sizes);
	IF v_count + v_more.o_count > p_max_records OR v_bytes + v_more.o_bytes > p_max_bytes THEN
		RETURN ARRAY[4, 0, 0, 0, 0, 0];
	END IF;
	v_new := v_bytes + v_more.o_bytes;
	IF sync_over_v1(p_limit, v_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
		v_before := sync_plus_v1(sync_bytes_v1(p_user, p_now, p_coll, s.stamp), sync_pending_v1(p_user, p_coll, p_batch, s.stamp));
	END IF;

	IF p_create THEN
		-- The collection is the batch's parent row. It stays invisible until a write sets its timestamp.
		IF NOT s.here THEN
			INSERT INTO user_collections (user_id, collection_id, modified) VALUES (p_user, p_coll, 'epoch');
		END IF;
		INSERT INTO batches (user_id, collection_id, batch_id, expiry, count, total_bytes)
			VALUES (p_user, p_coll, p_batch, p_expiry, v_more.o_count, v_more.o_bytes);
	ELSE
		UPDATE batches SET count = v_count + v_more.o_count, total_bytes = v_bytes + v_more.o_bytes
			WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch;
	END IF;
	PERFORM sync_stage_v1(p_user, p_coll, p_batch, p_ids, p_sortindexes, p_payloads, p_ttls);

	-- This reads the whole batch to find the records it replaces, so it runs only under a limit.
	IF v_before IS NOT NULL THEN
		v_used := sync_quota_v1(p_limit, v_limit, p_enforce, v_before,
			sync_plus_v1(sync_bytes_v1(p_user, p_now, p_coll, s.stamp), sync_pending_v1(p_user, p_coll, p_batch, s.stamp)));
	ELSIF p_limit > 0 OR v_limit > 0 THEN
		v_used := sync_plus_v1(sync_bytes_v1(p_user, p_now, p_coll, s.stamp), v_new);
	END IF;
	RETURN ARRAY[0, sync_ms_v1(s.modified), sync_ms_v1(s.modified), v_limit] || v_used;
END $$;

-- sync_commit_v1 stages the last request's records and then merges all of them at once. In a first sync the collection
-- is empty, so nothing is looked up.
CREATE FUNCTION sync_commit_v1(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_max_records BIGINT, p_max_bytes BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_limit  BIGINT := CASE WHEN p_own THEN coalesce(sync_own_quota_v1(p_user), p_user_limit) ELSE p_user_limit END;
	v_count  BIGINT; -- staged so far
	v_bytes  BIGINT;
	v_more   RECORD; -- added by the request
	v_there  BIGINT; -- existing records
	v_old    BIGINT; -- their bytes
	v_new    BIGINT; -- bytes after the write
	v_before BIGINT[];
	v_used   BIGINT[] := '{0,0}';
	v_first  BOOLEAN;     -- the collection is empty, without even expired records
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0, 0, 0, 0];
	END IF;
	SELECT count, total_bytes INTO v_count, v_bytes FROM batches
		WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch AND expiry > p_now;
	IF NOT FOUND THEN
		RETURN ARRAY[3, 0, 0, 0, 0, 0];
	END IF;
	v_more := sync_staged_v1(p_user, p_coll, p_batch, p_ids, p_sizes);
	v_count := v_count + v_more.o_count;
	IF v_count > p_max_records OR v_bytes + v_more.o_bytes > p_max_bytes THEN
		RETURN ARRAY[4, 0, 0, 0, 0, 0];
	END IF;
	PERFORM sync_stage_v1(p_user, p_coll, p_batch, p_ids, p_sortindexes, p_payloads, p_ttls);

	SELECT count = 0 INTO v_first FROM user_collections WHERE user_id = p_user AND collection_id = p_coll;
	IF v_first THEN
		v_there := 0;
		v_old := 0;
		v_new := v_bytes + v_more.o_bytes;
	ELSE
		SELECT count(b.bso_id), coalesce(sum(octet_length(b.payload)), 0),
				coalesce(sum(coalesce(octet_length(u.payload), CASE WHEN b.expiry IS NULL OR b.expiry > s.stamp THEN octet_length(b.payload) END)), 0)
			INTO v_there, v_old, v_new
			FROM batch_bsos u
			LEFT JOIN LATERAL (
				SELECT bso_id, payload, expiry FROM bsos
				WHERE user_id = p_user AND collection_id = p_coll AND bso_id = u.batch_bso_id LIMIT 1
			) b ON true
			WHERE u.user_id = p_user AND u.collection_id = p_coll AND u.batch_id = p_batch;
	END IF;
	IF sync_over_v1(p_limit, v_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;

	PERFORM sync_count_v1(p_user, p_coll, s.stamp, v_count - v_there, v_new - v_old);
	IF v_first THEN
		INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
			SELECT p_user, p_coll, batch_bso_id, sortindex, coalesce(payload, ''), s.stamp, sync_expiry_v1(s.stamp, ttl)
				FROM batch_bsos
				WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch;
	ELSE
		INSERT INTO bsos AS b (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
			SELECT p_user, p_coll, u.batch_bso_id, coalesce(u.sortindex, o.sortindex), coalesce(u.payload, o.payload, ''),
					s.stamp, coalesce(sync_expiry_v1(s.stamp, u.ttl), o.expiry)
				FROM batch_bsos u
				LEFT JOIN LATERAL (
					SELECT sortindex, payload, expiry FROM bsos
					WHERE user_id = p_user AND collection_id = p_coll AND bso_id = u.batch_bso_id AND (expiry IS NULL OR expiry > s.stamp) LIMIT 1
				) o ON true
				WHERE u.user_id = p_user AND u.collection_id = p_coll AND u.batch_id = p_batch
			ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE
			SET sortindex = EXCLUDED.sortindex, payload = EXCLUDED.payload, modified = EXCLUDED.modified, expiry = EXCLUDED.expiry;
	END IF;
	DELETE FROM batches WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch;

	IF p_limit > 0 OR v_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, v_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified), v_limit] || v_used;
END $$;

-- citus

SELECT create_distributed_function('sync_staged_v1(bigint, integer, text, text[], bigint[])');
SELECT create_distributed_function('sync_stage_v1(bigint, integer, text, text[], bigint[], bytea[], bigint[])');
SELECT create_distributed_function('sync_pending_v1(bigint, integer, text, timestamp)');
SELECT create_distributed_function(
	'sync_append_v1(bigint, integer, text, boolean, timestamp, text[], bigint[], bytea[], bigint[], bigint[], bigint, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_commit_v1(bigint, integer, text, text[], bigint[], bytea[], bigint[], bigint[], bigint, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
