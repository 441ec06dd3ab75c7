-- Lists the newest events in quarantine, and finds the oldest to drop.
CREATE INDEX ix_inbox_quarantine_received ON bff_consumer.inbox_quarantine (received_at);
