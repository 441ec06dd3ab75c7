-- Registered installs, revoked tokens, deleting installs and tenants, and the sweep.
--
-- A deletion first closes the owner: it sets closed_seq in the owner's row of ext_storage_usage, the lock for all
-- writes, so waiting writes fail. Then it deletes the rows in steps, each a transaction. The closed row stays as
-- a tombstone until all tokens of the owner have expired. The nil UUID as install stands for the whole tenant; a new
-- install of a closed tenant cannot write.

-- ext_deletion_v1 returns an owner's deletion progress, with times in milliseconds, or NULL without a deletion.
CREATE FUNCTION ext_deletion_v1(p_tenant UUID, p_install UUID)
RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT json_build_object('startedAt', ext_ms_v1(deleting_at), 'finishedAt', ext_ms_v1(deleted_at), 'deleted', coalesce(deletion, '{}'))
		FROM ext_storage_installs WHERE tenant_id = p_tenant AND extension_install_id = p_install AND deleting_at IS NOT NULL);
END $$;

-- ext_close_v1 starts an owner's deletion unless it has started, and returns ext_deletion_v1.
CREATE FUNCTION ext_close_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_last BIGINT;
BEGIN
	LOOP
		PERFORM 1 FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
		EXIT WHEN FOUND;
		PERFORM ext_row_v1(p_tenant, p_install, p_now);
	END LOOP;
	-- Prevents reuse of change numbers if the counter row was lost and created again.
	SELECT greatest(u.change_seq, (SELECT max(seq) FROM ext_storage_changes WHERE tenant_id = p_tenant AND extension_install_id = p_install),
			(SELECT max(seq) FROM ext_storage_outbox WHERE part IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
				AND tenant_id = p_tenant AND extension_install_id = p_install))
		INTO v_last FROM ext_storage_usage u WHERE u.tenant_id = p_tenant AND u.extension_install_id = p_install;
	UPDATE ext_storage_usage SET change_seq = v_last, closed_seq = v_last
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND closed_seq IS NULL;
	INSERT INTO ext_storage_installs AS i (tenant_id, extension_install_id, tier, created_at, updated_at, deleting_at, deletion)
		VALUES (p_tenant, p_install, '', p_now, p_now, p_now, '{}')
		ON CONFLICT (tenant_id, extension_install_id) DO UPDATE
		SET deleting_at = EXCLUDED.deleting_at, deletion = EXCLUDED.deletion, updated_at = EXCLUDED.updated_at WHERE i.deleting_at IS NULL;
	RETURN ext_deletion_v1(p_tenant, p_install);
END $$;

-- ext_deleted_v1 adds to the deleted row counts.
CREATE FUNCTION ext_deleted_v1(p_tenant UUID, p_install UUID, p_more JSONB)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_deleted JSONB;
	v_what    TEXT;
BEGIN
	SELECT coalesce(deletion, '{}') INTO v_deleted FROM ext_storage_installs
		WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	FOR v_what IN SELECT jsonb_object_keys(p_more) LOOP
		v_deleted := v_deleted || jsonb_build_object(v_what, coalesce((v_deleted ->> v_what)::bigint, 0) + (p_more ->> v_what)::bigint);
	END LOOP;
	UPDATE ext_storage_installs SET deletion = v_deleted WHERE tenant_id = p_tenant AND extension_install_id = p_install;
END $$;

-- ext_uncount_v1 subtracts deleted records from a closed install's counters u. Wrong counters must not stop the deletion.
CREATE FUNCTION ext_uncount_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_keys BIGINT, p_bytes BIGINT, u ext_counters_v1)
RETURNS ext_counters_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_left BIGINT;
BEGIN
	IF p_keys = 0 THEN
		RETURN u;
	END IF;
	v_left := greatest(ext_keys_v1(p_tenant, p_install, p_namespace) - p_keys, 0);
	PERFORM ext_count_keys_v1(p_tenant, p_install, p_namespace, v_left);
	IF v_left = 0 THEN
		u.namespaces := greatest(u.namespaces - 1, 0);
	END IF;
	u.keys := greatest(u.keys - p_keys, 0);
	u.bytes := greatest(u.bytes - p_bytes, 0);
	RETURN u;
