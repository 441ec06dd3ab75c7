-- What is over, and the registry of schemas. What changes counters or schemas
-- takes the install's lock, like every write.

-- ext_reclaim_v1 removes at most p_limit expired records of an install, and
-- returns how many.
CREATE FUNCTION ext_reclaim_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_limit BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM 1 FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install FOR UPDATE;
	IF NOT FOUND THEN
		RETURN 0; -- it has nothing; the lock would make a row
	END IF;
	RETURN ext_expire_v1(p_tenant, p_install, p_now, p_limit);
END $$;

-- ext_sweep_v1 removes what the sweep has found of one install, and returns how
-- much: p_expired of its expired records, the changes of p_changes, and the
-- answers of p_answers, unless one was given anew. Nobody waits for it to be on
-- disk: what a crash brings back is swept again.
CREATE FUNCTION ext_sweep_v1(
	p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_expired BIGINT, p_changes BIGINT[], p_answers TEXT[], p_answers_before TIMESTAMPTZ
) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_swept BIGINT := 0;
	v_count BIGINT;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	IF p_expired > 0 THEN
		v_swept := ext_reclaim_v1(p_tenant, p_install, p_now, p_expired);
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

-- citus

SELECT create_distributed_function('ext_schema_v1(uuid, uuid, text, integer)');
SELECT create_distributed_function('ext_reclaim_v1(uuid, uuid, timestamptz, bigint)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_sweep_v1(uuid, uuid, timestamptz, bigint, bigint[], text[], timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_register_v1(uuid, uuid, text, text, uuid, timestamptz, integer)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_schema_status_v1(uuid, uuid, text, integer, text, timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
