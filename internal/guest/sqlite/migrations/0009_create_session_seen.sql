-- UTC day (YYYY-MM-DD) of the last request, for each session with a wishlist.
CREATE TABLE bff_consumer_session_seen (
	guest_session_id TEXT NOT NULL PRIMARY KEY,
	seen_on          TEXT NOT NULL CHECK (length(seen_on) = 10)
) STRICT, WITHOUT ROWID;

CREATE INDEX bff_consumer_ix_session_seen ON bff_consumer_session_seen (seen_on);

INSERT INTO bff_consumer_session_seen SELECT guest_session_id, date(max(max(added_at, coalesce(removed_at, 0))) / 1000000, 'unixepoch')
	FROM bff_consumer_wishlist_anonymous GROUP BY guest_session_id;

CREATE INDEX bff_consumer_ix_botscore_session ON bff_consumer_bot_score_log (guest_session_id) WHERE guest_session_id IS NOT NULL;
