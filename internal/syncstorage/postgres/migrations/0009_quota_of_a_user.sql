-- The quota of one user is in the row of collection 0, which every write locks: it
-- is read there, under the lock. NULL: the server's setting holds; 0: no limit.
--
-- The functions that store do what their last versions did, and take p_own, which
-- says that the user's own quota takes the place of p_user_limit. After the stamps
-- they return the quota that held for the user.

-- Citus creates no function in a transaction that has changed shards in parallel.
SET LOCAL citus.multi_shard_modify_mode TO 'sequential';

ALTER TABLE user_collections ADD COLUMN quota BIGINT;

CREATE FUNCTION sync_own_quota_v1(p_user BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT quota FROM user_collections WHERE user_id = p_user AND collection_id = 0);
END $$;

CREATE FUNCTION sync_put_v3(
	p_user BIGINT, p_coll INTEGER,
	p_id TEXT, p_sortindex BIGINT, p_payload BYTEA, p_ttl BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_own         BIGINT;    -- the user's own quota
	v_limit       BIGINT;    -- the quota that holds for the user
	v_last        TIMESTAMP; -- the greatest stamp of the user
	v_stamp       TIMESTAMP; -- of this write
	v_previous    TIMESTAMP; -- of the collection
	v_coll_bytes  BIGINT;    -- by the counters
	v_user_bytes  BIGINT;
	v_sortindex   BIGINT;    -- of the record that is there; what has expired
	v_modified    TIMESTAMP; -- counts as absent, but its bytes are counted still
	v_expiry      TIMESTAMP;
	v_bytes       BIGINT;
	v_live        BOOLEAN;
	v_found       BOOLEAN;
	v_new         BIGINT;
	v_before      BIGINT[];
	v_used        BIGINT[] := '{}';
BEGIN
	-- As in sync_lock_v1.
	LOOP
		SELECT quota INTO v_own FROM user_collections WHERE user_id = p_user AND collection_id = 0 FOR UPDATE;
		EXIT WHEN FOUND;
		INSERT INTO user_collections (user_id, collection_id, modified) VALUES (p_user, 0, 'epoch')
			ON CONFLICT DO NOTHING;
		EXIT WHEN FOUND;
	END LOOP;
	v_limit := CASE WHEN p_own THEN coalesce(v_own, p_user_limit) ELSE p_user_limit END;
	SELECT max(modified), coalesce(max(modified) FILTER (WHERE collection_id = p_coll), 'epoch'),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id = p_coll), 0),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id <> 0), 0)
		INTO v_last, v_previous, v_coll_bytes, v_user_bytes
		FROM user_collections WHERE user_id = p_user;
	v_stamp := greatest(date_bin('10 milliseconds', p_now, 'epoch'), v_last + interval '10 milliseconds');

	SELECT sortindex, modified, expiry, octet_length(payload), expiry IS NULL OR expiry > v_stamp
		INTO v_sortindex, v_modified, v_expiry, v_bytes, v_live
		FROM bsos WHERE user_id = p_user AND collection_id = p_coll AND bso_id = p_id;
	v_found := FOUND;
	IF NOT v_found THEN
		v_bytes := 0;
		v_live := false;
	END IF;
	IF NOT v_live THEN
		v_modified := 'epoch';
		v_sortindex := NULL;
		v_expiry := NULL;
	END IF;
	IF sync_refused_v1(p_modified_since, p_unmodified_since, v_modified) THEN
		RETURN ARRAY[1, sync_ms_v1(v_modified), 0];
	END IF;

	IF p_payload IS NOT NULL THEN
		v_new := octet_length(p_payload);
	ELSE
		v_new := CASE WHEN v_live THEN v_bytes ELSE 0 END;
	END IF;
	IF sync_over_v1(p_limit, v_limit, v_coll_bytes + v_new, v_user_bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;
	-- A record of which only the ttl was sent keeps its stamp.
	IF NOT v_live OR p_payload IS NOT NULL OR p_sortindex IS NOT NULL THEN
		v_modified := v_stamp;
	END IF;

	INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		VALUES (p_user, p_coll, v_stamp, CASE WHEN v_found THEN 0 ELSE 1 END, v_new - v_bytes)
		ON CONFLICT (user_id, collection_id) DO UPDATE
		SET modified = EXCLUDED.modified, count = c.count + EXCLUDED.count,
			total_bytes = c.total_bytes + EXCLUDED.total_bytes;
	INSERT INTO bsos AS b (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
		VALUES (p_user, p_coll, p_id, coalesce(p_sortindex, v_sortindex), coalesce(p_payload, ''), v_modified,
			coalesce(sync_expiry_v1(v_stamp, p_ttl), v_expiry))
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE
		SET sortindex = EXCLUDED.sortindex, modified = EXCLUDED.modified, expiry = EXCLUDED.expiry,
			payload = CASE WHEN v_live AND p_payload IS NULL THEN b.payload ELSE EXCLUDED.payload END;

	IF p_limit > 0 OR v_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, v_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(v_stamp), sync_ms_v1(v_previous), v_limit] || v_used;
END $$;

-- sync_post_v3 is sync_post_v2, whose comments explain it.
CREATE FUNCTION sync_post_v3(
	p_user BIGINT, p_coll INTEGER,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_own         BIGINT;    -- the user's own quota
	v_limit       BIGINT;    -- the quota that holds for the user
	v_last        TIMESTAMP; -- the greatest stamp of the user
	v_stamp       TIMESTAMP; -- of this write
	v_previous    TIMESTAMP; -- of the collection
	v_records     BIGINT;    -- of the collection, by the counters
	v_coll_bytes  BIGINT;
	v_user_bytes  BIGINT;
	v_at          TID[];     -- where the records are, NULL where one is new
	v_count       BIGINT;    -- of records that were there
	v_old         BIGINT;    -- bytes of them
	v_new         BIGINT;    -- bytes that take their place
	v_before      BIGINT[];
	v_used        BIGINT[] := '{}';
BEGIN
	-- As in sync_lock_v1.
	LOOP
		SELECT quota INTO v_own FROM user_collections WHERE user_id = p_user AND collection_id = 0 FOR UPDATE;
		EXIT WHEN FOUND;
		INSERT INTO user_collections (user_id, collection_id, modified) VALUES (p_user, 0, 'epoch')
			ON CONFLICT DO NOTHING;
		EXIT WHEN FOUND;
	END LOOP;
	v_limit := CASE WHEN p_own THEN coalesce(v_own, p_user_limit) ELSE p_user_limit END;
	SELECT max(modified), coalesce(max(modified) FILTER (WHERE collection_id = p_coll), 'epoch'),
			coalesce(max(count) FILTER (WHERE collection_id = p_coll), 0),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id = p_coll), 0),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id <> 0), 0)
		INTO v_last, v_previous, v_records, v_coll_bytes, v_user_bytes
		FROM user_collections WHERE user_id = p_user;
	v_stamp := greatest(date_bin('10 milliseconds', p_now, 'epoch'), v_last + interval '10 milliseconds');
	IF sync_refused_v1(p_modified_since, p_unmodified_since, v_previous) THEN
		RETURN ARRAY[1, sync_ms_v1(v_previous), 0];
	END IF;

	IF v_records = 0 THEN
		v_count := 0;
		v_old := 0;
		SELECT coalesce(sum(size), 0) INTO v_new FROM unnest(p_sizes) AS u (size);
	ELSE
		SELECT array_agg(b.at), count(b.at), coalesce(sum(b.size), 0),
				coalesce(sum(coalesce(u.size, CASE WHEN b.expiry IS NULL OR b.expiry > v_stamp THEN b.size END)), 0)
			INTO v_at, v_count, v_old, v_new
			FROM unnest(p_ids, p_sizes) AS u (id, size)
			LEFT JOIN LATERAL (
				SELECT ctid AS at, octet_length(payload) AS size, expiry FROM bsos
				WHERE user_id = p_user AND collection_id = p_coll AND bso_id = u.id LIMIT 1
			) b ON true;
	END IF;
	IF sync_over_v1(p_limit, v_limit, v_coll_bytes + v_new, v_user_bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;

	INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		VALUES (p_user, p_coll, v_stamp, cardinality(p_ids) - v_count, v_new - v_old)
		ON CONFLICT (user_id, collection_id) DO UPDATE
		SET modified = EXCLUDED.modified, count = c.count + EXCLUDED.count,
			total_bytes = c.total_bytes + EXCLUDED.total_bytes;
	IF v_count > 0 AND sync_update_v1(p_user, v_stamp, v_at, p_sortindexes, p_payloads, p_ttls) <> v_count THEN
		RAISE EXCEPTION 'a record was written without the lock' USING ERRCODE = 'serialization_failure';
	END IF;
	IF v_count < cardinality(p_ids) THEN
		INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
			SELECT p_user, p_coll, u.id, u.sortindex, coalesce(u.payload, ''), v_stamp, sync_expiry_v1(v_stamp, u.ttl)
				FROM unnest(p_ids, p_sortindexes, p_payloads, p_ttls, v_at) AS u (id, sortindex, payload, ttl, at)
				WHERE u.at IS NULL;
	END IF;

	IF p_limit > 0 OR v_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, v_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(v_stamp), sync_ms_v1(v_previous), v_limit] || v_used;
