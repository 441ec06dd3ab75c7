-- A first sync meets no records: sync_commit_v2 looks none up for it, where
-- sync_commit_v1 looked up each of them twice. What else it does is the same:
-- the records of the last request are staged like the others; then all are
-- merged at once.
CREATE FUNCTION sync_commit_v2(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_max_records BIGINT, p_max_bytes BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_count  BIGINT; -- what is staged
	v_bytes  BIGINT;
	v_more   RECORD; -- what the request adds to it
	v_there  BIGINT; -- records that were in the collection
	v_old    BIGINT; -- bytes of them
	v_new    BIGINT; -- bytes that take their place
	v_before BIGINT[];
	v_used   BIGINT[] := '{}';
	v_first  BOOLEAN;     -- the collection has no record, expired ones included
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0];
	END IF;
	SELECT count, total_bytes INTO v_count, v_bytes FROM batches
		WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch AND expiry > p_now;
	IF NOT FOUND THEN
		RETURN ARRAY[3, 0, 0];
	END IF;
	v_more := sync_staged_v1(p_user, p_coll, p_batch, p_ids, p_sizes);
	v_count := v_count + v_more.o_count;
	IF v_count > p_max_records OR v_bytes + v_more.o_bytes > p_max_bytes THEN
		RETURN ARRAY[4, 0, 0];
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
	IF sync_over_v1(p_limit, p_user_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
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

	IF p_limit > 0 OR p_user_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, p_user_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified)] || v_used;
END $$;

-- citus

SELECT create_distributed_function(
	'sync_commit_v2(bigint, integer, text, text[], bigint[], bytea[], bigint[], bigint[], bigint, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean)',
	'p_user', colocate_with => 'user_collections');
