-- bucket_set_settings_v1 with a check. -2: p_rules is not NULL and the lifecycle rules were set at another time.
CREATE FUNCTION bucket_set_settings_v2(p_owner uuid, p_bucket text, p_bucket_id uuid, p_settings jsonb, p_rules bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	rules bigint;
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN -1;
	END IF;
	IF p_rules IS NOT NULL THEN
		INSERT INTO manta_bucket_settings (owner, bucket_id, settings) VALUES (p_owner, p_bucket_id, '{}') ON CONFLICT (owner, bucket_id) DO NOTHING;
		PERFORM 1 FROM manta_bucket_settings WHERE owner = p_owner AND bucket_id = p_bucket_id FOR UPDATE;
		SELECT coalesce((settings->'lifecycle'->>'changed')::bigint, 0) INTO rules
			FROM manta_bucket_settings WHERE owner = p_owner AND bucket_id = p_bucket_id;
		IF rules <> p_rules THEN
			RETURN -2;
		END IF;
	END IF;
	INSERT INTO manta_bucket_settings (owner, bucket_id, settings) VALUES (p_owner, p_bucket_id, p_settings)
		ON CONFLICT (owner, bucket_id) DO UPDATE SET settings = manta_bucket_settings.settings || EXCLUDED.settings;
	RETURN 0;
END $$;

-- citus

SELECT create_distributed_function('bucket_set_settings_v2(uuid, text, uuid, jsonb, bigint)', 'p_owner', colocate_with => 'manta_bucket');
