-- A sweep that expires records waits until the commit reaches the disk.

-- ext_sweep_v2 is ext_sweep_v1, but waits for the commit if it expired records. An expiry takes change numbers, which
-- clients see at once: after a crash, other changes would get the same numbers, and those clients would miss them. Other
-- deletions are not visible: rows restored by a crash are swept again.
CREATE FUNCTION ext_sweep_v2(
	p_tenant UUID, p_install UUID, p_now TIMESTAMPTZ, p_due TIMESTAMPTZ, p_expired BIGINT, p_changes BIGINT[], p_answers TEXT[],
	p_answers_before TIMESTAMPTZ
) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_swept BIGINT := 0;
	v_count BIGINT;
BEGIN
	IF p_expired > 0 THEN
		v_swept := ext_expire_v1(p_tenant, p_install, p_now, p_due, p_expired);
	END IF;
	IF v_swept = 0 THEN
		PERFORM set_config('synchronous_commit', 'off', true);
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

SELECT create_distributed_function('ext_sweep_v2(uuid, uuid, timestamptz, timestamptz, bigint, bigint[], text[], timestamptz)',
	'p_tenant', colocate_with => 'ext_storage_records');
