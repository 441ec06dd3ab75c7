package guest

import "holdfast/internal/db/rows"

// Tables of both engines, except relay leases and the key epoch, which belong to one database.
var tables = []rows.Group{
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "bff_consumer_outbox", PostgresName: "bff_consumer.outbox", Key: 1, Numbers: true, Number: "position",
			Columns: rows.Columns(`id text, position integer, topic text, ordering_key text, subject text, payload rawjson, headers json, retention_class text,
				created_at micros, published_at micros, attempts integer, last_error text, next_attempt_at micros, dead_at micros`),
		},
	}},
	{Owner: 2, Tables: []*rows.Table{
		{
			Name: "bff_consumer_inbox", PostgresName: "bff_consumer.inbox", Key: 2,
			Columns: rows.Columns(`source text, event_id text, subject text, received_at micros, processed_at micros, digest bytes`),
		},
		{
			Name: "bff_consumer_inbox_quarantine", PostgresName: "bff_consumer.inbox_quarantine", Key: 2, Replace: true,
			Columns: rows.Columns(`source text, event_id text, digest bytes, subject text, event_at micros, body bytes, reason text, received_at micros`),
		},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "bff_consumer_handoff_replay_log", PostgresName: "bff_consumer.handoff_replay_log", Key: 1,
			Columns: rows.Columns(`id text, guest_session_id text, tenant_id uuid, property_id uuid, check_in date, check_out date, adults integer, children integer,
				rooms integer, currency text, locale text, source_campaign json, hmac_key_id text, fingerprint_hash bytes, ip_hash bytes, minted_at micros,
				expires_at micros, consumed bool, consumed_at micros, consumed_by text, consume_key text, erased_at micros, item_id text, payload rawjson,
				listed_at micros, voided_at micros`),
		},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "bff_consumer_handoff_refusals", PostgresName: "bff_consumer.handoff_refusals", Key: 2,
			Columns: rows.Columns(`handoff_id text, reason text, attempts integer, first_at micros, last_at micros`),
		},
	}},
	{Owner: 1, Tables: []*rows.Table{
		// Unique per session and property.
		{
			Name: "bff_consumer_wishlist_anonymous", PostgresName: "bff_consumer.wishlist_anonymous", Key: 2, Replace: true,
			Columns: rows.Columns(`guest_session_id text, id text, tenant_id uuid, property_id uuid, source text, note text, added_at micros, removed_at micros, item_id text, quantity integer`),
		},
		{Name: "bff_consumer_session_seen", PostgresName: "bff_consumer.session_seen", Key: 1, Columns: rows.Columns(`guest_session_id text, seen_on date`)},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "bff_consumer_user_sessions", PostgresName: "bff_consumer.user_sessions", Key: 1,
			Columns: rows.Columns(`session_id text, user_id text, list_id text, linked_at micros, seen_at micros, ended_at micros`),
		},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "bff_consumer_bot_score_log", PostgresName: "bff_consumer.bot_score_log", Key: 1,
			Columns: rows.Columns(`id text, guest_session_id text, fingerprint_hash bytes, ip_hash bytes, user_agent_hash bytes, score real, verdict text,
				signals json, action_taken text, evaluated_at micros`),
		},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "bff_consumer_idempotency_keys", PostgresName: "bff_consumer.idempotency_keys", Key: 1,
			Columns: rows.Columns(`composite_key text, guest_session_id text, route text, request_digest bytes, response_status integer, content_type text,
				location text, response_body bytes, created_at micros, expires_at micros`),
		},
	}},
	{Tables: []*rows.Table{
		{
			Name: "bff_consumer_tenant_suspended_cache", PostgresName: "bff_consumer.tenant_suspended_cache", Key: 1,
			Columns: rows.Columns(`tenant_id uuid, suspended bool, suspended_at micros, reason text, last_event_at micros, last_event_id text, refreshed_at micros`),
		},
		// One active key per tenant.
		{
			Name: "bff_consumer_handoff_keys", PostgresName: "bff_consumer.handoff_keys", Key: 1, First: true, Replace: true,
			Columns: rows.Columns(`id text, tenant_id text, secret bytes, state text, not_before micros, not_after micros, retired_at micros`),
		},
	}},
}
