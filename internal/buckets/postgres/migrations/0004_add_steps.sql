-- Combines several statements of a transaction, each a message on Citus, into one call.

-- Completes an upload: writes its object like bucket_put_v2, whose parameters come first, and its parts like
-- bucket_assemble_v1. p_stored is a hash of the parts that the caller has read. Additional results: -7: no upload,
-- -10: the parts have changed.
CREATE FUNCTION bucket_complete_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_id uuid, p_creator uuid, p_length bigint, p_md5 bytea, p_type text, p_header_names text[], p_header_values text[],
	p_roles uuid[], p_sharks text[], p_properties jsonb, p_body bytea, p_crc64nvme bigint, p_frames bigint, p_bytes bigint,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz, p_all boolean,
	p_upload uuid, p_stored bytea, p_numbers integer[], p_starts bigint[]
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_stored bytea;
	v_result bigint[];
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, p_name) THEN
		RETURN '{-1}';
	END IF;
	PERFORM 1 FROM manta_bucket_upload
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR UPDATE;
	IF NOT FOUND THEN
		RETURN '{-7}';
	END IF;
	-- While the upload is locked, no part is stored.
	SELECT sha256(convert_to(string_agg(number::text || ' ' || id::text, ',' ORDER BY number), 'UTF8')) INTO v_stored
		FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload;
	IF v_stored IS DISTINCT FROM p_stored THEN
		RETURN '{-10}';
	END IF;
	v_result := bucket_put_v2(p_owner, p_bucket, p_bucket_id, p_name, p_now, p_id, p_creator, p_length, p_md5, p_type,
		p_header_names, p_header_values, p_roles, p_sharks, p_properties, p_body, p_crc64nvme, p_frames, p_bytes,
		p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since, p_all);
	IF v_result[1] >= 0 THEN
		PERFORM bucket_assemble_v1(p_owner, p_bucket_id, p_name, p_upload, p_numbers, p_starts, p_now);
	END IF;
	RETURN v_result;
END $$;

-- citus

SELECT create_distributed_function(
	'bucket_complete_v1(uuid, text, uuid, text, timestamptz, uuid, uuid, bigint, bytea, text, text[], text[], uuid[], text[], jsonb, bytea, bigint, bigint, bigint, integer, text[], text[], timestamptz, timestamptz, boolean, uuid, bytea, integer[], bigint[])',
	'p_owner', colocate_with => 'manta_bucket');
