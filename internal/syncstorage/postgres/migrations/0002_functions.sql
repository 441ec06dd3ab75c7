-- Shared functions for writes.
--
-- A write is one function call outside a transaction block: one round trip, one transaction, and on Citus one message to
-- the node with the user's shard. All functions are VOLATILE, so each statement sees everything committed before it: they
-- take the user's lock first and read in later statements. A single statement that waits for the lock would read the
-- other rows as they were before the wait.
--
-- A write returns six numbers: a status, the collection's new and previous timestamps in milliseconds since the epoch,
-- and, if it stores records, the user's quota and, if there is a limit, the live bytes of the collection and of the
-- user. Unused numbers are 0.
--
--   0  success
--   1  precondition failed; the timestamp is the addressed resource's
--   2  no such record
--   3  no such batch
--   4  the batch would be too large
--
-- The functions detect these before they write. They check a quota after the write and raise SQLSTATE HF001 if it is
-- exceeded, which rolls back the write.
--
-- Joins that look up records use LATERAL with LIMIT 1: without statistics, the planner would read the whole collection
-- for each record of a plain join.
--
-- A function is never replaced. A changed function gets the next number, because servers of two releases may share a
-- database.

CREATE TYPE sync_state_v1 AS (
	last       TIMESTAMP, -- the user's latest timestamp
	stamp      TIMESTAMP, -- this write's timestamp
	here       BOOLEAN,   -- the collection has a row
	modified   TIMESTAMP, -- the collection's timestamp; the epoch if it does not exist
	bytes      BIGINT,    -- the user's bytes by the counters, including expired records
	coll_bytes BIGINT     -- the collection's bytes, likewise
);

-- sync_lock_v1 takes the user's lock and reads the state that every write needs.
CREATE FUNCTION sync_lock_v1(p_user BIGINT, p_coll INTEGER, p_now TIMESTAMP)
RETURNS sync_state_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v sync_state_v1;
BEGIN
	-- Deleting all of a user's data deletes this row, so waiting writes retry.
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

-- sync_expiry_v1 is ExpiresAt; NULL means no ttl.
CREATE FUNCTION sync_expiry_v1(p_stamp TIMESTAMP, p_ttl BIGINT)
RETURNS TIMESTAMP LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN p_ttl IS NOT NULL
		THEN least(p_stamp + p_ttl * interval '1 second', timestamp '9999-12-31 23:59:59.99') END
$$;

CREATE FUNCTION sync_ms_v1(p_moment TIMESTAMP)
RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
	SELECT (date_part('epoch', p_moment) * 1000)::bigint
$$;

CREATE FUNCTION sync_moment_v1(p_ms BIGINT)
RETURNS TIMESTAMP LANGUAGE sql IMMUTABLE AS $$
	SELECT timestamp 'epoch' + p_ms * interval '1 millisecond'
$$;

-- sync_count_v1 updates a collection's timestamp and counters, or creates the collection.
CREATE FUNCTION sync_count_v1(p_user BIGINT, p_coll INTEGER, p_stamp TIMESTAMP, p_count BIGINT, p_bytes BIGINT)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO user_collections AS c (user_id, collection_id, modified, count, total_bytes)
		VALUES (p_user, p_coll, p_stamp, p_count, p_bytes)
		ON CONFLICT (user_id, collection_id) DO UPDATE
		SET modified = EXCLUDED.modified, count = c.count + EXCLUDED.count,
			total_bytes = c.total_bytes + EXCLUDED.total_bytes;
END $$;

-- sync_own_quota_v1 returns the user's quota, which replaces p_user_limit if p_own is set. NULL: the server's limit; 0:
-- no limit.
CREATE FUNCTION sync_own_quota_v1(p_user BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT quota FROM user_collections WHERE user_id = p_user AND collection_id = 0);
END $$;

-- sync_bytes_v1 returns the live bytes of collection p_coll and of the user: the counters minus expired records. Records
-- expire at a different time in each collection (syncstorage.Horizon); in p_coll at p_stamp unless it is NULL.
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

-- sync_plus_v1 adds bytes of the collection to sync_bytes_v1's result.
CREATE FUNCTION sync_plus_v1(p_used BIGINT[], p_bytes BIGINT)
RETURNS BIGINT[] LANGUAGE sql IMMUTABLE AS $$
	SELECT ARRAY[p_used[1] + p_bytes, p_used[2] + p_bytes]
$$;

CREATE FUNCTION sync_over_v1(p_limit BIGINT, p_user_limit BIGINT, p_coll_bytes BIGINT, p_bytes BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT p_limit > 0 AND p_coll_bytes > p_limit OR p_user_limit > 0 AND p_bytes > p_user_limit
$$;

-- sync_quota_v1 fails if Quota.Check does. p_before is NULL if the counters prove that the write cannot exceed a limit.
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
SELECT create_distributed_function('sync_moment_v1(bigint)');
SELECT create_distributed_function('sync_count_v1(bigint, integer, timestamp, bigint, bigint)');
SELECT create_distributed_function('sync_own_quota_v1(bigint)');
SELECT create_distributed_function('sync_bytes_v1(bigint, timestamp, integer, timestamp)');
SELECT create_distributed_function('sync_plus_v1(bigint[], bigint)');
SELECT create_distributed_function('sync_over_v1(bigint, bigint, bigint, bigint)');
SELECT create_distributed_function('sync_quota_v1(bigint, bigint, boolean, bigint[], bigint[])');