END $$;

-- ext_delete_records_v1 deletes a closed install's first records, at most p_rows and about p_bytes, and returns the
-- number. Unless p_due is NULL, it deletes only records that had expired at p_due.
CREATE FUNCTION ext_delete_records_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_due TIMESTAMPTZ, p_rows BIGINT, p_bytes BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u            ext_counters_v1;
	v_namespaces TEXT[];
	v_keys       TEXT[];
	v_bytes      BIGINT[];
	v_counted    BOOLEAN[];
	v_of         RECORD;
BEGIN
	SELECT bytes_used, keys_count, namespaces_count, change_seq, counted_at INTO u.bytes, u.keys, u.namespaces, u.seq, u.counted_at
		FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	SELECT array_agg(d.namespace), array_agg(d.key), array_agg(d.bytes), array_agg(d.counted)
		INTO v_namespaces, v_keys, v_bytes, v_counted
		FROM (SELECT r.namespace, r.key, r.bytes, r.counted, sum(r.bytes) OVER (ORDER BY r.namespace, r.key) - r.bytes AS before
			FROM (SELECT namespace, key, value_bytes::bigint + metadata_bytes AS bytes,
					(ttl_expires_at IS NULL OR ttl_expires_at > u.counted_at) AS counted
				FROM ext_storage_records WHERE tenant_id = p_tenant AND extension_install_id = p_install
					AND (p_due IS NULL OR ttl_expires_at <= p_due)
				ORDER BY namespace, key LIMIT p_rows) r) d
		WHERE d.before < p_bytes;
	IF v_keys IS NULL THEN
		RETURN 0;
	END IF;
	FOR v_of IN SELECT c.namespace, array_agg(c.key) AS keys, count(*) FILTER (WHERE c.counted) AS counted,
			coalesce(sum(c.bytes) FILTER (WHERE c.counted), 0)::bigint AS bytes
		FROM unnest(v_namespaces, v_keys, v_bytes, v_counted) c (namespace, key, bytes, counted) GROUP BY c.namespace
	LOOP
		DELETE FROM ext_storage_records
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_of.namespace AND key = ANY (v_of.keys);
		u := ext_uncount_v1(p_tenant, p_install, v_of.namespace, v_of.counted, v_of.bytes, u);
	END LOOP;
	PERFORM ext_count_v1(p_tenant, p_install, p_now, u);
	PERFORM ext_deleted_v1(p_tenant, p_install, jsonb_build_object('records', cardinality(v_keys),
		'bytes', (SELECT sum(b) FROM unnest(v_bytes) b)));
	RETURN cardinality(v_keys);
END $$;

