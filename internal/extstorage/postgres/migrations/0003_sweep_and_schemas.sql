-- The sweep, and the registry of schemas. What changes counters or schemas takes
-- the install's lock, like every write.

-- ext_expire_v1 removes at most p_limit records of an install that had expired at
-- p_due, those that expired first, and returns how many.
CREATE FUNCTION ext_expire_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_due TIMESTAMPTZ, p_limit BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u            ext_counters_v1;
	v_namespaces TEXT[];
	v_keys       TEXT[];
	v_revisions  BIGINT[];
	v_bytes      BIGINT[]; -- that count; NULL: the record does not
	v_of         RECORD;
	v_left       BIGINT;
BEGIN
	PERFORM 1 FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	IF NOT FOUND THEN
		RETURN 0; -- it has nothing; ext_lock_v1 would make a row
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

-- ext_sweep_v1 removes what the sweep has found of one install, and returns how
-- much: p_expired of the records that had expired at p_due, the changes of
-- p_changes, and the answers of p_answers, unless one was given anew. Nobody waits
-- for it to be on disk: what a crash brings back is swept again.
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

-- ext_schema_v1 is a schema as texts: status, moments of its making and change
-- (milliseconds), who made it, and the document; NULL when there is none.
CREATE FUNCTION ext_schema_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER)
RETURNS TEXT[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT ARRAY[status, ext_ms_v1(created_at)::text, ext_ms_v1(updated_at)::text, created_by::text, schema_document::text]
		FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version);
END $$;

-- ext_register_v1 adds a draft and returns its version. The newest p_keep
-- versions stay, and the one that is active.
CREATE FUNCTION ext_register_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_document TEXT, p_by UUID, p_now TIMESTAMPTZ, p_keep INTEGER)
RETURNS INTEGER LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_version INTEGER;
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	SELECT coalesce(max(schema_version), 0) + 1 INTO v_version FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace;
	INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status,
			created_at, updated_at, created_by)
		VALUES (p_tenant, p_install, p_namespace, v_version, p_document::jsonb, 'draft', p_now, p_now, p_by);
	DELETE FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace
			AND schema_version <= v_version - p_keep AND status <> 'active';
	RETURN v_version;
END $$;

-- ext_schema_status_v1 gives a schema a status and returns it as ext_schema_v1
-- does. One that becomes active takes the place of the one that is.
CREATE FUNCTION ext_schema_status_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER, p_status TEXT, p_now TIMESTAMPTZ)
RETURNS TEXT[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	PERFORM 1 FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version
			AND status <> p_status;
	IF FOUND THEN
		IF p_status = 'active' THEN
			UPDATE ext_storage_schemas SET status = 'deprecated', updated_at = p_now
				WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND status = 'active';
		END IF;
		UPDATE ext_storage_schemas SET status = p_status, updated_at = p_now
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version;
	END IF;
	RETURN ext_schema_v1(p_tenant, p_install, p_namespace, p_version);
END $$;

-- ext_leap_v1 makes the next change of an install have a number behind p_after.
CREATE FUNCTION ext_leap_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_after BIGINT)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	UPDATE ext_storage_usage SET change_seq = p_after
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND change_seq < p_after;
END $$;

-- ext_restore_v1 gives records that ext_apply_v1 has put in the same transaction,
-- by their changes p_seqs, a revision and moments from elsewhere.
CREATE FUNCTION ext_restore_v1(p_tenant UUID, p_install UUID, p_namespaces TEXT[], p_keys TEXT[], p_seqs BIGINT[], p_revisions BIGINT[],
	p_created TIMESTAMPTZ[], p_updated TIMESTAMPTZ[])
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	-- Never SET a column to an element of an array: Citus 13.2 takes it for an
	-- assignment to one, and the server crashes.
	v_of RECORD;
BEGIN
	FOR v_of IN SELECT * FROM unnest(p_namespaces, p_keys, p_seqs, p_revisions, p_created, p_updated)
		c (namespace, key, seq, revision, created, updated)
	LOOP
		UPDATE ext_storage_records SET revision = v_of.revision, created_at = v_of.created, updated_at = v_of.updated
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = v_of.namespace AND key = v_of.key
				AND change_seq = v_of.seq;
		UPDATE ext_storage_changes SET revision = v_of.revision
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND seq = v_of.seq;
		-- With every partition, so that the key of the table finds the event.
		UPDATE ext_storage_outbox SET payload = regexp_replace(payload::text, '"revision":\d+}$', format('"revision":%s}', v_of.revision))::json
			WHERE part IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
				AND tenant_id = p_tenant AND extension_install_id = p_install AND seq = v_of.seq;
	END LOOP;
END $$;

-- ext_restore_schema_v1 adds a version as it was elsewhere, or gives the one that
-- is there its status. It answers "changed", "same", or "conflict" where the
-- version has another document.
CREATE FUNCTION ext_restore_schema_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER, p_status TEXT,
	p_created TIMESTAMPTZ, p_updated TIMESTAMPTZ, p_by UUID, p_document TEXT, p_now TIMESTAMPTZ, p_keep INTEGER)
RETURNS TEXT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_status   TEXT;
	v_document JSONB;
	v_last     INTEGER;
	v_found    BOOLEAN;
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	SELECT status, schema_document INTO v_status, v_document FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version;
	v_found := FOUND;
	SELECT coalesce(max(schema_version), 0) INTO v_last FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace;
	IF v_found AND v_document <> p_document::jsonb THEN
		RETURN 'conflict';
	ELSIF v_found AND p_status IN (v_status, 'draft') OR NOT v_found AND p_status <> 'active' AND p_version <= v_last - p_keep THEN
		RETURN 'same';
	END IF;
	IF p_status = 'active' THEN
		UPDATE ext_storage_schemas SET status = 'deprecated', updated_at = p_now
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND status = 'active';
	END IF;
	IF v_found THEN
		UPDATE ext_storage_schemas SET status = p_status, updated_at = p_updated
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version;
		RETURN 'changed';
	END IF;
	INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status,
			created_at, updated_at, created_by)
		VALUES (p_tenant, p_install, p_namespace, p_version, p_document::jsonb, p_status, p_created, p_updated, p_by);
	DELETE FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace
			AND schema_version <= greatest(v_last, p_version) - p_keep AND status <> 'active';
	RETURN 'changed';
END $$;

-- citus

SELECT create_distributed_function('ext_schema_v1(uuid, uuid, text, integer)');
SELECT create_distributed_function('ext_expire_v1(uuid, uuid, timestamptz, timestamptz, bigint)');
SELECT create_distributed_function('ext_sweep_v1(uuid, uuid, timestamptz, timestamptz, bigint, bigint[], text[], timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_register_v1(uuid, uuid, text, text, uuid, timestamptz, integer)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_schema_status_v1(uuid, uuid, text, integer, text, timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_leap_v1(uuid, uuid, timestamptz, bigint)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_restore_v1(uuid, uuid, text[], text[], bigint[], bigint[], timestamptz[], timestamptz[])',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function(
	'ext_restore_schema_v1(uuid, uuid, text, integer, text, timestamptz, timestamptz, uuid, text, timestamptz, integer)',
	'p_tenant', colocate_with => 'ext_storage_records');
