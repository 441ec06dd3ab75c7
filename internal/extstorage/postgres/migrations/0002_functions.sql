-- Shared functions for writes.
--
-- A write is one function call: one round trip, one transaction, and on Citus one message to the node with the tenant's
-- shard. The functions are VOLATILE, so each statement sees everything committed before it: they lock the install
-- first and read in later statements. They implement the rules of package extstorage.
--
-- On Citus, statements on tables call none of these functions, because the functions run on the caller's node.
--
-- A function is never replaced. A changed function gets the next number, because servers of two releases may share a
-- database.

-- An install's counters and last change number. The first three count records live at counted_at.
CREATE TYPE ext_counters_v1 AS (
	bytes      BIGINT,
	keys       BIGINT,
	namespaces BIGINT,
	seq        BIGINT,
	counted_at TIMESTAMPTZ
);

-- A record without its value and metadata.
CREATE TYPE ext_header_v1 AS (
	present        BOOLEAN,
	revision       BIGINT,
	seq            BIGINT,
	created_at     TIMESTAMPTZ,
	updated_at     TIMESTAMPTZ,
	expires_at     TIMESTAMPTZ,
	value_bytes    BIGINT,
	metadata_bytes BIGINT
);

-- ext_ms_v1 returns milliseconds since the epoch, or 0 for NULL. AT TIME ZONE makes it immutable, so PostgreSQL inlines
-- it; date_part of a timestamptz is not immutable, and a put takes twice as long.
CREATE FUNCTION ext_ms_v1(p_moment TIMESTAMPTZ)
RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce((date_part('epoch', p_moment AT TIME ZONE 'UTC') * 1000)::bigint, 0)
$$;

-- ext_tagged_v1 is Tags.has; p_tags is '*' or an array of numbers.
CREATE FUNCTION ext_tagged_v1(p_tags TEXT, p_seq BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT p_seq <> 0 AND CASE WHEN p_tags = '*' THEN true ELSE p_seq = ANY (p_tags::bigint[]) END
$$;

-- ext_refused_v1 is the opposite of Precondition.Check, or of CheckDelete with p_delete. NULL means an unset condition.
CREATE FUNCTION ext_refused_v1(p_guard BIGINT, p_match TEXT, p_none_match TEXT, p_delete BOOLEAN, p_revision BIGINT, p_seq BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT p_match IS NOT NULL AND NOT ext_tagged_v1(p_match, p_seq)
		OR p_none_match IS NOT NULL AND ext_tagged_v1(p_none_match, p_seq)
		OR coalesce(p_guard <> p_revision, false)
		OR p_delete AND p_revision = 0 AND num_nonnulls(p_guard, p_match, p_none_match) > 0
$$;

-- ext_closed_v1 raises the SQLSTATE for a closed owner.
CREATE FUNCTION ext_closed_v1()
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the install was deleted' USING ERRCODE = 'HF410';
END $$;

-- ext_row_v1 creates an owner's counter row unless it exists.
CREATE FUNCTION ext_row_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO ext_storage_usage (tenant_id, extension_install_id, updated_at, counted_at) VALUES (p_tenant, p_install, p_now, p_now)
		ON CONFLICT DO NOTHING;
END $$;

-- ext_tenant_v1 prevents closing the tenant until the transaction ends; it fails if the tenant is closed.
CREATE FUNCTION ext_tenant_v1(p_tenant UUID, p_now TIMESTAMPTZ)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_closed BIGINT;
BEGIN
	LOOP
		SELECT closed_seq INTO v_closed FROM ext_storage_usage
			WHERE tenant_id = p_tenant AND extension_install_id = '00000000-0000-0000-0000-000000000000' FOR SHARE;
		IF FOUND THEN
			IF v_closed IS NOT NULL THEN
				PERFORM ext_closed_v1();
			END IF;
			RETURN;
		END IF;
		PERFORM ext_row_v1(p_tenant, '00000000-0000-0000-0000-000000000000', p_now);
	END LOOP;
END $$;

-- ext_lock_v1 locks an install's counter row, and fails if the install is closed.
CREATE FUNCTION ext_lock_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS ext_counters_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u        ext_counters_v1;
	v_closed BIGINT;
BEGIN
	LOOP
		SELECT bytes_used, keys_count, namespaces_count, change_seq, counted_at, closed_seq
			INTO u.bytes, u.keys, u.namespaces, u.seq, u.counted_at, v_closed
			FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
		IF FOUND THEN
			IF v_closed IS NOT NULL THEN
				PERFORM ext_closed_v1();
			END IF;
			RETURN u;
		END IF;
		IF p_install <> '00000000-0000-0000-0000-000000000000' THEN
			PERFORM ext_tenant_v1(p_tenant, p_now);
		END IF;
		PERFORM ext_row_v1(p_tenant, p_install, p_now);
	END LOOP;
END $$;

-- ext_count_v1 writes an install's counters.
CREATE FUNCTION ext_count_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, u ext_counters_v1)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	UPDATE ext_storage_usage
		SET bytes_used = u.bytes, keys_count = u.keys, namespaces_count = u.namespaces, change_seq = u.seq, counted_at = u.counted_at,
			updated_at = p_now
		WHERE tenant_id = p_tenant AND extension_install_id = p_install;
END $$;

CREATE FUNCTION ext_keys_v1(p_tenant UUID, p_install UUID, p_namespace TEXT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN coalesce((SELECT keys_count FROM ext_storage_namespaces
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace), 0);
END $$;

-- ext_count_keys_v1 writes a namespace's number of keys, or deletes the row if there are no keys.
CREATE FUNCTION ext_count_keys_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_keys BIGINT)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF p_keys = 0 THEN
		DELETE FROM ext_storage_namespaces
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace;
		RETURN;
	END IF;
	INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count)
		VALUES (p_tenant, p_install, p_namespace, p_keys)
		ON CONFLICT (tenant_id, extension_install_id, namespace) DO UPDATE SET keys_count = EXCLUDED.keys_count;
