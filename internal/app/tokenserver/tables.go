package tokenserver

import "holdfast/internal/db/rows"

// tables lists Mozilla's tokenserver tables and our own. In users, the owner is the UID; in the last group, the account
// ID. first_node records that the first start added a node.
var tables = []rows.Group{
	{Tables: []*rows.Table{
		{Name: "services", Key: 1, Seeded: true, Numbers: true, Replace: true, Columns: rows.Columns(`id integer, service text, pattern text`)},
		{Name: "nodes", Key: 1, First: true, Numbers: true, Replace: true, Columns: rows.Columns(
			`id integer, service integer, node text, available integer, current_load integer, capacity integer, downed integer, backoff integer`)},
		{Name: "first_node", Key: 1, First: true, Replace: true, Columns: rows.Columns(`node text`)},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{Name: "users", Key: 1, Numbers: true, Columns: rows.Columns(`uid integer, service integer, email text, generation integer, client_state text,
			created_at integer, replaced_at integer, nodeid integer, keys_changed_at integer`)},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{Name: "account_labels", Key: 1, Columns: rows.Columns(`fxa_uid text, label text, label_key text, source text, set_at integer`)},
		{Name: "account_access", Key: 1, Columns: rows.Columns(`fxa_uid text, access text, note text, created_at integer`)},
		{Name: "refused_sign_ins", Key: 1, Columns: rows.Columns(`fxa_uid text, first_at integer, last_at integer, attempts integer`)},
	}},
}
