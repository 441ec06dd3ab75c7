-- Put and Post: records merged into a collection by the rules of
-- syncstorage.Merge. What is NULL was not sent.

CREATE FUNCTION sync_put_v1(
	p_user BIGINT, p_coll INTEGER,
	p_id TEXT, p_sortindex BIGINT, p_payload BYTEA, p_ttl BIGINT,
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_sortindex BIGINT;    -- of the record that is there; what has expired
	v_modified  TIMESTAMP; -- counts as absent, but its bytes are counted still
	v_expiry    TIMESTAMP;
	v_bytes     BIGINT;
	v_live      BOOLEAN;
	v_found     BOOLEAN;
	v_new       BIGINT;
	v_before    BIGINT[];
	v_used      BIGINT[] := '{}';
BEGIN
	SELECT sortindex, modified, expiry, octet_length(payload), expiry IS NULL OR expiry > s.stamp
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
	IF sync_over_v1(p_limit, p_user_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;
	-- A record of which only the ttl was sent keeps its stamp.
	IF NOT v_live OR p_payload IS NOT NULL OR p_sortindex IS NOT NULL THEN
		v_modified := s.stamp;
	END IF;

	PERFORM sync_count_v1(p_user, p_coll, s.stamp, CASE WHEN v_found THEN 0 ELSE 1 END, v_new - v_bytes);
	INSERT INTO bsos AS b (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
		VALUES (p_user, p_coll, p_id, coalesce(p_sortindex, v_sortindex), coalesce(p_payload, ''), v_modified,
			coalesce(sync_expiry_v1(s.stamp, p_ttl), v_expiry))
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE
		SET sortindex = EXCLUDED.sortindex, modified = EXCLUDED.modified, expiry = EXCLUDED.expiry,
			payload = CASE WHEN v_live AND p_payload IS NULL THEN b.payload ELSE EXCLUDED.payload END;

	IF p_limit > 0 OR p_user_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, p_user_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified)] || v_used;
END $$;

-- p_sizes are the lengths of p_payloads, for the statements that need no more.
CREATE FUNCTION sync_post_v1(
	p_user BIGINT, p_coll INTEGER,
	p_ids TEXT[], p_sortindexes BIGINT[], p_payloads BYTEA[], p_ttls BIGINT[], p_sizes BIGINT[],
	p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP,
	p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	s sync_state_v1 := sync_lock_v1(p_user, p_coll, p_now);
	v_count  BIGINT; -- of records that were there
	v_old    BIGINT; -- bytes of them
	v_new    BIGINT; -- bytes that take their place
	v_before BIGINT[];
	v_used   BIGINT[] := '{}';
BEGIN
	IF sync_refused_v1(p_modified_since, p_unmodified_since, s.modified) THEN
		RETURN ARRAY[1, sync_ms_v1(s.modified), 0];
	END IF;

	SELECT count(b.bso_id), coalesce(sum(octet_length(b.payload)), 0),
			coalesce(sum(coalesce(u.size, CASE WHEN b.expiry IS NULL OR b.expiry > s.stamp THEN octet_length(b.payload) END)), 0)
		INTO v_count, v_old, v_new
		FROM unnest(p_ids, p_sizes) AS u (id, size)
		LEFT JOIN LATERAL (
			SELECT bso_id, payload, expiry FROM bsos
			WHERE user_id = p_user AND collection_id = p_coll AND bso_id = u.id LIMIT 1
		) b ON true;
	IF sync_over_v1(p_limit, p_user_limit, s.coll_bytes + v_new, s.bytes + v_new) THEN
		v_before := sync_bytes_v1(p_user, p_now, p_coll, NULL);
	END IF;

	PERFORM sync_count_v1(p_user, p_coll, s.stamp, cardinality(p_ids) - v_count, v_new - v_old);
	IF array_position(p_sizes, NULL) IS NULL THEN
		-- Every payload was sent, so a stored record keeps its sortindex and its
		-- expiry at most, if it is live. The conflict has found it already. Citus takes
		-- no variable in what a conflict does: EXCLUDED.modified is the stamp.
		INSERT INTO bsos AS b (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
			SELECT p_user, p_coll, u.id, u.sortindex, u.payload, s.stamp, sync_expiry_v1(s.stamp, u.ttl)
				FROM unnest(p_ids, p_sortindexes, p_payloads, p_ttls) AS u (id, sortindex, payload, ttl)
			ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE
			SET payload = EXCLUDED.payload, modified = EXCLUDED.modified,
				sortindex = coalesce(EXCLUDED.sortindex, CASE WHEN b.expiry IS NULL OR b.expiry > EXCLUDED.modified THEN b.sortindex END),
				expiry = coalesce(EXCLUDED.expiry, CASE WHEN b.expiry > EXCLUDED.modified THEN b.expiry END);
	ELSE
		-- The whole record is made here, from what was sent and what is live, so
		-- that a conflict has no more to decide.
		INSERT INTO bsos AS b (user_id, collection_id, bso_id, sortindex, payload, modified, expiry)
			SELECT p_user, p_coll, u.id, coalesce(u.sortindex, o.sortindex), coalesce(u.payload, o.payload, ''),
					CASE WHEN u.payload IS NULL AND u.sortindex IS NULL THEN coalesce(o.modified, s.stamp) ELSE s.stamp END,
					coalesce(sync_expiry_v1(s.stamp, u.ttl), o.expiry)
				FROM unnest(p_ids, p_sortindexes, p_payloads, p_ttls) AS u (id, sortindex, payload, ttl)
				LEFT JOIN LATERAL (
					SELECT sortindex, payload, modified, expiry FROM bsos
					WHERE user_id = p_user AND collection_id = p_coll AND bso_id = u.id AND (expiry IS NULL OR expiry > s.stamp) LIMIT 1
				) o ON true
			ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE
			SET sortindex = EXCLUDED.sortindex, payload = EXCLUDED.payload, modified = EXCLUDED.modified, expiry = EXCLUDED.expiry;
	END IF;

	IF p_limit > 0 OR p_user_limit > 0 THEN
		v_used := sync_quota_v1(p_limit, p_user_limit, p_enforce, v_before, sync_bytes_v1(p_user, p_now, p_coll, NULL));
	END IF;
	RETURN ARRAY[0, sync_ms_v1(s.stamp), sync_ms_v1(s.modified)] || v_used;
END $$;

-- citus

SELECT create_distributed_function(
	'sync_put_v1(bigint, integer, text, bigint, bytea, bigint, timestamp, timestamp, timestamp, bigint, bigint, boolean)',
	'p_user', colocate_with => 'user_collections');
SELECT create_distributed_function(
	'sync_post_v1(bigint, integer, text[], bigint[], bytea[], bigint[], bigint[], timestamp, timestamp, timestamp, bigint, bigint, boolean)',
	'p_user', colocate_with => 'user_collections');
