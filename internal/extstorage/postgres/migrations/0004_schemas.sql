-- The schema registry. Like every write, its writes lock the install.

-- ext_namespaces_over_v1 returns 0 if a namespace may get a schema: it already counts, or the install has fewer than
-- p_max. Otherwise it returns the number that the install would reach. It takes the lock.
CREATE FUNCTION ext_namespaces_over_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_namespace TEXT, p_max BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	u      ext_counters_v1 := ext_lock_v1(p_tenant, p_install, p_now);
	v_keys BIGINT;
	v_used BIGINT;
BEGIN
	IF u.counted_at > p_now THEN -- another server's clock is ahead
		u := ext_recount_v1(p_tenant, p_install, p_now, u);
	END IF;
	LOOP
		-- A separate statement: on Citus, statements on tables must not call these functions.
		v_keys := ext_keys_v1(p_tenant, p_install, p_namespace);
		IF v_keys > 0 AND u.counted_at = p_now THEN -- keys may have expired since counted_at
			RETURN 0;
		END IF;
		PERFORM 1 FROM ext_storage_schemas
			WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace LIMIT 1;
		IF FOUND THEN
			RETURN 0;
		END IF;
		SELECT u.namespaces + (v_keys = 0)::int + count(DISTINCT s.namespace) INTO v_used FROM ext_storage_schemas s
			WHERE s.tenant_id = p_tenant AND s.extension_install_id = p_install AND NOT EXISTS (SELECT FROM ext_storage_namespaces n
				WHERE n.tenant_id = p_tenant AND n.extension_install_id = p_install AND n.namespace = s.namespace);
		IF v_used <= p_max THEN
			RETURN 0;
		ELSIF u.counted_at = p_now THEN
			RETURN v_used;
		END IF;
		u := ext_recount_v1(p_tenant, p_install, p_now, u); -- expired records do not count
	END LOOP;
END $$;

-- ext_schema_v1 returns {"status", "createdAt", "updatedAt", "createdBy", "document"}, with times in milliseconds, or
-- NULL if the version does not exist.
CREATE FUNCTION ext_schema_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER)
RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT json_build_object('status', status, 'createdAt', ext_ms_v1(created_at), 'updatedAt', ext_ms_v1(updated_at),
			'createdBy', created_by, 'document', schema_document)
		FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version);
END $$;

-- ext_register_v1 adds a draft and returns its version, or the negative number of namespaces if it would exceed
-- p_max_namespaces. It keeps the newest p_keep versions and the active version. A new namespace's versions start after
-- all deleted versions, so a version number is never reused.
CREATE FUNCTION ext_register_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_document TEXT, p_by UUID, p_now TIMESTAMPTZ, p_keep INTEGER,
	p_max_namespaces BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_version INTEGER;
	v_over    BIGINT := ext_namespaces_over_v1(p_tenant, p_install, p_now, p_namespace, p_max_namespaces);
BEGIN
	IF v_over > 0 THEN
		RETURN - v_over;
	END IF;
	SELECT max(schema_version) + 1 INTO v_version FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace;
	IF v_version IS NULL THEN
		SELECT schema_floor + 1 INTO v_version FROM ext_storage_usage WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	END IF;
	INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status,
			created_at, updated_at, created_by)
		VALUES (p_tenant, p_install, p_namespace, v_version, p_document::jsonb, 'draft', p_now, p_now, p_by);
	DELETE FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace
			AND schema_version <= v_version - p_keep AND status <> 'active';
	RETURN v_version;
END $$;

-- ext_schema_status_v1 sets a schema's status and returns ext_schema_v1. A new active version replaces the active
-- version.
CREATE FUNCTION ext_schema_status_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER, p_status TEXT, p_now TIMESTAMPTZ)
RETURNS JSON LANGUAGE plpgsql VOLATILE AS $$
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

-- ext_restore_schema_v1 adds a version from an export, or sets the existing version's status. It returns "changed",
-- "same", "conflict" if the documents differ, or the number of namespaces if it would exceed p_max_namespaces.
CREATE FUNCTION ext_restore_schema_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER, p_status TEXT,
	p_created TIMESTAMPTZ, p_updated TIMESTAMPTZ, p_by UUID, p_document TEXT, p_now TIMESTAMPTZ, p_keep INTEGER, p_max_namespaces BIGINT)
RETURNS TEXT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_status   TEXT;
	v_document JSONB;
	v_last     INTEGER;
	v_found    BOOLEAN;
	v_over     BIGINT := ext_namespaces_over_v1(p_tenant, p_install, p_now, p_namespace, p_max_namespaces);
BEGIN
	IF v_over > 0 THEN
		RETURN v_over::text;
	END IF;
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

-- ext_drop_schemas_v1 deletes one schema version of a namespace, or all if p_version is 0, and returns the number. -1:
-- the version is active, or is the newest, whose number would be reused.
CREATE FUNCTION ext_drop_schemas_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER, p_now TIMESTAMPTZ)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_last  INTEGER;
	v_count BIGINT;
BEGIN
	PERFORM ext_lock_v1(p_tenant, p_install, p_now);
	SELECT coalesce(max(schema_version), 0) INTO v_last FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace;
	IF p_version > 0 AND (p_version = v_last OR EXISTS (SELECT FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version
			AND status = 'active')) THEN
		RETURN -1;
	END IF;
	DELETE FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND p_version IN (0, schema_version);
	GET DIAGNOSTICS v_count = ROW_COUNT;
	IF p_version = 0 THEN
		UPDATE ext_storage_usage SET schema_floor = greatest(schema_floor, v_last)
			WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	END IF;
	RETURN v_count;
END $$;

-- citus

SELECT create_distributed_function('ext_namespaces_over_v1(uuid, uuid, timestamptz, text, bigint)');
SELECT create_distributed_function('ext_schema_v1(uuid, uuid, text, integer)');
SELECT create_distributed_function('ext_register_v1(uuid, uuid, text, text, uuid, timestamptz, integer, bigint)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_schema_status_v1(uuid, uuid, text, integer, text, timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function(
	'ext_restore_schema_v1(uuid, uuid, text, integer, text, timestamptz, timestamptz, uuid, text, timestamptz, integer, bigint)',
	'p_tenant', colocate_with => 'ext_storage_records');
SELECT create_distributed_function('ext_drop_schemas_v1(uuid, uuid, text, integer, timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