-- ext_delete_schemas_v1 deletes some schemas in one namespace of a closed install.
CREATE FUNCTION ext_delete_schemas_v1(p_tenant UUID, p_install UUID, p_rows BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_namespace TEXT;
	v_versions  INTEGER[];
BEGIN
	SELECT namespace INTO v_namespace FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install ORDER BY namespace LIMIT 1;
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	SELECT array_agg(d.schema_version) INTO v_versions FROM (SELECT schema_version FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_namespace ORDER BY schema_version LIMIT p_rows) d;
	DELETE FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_namespace AND schema_version = ANY (v_versions);
	UPDATE ext_storage_usage SET schema_floor = greatest(schema_floor, (SELECT max(v) FROM unnest(v_versions) v))
		WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	PERFORM ext_deleted_v1(p_tenant, p_install, jsonb_build_object('schemas', cardinality(v_versions)));
	RETURN cardinality(v_versions);
END $$;

-- ext_delete_rest_v1 deletes a closed install's other rows, one kind per call.
CREATE FUNCTION ext_delete_rest_v1(p_tenant UUID, p_install UUID, p_rows BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_seqs  BIGINT[];
	v_names TEXT[];
BEGIN
	SELECT array_agg(d.seq) INTO v_seqs FROM (SELECT seq FROM ext_storage_changes
		WHERE tenant_id = p_tenant AND extension_install_id = p_install ORDER BY seq LIMIT p_rows) d;
	IF v_seqs IS NOT NULL THEN
		DELETE FROM ext_storage_changes WHERE tenant_id = p_tenant AND extension_install_id = p_install AND seq = ANY (v_seqs);
		PERFORM ext_deleted_v1(p_tenant, p_install, jsonb_build_object('changes', cardinality(v_seqs)));
		RETURN cardinality(v_seqs);
	END IF;
	SELECT array_agg(d.once_key) INTO v_names FROM (SELECT once_key FROM ext_storage_answers
		WHERE tenant_id = p_tenant AND extension_install_id = p_install ORDER BY once_key LIMIT p_rows) d;
	IF v_names IS NOT NULL THEN
		DELETE FROM ext_storage_answers WHERE tenant_id = p_tenant AND extension_install_id = p_install AND once_key = ANY (v_names);
		PERFORM ext_deleted_v1(p_tenant, p_install, jsonb_build_object('answers', cardinality(v_names)));
		RETURN cardinality(v_names);
	END IF;
	SELECT array_agg(d.token_id) INTO v_names FROM (SELECT token_id FROM ext_storage_revoked_tokens
		WHERE tenant_id = p_tenant AND extension_install_id = p_install ORDER BY token_id LIMIT p_rows) d;
	IF v_names IS NOT NULL THEN
		DELETE FROM ext_storage_revoked_tokens WHERE tenant_id = p_tenant AND extension_install_id = p_install AND token_id = ANY (v_names);
		PERFORM ext_deleted_v1(p_tenant, p_install, jsonb_build_object('tokens', cardinality(v_names)));
		RETURN cardinality(v_names);
	END IF;
	-- Only if the install's counters were wrong.
	SELECT array_agg(d.namespace) INTO v_names FROM (SELECT namespace FROM ext_storage_namespaces
		WHERE tenant_id = p_tenant AND extension_install_id = p_install ORDER BY namespace LIMIT p_rows) d;
	IF v_names IS NOT NULL THEN
		DELETE FROM ext_storage_namespaces WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = ANY (v_names);
	END IF;
	RETURN coalesce(cardinality(v_names), 0);
END $$;

-- ext_delete_v1 is one deletion step for a closed owner: it deletes at most p_rows rows of one kind. If no rows are
-- left, it ends the deletion with an audit event. p_caller and p_caller_id are JSON strings. It returns NULL if the
-- owner is not closed.
CREATE FUNCTION ext_delete_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_rows BIGINT, p_bytes BIGINT, p_kept_until TIMESTAMPTZ,
	p_caller TEXT, p_caller_id TEXT)
RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_closed  BIGINT;
	v_started TIMESTAMPTZ;
	v_ended   TIMESTAMPTZ;
	v_deleted JSONB;
	v_topic   TEXT := 'deleteInstall';
BEGIN
	SELECT closed_seq INTO v_closed FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	SELECT deleting_at, deleted_at INTO v_started, v_ended FROM ext_storage_installs
		WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	IF v_closed IS NULL OR v_started IS NULL THEN
		RETURN NULL;
	ELSIF v_ended IS NOT NULL
		OR ext_delete_records_v1(p_tenant, p_install, p_now, NULL, p_rows, p_bytes) > 0
		OR ext_delete_schemas_v1(p_tenant, p_install, greatest(p_rows / 16, 1)) > 0
		OR ext_delete_rest_v1(p_tenant, p_install, p_rows) > 0
	THEN
		RETURN ext_deletion_v1(p_tenant, p_install);
	END IF;
	IF p_install = '00000000-0000-0000-0000-000000000000' THEN
		v_topic := 'deleteTenant';
	END IF;
	UPDATE ext_storage_usage
		SET bytes_used = 0, keys_count = 0, namespaces_count = 0, change_seq = v_closed + 1, closed_seq = v_closed + 1, updated_at = p_now
		WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	UPDATE ext_storage_installs
		SET tier = '', overrides = '{}', override_until = NULL, namespaces = NULL, revoked_at = NULL, tokens_after = NULL, deleted_at = p_now,
			kept_until = p_kept_until, created_at = deleting_at, updated_at = p_now
		WHERE tenant_id = p_tenant AND extension_install_id = p_install
		RETURNING deletion INTO v_deleted;
	INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at)
		VALUES (p_tenant, p_install, v_closed + 1, 'extstorage.' || v_topic, '',
			(jsonb_build_object('operation', v_topic, 'startedAt', ext_ms_v1(v_started), 'caller', p_caller::jsonb, 'callerId', p_caller_id::jsonb,
				'deleted', v_deleted))::json, p_now);
	IF v_topic = 'deleteInstall' THEN
		PERFORM 1 FROM ext_storage_installs
			WHERE tenant_id = p_tenant AND extension_install_id = '00000000-0000-0000-0000-000000000000'
				AND deleting_at IS NOT NULL AND deleted_at IS NULL;
		IF FOUND THEN
			PERFORM ext_deleted_v1(p_tenant, '00000000-0000-0000-0000-000000000000', v_deleted || '{"installs":1}');
		END IF;
	END IF;
	RETURN ext_deletion_v1(p_tenant, p_install);
