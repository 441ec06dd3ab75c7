-- Events of objects that are not published yet. The topic is the destination, and the stream the name of the object.
CREATE TABLE manta_bucket_event (
	owner uuid NOT NULL,
	stream uuid NOT NULL,
	seq bigint NOT NULL CHECK (seq > 0),
	topic text NOT NULL,
	key text NOT NULL,
	payload json NOT NULL,
	created_at timestamptz NOT NULL,
	part smallint NOT NULL GENERATED ALWAYS AS (((ascii(right(owner::text, 1)) & 15) + 9 * (ascii(right(owner::text, 1)) >> 6) + (ascii(right(stream::text, 1)) & 15) + 9 * (ascii(right(stream::text, 1)) >> 6)) % 16) STORED,
	PRIMARY KEY (part, owner, stream, seq)
);

-- Events that the sink has refused. An event and its successors wait until next_at.
-- An event whose next_at is NULL was set aside, and exists only here.
CREATE TABLE manta_bucket_event_refused (
	owner uuid NOT NULL,
	stream uuid NOT NULL,
	seq bigint NOT NULL CHECK (seq > 0),
	topic text NOT NULL,
	key text NOT NULL,
	payload json NOT NULL,
	created_at timestamptz NOT NULL,
	attempts integer NOT NULL,
	reason text NOT NULL,
	refused_at timestamptz NOT NULL,
	next_at timestamptz,
	PRIMARY KEY (owner, stream, seq)
);

-- A lease for each partition, and one for polling.
CREATE TABLE manta_bucket_event_relay (
	topic text COLLATE "C" NOT NULL,
	part smallint NOT NULL,
	holder text NOT NULL,
	held_until timestamptz NOT NULL,
	PRIMARY KEY (topic, part)
);
CREATE INDEX manta_bucket_event_topic_idx ON manta_bucket_event (topic, part, owner, stream, seq);

-- Keeps the relay from reading events that were set aside.
CREATE INDEX manta_bucket_event_refused_next_idx ON manta_bucket_event_refused (owner, stream, seq) WHERE next_at IS NOT NULL;

-- Appends events in a write's transaction, which has locked the names. An event's number is the server's clock, but
-- greater than every unpublished event for its name.
CREATE FUNCTION bucket_append_events_v1(p_owner uuid, p_streams uuid[], p_parts smallint[], p_topics text[], p_keys text[], p_payloads text[], p_at timestamptz)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_seq bigint;
BEGIN
	FOR i IN 1 .. cardinality(p_streams) LOOP
		SELECT max(seq) INTO v_seq FROM manta_bucket_event WHERE part = p_parts[i] AND owner = p_owner AND stream = p_streams[i];
		v_seq := greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, v_seq + 1);
		INSERT INTO manta_bucket_event (owner, stream, seq, topic, key, payload, created_at)
			VALUES (p_owner, p_streams[i], v_seq, p_topics[i], p_keys[i], p_payloads[i]::json, p_at);
	END LOOP;
END $$;

-- citus

SELECT create_distributed_table('manta_bucket_event', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_table('manta_bucket_event_refused', 'owner', colocate_with => 'manta_bucket');
SELECT create_distributed_function('bucket_append_events_v1(uuid, uuid[], smallint[], text[], text[], text[], timestamptz)', 'p_owner', colocate_with => 'manta_bucket');