END $$;

CREATE FUNCTION sync_append_v2(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT, p_create BOOLEAN, p_expiry TIMESTAMP,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_max_records BIGINT, p_max_bytes BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_limit  BIGINT := CASE WHEN p_own THEN coalesce(sync_own_quota_v1(p_user), p_user_limit) ELSE p_user_limit END;
	v_count  BIGINT := 0; -- what is staged
	v_bytes  BIGINT := 0;
	v_more   RECORD;      -- what the request adds to it
	v_new    BIGINT;      -- bytes of both
	v_before BIGINT[];
	v_used   BIGINT[] := '{}';
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0];
	END IF;
	IF NOT p_create THEN
		SELECT count, total_bytes INTO v_count, v_bytes FROM batches
			WHERE user_id = p_user AND collection_id = p_coll AND batch_id = p_batch AND expiry > p_now;
		IF NOT FOUND THEN
			RETURN ARRAY[3, 0, 0];
		END IF;
	END IF;
	v_more := sync_staged_v1(p_user, p_coll, p_batch, p_ids, p_sizes);
	IF v_count + v_more.o_count > p_max_records OR v_bytes + v_more.o_bytes > p_max_bytes THEN
		RETURN ARRAY[4, 0, 0];
	END IF;
	v_new := v_bytes + v_more.o_bytes;
	IF sync_over_v1(p_limit, v_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
		v_before := sync_plus_v1(sync_bytes_v1(p_user, p_now, p_coll, s.stamp), sync_pending_v1(p_user, p_coll, p_batch, s.stamp));
	END IF;

	IF p_create THEN
		-- The batch needs its collection as its parent; until a write has
		-- given that a stamp, nobody sees it.
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

	-- What the staged records will replace is looked up only where it decides:
	-- that goes through the whole batch.
	IF v_before IS NOT NULL THEN
		v_used := sync_quota_v1(p_limit, v_limit, p_enforce, v_before,
			sync_plus_v1(sync_bytes_v1(p_user, p_now, p_coll, s.stamp), sync_pending_v1(p_user, p_coll, p_batch, s.stamp)));
	ELSIF p_limit > 0 OR v_limit > 0 THEN
		v_used := sync_plus_v1(sync_bytes_v1(p_user, p_now, p_coll, s.stamp), v_new);
	END IF;
	RETURN ARRAY[0, sync_ms_v1(s.modified), sync_ms_v1(s.modified), v_limit] || v_used;
END $$;

CREATE FUNCTION sync_commit_v3(
	p_user BIGINT, p_coll INTEGER, p_batch TEXT,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_max_records BIGINT, p_max_bytes BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_limit  BIGINT := CASE WHEN p_own THEN coalesce(sync_own_quota_v1(p_user), p_user_limit) ELSE p_user_limit END;
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

-- Nothing stays but the count of the names that the user brought in, and the quota.
CREATE FUNCTION sync_delete_all_v2(p_user BIGINT, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP)
RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, -1, 'epoch');
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.last) THEN
		RETURN ARRAY[1, sync_ms_v1(s.last), 0];
	END IF;
	DELETE FROM user_collections WHERE user_id = p_user AND (collection_id <> 0 OR count = 0 AND quota IS NULL);
	UPDATE user_collections SET modified = 'epoch' WHERE user_id = p_user AND collection_id = 0;
	RETURN ARRAY[0, 0, 0];
