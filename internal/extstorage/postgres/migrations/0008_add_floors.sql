-- Change numbers of installs without a counter row start after seq. A restore raises it, because the lost server may
-- have issued numbers to installs that the backup does not contain.
CREATE TABLE ext_storage_floor (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	seq BIGINT NOT NULL CHECK (seq >= 0)
);

INSERT INTO ext_storage_floor (one, seq) VALUES (1, 0);

-- change_seq when the database was last restored; 0: never. The next revision of a record without a later change skips
-- as many revisions.
ALTER TABLE ext_storage_usage ADD COLUMN floor_seq BIGINT NOT NULL DEFAULT 0;

-- ext_row_v1 replaces the function of the same name, because all functions that lock an install call it. For servers of
-- the previous release nothing changes unless the database was restored.
CREATE OR REPLACE FUNCTION ext_row_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_first BIGINT;
BEGIN
	SELECT seq INTO v_first FROM ext_storage_floor WHERE one = 1;
	INSERT INTO ext_storage_usage (tenant_id, extension_install_id, updated_at, counted_at, change_seq, floor_seq)
		VALUES (p_tenant, p_install, p_now, p_now, v_first, v_first)
		ON CONFLICT DO NOTHING;
END $$;

-- ext_apply_v2 is ext_apply_v1, except that revisions skip those that a lost server may have issued.
-- p_kinds: 0 put, 1 delete, 2 check. p_guards, p_matches and p_none_matches are preconditions. p_caller and p_caller_id are
-- JSON strings for the audit. p_once is NULL without an idempotency key; answers from p_once_since or earlier have
-- expired. p_sums are results of increments, returned in the items, or NULL.
CREATE FUNCTION ext_apply_v2(
	p_tenant UUID, p_install UUID,
	p_kinds SMALLINT[], p_namespaces TEXT[], p_keys TEXT[],
	p_guards BIGINT[], p_matches TEXT[], p_none_matches TEXT[],
	p_values TEXT[], p_metadata TEXT[], p_expiries TIMESTAMPTZ[], p_keeps BOOLEAN[], p_schemas INTEGER[],
	p_caller TEXT, p_caller_id TEXT,
	p_now TIMESTAMPTZ, p_max_bytes BIGINT, p_max_namespaces BIGINT, p_max_keys BIGINT,
	p_once TEXT, p_request BYTEA, p_once_since TIMESTAMPTZ, p_sums TEXT[]
) RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u         ext_counters_v1;
	n         ext_counters_v1; -- after the operations
	r         ext_header_v1;   -- an operation's record, before and after it
	v_rows    ext_header_v1[]; -- records after each operation
	v_were    BOOLEAN[];       -- the row existed
	v_lived   BOOLEAN[];       -- and had not expired
	v_changes TEXT[];          -- put, delete, expire or NULL
	v_revs    BIGINT[];
	v_seqs    BIGINT[];        -- change numbers
	v_items   TEXT;            -- result items
	v_names   TEXT[];          -- namespaces whose number of keys changes
	v_before  BIGINT[];        -- their numbers before and after
	v_after   BIGINT[];
	v_checked TEXT;            -- namespace of v_active
	v_active  INTEGER;         -- its active schema version
	v_live    BOOLEAN;
	v_by      BIGINT;          -- keys the operation adds to the counters
	v_bytes   BIGINT;          -- bytes it adds
	v_from    INTEGER;
	v_name    INTEGER;
	v_fits    BOOLEAN;         -- the quotas allow every operation so far
	-- Operation that exceeded the quota; 0: none.
	v_over_namespaces INTEGER;
	v_over_keys       INTEGER[];
	v_over_bytes      INTEGER;
	v_request BYTEA;
	v_closed  BIGINT;
	v_floor   BIGINT;          -- floor_seq
	v_spare   BIGINT;          -- namespaces with a schema but no key, before the operations; NULL: not counted yet
	v_moved   BIGINT;          -- change to that number by the operations