END $$;

-- ext_reopen_v1 reopens a deleted owner and returns whether it did. Change numbers continue, so ETags from before the
-- deletion never match. The caller holds the lock.
CREATE FUNCTION ext_reopen_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS BOOLEAN LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM 1 FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	PERFORM 1 FROM ext_storage_installs
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND deleting_at IS NOT NULL AND deleted_at IS NULL;
	IF FOUND THEN
		PERFORM ext_closed_v1();
	END IF;
	DELETE FROM ext_storage_installs
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND deleted_at IS NOT NULL;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	UPDATE ext_storage_usage SET closed_seq = NULL, counted_at = p_now WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, created_at, updated_at, tokens_after)
		VALUES (p_tenant, p_install, '', p_now, p_now, p_now);
	RETURN true;
END $$;

-- ext_set_install_v1 registers an install. It returns {"revokedAt", "createdAt", "tokensAfter", "created"}: times in
-- milliseconds, and whether the entry is new.
CREATE FUNCTION ext_set_install_v1(p_tenant UUID, p_install UUID, p_tier TEXT, p_overrides TEXT, p_until TIMESTAMPTZ, p_namespaces TEXT,
	p_now TIMESTAMPTZ, p_restore BOOLEAN)
RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_reopened BOOLEAN := false;
	v_revoked  TIMESTAMPTZ;
	v_created  TIMESTAMPTZ;
	v_tokens   TIMESTAMPTZ;
	v_added    BOOLEAN;
BEGIN
	IF p_restore THEN
		PERFORM ext_tenant_v1(p_tenant, p_now);
		v_reopened := ext_reopen_v1(p_tenant, p_install, p_now);
	END IF;
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	INSERT INTO ext_storage_installs AS i (tenant_id, extension_install_id, tier, overrides, override_until, namespaces, created_at, updated_at)
		VALUES (p_tenant, p_install, p_tier, p_overrides::jsonb, p_until, p_namespaces::jsonb, p_now, p_now)
		ON CONFLICT (tenant_id, extension_install_id) DO UPDATE
		SET tier = EXCLUDED.tier, overrides = EXCLUDED.overrides, override_until = EXCLUDED.override_until, namespaces = EXCLUDED.namespaces,
			revoked_at = CASE WHEN p_restore THEN NULL ELSE i.revoked_at END, updated_at = EXCLUDED.updated_at
		RETURNING i.revoked_at, i.created_at, i.tokens_after, xmax = 0 INTO v_revoked, v_created, v_tokens, v_added;
	RETURN json_build_object('revokedAt', ext_ms_v1(v_revoked), 'createdAt', ext_ms_v1(v_created), 'tokensAfter', ext_ms_v1(v_tokens),
		'created', v_added OR v_reopened);
