-- Writes. ext_apply_v1 does all operations of a request, each an element of its
-- arrays, under the install's lock: one round trip, one transaction, and on
-- Citus one message to the node that has the tenant. It is VOLATILE, so that
-- each of its statements sees what was committed before it: it takes the lock
-- first and reads what it decides on in later statements. The rules are those
-- of package extstorage (Op.Judge, Quota), restated.
--
-- All operations are judged before one is done, so what is refused has written
-- nothing. Only where a quota stands in the way expired records are removed
-- first; when that was not enough, the refusal is raised, as SQLSTATE HF002
-- with the answer as its message, and so undoes the removal.
--
-- It answers with an array: status, index of the operation, and numbers by the
-- status.
--
--   0  done. The index is 1 when it was done before (p_once). The install's
--      bytes, keys and namespaces follow, and for each operation revision,
--      change, whether the record was made, whether it was there, when it was
--      made and changed and when it expires (milliseconds; 0: never)
--   1  a guard does not hold; revision and change of the record, 0: none
--   2  the schema is not the active one
--   3  a quota: 1 namespaces, 2 keys, 3 bytes; what would be used; 1 when
--      expired records are left that could go
--   4  the idempotency key was used for another request
--
-- A function is never replaced: a change gets the next number, because two
-- releases may be at work on one database.