BEGIN
	-- ext_lock_v1, inlined because a call takes longer than the statement.
	SELECT bytes_used, keys_count, namespaces_count, change_seq, counted_at, closed_seq, floor_seq
		INTO u.bytes, u.keys, u.namespaces, u.seq, u.counted_at, v_closed, v_floor
		FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	IF NOT FOUND THEN
		u := ext_lock_v1(p_tenant, p_install, p_now);
		SELECT floor_seq INTO v_floor FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	ELSIF v_closed IS NOT NULL THEN
		RETURN '{"error":"deleted"}';
	END IF;
	IF p_once IS NOT NULL THEN
		SELECT request, answer INTO v_request, v_items FROM ext_storage_answers
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND once_key = p_once AND at > p_once_since;
		IF FOUND THEN
			RETURN CASE WHEN v_request = p_request THEN '{"replayed":true,"items":' || v_items || '}' ELSE '{"error":"key_reused"}' END;
		END IF;
	END IF;
	IF u.counted_at > p_now THEN -- another server's clock is ahead
		u := ext_recount_v1(p_tenant, p_install, p_now, u);
	END IF;

	LOOP
		n := u;
		v_items := '';
		v_names := '{}';
		v_fits := true;
		v_over_namespaces := 0;
		v_over_keys := '{}';
		v_over_bytes := 0;
		v_spare := NULL;
		v_moved := 0;
		FOR i IN 1 .. cardinality(p_kinds) LOOP
			-- The record after the preceding operations.
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
				RETURN json_build_object('error', 'precondition', 'op', i - 1,
					'revision', CASE WHEN v_live THEN r.revision ELSE 0 END, 'seq', CASE WHEN v_live THEN r.seq ELSE 0 END);
			END IF;

			v_were[i] := r.present;
			v_lived[i] := v_live;
			v_changes[i] := NULL;
			v_by := 0;
			v_bytes := 0;
			IF v_live OR r.present AND r.expires_at > u.counted_at THEN
				v_by := -1;
				v_bytes := - (r.value_bytes + r.metadata_bytes);
			END IF;
			IF p_kinds[i] = 0 THEN
				IF v_checked IS DISTINCT FROM p_namespaces[i] THEN
					v_checked := p_namespaces[i];
					v_active := coalesce((SELECT schema_version FROM ext_storage_schemas
						WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_checked AND status = 'active'), 0);
				END IF;
				IF p_schemas[i] <> v_active THEN
					RETURN json_build_object('error', 'schema_changed', 'op', i - 1);
				END IF;
				n.seq := n.seq + 1;
				v_changes[i] := 'put';
				-- nextRevision of package extstorage
				IF NOT v_live THEN
					r.revision := v_floor + 1;
					r.created_at := p_now;
				ELSIF r.seq <= v_floor THEN
					r.revision := r.revision + v_floor + 1;
				ELSE
					r.revision := r.revision + 1;
				END IF;
				IF NOT (v_live AND p_keeps[i]) THEN
					r.expires_at := p_expiries[i];
					r.metadata_bytes := coalesce(octet_length(p_metadata[i]), 0);
				END IF;
				r.present := true;
				r.seq := n.seq;
				r.updated_at := p_now;
				r.value_bytes := octet_length(p_values[i]);
				IF v_by < 0 AND NOT v_live THEN
					v_fits := false; -- the key is new, but its expired record counts
				END IF;
				IF r.expires_at IS NULL OR r.expires_at > u.counted_at THEN
					v_by := v_by + 1;
					v_bytes := v_bytes + r.value_bytes + r.metadata_bytes;
				END IF;
			ELSIF p_kinds[i] = 1 AND r.present THEN
				n.seq := n.seq + 1;
				v_changes[i] := CASE WHEN v_live THEN 'delete' ELSE 'expire' END;
				r.present := false;
			ELSE
				v_by := 0;
				v_bytes := 0;
			END IF;
			v_rows[i] := r;
			v_revs[i] := r.revision;
			v_seqs[i] := n.seq;
			IF i > 1 THEN
				v_items := v_items || ',';
			END IF;
			IF p_kinds[i] = 0 OR p_kinds[i] = 2 AND v_live THEN
				v_items := v_items || format('{"revision":%s,"seq":%s,"created":%s,"createdAt":%s,"updatedAt":%s,"expiresAt":%s%s}',
					r.revision, r.seq, CASE WHEN p_kinds[i] = 0 AND NOT v_live THEN 'true' ELSE 'false' END,
					ext_ms_v1(r.created_at), ext_ms_v1(r.updated_at), ext_ms_v1(r.expires_at),
					',"sum":"' || p_sums[i] || '"');
			ELSE
				v_items := v_items || CASE WHEN p_kinds[i] = 1 AND v_live THEN '{"existed":true}' ELSE '{}' END;
			END IF;

			n.bytes := n.bytes + v_bytes;
			v_fits := v_fits AND n.bytes <= p_max_bytes;
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
				v_fits := v_fits AND v_after[v_name] <= p_max_keys;
				IF v_by = 1 AND v_after[v_name] = 1 OR v_by = -1 AND v_after[v_name] = 0 THEN
					n.namespaces := n.namespaces + v_by;
					IF v_spare IS NULL THEN
						SELECT count(DISTINCT s.namespace) INTO v_spare FROM ext_storage_schemas s
							WHERE s.tenant_id = p_tenant AND s.extension_install_id = p_install AND NOT EXISTS (SELECT FROM ext_storage_namespaces m
								WHERE m.tenant_id = p_tenant AND m.extension_install_id = p_install AND m.namespace = s.namespace);
					END IF;
					IF EXISTS (SELECT FROM ext_storage_schemas
						WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespaces[i]) THEN
						v_moved := v_moved - v_by;
					END IF;
				END IF;
				v_fits := v_fits AND n.namespaces + v_moved + coalesce(v_spare, 0) <= p_max_namespaces;
				IF n.namespaces + v_moved <= greatest(p_max_namespaces - coalesce(v_spare, 0), u.namespaces) THEN
					v_over_namespaces := 0;
				ELSIF v_over_namespaces = 0 THEN
					v_over_namespaces := i;
				END IF;
			END IF;
		END LOOP;

		EXIT WHEN v_fits;
		IF u.counted_at = p_now THEN
			IF v_over_namespaces > 0 THEN
				RETURN json_build_object('error', 'quota', 'op', v_over_namespaces - 1, 'quota', 'namespaces',
					'used', n.namespaces + v_moved + coalesce(v_spare, 0));
			ELSIF 0 < ANY (v_over_keys) THEN
				RETURN (SELECT json_build_object('error', 'quota', 'op', o.i - 1, 'quota', 'keys', 'used', o.keys)
					FROM unnest(v_over_keys, v_after) WITH ORDINALITY o (i, keys, n) WHERE o.i > 0 ORDER BY o.n LIMIT 1);
			ELSIF v_over_bytes > 0 THEN
				RETURN json_build_object('error', 'quota', 'op', v_over_bytes - 1, 'quota', 'bytes', 'used', n.bytes);
			END IF;
			EXIT; -- the usage already exceeded the quota and does not grow
		END IF;
		u := ext_recount_v1(p_tenant, p_install, p_now, u);
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
					format('{"operation":"%s","namespace":"%s","key":%s,"schemaVersion":%s,"caller":%s,"callerId":%s,"revision":%s}',
						v_changes[i], p_namespaces[i], to_json(p_keys[i]), p_schemas[i], p_caller, p_caller_id, v_revs[i])::json, p_now);
		END IF;
	END LOOP;
	FOR i IN 1 .. cardinality(v_names) LOOP
		IF v_after[i] <> v_before[i] THEN
			PERFORM ext_count_keys_v1(p_tenant, p_install, v_names[i], v_after[i]);
		END IF;
	END LOOP;
	IF n.seq > u.seq THEN
		UPDATE ext_storage_usage -- an inlined ext_count_v1
			SET bytes_used = n.bytes, keys_count = n.keys, namespaces_count = n.namespaces, change_seq = n.seq, counted_at = n.counted_at,
				updated_at = p_now
			WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	END IF;

	v_items := '[' || v_items || ']';
	IF p_once IS NOT NULL THEN
		INSERT INTO ext_storage_answers (tenant_id, extension_install_id, once_key, request, answer, at)
			VALUES (p_tenant, p_install, p_once, p_request, v_items::json, p_now)
			ON CONFLICT (tenant_id, extension_install_id, once_key) DO UPDATE
			SET request = EXCLUDED.request, answer = EXCLUDED.answer, at = EXCLUDED.at;
	END IF;
	RETURN '{"items":' || v_items || '}';
