-- What the writing functions have in common.
--
-- A write is one function call outside a transaction block: one round trip and
-- one transaction, and on Citus one message to the node that has the user. All
-- functions are VOLATILE, so that each of their statements sees what was
-- committed before it: they take the user's lock first and read what they
-- decide on in later statements. (A single statement that waits for the lock
-- sees the other rows as they were before the wait.)
--
-- They answer with an array of a status, the new stamp and the collection's stamp
-- before; those that store add the live bytes of the collection and of the user,
-- where there is a limit. Stamps are milliseconds since the epoch.
--
--   0  done
--   1  the precondition does not hold; the stamp is the addressed resource's
--   2  the record is not there
--   3  the batch is not there
--   4  the batch would be too large
--
-- These are told before anything is written. A quota is held against what the
-- write has made of the user's bytes; its refusal is raised, as SQLSTATE
-- HF001, and so undoes the write.
--
-- Where records are looked up beside others, each is a LATERAL lookup of one:
-- as a plain join, on a table without statistics, it would read the whole
-- collection for each.
--
-- A function is never replaced: a change gets the next number, because two
-- releases may be at work on one database.

CREATE TYPE sync_state_v1 AS (
	last       TIMESTAMP, -- the greatest stamp of the user
	stamp      TIMESTAMP, -- of this write
	here       BOOLEAN,   -- the collection has a row
	modified   TIMESTAMP, -- its stamp; the epoch when it does not exist
	bytes      BIGINT,    -- of the user by the counters, expired records included
	coll_bytes BIGINT     -- of the collection, likewise
);

-- sync_lock_v1 waits for the user's lock and reads what every write needs.
CREATE FUNCTION sync_lock_v1(p_user BIGINT, p_coll INTEGER, p_now TIMESTAMP)
RETURNS sync_state_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v sync_state_v1;
BEGIN
	-- Whoever deletes all of the user's data deletes the lock too; those who
	-- waited for it begin again.
	LOOP
		PERFORM 1 FROM user_collections WHERE user_id = p_user AND collection_id = 0 FOR UPDATE;
		EXIT WHEN FOUND;
		INSERT INTO user_collections (user_id, collection_id, modified) VALUES (p_user, 0, 'epoch')
			ON CONFLICT DO NOTHING;
		EXIT WHEN FOUND;
	END LOOP;
	SELECT max(modified), coalesce(bool_or(collection_id = p_coll), false),
			coalesce(max(modified) FILTER (WHERE collection_id = p_coll), 'epoch'),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id <> 0), 0),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id = p_coll), 0)
		INTO v.last, v.here, v.modified, v.bytes, v.coll_bytes
		FROM user_collections WHERE user_id = p_user;
	v.stamp := greatest(date_bin('10 milliseconds', p_now, 'epoch'), v.last + interval '10 milliseconds');
	RETURN v;
END $$;

-- sync_refused_v1 is Precondition.Check.
CREATE FUNCTION sync_refused_v1(p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP, p_modified TIMESTAMP)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce(p_modified > p_unmodified_since, false) OR coalesce(p_modified <= p_modified_since, false)
$$;

-- sync_expiry_v1 is ExpiresAt; NULL, for no ttl, stays NULL.
CREATE FUNCTION sync_expiry_v1(p_stamp TIMESTAMP, p_ttl BIGINT)
RETURNS TIMESTAMP LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN p_ttl IS NOT NULL
		THEN least(p_stamp + p_ttl * interval '1 second', timestamp '9999-12-31 23:59:59.99') END
$$;

CREATE FUNCTION sync_ms_v1(p_moment TIMESTAMP)
RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
	SELECT (date_part('epoch', p_moment) * 1000)::bigint
$$;

-- sync_count_v1 moves the stamp and the counters of a collection, or creates
-- it.
CREATE FUNCTION sync_count_v1(p_user BIGINT, p_coll INTEGER, p_stamp TIMESTAMP, p_count BIGINT, p_bytes BIGINT)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		VALUES (p_user, p_coll, p_stamp, p_count, p_bytes)
		ON CONFLICT (user_id, collection_id) DO UPDATE
		SET modified = EXCLUDED.modified, count = c.count + EXCLUDED.count,
			total_bytes = c.total_bytes + EXCLUDED.total_bytes;
