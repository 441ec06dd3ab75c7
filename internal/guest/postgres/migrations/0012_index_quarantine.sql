-- The newest events in quarantine are listed, and the oldest are dropped.
CREATE INDEX ix_inbox_quarantine_received ON bff_consumer.inbox_quarantine (received_at);
