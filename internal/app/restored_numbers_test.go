package app_test

import (
	"os"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/db/rows"
)

// numbers are the whole-number columns of all services, by the reason why no client mistakes their values after a
// restore to an older state. A new column must be added. If clients remember the number, protect it with a
// service.RestoreStep, and describe it in docs/failures.md.
var numbers = map[string]string{
	"described": `users.uid users.generation nodes.id collections.collection_id ext_storage_usage.change_seq ext_storage_usage.floor_seq
		ext_storage_floor.seq ext_storage_records.revision ext_storage_schemas.schema_version manta_bucket_event.seq bff_consumer_outbox.position`,
	"the same number as a described one": `bsos.user_id user_collections.user_id batches.user_id batch_bsos.user_id bsos.collection_id
		user_collections.collection_id batches.collection_id batch_bsos.collection_id users.nodeid users.keys_changed_at ext_storage_records.change_seq
		ext_storage_changes.seq ext_storage_changes.revision ext_storage_outbox.seq ext_storage_outbox_refused.seq ext_storage_usage.closed_seq
		ext_storage_usage.schema_floor manta_bucket_event_refused.seq`,
	"chosen by a client, or derived from content": `bsos.sortindex batch_bsos.sortindex batch_bsos.ttl manta_bucket_part.number manta_bucket_part.start
		manta_bucket_object.content_crc32c manta_bucket_object.content_crc64nvme manta_bucket_part.content_crc32c manta_bucket_part.content_crc64nvme
		manta_bucket_version.content_crc32c manta_bucket_version.content_crc64nvme manta_bucket_object.content_length manta_bucket_part.content_length
		manta_bucket_version.content_length manta_bucket_deleted_object.content_length ext_storage_records.value_bytes ext_storage_records.metadata_bytes
		bff_consumer_handoff_replay_log.adults bff_consumer_handoff_replay_log.children bff_consumer_handoff_replay_log.rooms
		bff_consumer_wishlist_anonymous.quantity bff_consumer_idempotency_keys.response_status`,
	"an amount, a state or a time": `user_collections.count user_collections.total_bytes user_collections.quota batches.count batches.total_bytes
		nodes.available nodes.current_load nodes.capacity nodes.downed nodes.backoff users.created_at users.replaced_at account_access.created_at
		account_labels.set_at refused_sign_ins.attempts refused_sign_ins.first_at refused_sign_ins.last_at ext_storage_namespaces.keys_count
		ext_storage_usage.bytes_used ext_storage_usage.keys_count ext_storage_usage.namespaces_count ext_storage_outbox_refused.attempts
		manta_bucket.versioning manta_bucket_account.max_bytes manta_bucket_account.max_objects manta_bucket_usage.bytes manta_bucket_usage.objects
		manta_bucket_usage.max_bytes manta_bucket_usage.max_objects manta_bucket_event_refused.attempts bff_consumer_outbox.attempts
		bff_consumer_handoff_refusals.attempts`,
	"clients never see it": `services.id users.service nodes.service ext_storage_floor.one manta_bucket_object.content_frames
		manta_bucket_part.content_frames manta_bucket_version.content_frames`,
}

// TestNumbersOfRestoredDatabases finds whole-number columns, and numbers that a database assigns, for which nobody
// said how a restore treats them.
func TestNumbersOfRestoredDatabases(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	_, guide, found := strings.Cut(string(text), "\n## After a restore\n")
	if !found {
		t.Fatal("docs/failures.md does not describe clients after a restore")
	}
	reasons := map[string]string{}
	for reason, names := range numbers {
		for name := range strings.FieldsSeq(names) {
			if reasons[name] != "" {
				t.Errorf("%s is in numbers twice", name)
			}
			reasons[name] = reason
			if reason == "described" && !strings.Contains(guide, "`"+name+"`") {
				t.Errorf("docs/failures.md does not describe %s", name)
			}
		}
	}
	exists := map[string]bool{}
	for _, s := range app.Services() {
		for _, g := range s.Tables {
			for _, table := range g.Tables {
				checkNumbers(t, table, reasons, exists)
			}
		}
	}
	for name := range reasons {
		if !exists[name] {
			t.Errorf("%s is in numbers, but no table has it", name)
		}
	}
}

func checkNumbers(t *testing.T, table *rows.Table, reasons map[string]string, exists map[string]bool) {
	t.Helper()
	for _, c := range table.Columns {
		name := table.Name + "." + c.Name
		exists[name] = c.Kind == rows.Integer
		if c.Kind == rows.Integer && reasons[name] == "" {
			t.Errorf("%s: add it to numbers: what keeps a client of a lost server from taking it for something else?", name)
		}
		if table.Numbers && c.Name == table.NumberName() && reasons[name] != "described" && reasons[name] != "clients never see it" {
			t.Errorf("%s: the database assigns it: describe it in docs/failures.md, because a restored database assigns it again", name)
		}
	}
}