END $$;

CREATE FUNCTION ext_revoke_install_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	INSERT INTO ext_storage_installs AS i (tenant_id, extension_install_id, tier, revoked_at, created_at, updated_at)
		VALUES (p_tenant, p_install, '', p_now, p_now, p_now)
		ON CONFLICT (tenant_id, extension_install_id) DO UPDATE
		SET revoked_at = EXCLUDED.revoked_at, updated_at = EXCLUDED.updated_at WHERE i.revoked_at IS NULL;
END $$;

CREATE FUNCTION ext_revoke_token_v1(p_tenant UUID, p_install UUID, p_token TEXT, p_expires TIMESTAMPTZ, p_now TIMESTAMPTZ)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	INSERT INTO ext_storage_revoked_tokens AS t (tenant_id, extension_install_id, token_id, expires_at, revoked_at)
		VALUES (p_tenant, p_install, p_token, p_expires, p_now)
		ON CONFLICT (tenant_id, extension_install_id, token_id) DO UPDATE
		SET expires_at = EXCLUDED.expires_at WHERE t.expires_at < EXCLUDED.expires_at;
END $$;

-- ext_forget_v1 deletes an owner's tombstone if it is due and all the owner's audit events are published: a new install
-- would reuse its event numbers.
CREATE FUNCTION ext_forget_v1(p_tenant UUID, p_install UUID, p_due TIMESTAMPTZ)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM 1 FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	DELETE FROM ext_storage_installs
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND kept_until <= p_due
			AND NOT EXISTS (SELECT FROM ext_storage_outbox e WHERE e.part IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
				AND e.tenant_id = p_tenant AND e.extension_install_id = p_install)
			AND NOT EXISTS (SELECT FROM ext_storage_outbox_refused e WHERE e.tenant_id = p_tenant AND e.extension_install_id = p_install);
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	DELETE FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	RETURN 1;
END $$;

-- ext_expire_v1 deletes an install's earliest expired records as of p_due, at most p_limit, and returns the number. For
-- a closed install it is part of the deletion and records no changes.
CREATE FUNCTION ext_expire_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_due TIMESTAMPTZ, p_limit BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u            ext_counters_v1;
	v_namespaces TEXT[];
	v_keys       TEXT[];
	v_revisions  BIGINT[];
	v_bytes      BIGINT[]; -- bytes in the counters, or NULL
	v_of         RECORD;
	v_left       BIGINT;
	v_closed     BIGINT;