END $$;

-- ext_apply_all_v2 runs several writes of an install in one transaction and returns an array of results. Each parameter
-- is an array with an element per write; array arguments are passed as text. It stops after the first write that is
-- refused or replayed.
CREATE FUNCTION ext_apply_all_v2(
	p_tenant UUID, p_install UUID,
	p_kinds TEXT[], p_namespaces TEXT[], p_keys TEXT[],
	p_guards TEXT[], p_matches TEXT[], p_none_matches TEXT[],
	p_values TEXT[], p_metadata TEXT[], p_expiries TEXT[], p_keeps TEXT[], p_schemas TEXT[],
	p_caller TEXT[], p_caller_id TEXT[],
	p_now TIMESTAMPTZ[], p_max_bytes BIGINT[], p_max_namespaces BIGINT[], p_max_keys BIGINT[],
	p_once TEXT[], p_request BYTEA[], p_once_since TIMESTAMPTZ[], p_sums TEXT[]
) RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_answer  TEXT;
	v_answers TEXT := '[';
BEGIN
	FOR i IN 1 .. cardinality(p_kinds) LOOP
		v_answer := ext_apply_v2(p_tenant, p_install, p_kinds[i]::smallint[], p_namespaces[i]::text[], p_keys[i]::text[],
			p_guards[i]::bigint[], p_matches[i]::text[], p_none_matches[i]::text[],
			p_values[i]::text[], p_metadata[i]::text[], p_expiries[i]::timestamptz[], p_keeps[i]::boolean[], p_schemas[i]::integer[],
			p_caller[i], p_caller_id[i], p_now[i], p_max_bytes[i], p_max_namespaces[i], p_max_keys[i],
			p_once[i], p_request[i], p_once_since[i], p_sums[i]::text[]);
		IF i > 1 THEN
			v_answers := v_answers || ',';
		END IF;
		v_answers := v_answers || v_answer;
		EXIT WHEN v_answer NOT LIKE '{"items":%';
	END LOOP;
	RETURN v_answers || ']';
END $$;

-- citus

SELECT create_reference_table('ext_storage_floor');
-- Calls are delegated to the node with the tenant's shard.
SELECT create_distributed_function(
	'ext_apply_v2(uuid, uuid, smallint[], text[], text[], bigint[], text[], text[], text[], text[], timestamptz[], boolean[], integer[], text, text, timestamptz, bigint, bigint, bigint, text, bytea, timestamptz, text[])',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function(
	'ext_apply_all_v2(uuid, uuid, text[], text[], text[], text[], text[], text[], text[], text[], text[], text[], text[], text[], text[], timestamptz[], bigint[], bigint[], bigint[], text[], bytea[], timestamptz[], text[])',
	'p_tenant', colocate_with => 'ext_storage_records');