END $$;

-- sync_restore_v1 writes records of an export with the stamps that they have in it,
-- unless a later one is here. p_modified is the collection's stamp in the export. It
-- returns, after the stamps, the quota that held, the user's stamp and how many
-- records stayed.
CREATE FUNCTION sync_restore_v1(
	p_user BIGINT, p_coll INTEGER, p_modified TIMESTAMP,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_stamps BIGINT[], p_expiries BIGINT[],
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_limit  BIGINT := CASE WHEN p_own THEN coalesce(sync_own_quota_v1(p_user), p_user_limit) ELSE p_user_limit END;
	v_take   TEXT[]; -- records that are written
	v_there  BIGINT; -- of them those that are there, expired or not
	v_old    BIGINT; -- their bytes
	v_new    BIGINT; -- bytes that take their place
	v_before BIGINT[];
	v_used   BIGINT[] := '{}';
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.last) THEN
		RETURN ARRAY[1, sync_ms_v1(s.last), 0];
	END IF;
	SELECT coalesce(array_agg(u.id), '{}'), count(b.bso_id), coalesce(sum(octet_length(b.payload)), 0), coalesce(sum(octet_length(u.payload)), 0)
		INTO v_take, v_there, v_old, v_new
		FROM unnest(p_ids, p_payloads, p_stamps) AS u (id, payload, stamp)
		LEFT JOIN LATERAL (
			SELECT bso_id, payload, modified, expiry FROM bsos
			WHERE user_id = p_user AND collection_id = p_coll AND bso_id = u.id LIMIT 1
		) b ON true
		WHERE b.bso_id IS NULL OR b.expiry <= s.stamp OR sync_ms_v1(b.modified) <= u.stamp;
	IF sync_over_v1(p_limit, v_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;
	INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		VALUES (p_user, p_coll, p_modified, cardinality(v_take) - v_there, v_new - v_old)
		ON CONFLICT (user_id, collection_id) DO UPDATE
		SET modified = greatest(c.modified, EXCLUDED.modified), count = c.count + EXCLUDED.count,
			total_bytes = c.total_bytes + EXCLUDED.total_bytes;
	INSERT INTO bsos AS b (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
		SELECT p_user, p_coll, u.id, u.sortindex, u.payload, sync_moment_v1(u.stamp), sync_moment_v1(u.expiry)
			FROM unnest(p_ids, p_sortindexes, p_payloads, p_stamps, p_expiries) AS u (id, sortindex, payload, stamp, expiry)
			WHERE u.id = ANY (v_take)
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE
		SET sortindex = EXCLUDED.sortindex, payload = EXCLUDED.payload, modified = EXCLUDED.modified, expiry = EXCLUDED.expiry;
	IF p_limit > 0 OR v_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, v_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(greatest(s.modified, p_modified)), sync_ms_v1(s.modified), v_limit,
		sync_ms_v1(greatest(s.last, p_modified)), cardinality(p_ids) - cardinality(v_take)] || v_used;
END $$;

-- sync_moment_v1 is the moment of milliseconds since the epoch; NULL stays NULL.
CREATE FUNCTION sync_moment_v1(p_ms BIGINT)
RETURNS TIMESTAMP LANGUAGE sql IMMUTABLE AS $$
	SELECT timestamp 'epoch' + p_ms * interval '1 millisecond'
$$;

-- citus

SELECT create_distributed_function('sync_own_quota_v1(bigint)');
SELECT create_distributed_function('sync_moment_v1(bigint)');
SELECT create_distributed_function(
	'sync_put_v3(bigint, integer, text, bigint, bytea, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_post_v3(bigint, integer, text[], bigint[], bytea[], bigint[], bigint[], timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_append_v2(bigint, integer, text, boolean, timestamp, text[], bigint[], bytea[], bigint[], bigint[], bigint, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_commit_v3(bigint, integer, text, text[], bigint[], bytea[], bigint[], bigint[], bigint, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_delete_all_v2(bigint, timestamp, timestamp)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_restore_v1(bigint, integer, timestamp, text[], bigint[], bytea[], bigint[], bigint[], timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
