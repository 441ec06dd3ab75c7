-- UTC day of the last request, for each session with a wishlist.
CREATE TABLE bff_consumer.session_seen (
	guest_session_id text COLLATE "C" PRIMARY KEY,
	seen_on          date NOT NULL
);

CREATE INDEX ix_session_seen ON bff_consumer.session_seen (seen_on);

INSERT INTO bff_consumer.session_seen SELECT guest_session_id, (max(greatest(added_at, removed_at)) AT TIME ZONE 'UTC')::date
	FROM bff_consumer.wishlist_anonymous GROUP BY guest_session_id;

CREATE INDEX ix_botscore_session ON bff_consumer.bot_score_log (guest_session_id) WHERE guest_session_id IS NOT NULL;

-- drop_silent deletes at most in_limit rows from wishlists and session_seen, for sessions without a request since
-- in_before.
-- rows is the number of rows, sessions the number of sessions examined: fewer than 500 means that no more are left. It
-- skips sessions that a mutation has locked.
CREATE FUNCTION bff_consumer.drop_silent(in_before date, in_limit integer, OUT rows integer, OUT sessions integer)
LANGUAGE plpgsql AS $$
DECLARE
	s text;
	n integer;
BEGIN
	rows := 0;
	sessions := 0;
	FOR s IN SELECT guest_session_id FROM bff_consumer.session_seen WHERE seen_on < in_before
			ORDER BY seen_on LIMIT least(in_limit, 500) FOR UPDATE SKIP LOCKED LOOP
		sessions := sessions + 1;
		CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtextextended(s, 4715332));
		DELETE FROM bff_consumer.wishlist_anonymous WHERE id = ANY (ARRAY(
			SELECT id FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = s LIMIT in_limit - rows));
		GET DIAGNOSTICS n = ROW_COUNT;
		rows := rows + n;
		EXIT WHEN rows >= in_limit;
		DELETE FROM bff_consumer.session_seen WHERE guest_session_id = s;
		rows := rows + 1;
		EXIT WHEN rows >= in_limit;
	END LOOP;
END $$;