-- What an install has, and the number of its last change.
CREATE TYPE ext_counters_v1 AS (
	bytes      BIGINT,
	keys       BIGINT,
	namespaces BIGINT,
	seq        BIGINT
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

-- ext_ms_v1 is a moment in milliseconds; NULL is 0. Of a time with a zone there
-- is no immutable date_part, and only what is immutable becomes a part of the
-- expression that calls it: else a put would take twice as long.
CREATE FUNCTION ext_ms_v1(p_moment TIMESTAMPTZ)
RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce((date_part('epoch', p_moment AT TIME ZONE 'UTC') * 1000)::bigint, 0)
$$;

-- ext_tagged_v1 is Tags.has; p_tags is '*' or an array of numbers.
CREATE FUNCTION ext_tagged_v1(p_tags TEXT, p_seq BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT p_seq <> 0 AND CASE WHEN p_tags = '*' THEN true ELSE p_seq = ANY (p_tags::bigint[]) END
$$;

-- ext_refused_v1 is Guard.Check, and CheckDelete if that is asked for; what is
-- NULL is not in the guard.
CREATE FUNCTION ext_refused_v1(p_guard BIGINT, p_match TEXT, p_none_match TEXT, p_delete BOOLEAN, p_revision BIGINT, p_seq BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
	SELECT p_match IS NOT NULL AND NOT ext_tagged_v1(p_match, p_seq)
		OR p_none_match IS NOT NULL AND ext_tagged_v1(p_none_match, p_seq)
		OR coalesce(p_guard <> p_revision, false)
		OR p_delete AND p_revision = 0 AND num_nonnulls(p_guard, p_match, p_none_match) > 0
$$;

-- ext_lock_v1 waits for the install's lock, which is its row of counters.
CREATE FUNCTION ext_lock_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS ext_counters_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u ext_counters_v1;
BEGIN
	LOOP
		SELECT bytes_used, keys_count, namespaces_count, change_seq INTO u.bytes, u.keys, u.namespaces, u.seq
			FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
		IF FOUND THEN
			RETURN u;
		END IF;
		INSERT INTO ext_storage_usage (tenant_id, extension_install_id, updated_at) VALUES (p_tenant, p_install, p_now)
			ON CONFLICT DO NOTHING;
	END LOOP;
END $$;

-- ext_count_v1 keeps what a write has made of the counters.
CREATE FUNCTION ext_count_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, u ext_counters_v1)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	UPDATE ext_storage_usage
		SET bytes_used = u.bytes, keys_count = u.keys, namespaces_count = u.namespaces, change_seq = u.seq, updated_at = p_now
		WHERE tenant_id = p_tenant AND extension_install_id = p_install;
END $$;

-- ext_count_keys_v1 keeps the counter of a namespace. One without keys has no
-- row.
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

-- ext_keys_v1 is the counter of a namespace.
CREATE FUNCTION ext_keys_v1(p_tenant UUID, p_install UUID, p_namespace TEXT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN coalesce((SELECT keys_count FROM ext_storage_namespaces
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace), 0);
END $$;

-- ext_expire_v1 removes at most p_limit of an install's expired records, those
-- that expired first, and returns how many. The caller has the lock, and reads
-- the counters anew.
CREATE FUNCTION ext_expire_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_limit BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u            ext_counters_v1;
	v_namespaces TEXT[];
	v_keys       TEXT[];
	v_revisions  BIGINT[];
	v_bytes      BIGINT;
	v_count      BIGINT;
	v_left       BIGINT;
	v_of         RECORD;
BEGIN
	SELECT array_agg(d.namespace), array_agg(d.key), array_agg(d.revision), sum(d.bytes), count(*)
		INTO v_namespaces, v_keys, v_revisions, v_bytes, v_count
		FROM (SELECT namespace, key, revision, value_bytes::bigint + metadata_bytes AS bytes FROM ext_storage_records
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND ttl_expires_at <= p_now
			ORDER BY ttl_expires_at, namespace, key LIMIT p_limit) d;
	IF v_count = 0 THEN
		RETURN 0;
	END IF;
	u := ext_lock_v1(p_tenant, p_install, p_now);
	INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		SELECT p_tenant, p_install, u.seq + c.n, 'expire', c.namespace, c.key, c.revision, p_now
		FROM unnest(v_namespaces, v_keys, v_revisions) WITH ORDINALITY AS c (namespace, key, revision, n);
	FOR v_of IN SELECT c.namespace, array_agg(c.key) AS keys FROM unnest(v_namespaces, v_keys) c (namespace, key) GROUP BY c.namespace LOOP
		DELETE FROM ext_storage_records
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_of.namespace AND key = ANY (v_of.keys);
		v_left := ext_keys_v1(p_tenant, p_install, v_of.namespace) - cardinality(v_of.keys);
		PERFORM ext_count_keys_v1(p_tenant, p_install, v_of.namespace, v_left);
		IF v_left = 0 THEN
			u.namespaces := u.namespaces - 1;
		END IF;
	END LOOP;
	u.bytes := u.bytes - v_bytes;
	u.keys := u.keys - v_count;
	u.seq := u.seq + v_count;
	PERFORM ext_count_v1(p_tenant, p_install, p_now, u);
	RETURN v_count;
END $$;

-- p_kinds: 0 put, 1 delete, 2 check. p_guards, p_matches and p_none_matches are
-- the guards. p_audits are the heads of the audit's events, which lack the
-- revision and the last brace. p_once is NULL for a request that may happen as
-- often as it comes; answers of p_once_since and before are over.
CREATE FUNCTION ext_apply_v1(
	p_tenant UUID, p_install UUID,
	p_kinds SMALLINT[], p_namespaces TEXT[], p_keys TEXT[],
	p_guards BIGINT[], p_matches TEXT[], p_none_matches TEXT[],
	p_values TEXT[], p_metadata TEXT[], p_expiries TIMESTAMPTZ[], p_keeps BOOLEAN[], p_schemas INTEGER[], p_audits TEXT[],
	p_now TIMESTAMPTZ, p_max_bytes BIGINT, p_max_namespaces BIGINT, p_max_keys BIGINT, p_reclaim BIGINT,
	p_once TEXT, p_request BYTEA, p_once_since TIMESTAMPTZ
) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u         ext_counters_v1;
	n         ext_counters_v1; -- what the operations make of it
	r         ext_header_v1;   -- the record of an operation, before it and after
	v_rows    ext_header_v1[]; -- after it, by operation
	v_were    BOOLEAN[];       -- there was a row
	v_lived   BOOLEAN[];       -- that had not expired
	v_changes TEXT[];          -- what is done; NULL: nothing
	v_revs    BIGINT[];        -- with which revision, and
	v_seqs    BIGINT[];        -- under which number
	v_items   BIGINT[];
	v_names   TEXT[];          -- namespaces whose keys become more or fewer,
	v_before  BIGINT[];        -- their counters
	v_after   BIGINT[];
	v_checked TEXT;            -- the namespace that
	v_active  INTEGER;         -- this is the active schema of
	v_live    BOOLEAN;
	v_by      BIGINT;          -- how many keys the operation adds
	v_bytes   BIGINT;          -- of the record before it
	v_from    INTEGER;
	v_name    INTEGER;
	v_gone    BIGINT := 0;
	-- The operation that went over a quota and came not back, 0: none.
	v_over_namespaces INTEGER;
	v_over_keys       INTEGER[];
	v_over_bytes      INTEGER;
	v_over            BIGINT[];
	v_request BYTEA;
	v_answer  BIGINT[];
BEGIN
	-- The lock, written out: the call of another function takes longer than this.
	SELECT bytes_used, keys_count, namespaces_count, change_seq INTO u.bytes, u.keys, u.namespaces, u.seq
		FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	IF NOT FOUND THEN
		u := ext_lock_v1(p_tenant, p_install, p_now);
	END IF;
	IF p_once IS NOT NULL THEN
		SELECT request, answer INTO v_request, v_answer FROM ext_storage_answers
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND once_key = p_once AND at > p_once_since;
		IF FOUND THEN
			RETURN CASE WHEN v_request = p_request THEN ARRAY[0, 1]::bigint[] || v_answer ELSE ARRAY[4, 0] END;
		END IF;
	END IF;

	LOOP
		n := u;
		v_items := '{}';
		v_names := '{}';
		v_over_namespaces := 0;
		v_over_keys := '{}';
		v_over_bytes := 0;
		FOR i IN 1 .. cardinality(p_kinds) LOOP
			-- The record as the operations before have left it.
			v_from := i - 1;
			WHILE v_from > 0 AND (p_keys[v_from] <> p_keys[i] OR p_namespaces[v_from] <> p_namespaces[i]) LOOP
				v_from := v_from - 1;
			END LOOP;
			IF v_from > 0 THEN
				r := v_rows[v_from];
			ELSE
				SELECT true, revision, change_seq, created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes INTO r
					FROM ext_storage_records
					WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespaces[i] AND key = p_keys[i];
				IF NOT FOUND THEN
					r.present := false;
				END IF;
			END IF;
			v_live := r.present AND (r.expires_at IS NULL OR r.expires_at > p_now);
			IF ext_refused_v1(p_guards[i], p_matches[i], p_none_matches[i], p_kinds[i] = 1,
				CASE WHEN v_live THEN r.revision ELSE 0 END, CASE WHEN v_live THEN r.seq ELSE 0 END) THEN
				RETURN ARRAY[1, i - 1, CASE WHEN v_live THEN r.revision ELSE 0 END, CASE WHEN v_live THEN r.seq ELSE 0 END];
			END IF;

			v_were[i] := r.present;
			v_lived[i] := v_live;
			v_changes[i] := NULL;
			v_by := 0;
			v_bytes := CASE WHEN r.present THEN r.value_bytes + r.metadata_bytes ELSE 0 END;
			IF p_kinds[i] = 0 THEN
				IF v_checked IS DISTINCT FROM p_namespaces[i] THEN
					v_checked := p_namespaces[i];
					v_active := coalesce((SELECT schema_version FROM ext_storage_schemas
						WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_checked AND status = 'active'), 0);
				END IF;
				IF p_schemas[i] <> v_active THEN
					RETURN ARRAY[2, i - 1];
				END IF;
				n.seq := n.seq + 1;
				v_changes[i] := 'put';
				IF NOT r.present THEN
					v_by := 1;
				END IF;
				IF v_live THEN
					r.revision := r.revision + 1;
				ELSE
					r.revision := 1;
					r.created_at := p_now;
				END IF;
				IF NOT (v_live AND p_keeps[i]) THEN
					r.expires_at := p_expiries[i];
					r.metadata_bytes := coalesce(octet_length(p_metadata[i]), 0);
				END IF;
				r.present := true;
				r.seq := n.seq;
				r.updated_at := p_now;
				r.value_bytes := octet_length(p_values[i]);
				v_bytes := r.value_bytes + r.metadata_bytes - v_bytes;
			ELSIF p_kinds[i] = 1 AND r.present THEN
				n.seq := n.seq + 1;
				v_changes[i] := CASE WHEN v_live THEN 'delete' ELSE 'expire' END;
				v_by := -1;
				r.present := false;
				v_bytes := -v_bytes;
			ELSE
				v_bytes := 0;
			END IF;
			v_rows[i] := r;
			v_revs[i] := r.revision;
			v_seqs[i] := n.seq;
			IF p_kinds[i] = 0 OR p_kinds[i] = 2 AND v_live THEN
				v_items := v_items || ARRAY[r.revision, r.seq, (p_kinds[i] = 0 AND NOT v_live)::integer, 0,
					ext_ms_v1(r.created_at), ext_ms_v1(r.updated_at), ext_ms_v1(r.expires_at)];
			ELSE
				v_items := v_items || ARRAY[0, 0, 0, (p_kinds[i] = 1 AND v_live)::integer, 0, 0, 0]::bigint[];
			END IF;

			n.bytes := n.bytes + v_bytes;
			IF n.bytes <= greatest(p_max_bytes, u.bytes) THEN
				v_over_bytes := 0;
			ELSIF v_over_bytes = 0 THEN
				v_over_bytes := i;
			END IF;
			IF v_by <> 0 THEN
				v_name := array_position(v_names, p_namespaces[i]);
				IF v_name IS NULL THEN
					v_names := v_names || p_namespaces[i];
					v_name := cardinality(v_names);
					v_before[v_name] := ext_keys_v1(p_tenant, p_install, p_namespaces[i]);
					v_after[v_name] := v_before[v_name];
					v_over_keys[v_name] := 0;
				END IF;
				n.keys := n.keys + v_by;
				v_after[v_name] := v_after[v_name] + v_by;
				IF v_after[v_name] <= greatest(p_max_keys, v_before[v_name]) THEN
					v_over_keys[v_name] := 0;
				ELSIF v_over_keys[v_name] = 0 THEN
					v_over_keys[v_name] := i;
				END IF;
				IF v_by = 1 AND v_after[v_name] = 1 THEN
					n.namespaces := n.namespaces + 1;
				ELSIF v_by = -1 AND v_after[v_name] = 0 THEN
					n.namespaces := n.namespaces - 1;
				END IF;
				IF n.namespaces <= greatest(p_max_namespaces, u.namespaces) THEN
					v_over_namespaces := 0;
				ELSIF v_over_namespaces = 0 THEN
					v_over_namespaces := i;
				END IF;
			END IF;
		END LOOP;

		v_over := NULL;
		IF v_over_namespaces > 0 THEN
			v_over := ARRAY[3, v_over_namespaces - 1, 1, n.namespaces];
		ELSIF v_over_keys IS NOT NULL AND 0 < ANY (v_over_keys) THEN
			SELECT ARRAY[3, o.i - 1, 2, o.keys] INTO v_over
				FROM unnest(v_over_keys, v_after) WITH ORDINALITY o (i, keys, n) WHERE o.i > 0 ORDER BY o.n LIMIT 1;
		ELSIF v_over_bytes > 0 THEN
			v_over := ARRAY[3, v_over_bytes - 1, 3, n.bytes];
		END IF;
		EXIT WHEN v_over IS NULL;
		IF v_gone > 0 THEN
			v_over := v_over || (SELECT count(*) FROM (SELECT 1 FROM ext_storage_records
				WHERE tenant_id = p_tenant AND extension_install_id = p_install AND ttl_expires_at <= p_now LIMIT 1) l);
			RAISE EXCEPTION '%', v_over USING ERRCODE = 'HF002';
		END IF;
		v_gone := ext_expire_v1(p_tenant, p_install, p_now, p_reclaim);
		IF v_gone = 0 THEN
			RETURN v_over || 0::bigint;
		END IF;
		u := ext_lock_v1(p_tenant, p_install, p_now);
	END LOOP;

	FOR i IN 1 .. cardinality(p_kinds) LOOP
		CONTINUE WHEN v_changes[i] IS NULL;
		r := v_rows[i];
		IF v_changes[i] <> 'put' THEN
			DELETE FROM ext_storage_records
				WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespaces[i] AND key = p_keys[i];
		ELSIF v_were[i] THEN
			UPDATE ext_storage_records
				SET revision = r.revision, value = p_values[i]::jsonb,
					metadata = CASE WHEN v_lived[i] AND p_keeps[i] THEN metadata ELSE p_metadata[i]::jsonb END,
					ttl_expires_at = r.expires_at, created_at = r.created_at, updated_at = r.updated_at,
					value_bytes = r.value_bytes, metadata_bytes = r.metadata_bytes, change_seq = r.seq
				WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespaces[i] AND key = p_keys[i];
		ELSE
			INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, value, metadata,
					ttl_expires_at, created_at, updated_at, value_bytes, metadata_bytes, change_seq)
				VALUES (p_tenant, p_install, p_namespaces[i], p_keys[i], r.revision, p_values[i]::jsonb, p_metadata[i]::jsonb,
					r.expires_at, r.created_at, r.updated_at, r.value_bytes, r.metadata_bytes, r.seq);
		END IF;
		INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
			VALUES (p_tenant, p_install, v_seqs[i], v_changes[i], p_namespaces[i], p_keys[i], v_revs[i], p_now);
		IF v_changes[i] <> 'expire' THEN
			INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at)
				VALUES (p_tenant, p_install, v_seqs[i], 'extstorage.' || v_changes[i], p_namespaces[i] || '/' || p_keys[i],
					(p_audits[i] || v_revs[i] || '}')::json, p_now);
		END IF;
	END LOOP;
	FOR i IN 1 .. cardinality(v_names) LOOP
		IF v_after[i] <> v_before[i] THEN
			PERFORM ext_count_keys_v1(p_tenant, p_install, v_names[i], v_after[i]);
		END IF;
	END LOOP;
	IF n.seq > u.seq THEN
		UPDATE ext_storage_usage -- as ext_count_v1 does
			SET bytes_used = n.bytes, keys_count = n.keys, namespaces_count = n.namespaces, change_seq = n.seq, updated_at = p_now
			WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	END IF;

	v_answer := ARRAY[n.bytes, n.keys, n.namespaces] || v_items;
	IF p_once IS NOT NULL THEN
		INSERT INTO ext_storage_answers (tenant_id, extension_install_id, once_key, request, answer, at)
			VALUES (p_tenant, p_install, p_once, p_request, v_answer, p_now)
			ON CONFLICT (tenant_id, extension_install_id, once_key) DO UPDATE
			SET request = EXCLUDED.request, answer = EXCLUDED.answer, at = EXCLUDED.at;
	END IF;
	RETURN ARRAY[0, 0]::bigint[] || v_answer;
END $$;

-- citus

-- Each runs where the function that calls it runs; a call of the last goes to
-- the node that has the tenant.
SELECT create_distributed_function('ext_ms_v1(timestamptz)');
SELECT create_distributed_function('ext_tagged_v1(text, bigint)');
SELECT create_distributed_function('ext_refused_v1(bigint, text, text, boolean, bigint, bigint)');
SELECT create_distributed_function('ext_lock_v1(uuid, uuid, timestamptz)');
SELECT create_distributed_function('ext_count_v1(uuid, uuid, timestamptz, ext_counters_v1)');
SELECT create_distributed_function('ext_count_keys_v1(uuid, uuid, text, bigint)');
SELECT create_distributed_function('ext_keys_v1(uuid, uuid, text)');
SELECT create_distributed_function('ext_expire_v1(uuid, uuid, timestamptz, bigint)');
SELECT create_distributed_function(
	'ext_apply_v1(uuid, uuid, smallint[], text[], text[], bigint[], text[], text[], text[], text[], timestamptz[], boolean[], integer[], text[], timestamptz, bigint, bigint, bigint, bigint, text, bytea, timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
