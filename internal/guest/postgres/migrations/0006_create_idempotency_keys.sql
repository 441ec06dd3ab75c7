-- JSON columns would change the bytes of a stored answer.
CREATE TABLE bff_consumer.idempotency_keys (
	composite_key    text COLLATE "C" PRIMARY KEY CHECK (length(composite_key) = 64),
	guest_session_id text COLLATE "C" NOT NULL,
	route            text NOT NULL,
	request_digest   bytea NOT NULL CHECK (length(request_digest) = 32),
	response_status  smallint NOT NULL,
	content_type     text NOT NULL,
	location         text NOT NULL,
	response_body    bytea NOT NULL,
	created_at       timestamptz NOT NULL DEFAULT now(),
	expires_at       timestamptz NOT NULL
);

CREATE INDEX ix_idempotency_expires ON bff_consumer.idempotency_keys (expires_at);
CREATE INDEX ix_idempotency_session ON bff_consumer.idempotency_keys (guest_session_id);

-- begin_mutation excludes other mutations of the session until the transaction ends, and returns the key's stored
-- answer. status is NULL if the key is new.
CREATE FUNCTION bff_consumer.begin_mutation(in_session text, in_key text, in_digest bytea, in_wait text,
	OUT at timestamptz, OUT same boolean, OUT status integer, OUT content_type text, OUT location text, OUT body bytea)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('lock_timeout', in_wait, true);
	PERFORM pg_advisory_xact_lock(hashtextextended(in_session, 4715332));
	PERFORM set_config('lock_timeout', '0', true);
	-- Read after the lock, so a session's changes get increasing times.
	at := clock_timestamp();
	SELECT k.request_digest = in_digest, k.response_status, k.content_type, k.location, k.response_body
		INTO same, status, content_type, location, body
		FROM bff_consumer.idempotency_keys k WHERE k.composite_key = in_key AND k.expires_at > at;
END $$;
