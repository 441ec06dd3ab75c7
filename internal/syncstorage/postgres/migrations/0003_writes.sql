-- Put, Post and Restore merge records into a collection like syncstorage.Merge. NULL means that the client did not send
-- the field.
--
-- Put and Post inline sync_lock_v1 and sync_count_v1, whose calls took a tenth of a put's time.

CREATE FUNCTION sync_put_v1(
	p_user BIGINT, p_coll INTEGER,
	p_id TEXT, p_sortindex BIGINT, p_payload BYTEA, p_ttl BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_own         BIGINT;    -- sync_own_quota_v1
	v_limit       BIGINT;    -- the user's quota
	v_last        TIMESTAMP; -- the user's latest timestamp
	v_stamp       TIMESTAMP; -- this write's timestamp
	v_previous    TIMESTAMP; -- the collection's timestamp
	v_coll_bytes  BIGINT;    -- by the counters
	v_user_bytes  BIGINT;
	v_sortindex   BIGINT;    -- the existing record's; an expired record
	v_modified    TIMESTAMP; -- is absent, but the counters include its bytes
	v_expiry      TIMESTAMP;
	v_bytes       BIGINT;
	v_live        BOOLEAN;
	v_found       BOOLEAN;
	v_new         BIGINT;
	v_before      BIGINT[];
	v_used        BIGINT[] := '{0,0}';
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
		RETURN ARRAY[1, sync_ms_v1(v_modified), 0, 0, 0, 0];
	END IF;

	IF p_payload IS NOT NULL THEN
		v_new := octet_length(p_payload);
	ELSE
		v_new := CASE WHEN v_live THEN v_bytes ELSE 0 END;
	END IF;
	IF sync_over_v1(p_limit, v_limit, v_coll_bytes + v_new, v_user_bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;
	-- A record keeps its timestamp if the client sent only a ttl.
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

-- sync_update_v1 merges updates into the records at p_at like syncstorage.Merge and returns the number written.
--
-- The settings leave the planner only a nested loop over the ctids. Without statistics it would prefer a join with
-- a scan of all the user's records.
CREATE FUNCTION sync_update_v1(
	p_user BIGINT, p_stamp TIMESTAMP, p_at TID[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[]
) RETURNS BIGINT LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = off AS $$
DECLARE
	v_written BIGINT;
BEGIN
	UPDATE bsos AS b
		SET sortindex = coalesce(u.sortindex, CASE WHEN b.expiry IS NULL OR b.expiry > p_stamp THEN b.sortindex END),
			payload = coalesce(u.payload, CASE WHEN b.expiry IS NULL OR b.expiry > p_stamp THEN b.payload ELSE '' END),
			-- A record keeps its timestamp if the client sent only a ttl.
			modified = CASE WHEN u.payload IS NULL AND u.sortindex IS NULL AND (b.expiry IS NULL OR b.expiry > p_stamp)
				THEN b.modified ELSE p_stamp END,
			expiry = coalesce(sync_expiry_v1(p_stamp, u.ttl), CASE WHEN b.expiry > p_stamp THEN b.expiry END)
		FROM unnest(p_at, p_sortindexes, p_payloads, p_ttls) AS u (at, sortindex, payload, ttl)
		WHERE b.ctid = u.at AND b.user_id = p_user;
	GET DIAGNOSTICS v_written = ROW_COUNT;
	RETURN v_written;
END $$;

-- p_sizes are the lengths of p_payloads, for statements that do not need the payloads.
--
-- Existing records are looked up once and updated by ctid, which cannot change under the user's lock. New records are
-- inserted; in an empty collection nothing is looked up. An upsert would search each record again and lock its row.
CREATE FUNCTION sync_post_v1(
	p_user BIGINT, p_coll INTEGER,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_own         BIGINT;    -- sync_own_quota_v1
	v_limit       BIGINT;    -- the user's quota
	v_last        TIMESTAMP; -- the user's latest timestamp
	v_stamp       TIMESTAMP; -- this write's timestamp
	v_previous    TIMESTAMP; -- the collection's timestamp
	v_records     BIGINT;    -- the collection's, by the counters
	v_coll_bytes  BIGINT;
	v_user_bytes  BIGINT;
	v_at          TID[];     -- ctids, or NULL for a new record
	v_count       BIGINT;    -- existing records
	v_old         BIGINT;    -- their bytes
	v_new         BIGINT;    -- bytes after the write
	v_before      BIGINT[];
	v_used        BIGINT[] := '{0,0}';
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
		RETURN ARRAY[1, sync_ms_v1(v_previous), 0, 0, 0, 0];
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

-- sync_restore_v1 writes exported records with their timestamps, unless the existing record is newer. p_modified is the
-- collection's timestamp in the export. On success it also returns the user's timestamp and the number of records that
-- it did not replace.
CREATE FUNCTION sync_restore_v1(
	p_user BIGINT, p_coll INTEGER, p_modified TIMESTAMP,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_stamps BIGINT[], p_expiries BIGINT[],
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_limit  BIGINT := CASE WHEN p_own THEN coalesce(sync_own_quota_v1(p_user), p_user_limit) ELSE p_user_limit END;
	v_take   TEXT[]; -- records to write
	v_there  BIGINT; -- existing ones among them, expired or not
	v_old    BIGINT; -- their bytes
	v_new    BIGINT; -- bytes after the write
	v_before BIGINT[];
	v_used   BIGINT[] := '{0,0}';
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.last) THEN
		RETURN ARRAY[1, sync_ms_v1(s.last), 0, 0, 0, 0];
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
	RETURN ARRAY[0, sync_ms_v1(greatest(s.modified, p_modified)), sync_ms_v1(s.modified), v_limit] || v_used
		|| ARRAY[sync_ms_v1(greatest(s.last, p_modified)), cardinality(p_ids) - cardinality(v_take)];
END $$;

-- citus

SELECT create_distributed_function(
	'sync_put_v1(bigint, integer, text, bigint, bytea, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function('sync_update_v1(bigint, timestamp, tid[], bigint[], bytea[], bigint[])');
SELECT create_distributed_function(
	'sync_post_v1(bigint, integer, text[], bigint[], bytea[], bigint[], bigint[], timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_restore_v1(bigint, integer, timestamp, text[], bigint[], bytea[], bigint[], bigint[], timestamp, timestamp, timestamp, bigint, bigint, boolean, boolean)',
	'p_user', colocate_with => 'user_collections');
