-- Lists the newest events in quarantine, and finds the oldest to drop.
CREATE INDEX bff_consumer_ix_inbox_quarantine_received ON bff_consumer_inbox_quarantine (received_at);
