-- A restore makes each install's schema versions start after schema_floor, because clients keep a schema by its version
-- and the lost server may have registered versions that the backup lacks. An install without a counter row takes the
-- floor from ext_storage_floor: 100,000 change numbers skip one version.
--
-- The three functions replace functions of the same name, so that servers of the previous release skip versions, too. For
-- them nothing changes unless the database was restored, except that a namespace keeps its newest p_keep versions and
-- not the versions above the newest less p_keep: the numbers now have gaps.

CREATE OR REPLACE FUNCTION ext_row_v1(p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_first BIGINT;
BEGIN
	SELECT seq INTO v_first FROM ext_storage_floor WHERE one = 1;
	INSERT INTO ext_storage_usage (tenant_id, extension_install_id, updated_at, counted_at, change_seq, floor_seq, schema_floor)
		VALUES (p_tenant, p_install, p_now, p_now, v_first, v_first, least(v_first / 100000, 2147483647))
		ON CONFLICT DO NOTHING;
END $$;

-- ext_register_v1 adds a draft and returns its version, the negative number of namespaces if it would exceed
-- p_max_namespaces, or 0 if no version is left. It keeps the newest p_keep versions and the active version. A new
-- namespace's versions start after all deleted versions, so a version number is never reused. After a restore of the
-- database, the versions of all namespaces start after schema_floor.
CREATE OR REPLACE FUNCTION ext_register_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_document TEXT, p_by UUID, p_now TIMESTAMPTZ,
	p_keep INTEGER, p_max_namespaces BIGINT)
RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_last BIGINT;
	v_over BIGINT := ext_namespaces_over_v1(p_tenant, p_install, p_now, p_namespace, p_max_namespaces);
BEGIN
	IF v_over > 0 THEN
		RETURN - v_over;
	END IF;
	SELECT coalesce(max(schema_version), 0) INTO v_last FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace;
	SELECT greatest(v_last, CASE WHEN v_last = 0 OR floor_seq > 0 THEN schema_floor END) INTO v_last FROM ext_storage_usage
		WHERE tenant_id = p_tenant AND extension_install_id = p_install;
	IF v_last >= 2147483647 THEN
		RETURN 0;
	END IF;
	INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status,
			created_at, updated_at, created_by)
		VALUES (p_tenant, p_install, p_namespace, v_last + 1, p_document::jsonb, 'draft', p_now, p_now, p_by);
	PERFORM ext_keep_schemas_v1(p_tenant, p_install, p_namespace, p_keep);
	RETURN v_last + 1;
END $$;

-- ext_keep_schemas_v1 deletes all but a namespace's newest p_keep versions and its active version.
CREATE FUNCTION ext_keep_schemas_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_keep INTEGER)
RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_drop INTEGER;
BEGIN
	SELECT schema_version INTO v_drop FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace
		ORDER BY schema_version DESC LIMIT 1 OFFSET p_keep;
	DELETE FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace
			AND schema_version <= v_drop AND status <> 'active';
END $$;

-- ext_restore_schema_v1 adds a version from an export, or sets the existing version's status. It returns "changed",
-- "same", "conflict" if the documents differ, or the number of namespaces if it would exceed p_max_namespaces.
CREATE OR REPLACE FUNCTION ext_restore_schema_v1(p_tenant UUID, p_install UUID, p_namespace TEXT, p_version INTEGER, p_status TEXT,
	p_created TIMESTAMPTZ, p_updated TIMESTAMPTZ, p_by UUID, p_document TEXT, p_now TIMESTAMPTZ, p_keep INTEGER, p_max_namespaces BIGINT)
RETURNS TEXT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_status   TEXT;
	v_document JSONB;
	v_newer    BIGINT;
	v_found    BOOLEAN;
	v_over     BIGINT := ext_namespaces_over_v1(p_tenant, p_install, p_now, p_namespace, p_max_namespaces);
BEGIN
	IF v_over > 0 THEN
		RETURN v_over::text;
	END IF;
	SELECT status, schema_document INTO v_status, v_document FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version = p_version;
	v_found := FOUND;
	SELECT count(*) INTO v_newer FROM ext_storage_schemas
		WHERE tenant_id = p_tenant AND extension_install_id = p_install AND namespace = p_namespace AND schema_version > p_version;
	IF v_found AND v_document <> p_document::jsonb THEN
		RETURN 'conflict';
	ELSIF v_found AND p_status IN (v_status, 'draft') OR NOT v_found AND p_status <> 'active' AND v_newer >= p_keep THEN
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
	PERFORM ext_keep_schemas_v1(p_tenant, p_install, p_namespace, p_keep);
	RETURN 'changed';
END $$;

-- citus

SELECT create_distributed_function('ext_keep_schemas_v1(uuid, uuid, text, integer)');
