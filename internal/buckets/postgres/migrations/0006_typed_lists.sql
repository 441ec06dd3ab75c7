-- List pages with typed columns. Converting columns to text took more than half the time in bucket_list_v1.

CREATE TYPE bucket_entry_v1 AS (
	name           text,
	modified       timestamptz,
	content_length bigint,
	content_md5    bytea,
	properties     text,
	id             uuid,
	created        timestamptz,
	creator        uuid,
	content_type   text
);

-- bucket_list_v1 with typed rows. For a group, only the name is set.
CREATE FUNCTION bucket_list_v2(
	p_owner uuid, p_bucket_id uuid, p_prefix text, p_delimiter text, p_from text, p_inclusive boolean, p_limit integer
) RETURNS SETOF bucket_entry_v1 LANGUAGE plpgsql STABLE SET enable_sort = off SET enable_bitmapscan = off AS $$
DECLARE
	c_top    CONSTANT text := repeat(chr(1114111), 257); -- greater than every name
	v_end    text := p_prefix || c_top;
	v_start  integer := length(p_prefix) + 1;
	v_from   text := p_from;
	v_equal  boolean := p_inclusive;
	v_left   integer := p_limit;
	v_batch  integer := 8;
	v_rows   integer;
	v_at     integer;
	v_group  text;
	v_name   text;
	v_groups boolean := true;
	r        bucket_entry_v1;
BEGIN
	IF p_delimiter = '' THEN
		RETURN QUERY
			SELECT o.name, o.modified, o.content_length, o.content_md5, o.properties::text, o.id, o.created, o.creator, o.content_type
			FROM manta_bucket_object o
			WHERE o.owner = p_owner AND o.bucket_id = p_bucket_id AND o.name >= p_from AND o.name <= v_end AND (p_inclusive OR o.name > p_from)
			ORDER BY o.name LIMIT p_limit;
		RETURN;
	END IF;
	LOOP
		IF v_groups THEN
			FOR v_name IN
				WITH RECURSIVE g (name) AS (
					(
						SELECT o.name FROM manta_bucket_object o
						WHERE o.owner = p_owner AND o.bucket_id = p_bucket_id AND o.name >= v_from AND o.name <= v_end AND (v_equal OR o.name > v_from)
						ORDER BY o.name LIMIT 1
					)
					UNION ALL
					SELECT (
						SELECT o.name FROM manta_bucket_object o
						WHERE o.owner = p_owner AND o.bucket_id = p_bucket_id AND o.name <= v_end
							AND o.name > left(g.name, v_start + strpos(substr(g.name, v_start), p_delimiter) + length(p_delimiter) - 2) || c_top
						ORDER BY o.name LIMIT 1
					) FROM g WHERE strpos(substr(g.name, v_start), p_delimiter) > 0
				) SELECT g.name FROM g WHERE g.name IS NOT NULL LIMIT v_left
			LOOP
				v_at := strpos(substr(v_name, v_start), p_delimiter);
				EXIT WHEN v_at = 0;
				r := NULL;
				r.name := v_name;
				RETURN NEXT r;
				v_left := v_left - 1;
			END LOOP;
			EXIT WHEN NOT FOUND OR v_at > 0; -- all names are in groups
			v_from := v_name;
			v_equal := true;
			v_groups := false;
		END IF;
		v_rows := 0;
		v_group := NULL;
		FOR r IN
			SELECT name, modified, content_length, content_md5, properties::text, id, created, creator, content_type
			FROM manta_bucket_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name >= v_from AND name <= v_end AND (v_equal OR name > v_from)
			ORDER BY name LIMIT least(v_batch, v_left)
		LOOP
			v_rows := v_rows + 1;
			v_left := v_left - 1;
			v_from := r.name;
			RETURN NEXT r;
			v_at := strpos(substr(r.name, v_start), p_delimiter);
			IF v_at > 0 THEN
				v_group := left(r.name, v_start + v_at + length(p_delimiter) - 2);
				EXIT;
			END IF;
		END LOOP;
		v_equal := false;
		IF v_group IS NOT NULL THEN
			v_from := v_group || c_top;
			v_batch := 2;
			v_groups := v_rows = 1;
		ELSIF v_rows < v_batch THEN
			RETURN;
		ELSE
			v_batch := v_batch * 8;
		END IF;
		EXIT WHEN v_left <= 0;
	END LOOP;
END $$;

-- citus

SELECT create_distributed_function('bucket_list_v2(uuid, uuid, text, text, text, boolean, integer)', 'p_owner', colocate_with => 'manta_bucket');