END $$;

-- ext_recount_v1 updates an install's counters to p_now: it subtracts records that expired since counted_at. The
-- caller holds the lock.
CREATE FUNCTION ext_recount_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, u ext_counters_v1)
RETURNS ext_counters_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_by   INTEGER := CASE WHEN p_now > u.counted_at THEN -1 ELSE 1 END;
	v_of   RECORD;
	v_keys BIGINT;
BEGIN
	FOR v_of IN SELECT namespace, count(*) AS keys, sum(value_bytes::bigint + metadata_bytes)::bigint AS bytes FROM ext_storage_records
		WHERE tenant_id = p_tenant AND extension_install_id = p_install
			AND ttl_expires_at > least(u.counted_at, p_now) AND ttl_expires_at <= greatest(u.counted_at, p_now)
		GROUP BY namespace
	LOOP
		v_keys := ext_keys_v1(p_tenant, p_install, v_of.namespace);
		IF v_keys = 0 THEN
			u.namespaces := u.namespaces + 1;
		END IF;
		v_keys := v_keys + v_by * v_of.keys;
		IF v_keys = 0 THEN
			u.namespaces := u.namespaces - 1;
		END IF;
		PERFORM ext_count_keys_v1(p_tenant, p_install, v_of.namespace, v_keys);
		u.keys := u.keys + v_by * v_of.keys;
		u.bytes := u.bytes + v_by * v_of.bytes;
	END LOOP;
	u.counted_at := p_now;
	PERFORM ext_count_v1(p_tenant, p_install, p_now, u);
	RETURN u;
END $$;

-- citus

-- Each runs where the function that calls it runs.
SELECT create_distributed_function('ext_ms_v1(timestamptz)');
SELECT create_distributed_function('ext_tagged_v1(text, bigint)');
SELECT create_distributed_function('ext_refused_v1(bigint, text, text, boolean, bigint, bigint)');
SELECT create_distributed_function('ext_closed_v1()');
SELECT create_distributed_function('ext_row_v1(uuid, uuid, timestamptz)');
SELECT create_distributed_function('ext_tenant_v1(uuid, timestamptz)');
SELECT create_distributed_function('ext_lock_v1(uuid, uuid, timestamptz)');
SELECT create_distributed_function('ext_count_v1(uuid, uuid, timestamptz, ext_counters_v1)');
SELECT create_distributed_function('ext_keys_v1(uuid, uuid, text)');
SELECT create_distributed_function('ext_count_keys_v1(uuid, uuid, text, bigint)');
SELECT create_distributed_function('ext_recount_v1(uuid, uuid, timestamptz, ext_counters_v1)');
