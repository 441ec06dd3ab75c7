-- The tables of RFD 149 with additional tables and columns. Added columns come last. Text is compared and ordered
-- as bytes. Client text is never used directly as a lock key or path. On Citus, account data is distributed by
-- owner.

DO $$
BEGIN
	CREATE EXTENSION IF NOT EXISTS hstore;
EXCEPTION
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE =
			'buckets need the extension hstore: run CREATE EXTENSION hstore in the database as its owner or a superuser, or GRANT CREATE ON DATABASE to the role';
	WHEN undefined_file OR feature_not_supported THEN
		RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE =
			'buckets need the extension hstore, which the server does not have: install the contrib modules of PostgreSQL there';
END $$;

CREATE TABLE manta_bucket (
	id      uuid NOT NULL,
	name    text COLLATE "C" NOT NULL,
	owner   uuid NOT NULL,
	created timestamptz DEFAULT current_timestamp NOT NULL,
	PRIMARY KEY (owner, name)
);
-- Finds buckets by name in all accounts.
CREATE INDEX manta_bucket_name_idx ON manta_bucket (name, owner);

CREATE TABLE manta_bucket_object (
	id             uuid NOT NULL,
	name           text COLLATE "C" NOT NULL,
	owner          uuid NOT NULL,
	bucket_id      uuid NOT NULL,
	created        timestamptz DEFAULT current_timestamp NOT NULL,
	modified       timestamptz DEFAULT current_timestamp NOT NULL,
	creator        uuid,
	content_length bigint,
	content_md5    bytea,
	content_type   text,
	headers        hstore,
	roles          uuid[],
	sharks         text[],
	properties     jsonb,
	body           bytea, -- a small body, stored here instead of on storage nodes
	content_crc32c bigint, -- for a body on storage nodes
	PRIMARY KEY (owner, bucket_id, name),
	CHECK (octet_length(name) BETWEEN 1 AND 1024)
);
-- Most bodies are compressed already.
ALTER TABLE manta_bucket_object ALTER COLUMN body SET STORAGE EXTERNAL;

-- Citus moves a shard online only if the table has a primary key.
CREATE TABLE manta_bucket_deleted_bucket (
	id         uuid NOT NULL,
	name       text COLLATE "C" NOT NULL,
	owner      uuid NOT NULL,
	created    timestamptz NOT NULL,
	deleted_at timestamptz DEFAULT current_timestamp NOT NULL,
	PRIMARY KEY (owner, id, deleted_at)
);
CREATE INDEX manta_bucket_deleted_bucket_id_idx ON manta_bucket_deleted_bucket (id);
CREATE INDEX manta_bucket_deleted_bucket_deleted_at_idx ON manta_bucket_deleted_bucket (deleted_at);