END $$;

-- sync_bytes_v1 is the live bytes of the collection p_coll and of the user: what
-- the counters have, less what has expired. Each collection has its own horizon
-- (syncstorage.Horizon); p_coll's is p_stamp when that is given.
CREATE FUNCTION sync_bytes_v1(p_user BIGINT, p_now TIMESTAMP, p_coll INTEGER, p_stamp TIMESTAMP)
RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_latest       TIMESTAMP;
	v_coll         BIGINT;
	v_coll_expired BIGINT;
	v_bytes        BIGINT;
	v_expired      BIGINT;
BEGIN
	SELECT coalesce(sum(total_bytes) FILTER (WHERE collection_id = p_coll), 0),
			coalesce(sum(total_bytes) FILTER (WHERE collection_id <> 0), 0), greatest(max(modified), p_now, p_stamp)
		INTO v_coll, v_bytes, v_latest
		FROM user_collections WHERE user_id = p_user;
	SELECT coalesce(sum(octet_length(b.payload)) FILTER (WHERE b.collection_id = p_coll), 0), coalesce(sum(octet_length(b.payload)), 0)
		INTO v_coll_expired, v_expired
		FROM bsos b JOIN user_collections c ON c.user_id = b.user_id AND c.collection_id = b.collection_id
		WHERE b.user_id = p_user AND c.user_id = p_user AND b.expiry <= v_latest
			AND b.expiry <= greatest(p_now, c.modified, CASE WHEN c.collection_id = p_coll THEN p_stamp END);
	RETURN ARRAY[v_coll - v_coll_expired, v_bytes - v_expired];
END $$;

-- sync_plus_v1 is what sync_bytes_v1 has found after a change of the collection.
CREATE FUNCTION sync_plus_v1(p_used BIGINT[], p_bytes BIGINT)
RETURNS BIGINT[] LANGUAGE sql IMMUTABLE AS $$
	SELECT ARRAY[p_used[1] + p_bytes, p_used[2] + p_bytes]
$$;

-- sync_over_v1 reports whether bytes of a collection or of its user are over a
-- limit.
CREATE FUNCTION sync_over_v1(p_limit BIGINT, p_user_limit BIGINT, p_coll_bytes BIGINT, p_bytes BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT p_limit > 0 AND p_coll_bytes > p_limit OR p_user_limit > 0 AND p_bytes > p_user_limit
$$;

-- sync_quota_v1 refuses a write where Quota.Check does. p_before is NULL where
-- the counters have shown that the write cannot break a limit.
CREATE FUNCTION sync_quota_v1(p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_before BIGINT[], p_after BIGINT[])
RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF p_enforce AND (p_limit > 0 AND p_after[1] > p_limit AND p_after[1] > p_before[1]
			OR p_user_limit > 0 AND p_after[2] > p_user_limit AND p_after[2] > p_before[2]) THEN
		RAISE EXCEPTION 'the quota is used up' USING ERRCODE = 'HF001';
	END IF;
	RETURN p_after;
END $$;

-- citus

-- Each runs where the function that calls it runs.
SELECT create_distributed_function('sync_lock_v1(bigint, integer, timestamp)');
SELECT create_distributed_function('sync_refused_v1(timestamp, timestamp, timestamp)');
SELECT create_distributed_function('sync_expiry_v1(timestamp, bigint)');
SELECT create_distributed_function('sync_ms_v1(timestamp)');
SELECT create_distributed_function('sync_count_v1(bigint, integer, timestamp, bigint, bigint)');
SELECT create_distributed_function('sync_bytes_v1(bigint, timestamp, integer, timestamp)');
SELECT create_distributed_function('sync_plus_v1(bigint[], bigint)');
SELECT create_distributed_function('sync_over_v1(bigint, bigint, bigint, bigint)');
SELECT create_distributed_function('sync_quota_v1(bigint, bigint, boolean, bigint[], bigint[])');