BEGIN
	SELECT closed_seq INTO v_closed FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	IF NOT FOUND THEN
		RETURN 0; -- no records; ext_lock_v1 would create a row
	ELSIF v_closed IS NOT NULL THEN
		RETURN ext_delete_records_v1(p_tenant, p_install, p_now, p_due, p_limit, 1 << 22);
	END IF;
	u := ext_lock_v1(p_tenant, p_install, p_now);
	SELECT array_agg(d.namespace), array_agg(d.key), array_agg(d.revision), array_agg(d.bytes)
		INTO v_namespaces, v_keys, v_revisions, v_bytes
		FROM (SELECT namespace, key, revision, CASE WHEN ttl_expires_at > u.counted_at THEN value_bytes::bigint + metadata_bytes END AS bytes
			FROM ext_storage_records
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND ttl_expires_at <= p_due
			ORDER BY ttl_expires_at, namespace, key LIMIT p_limit) d;
	IF v_keys IS NULL THEN
		RETURN 0;
	END IF;
	INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		SELECT p_tenant, p_install, u.seq + c.n, 'expire', c.namespace, c.key, c.revision, p_now
		FROM unnest(v_namespaces, v_keys, v_revisions) WITH ORDINALITY AS c (namespace, key, revision, n);
	FOR v_of IN SELECT c.namespace, array_agg(c.key) AS keys, count(c.bytes) AS counted, coalesce(sum(c.bytes), 0)::bigint AS bytes
		FROM unnest(v_namespaces, v_keys, v_bytes) c (namespace, key, bytes) GROUP BY c.namespace
	LOOP
		DELETE FROM ext_storage_records
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_of.namespace AND key = ANY (v_of.keys);
		CONTINUE WHEN v_of.counted = 0;
		v_left := ext_keys_v1(p_tenant, p_install, v_of.namespace) - v_of.counted;
		PERFORM ext_count_keys_v1(p_tenant, p_install, v_of.namespace, v_left);
		IF v_left = 0 THEN
			u.namespaces := u.namespaces - 1;
		END IF;
		u.bytes := u.bytes - v_of.bytes;
		u.keys := u.keys - v_of.counted;
	END LOOP;
	u.seq := u.seq + cardinality(v_keys);
	PERFORM ext_count_v1(p_tenant, p_install, p_now, u);
	RETURN cardinality(v_keys);
END $$;

-- ext_sweep_v1 deletes rows that the sweep found in one install and returns the number: p_expired records that had
-- expired at p_due, the changes p_changes, and the answers p_answers unless they were renewed. It does not wait for
-- the commit to reach the disk: rows restored by a crash are swept again.
CREATE FUNCTION ext_sweep_v1(
	p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_due TIMESTAMPTZ, p_expired BIGINT, p_changes BIGINT[], p_answers TEXT[],
	p_answers_before TIMESTAMPTZ
) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_swept BIGINT := 0;
	v_count BIGINT;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	IF p_expired > 0 THEN
		v_swept := ext_expire_v1(p_tenant, p_install, p_now, p_due, p_expired);
	END IF;
	DELETE FROM ext_storage_changes
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND seq = ANY (p_changes);
	GET DIAGNOSTICS v_count = ROW_COUNT;
	v_swept := v_swept + v_count;
	DELETE FROM ext_storage_answers
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND once_key = ANY (p_answers) AND at <= p_answers_before;
	GET DIAGNOSTICS v_count = ROW_COUNT;
	RETURN v_swept + v_count;
END $$;

-- citus

SELECT create_distributed_function('ext_deletion_v1(uuid, uuid)');
SELECT create_distributed_function('ext_close_v1(uuid, uuid, timestamptz)', 'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_deleted_v1(uuid, uuid, jsonb)');
SELECT create_distributed_function('ext_uncount_v1(uuid, uuid, text, bigint, bigint, ext_counters_v1)');
SELECT create_distributed_function('ext_delete_records_v1(uuid, uuid, timestamptz, timestamptz, bigint, bigint)');
SELECT create_distributed_function('ext_delete_schemas_v1(uuid, uuid, bigint)');
SELECT create_distributed_function('ext_delete_rest_v1(uuid, uuid, bigint)');
SELECT create_distributed_function('ext_delete_v1(uuid, uuid, timestamptz, bigint, bigint, timestamptz, text, text)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_reopen_v1(uuid, uuid, timestamptz)', 'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_set_install_v1(uuid, uuid, text, text, timestamptz, text, timestamptz, boolean)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_revoke_install_v1(uuid, uuid, timestamptz)', 'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_revoke_token_v1(uuid, uuid, text, timestamptz, timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_forget_v1(uuid, uuid, timestamptz)', 'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_expire_v1(uuid, uuid, timestamptz, timestamptz, bigint)');
SELECT create_distributed_function('ext_sweep_v1(uuid, uuid, timestamptz, timestamptz, bigint, bigint[], text[], timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
