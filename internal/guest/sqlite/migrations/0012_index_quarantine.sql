-- The newest events in quarantine are listed, and the oldest are dropped.
CREATE INDEX bff_consumer_ix_inbox_quarantine_received ON bff_consumer_inbox_quarantine (received_at);