-- Garbage. Bodies in rows are deleted at once, so there is no column for them. A worker claims rows for a limited
-- time. Version IDs may repeat, so each row has its own garbage_id.
CREATE TABLE manta_bucket_deleted_object (
	id             uuid NOT NULL,
	name           text COLLATE "C" NOT NULL,
	owner          uuid NOT NULL,
	bucket_id      uuid NOT NULL,
	created        timestamptz NOT NULL,
	modified       timestamptz NOT NULL,
	creator        uuid,
	content_length bigint,
	content_md5    bytea,
	content_type   text,
	headers        hstore,
	roles          uuid[],
	sharks         text[],
	properties     jsonb,
	deleted_at     timestamptz DEFAULT current_timestamp NOT NULL,
	garbage_id     uuid NOT NULL DEFAULT gen_random_uuid(),
	claim          uuid,
	claim_expires  timestamptz,
	PRIMARY KEY (owner, bucket_id, id, garbage_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX manta_bucket_deleted_object_id_idx ON manta_bucket_deleted_object (id);
CREATE INDEX manta_bucket_deleted_object_deleted_at_idx ON manta_bucket_deleted_object (deleted_at);
CREATE INDEX manta_bucket_deleted_object_claim_idx ON manta_bucket_deleted_object (claim) WHERE claim IS NOT NULL;
-- Finds the garbage row that owns an upload's parts.
CREATE INDEX manta_bucket_deleted_object_upload_idx ON manta_bucket_deleted_object (owner, (properties #>> '{s3,upload}'))
	WHERE properties #>> '{s3,upload}' IS NOT NULL;

-- Garbage is not claimed while a hold lasts. Holds and claims both lock the row with the empty ID.
CREATE TABLE manta_bucket_hold (
	id      text COLLATE "C" PRIMARY KEY,
	expires timestamptz NOT NULL
);
INSERT INTO manta_bucket_hold VALUES ('', '-infinity');

-- Multipart uploads in progress.
CREATE TABLE manta_bucket_upload (
	id           uuid NOT NULL, -- ascending
	name         text COLLATE "C" NOT NULL,
	owner        uuid NOT NULL,
	bucket_id    uuid NOT NULL,
	created      timestamptz NOT NULL,
	creator      uuid,
	content_type text,
	headers      hstore,
	roles        uuid[],
	properties   jsonb,
	PRIMARY KEY (owner, bucket_id, name, id)
);
CREATE INDEX manta_bucket_upload_created_idx ON manta_bucket_upload (created);

-- Parts of uploads, and of objects completed from them.
CREATE TABLE manta_bucket_part (
	owner          uuid    NOT NULL,
	upload_id      uuid    NOT NULL,
	number         integer NOT NULL CHECK (number BETWEEN 1 AND 10000),
	bucket_id      uuid    NOT NULL,
	name           text    COLLATE "C" NOT NULL, -- object name
	id             uuid    NOT NULL, -- body ID
	created        timestamptz NOT NULL,
	content_length bigint  NOT NULL,
	content_md5    bytea   NOT NULL,
	checksum       jsonb,
	sharks         text[],
	start          bigint,           -- offset in the object; NULL until the upload is complete
	body           bytea,
	content_crc32c bigint,
	PRIMARY KEY (owner, upload_id, number)
);
ALTER TABLE manta_bucket_part ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE manta_bucket_settings (
	owner     uuid  NOT NULL,
	bucket_id uuid  NOT NULL,
	settings  jsonb NOT NULL,
	PRIMARY KEY (owner, bucket_id)
);

-- The usage of an account (bucket_id is the nil UUID) or bucket is the sum of up to 16 slots. Under a quota, all 16
-- exist, and a slot may grow by its spare without reading the others: the usage plus all spares never exceeds
-- the quota.
CREATE TABLE manta_bucket_usage (
	owner         uuid     NOT NULL,
	bucket_id     uuid     NOT NULL,
	slot          smallint NOT NULL CHECK (slot BETWEEN 0 AND 15),
	objects       bigint   NOT NULL DEFAULT 0, -- may be negative: an object can be added in one slot and deleted in another
	bytes         bigint   NOT NULL DEFAULT 0,
	max_objects   bigint   NOT NULL DEFAULT 0, -- quota, the same in all slots; 0: no limit
	max_bytes     bigint   NOT NULL DEFAULT 0,
	spare_objects bigint,                      -- NULL: no limit
	spare_bytes   bigint,
	PRIMARY KEY (owner, bucket_id, slot)
) WITH (fillfactor = 40);

CREATE TABLE manta_bucket_account (
	id          uuid   PRIMARY KEY,
	name        text   COLLATE "C" NOT NULL UNIQUE,
	created     timestamptz NOT NULL,
	max_objects bigint NOT NULL, -- copy of the quota in manta_bucket_usage
	max_bytes   bigint NOT NULL
);

CREATE TABLE manta_bucket_key (
	id      text  COLLATE "C" PRIMARY KEY,
	account uuid  NOT NULL,
	secret  bytea NOT NULL, -- encrypted
	created timestamptz NOT NULL,
	revoked timestamptz
);
CREATE INDEX manta_bucket_key_account_idx ON manta_bucket_key (account, id);

CREATE TABLE manta_bucket_node (
	id    text COLLATE "C" PRIMARY KEY,
	url   text NOT NULL,
	state text NOT NULL,
	added timestamptz NOT NULL
);

-- Leases for work that one process does at a time, such as maintenance. On Citus the table stays on the
-- coordinator.
CREATE TABLE manta_bucket_lease (
	name    text COLLATE "C" PRIMARY KEY,
	holder  text NOT NULL,
	process text NOT NULL, -- for display
	expires timestamptz NOT NULL
);

-- A write is one call. It takes two advisory locks before it reads: a shared one on the bucket, so the bucket cannot
-- be deleted, and one on the object name, which may have no row. The locking statement reads the bucket's row, so on
-- Citus the locks are on that row's node even if a call is not delegated. Usage is updated last, the bucket's slots
-- before the account's, because other writes wait for it.
--
-- Results: 0 or more: success; -1: no bucket; -2: precondition failed; -3: no object; -4: repeat the call with p_all;
-- -5: bucket quota; -6: account quota; -7: no upload; -9: a node was removed. A negative result changes nothing.

-- Locks a bucket, and a name in it unless p_name is NULL. Returns false if the bucket does not exist.
CREATE FUNCTION bucket_lock_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF p_name IS NULL THEN
		PERFORM pg_advisory_xact_lock_shared(uuid_hash_extended(p_bucket_id, 0))
			FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	ELSE
		PERFORM pg_advisory_xact_lock_shared(uuid_hash_extended(p_bucket_id, 0)),
				pg_advisory_xact_lock(hashtextextended(p_name, uuid_hash_extended(p_bucket_id, 1)))
			FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	END IF;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	-- The bucket may have been deleted during the wait.
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	RETURN FOUND;
END $$;

-- Protects an account from deletion, which takes this lock exclusively. Returns false if the account does not exist.
-- An advisory lock on the coordinator, because concurrent locks on a reference table's row can deadlock on Citus.
CREATE FUNCTION bucket_share_account_v1(p_id uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(uuid_hash_extended(p_id, 2));
	RETURN EXISTS (SELECT 1 FROM manta_bucket_account WHERE id = p_id); -- false if the account was deleted during the wait
END $$;

-- Condition.CheckWrite in package buckets. p_flags: 2 means If-Match: *, 4 means If-None-Match: *.
CREATE FUNCTION bucket_refused_v1(
	p_found boolean, p_id uuid, p_etag text, p_modified timestamptz,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz
) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF NOT p_found THEN
		RETURN CASE WHEN p_flags & 2 <> 0 THEN -2 WHEN p_flags & 4 <> 0 THEN 0 ELSE -3 END;
	END IF;
	IF cardinality(p_match) > 0 THEN
		IF p_flags & 2 = 0 AND p_etag <> ALL (p_match) AND p_id::text <> ALL (p_match) THEN
			RETURN -2;
		END IF;
	ELSIF p_flags & 2 = 0 AND date_trunc('second', p_modified) > date_trunc('second', p_unmodified_since) THEN
		RETURN -2;
	END IF;
	IF p_flags & 4 <> 0 THEN
		RETURN -2;
	ELSIF cardinality(p_none_match) > 0 THEN
		IF p_etag = ANY (p_none_match) OR p_id::text = ANY (p_none_match) THEN
			RETURN -2;
		END IF;
	ELSIF date_trunc('second', p_modified) <= date_trunc('second', p_modified_since) THEN
		RETURN -2;
	END IF;
	RETURN 0;
END $$;

-- Reports whether a node was or is being removed.
CREATE FUNCTION bucket_removed_v1(p_sharks text[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF p_sharks IS NULL THEN
		RETURN false;
	END IF;
	PERFORM 1 FROM manta_bucket_node WHERE id = ANY (p_sharks) AND state IN ('removing', 'removed');
	RETURN FOUND;
END $$;

-- Adds to the usage of a bucket and its account, or returns -4, -5 or -6. Without p_all it updates one slot of each if
-- the spares suffice. With p_all it locks all slots in order, checks their sum against the quota, and distributes
-- the remainder as spares.
CREATE FUNCTION bucket_count_v1(p_owner uuid, p_bucket_id uuid, p_objects bigint, p_bytes bigint, p_all boolean) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	c_ids     CONSTANT uuid[] := ARRAY[p_bucket_id, '00000000-0000-0000-0000-000000000000'];
	v_slot    smallint := pg_backend_pid() % 16;
	v_id      uuid;
	v_objects bigint;
	v_bytes   bigint;
	v_max_objects bigint;
	v_max_bytes   bigint;
BEGIN
	IF p_objects = 0 AND p_bytes = 0 THEN
		RETURN 0;
	END IF;
	IF p_all THEN
		FOREACH v_id IN ARRAY c_ids LOOP
			PERFORM 1 FROM manta_bucket_usage WHERE owner = p_owner AND bucket_id = v_id ORDER BY slot FOR UPDATE;
			SELECT coalesce(sum(objects), 0) + p_objects, coalesce(sum(bytes), 0) + p_bytes, max(max_objects), max(max_bytes)
				INTO v_objects, v_bytes, v_max_objects, v_max_bytes
				FROM manta_bucket_usage WHERE owner = p_owner AND bucket_id = v_id;
			IF p_objects > 0 AND v_max_objects > 0 AND v_objects > v_max_objects OR p_bytes > 0 AND v_max_bytes > 0 AND v_bytes > v_max_bytes THEN
				RETURN CASE WHEN v_id = p_bucket_id THEN -5 ELSE -6 END;
			END IF;
		END LOOP;
	END IF;
	FOREACH v_id IN ARRAY c_ids LOOP
		INSERT INTO manta_bucket_usage AS u (owner, bucket_id, slot, objects, bytes) VALUES (p_owner, v_id, v_slot, p_objects, p_bytes)
			ON CONFLICT (owner, bucket_id, slot) DO UPDATE
			SET objects = u.objects + EXCLUDED.objects, bytes = u.bytes + EXCLUDED.bytes,
				spare_objects = u.spare_objects - greatest(EXCLUDED.objects, 0), spare_bytes = u.spare_bytes - greatest(EXCLUDED.bytes, 0)
			WHERE p_all OR coalesce(u.spare_objects >= EXCLUDED.objects OR EXCLUDED.objects <= 0, true)
				AND coalesce(u.spare_bytes >= EXCLUDED.bytes OR EXCLUDED.bytes <= 0, true);
		IF NOT FOUND THEN
			IF v_id <> p_bucket_id THEN
				UPDATE manta_bucket_usage SET objects = objects - p_objects, bytes = bytes - p_bytes,
						spare_objects = spare_objects + greatest(p_objects, 0), spare_bytes = spare_bytes + greatest(p_bytes, 0)
					WHERE owner = p_owner AND bucket_id = p_bucket_id AND slot = v_slot;
			END IF;
			RETURN -4;
		END IF;
		IF p_all THEN
			PERFORM bucket_deal_v1(p_owner, v_id);
		END IF;
	END LOOP;
	RETURN 0;
END $$;

-- Divides the remaining quota among the slots. The caller has locked all slots.
CREATE FUNCTION bucket_deal_v1(p_owner uuid, p_bucket_id uuid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_objects bigint;
	v_bytes   bigint;
BEGIN
	SELECT CASE WHEN max(max_objects) > 0 THEN div(greatest(max(max_objects) - sum(objects), 0), 16) END,
			CASE WHEN max(max_bytes) > 0 THEN div(greatest(max(max_bytes) - sum(bytes), 0), 16) END
		INTO v_objects, v_bytes
		FROM manta_bucket_usage WHERE owner = p_owner AND bucket_id = p_bucket_id;
	UPDATE manta_bucket_usage SET spare_objects = v_objects, spare_bytes = v_bytes
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND (spare_objects IS DISTINCT FROM v_objects OR spare_bytes IS DISTINCT FROM v_bytes);
END $$;

-- Sets a bucket quota, or the account quota if p_bucket is NULL.
CREATE FUNCTION bucket_set_quota_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_objects bigint, p_bytes bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF p_bucket IS NOT NULL AND NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN -1;
	END IF;
	-- Creates missing slots and locks the others.
	FOR i IN 0 .. 15 LOOP
		INSERT INTO manta_bucket_usage (owner, bucket_id, slot, max_objects, max_bytes) VALUES (p_owner, p_bucket_id, i, p_objects, p_bytes)
			ON CONFLICT (owner, bucket_id, slot) DO UPDATE SET max_objects = EXCLUDED.max_objects, max_bytes = EXCLUDED.max_bytes;
	END LOOP;
	PERFORM bucket_deal_v1(p_owner, p_bucket_id);
	RETURN 0;
END $$;

-- Writes an object. p_bytes is the body's share of the usage. If p_bucket_id is NULL, the bucket is found by name.
CREATE FUNCTION bucket_put_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_id uuid, p_creator uuid, p_length bigint, p_md5 bytea, p_type text, p_header_names text[], p_header_values text[],
	p_roles uuid[], p_sharks text[], p_properties jsonb, p_body bytea, p_crc32c bigint, p_bytes bigint,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz, p_all boolean
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_found    boolean;
	v_id       uuid;
	v_modified timestamptz;
	v_length   bigint;
	v_etag     text;
	v_result   bigint;
	v_garbage  uuid;
BEGIN
	IF p_bucket_id IS NULL THEN
		SELECT id INTO p_bucket_id FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	END IF;
	-- bucket_lock_v1, inlined because a call takes longer than the statement.
	PERFORM pg_advisory_xact_lock_shared(uuid_hash_extended(p_bucket_id, 0)),
			pg_advisory_xact_lock(hashtextextended(p_name, uuid_hash_extended(p_bucket_id, 1)))
		FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN '{-1}';
	END IF;
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN '{-1}';
	END IF;
	-- The row lock excludes bucket_set_sharks_v1. The table lock lasts until the commit, and RemoveNode waits for it,
	-- because this transaction may not have seen the node's new state.
	SELECT id, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), '')
		INTO v_id, v_modified, v_length, v_etag
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name FOR UPDATE;
	v_found := FOUND;
	IF p_flags > 0 THEN
		v_result := bucket_refused_v1(v_found, v_id, v_etag, v_modified, p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since);
		IF v_result < 0 THEN
			RETURN ARRAY[v_result];
		END IF;
	END IF;
	IF bucket_removed_v1(p_sharks) THEN
		RETURN '{-9}';
	END IF;
	IF v_found THEN
		v_result := bucket_count_v1(p_owner, p_bucket_id, 0, p_bytes - v_length, p_all);
	ELSE
		v_result := bucket_count_v1(p_owner, p_bucket_id, 1, p_bytes, p_all);
	END IF;
	IF v_result < 0 THEN
		RETURN ARRAY[v_result];
	END IF;
	IF NOT v_found THEN
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
				content_type, headers, roles, sharks, properties, body, content_crc32c)
			VALUES (p_id, p_name, p_owner, p_bucket_id, p_now, p_now, p_creator, p_length, p_md5,
				p_type, hstore(p_header_names, p_header_values), p_roles, p_sharks, p_properties, p_body, p_crc32c);
		RETURN '{0}';
	END IF;
	v_garbage := gen_random_uuid();
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now, v_garbage
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	UPDATE manta_bucket_object
		SET id = p_id, created = p_now, modified = p_now, creator = p_creator, content_length = p_length, content_md5 = p_md5,
			content_type = p_type, headers = hstore(p_header_names, p_header_values), roles = p_roles, sharks = p_sharks,
			properties = p_properties, body = p_body, content_crc32c = p_crc32c
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	RETURN '{1}';
END $$;

-- Deletes an object and returns 0 and its columns, or only a negative result. If p_bucket_id is NULL, the bucket is
-- found by name.
CREATE FUNCTION bucket_delete_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_now timestamptz,
	p_flags integer, p_match text[], p_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_found    boolean;
	v_id       uuid;
	v_modified timestamptz;
	v_length   bigint;
	v_etag     text;
	v_columns  text[];
	v_result   bigint;
	v_garbage  uuid;
BEGIN
	IF p_bucket_id IS NULL THEN
		SELECT id INTO p_bucket_id FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	END IF;
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, p_name) THEN
		RETURN '{-1}';
	END IF;
	SELECT id, modified, coalesce(content_length, 0), coalesce(properties #>> '{s3,etag}', encode(content_md5, 'hex'), ''),
			ARRAY['0', id::text, name, (extract(epoch FROM created) * 1000000)::bigint::text, (extract(epoch FROM modified) * 1000000)::bigint::text,
				creator::text, content_length::text, encode(content_md5, 'hex'), content_type,
				hstore_to_json(headers)::text, to_json(roles)::text, to_json(sharks)::text, properties::text]
		INTO v_id, v_modified, v_length, v_etag, v_columns
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name FOR UPDATE;
	v_found := FOUND;
	IF p_flags > 0 THEN
		v_result := bucket_refused_v1(v_found, v_id, v_etag, v_modified, p_flags, p_match, p_none_match, p_modified_since, p_unmodified_since);
		IF v_result < 0 THEN
			RETURN ARRAY[v_result::text];
		END IF;
	END IF;
	IF NOT v_found THEN
		RETURN '{-3}';
	END IF;
	PERFORM bucket_count_v1(p_owner, p_bucket_id, -1, -v_length, false);
	v_garbage := gen_random_uuid();
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, modified, creator, content_length, content_md5,
			content_type, headers, roles, sharks, properties, p_now, v_garbage
		FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	DELETE FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	RETURN v_columns;
END $$;

-- Returns a page with at most p_limit rows: objects, and the first name of each group. The page starts at p_from, or
-- after it unless p_inclusive is set.
--
-- A group is skipped in one step. Objects are read in batches that grow until the next group, so the function reads
-- about as many rows as it returns. Between groups, one statement reads the first name of each, usually from the
-- index alone. The settings prevent the planner from sorting a bucket that it expects to be small.
CREATE FUNCTION bucket_list_v1(
	p_owner uuid, p_bucket_id uuid, p_prefix text, p_delimiter text, p_from text, p_inclusive boolean, p_limit integer
) RETURNS SETOF text[] LANGUAGE plpgsql STABLE SET enable_sort = off SET enable_bitmapscan = off AS $$
DECLARE
	c_top    CONSTANT text := repeat(chr(1114111), 257); -- greater than every name
	v_end    text := p_prefix || c_top;
	v_start  integer := length(p_prefix) + 1;
	v_from   text := p_from;
	v_equal  boolean := p_inclusive;
	v_left   integer := p_limit;
	v_batch  integer := CASE WHEN p_delimiter = '' THEN p_limit ELSE 8 END;
	v_rows   integer;
	v_at     integer;
	v_group  text;
	v_name   text;
	v_groups boolean := p_delimiter <> '';
	r        record;
BEGIN
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
				RETURN NEXT ARRAY[v_name];
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
			SELECT id, name, created, modified, creator, content_length, content_md5, content_type, properties
			FROM manta_bucket_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name >= v_from AND name <= v_end AND (v_equal OR name > v_from)
			ORDER BY name LIMIT least(v_batch, v_left)
		LOOP
			v_rows := v_rows + 1;
			v_left := v_left - 1;
			v_from := r.name;
			RETURN NEXT ARRAY[r.id::text, r.name, (extract(epoch FROM r.created) * 1000000)::bigint::text, (extract(epoch FROM r.modified) * 1000000)::bigint::text,
				r.creator::text, r.content_length::text, encode(r.content_md5, 'hex'), r.content_type, NULL, NULL, NULL, r.properties::text];
			IF p_delimiter <> '' THEN
				v_at := strpos(substr(r.name, v_start), p_delimiter);
				IF v_at > 0 THEN
					v_group := left(r.name, v_start + v_at + length(p_delimiter) - 2);
					EXIT;
				END IF;
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

CREATE FUNCTION bucket_set_settings_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_settings jsonb) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN -1;
	END IF;
	INSERT INTO manta_bucket_settings (owner, bucket_id, settings) VALUES (p_owner, p_bucket_id, p_settings)
		ON CONFLICT (owner, bucket_id) DO UPDATE SET settings = manta_bucket_settings.settings || EXCLUDED.settings;
	RETURN 0;
END $$;

-- Deletes a bucket. -8: it is not empty.
CREATE FUNCTION bucket_delete_bucket_v1(p_owner uuid, p_bucket text, p_bucket_id uuid, p_now timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	-- Waits for all writers, and blocks new ones.
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_bucket_id, 0))
		FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	PERFORM 1 FROM manta_bucket WHERE owner = p_owner AND name = p_bucket AND id = p_bucket_id;
	IF NOT FOUND THEN
		RETURN -1;
	END IF;
	PERFORM 1 FROM manta_bucket_object WHERE owner = p_owner AND bucket_id = p_bucket_id LIMIT 1;
	IF FOUND THEN
		RETURN -8;
	END IF;
	INSERT INTO manta_bucket_deleted_bucket (id, name, owner, created, deleted_at)
		SELECT id, name, owner, created, p_now FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	DELETE FROM manta_bucket WHERE owner = p_owner AND name = p_bucket;
	RETURN 0;
END $$;

CREATE FUNCTION bucket_create_upload_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_id uuid, p_created timestamptz, p_creator uuid, p_type text,
	p_header_names text[], p_header_values text[], p_roles uuid[], p_properties jsonb
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN -1;
	END IF;
	INSERT INTO manta_bucket_upload (id, name, owner, bucket_id, created, creator, content_type, headers, roles, properties)
		VALUES (p_id, p_name, p_owner, p_bucket_id, p_created, p_creator, p_type, hstore(p_header_names, p_header_values), p_roles, p_properties);
	RETURN 0;
END $$;

-- Stores a part. Parts may be stored concurrently, but not while the upload is completed or aborted.
CREATE FUNCTION bucket_put_part_v1(
	p_owner uuid, p_bucket text, p_bucket_id uuid, p_name text, p_upload uuid, p_number integer, p_created timestamptz,
	p_id uuid, p_length bigint, p_md5 bytea, p_checksum jsonb, p_sharks text[], p_body bytea, p_crc32c bigint, p_all boolean
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_length  bigint;
	v_found   boolean;
	v_result  bigint;
	v_garbage uuid;
BEGIN
	IF NOT bucket_lock_v1(p_owner, p_bucket, p_bucket_id, NULL) THEN
		RETURN -1;
	END IF;
	PERFORM 1 FROM manta_bucket_upload
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN -7;
	END IF;
	PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_upload, 2 + p_number)) FROM manta_bucket_upload
		WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload;
	SELECT content_length INTO v_length FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND number = p_number FOR UPDATE;
	v_found := FOUND;
	IF bucket_removed_v1(p_sharks) THEN
		RETURN -9;
	END IF;
	v_result := bucket_count_v1(p_owner, p_bucket_id, 0, p_length - coalesce(v_length, 0), p_all);
	IF v_result < 0 THEN
		RETURN v_result;
	END IF;
	IF NOT v_found THEN
		INSERT INTO manta_bucket_part (owner, upload_id, number, bucket_id, name, id, created, content_length, content_md5, checksum, sharks, body,
				content_crc32c)
			VALUES (p_owner, p_upload, p_number, p_bucket_id, p_name, p_id, p_created, p_length, p_md5, p_checksum, p_sharks, p_body,
				p_crc32c);
		RETURN 0;
	END IF;
	v_garbage := gen_random_uuid();
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, sharks, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, created AS modified, content_length, content_md5, sharks, p_created, v_garbage
		FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND number = p_number;
	UPDATE manta_bucket_part
		SET id = p_id, created = p_created, content_length = p_length, content_md5 = p_md5, checksum = p_checksum, sharks = p_sharks, body = p_body,
			content_crc32c = p_crc32c
		WHERE owner = p_owner AND upload_id = p_upload AND number = p_number;
	RETURN 0;
END $$;

-- Assigns parts and their offsets to the completed object. Unused parts become garbage. The offsets are joined because
-- Citus 13 crashes on an array element in SET.
CREATE FUNCTION bucket_assemble_v1(
	p_owner uuid, p_bucket_id uuid, p_name text, p_upload uuid, p_numbers integer[], p_starts bigint[], p_now timestamptz
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_number  integer;
	v_garbage uuid;
BEGIN
	UPDATE manta_bucket_part p SET start = u.start FROM unnest(p_numbers, p_starts) u (number, start)
		WHERE p.owner = p_owner AND p.upload_id = p_upload AND p.number = u.number;
	FOR v_number IN
		SELECT number FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND start IS NULL ORDER BY number FOR UPDATE
	LOOP
		v_garbage := gen_random_uuid();
		INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, sharks, deleted_at, garbage_id)
			SELECT id, name, owner, bucket_id, created, created AS modified, content_length, content_md5, sharks, p_now, v_garbage
			FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND number = v_number;
		DELETE FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload AND number = v_number;
	END LOOP;
	DELETE FROM manta_bucket_upload WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload;
	RETURN 0;
END $$;

-- Turns an upload into one garbage row for all its parts.
CREATE FUNCTION bucket_abort_v1(p_owner uuid, p_bucket_id uuid, p_name text, p_upload uuid, p_now timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_bytes   bigint;
	v_garbage uuid := gen_random_uuid();
BEGIN
	PERFORM 1 FROM manta_bucket_upload WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR UPDATE;
	IF NOT FOUND THEN
		RETURN -7;
	END IF;
	SELECT coalesce(sum(content_length), 0) INTO v_bytes FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_upload;
	PERFORM bucket_count_v1(p_owner, p_bucket_id, 0, -v_bytes, false);
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_type, properties, deleted_at, garbage_id)
		SELECT id, name, owner, bucket_id, created, created AS modified, creator, v_bytes, content_type,
			jsonb_build_object('s3', jsonb_build_object('upload', p_upload::text)), p_now, v_garbage
		FROM manta_bucket_upload WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload;
	DELETE FROM manta_bucket_upload WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload;
	RETURN 0;
END $$;

-- Aborts at most p_limit uploads of a deleted bucket and returns their number. Once no uploads are left, it removes
-- the bucket's other rows. Upload rows are locked before the usage, in the same order as everywhere else.
CREATE FUNCTION bucket_remove_bucket_v1(p_owner uuid, p_bucket_id uuid, p_name text, p_now timestamptz, p_limit integer) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_names   text[];
	v_uploads uuid[];
BEGIN
	SELECT array_agg(name), array_agg(id) INTO v_names, v_uploads FROM (
		SELECT name, id FROM manta_bucket_upload WHERE owner = p_owner AND bucket_id = p_bucket_id ORDER BY name, id LIMIT p_limit FOR UPDATE
	) u;
	FOR i IN 1 .. coalesce(cardinality(v_uploads), 0) LOOP
		PERFORM bucket_abort_v1(p_owner, p_bucket_id, v_names[i], v_uploads[i], p_now);
	END LOOP;
	IF v_uploads IS NULL THEN
		DELETE FROM manta_bucket_deleted_bucket WHERE owner = p_owner AND id = p_bucket_id AND name = p_name;
		DELETE FROM manta_bucket_settings WHERE owner = p_owner AND bucket_id = p_bucket_id;
		DELETE FROM manta_bucket_usage WHERE owner = p_owner AND bucket_id = p_bucket_id;
		RETURN 0;
	END IF;
	RETURN cardinality(v_uploads);
END $$;

-- Removes an account's claimed garbage, with the parts of its uploads, and returns the number of rows.
CREATE FUNCTION bucket_remove_garbage_v1(p_owner uuid, p_claim uuid, p_buckets uuid[], p_ids uuid[], p_names text[], p_uploads text[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_removed bigint := 0;
BEGIN
	FOR i IN 1 .. cardinality(p_ids) LOOP
		DELETE FROM manta_bucket_deleted_object
			WHERE owner = p_owner AND bucket_id = p_buckets[i] AND id = p_ids[i] AND name = p_names[i] AND claim = p_claim;
		CONTINUE WHEN NOT FOUND;
		v_removed := v_removed + 1;
		IF p_uploads[i] <> '' THEN
			DELETE FROM manta_bucket_part WHERE owner = p_owner AND upload_id = p_uploads[i]::uuid;
		END IF;
	END LOOP;
	RETURN v_removed;
END $$;

-- Replaces a body's nodes if they are still p_was, and returns 1 on success. The body is a part if p_upload is set, and
-- otherwise garbage or an object. Claims on the garbage end. Parts belong to the upload, then to the object, then
-- to garbage; locking that row keeps it unchanged while the part is updated.
CREATE FUNCTION bucket_set_sharks_v1(
	p_owner uuid, p_bucket_id uuid, p_name text, p_upload uuid, p_number integer, p_garbage boolean, p_id uuid, p_was text[], p_is text[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_added text[] := array(SELECT unnest(p_is) EXCEPT SELECT unnest(p_was));
BEGIN
	IF p_upload IS NOT NULL THEN
		PERFORM 1 FROM manta_bucket_upload
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_upload FOR SHARE;
		PERFORM 1 FROM manta_bucket_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND properties #>> '{s3,upload}' = p_upload::text FOR SHARE;
		PERFORM 1 FROM manta_bucket_deleted_object
			WHERE owner = p_owner AND properties #>> '{s3,upload}' = p_upload::text FOR UPDATE;
		PERFORM 1 FROM manta_bucket_part
			WHERE owner = p_owner AND upload_id = p_upload AND number = p_number AND id = p_id AND sharks = p_was FOR UPDATE;
	ELSIF p_garbage THEN
		PERFORM 1 FROM manta_bucket_deleted_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was FOR UPDATE;
	ELSE
		PERFORM 1 FROM manta_bucket_object
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was FOR UPDATE;
	END IF;
	IF NOT FOUND THEN
		RETURN 0;
	ELSIF bucket_removed_v1(v_added) THEN
		RETURN -9;
	END IF;
	IF p_upload IS NOT NULL THEN
		UPDATE manta_bucket_part SET sharks = p_is WHERE owner = p_owner AND upload_id = p_upload AND number = p_number;
		UPDATE manta_bucket_deleted_object SET claim = NULL, claim_expires = NULL
			WHERE owner = p_owner AND properties #>> '{s3,upload}' = p_upload::text AND claim IS NOT NULL;
	ELSIF p_garbage THEN
		UPDATE manta_bucket_deleted_object SET sharks = p_is, claim = NULL, claim_expires = NULL
			WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name AND id = p_id AND sharks = p_was;
	ELSE
		UPDATE manta_bucket_object SET sharks = p_is WHERE owner = p_owner AND bucket_id = p_bucket_id AND name = p_name;
	END IF;
	RETURN 1;
END $$;

-- Locks an account's entire usage: waits for current writes and blocks new ones.
CREATE FUNCTION bucket_lock_usage_v1(p_owner uuid) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	c_account CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
	PERFORM 1 FROM manta_bucket_usage WHERE owner = p_owner AND bucket_id <> c_account ORDER BY bucket_id, slot FOR UPDATE;
	FOR i IN 0 .. 15 LOOP
		INSERT INTO manta_bucket_usage (owner, bucket_id, slot) VALUES (p_owner, c_account, i)
			ON CONFLICT (owner, bucket_id, slot) DO UPDATE SET slot = EXCLUDED.slot;
	END LOOP;
	RETURN 0;
END $$;

-- Sets a bucket's or account's usage. The caller has locked it.
CREATE FUNCTION bucket_set_usage_v1(p_owner uuid, p_bucket_id uuid, p_objects bigint, p_bytes bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	UPDATE manta_bucket_usage SET objects = 0, bytes = 0 WHERE owner = p_owner AND bucket_id = p_bucket_id;
	INSERT INTO manta_bucket_usage (owner, bucket_id, slot, objects, bytes) VALUES (p_owner, p_bucket_id, 0, p_objects, p_bytes)
		ON CONFLICT (owner, bucket_id, slot) DO UPDATE SET objects = EXCLUDED.objects, bytes = EXCLUDED.bytes;
	PERFORM bucket_deal_v1(p_owner, p_bucket_id);
	RETURN 0;
END $$;

-- citus

-- By default Citus would colocate the tables with those of another service.
SELECT create_distributed_table('manta_bucket', 'owner', colocate_with => 'none');
SELECT create_distributed_table('manta_bucket_object', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_deleted_bucket', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_deleted_object', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_upload', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_part', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_settings', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_usage', 'owner', colocate_with => 'manta_bucket');
SELECT create_reference_table('manta_bucket_hold');
SELECT create_reference_table('manta_bucket_account');
SELECT create_reference_table('manta_bucket_key');
SELECT create_reference_table('manta_bucket_node');
SELECT create_distributed_function(
	'bucket_put_v1(uuid, text, uuid, text, timestamptz, uuid, uuid, bigint, bytea, text, text[], text[], uuid[], text[], jsonb, bytea, bigint, bigint, integer, text[], text[], timestamptz, timestamptz, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_delete_v1(uuid, text, uuid, text, timestamptz, integer, text[], text[], timestamptz, timestamptz)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_list_v1(uuid, uuid, text, text, text, boolean, integer)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_set_settings_v1(uuid, text, uuid, jsonb)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_set_quota_v1(uuid, text, uuid, bigint, bigint)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_delete_bucket_v1(uuid, text, uuid, timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_create_upload_v1(uuid, text, uuid, text, uuid, timestamptz, uuid, text, text[], text[], uuid[], jsonb)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function(
	'bucket_put_part_v1(uuid, text, uuid, text, uuid, integer, timestamptz, uuid, bigint, bytea, jsonb, text[], bytea, bigint, boolean)',
	'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_abort_v1(uuid, uuid, text, uuid, timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_remove_bucket_v1(uuid, uuid, text, timestamptz, integer)', 'p_owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_set_sharks_v1(uuid, uuid, text, uuid, integer, boolean, uuid, text[], text[])', 'p_owner', colocate_with => 'manta_bucket');
