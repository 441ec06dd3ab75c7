package postgres

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, Migrations)
	for _, sql := range []string{
		`INSERT INTO users (service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at)
		 SELECT 1, 'user' || i || '@accounts.example', 7, 'aa', i, CASE WHEN i % 10 = 0 THEN i END, 1, 5 FROM generate_series(1, 50000) i`,
		`INSERT INTO account_access (fxa_uid, access, note, created_at) SELECT i::text, 'allow', '', i FROM generate_series(1, 50000) i`,
		`INSERT INTO refused_sign_ins (fxa_uid, first_at, last_at, attempts) SELECT i::text, i, i + 1, 1 FROM generate_series(1, 1000) i`,
		`INSERT INTO account_labels (fxa_uid, label, label_key, source, set_at) SELECT 'user' || i, 'label' || i, 'label' || i, 'operator', i FROM generate_series(1, 50000) i`,
		`ANALYZE users, account_access, refused_sign_ins, account_labels`,
	} {
		if _, err := db.Exec(ctx, pgdb.Statement{Name: "test", SQL: sql}); err != nil {
			t.Fatal(err)
		}
	}
	email := "user7@accounts.example"
	for _, c := range []struct {
		statement pgdb.Statement
		args      []any
		index     string
	}{
		{sqlAccountState, stateArgs(tokenserver.Account{FxAUID: "user7", Domain: "accounts.example"}), "lookup_idx"},
		{sqlUpdateUser, []any{8, 8, email}, "lookup_idx"},
		{sqlReplaceOthers, []any{9, email, 7}, "lookup_idx"},
		{sqlReplace, []any{9, email}, "lookup_idx"},
		{sqlRetire, []any{9, email}, "lookup_idx"},
		{sqlChangePassword, []any{9, email}, "lookup_idx"},
		{sqlForget, []any{7}, "users_pkey"},
		{sqlListAccess, []any{"7", 100}, "account_access_pkey"},
		{sqlRefused, []any{100}, "refused_sign_ins_last_at_idx"},
		{sqlListUsers, []any{100, false, 100}, "users_pkey"},
		{sqlFindUsers, []any{"user7", "user7g", 100}, "lookup_idx"},
		{sqlFindAccounts, []any{"user7", "user7g", 10}, "lookup_idx"},
		{sqlFindAccounts, []any{"user7", "user7g", 10}, "account_access_pkey"},
		{sqlFindLabels, []any{"accounts.example", "label7", "", "label7g", 10}, "account_labels_key_idx"},
		{sqlFindLabels, []any{"accounts.example", "l", "", "lg", 10}, "lookup_idx"},
		{sqlLabelsOf, []any{[]string{"user7", "user8"}}, "account_labels_pkey"},
		{sqlForgetLabel, []any{"user7", email}, "account_labels_pkey"},
		{sqlSetProfileLabel, []any{"user7", "l", "l", 1, email}, "lookup_idx"},
		{sqlReplacedEmail, []any{7}, "users_pkey"},
		{sqlDue, []any{1000, 1100, 0, 0, 100}, "replaced_at_idx"},
		{sqlDelete, []any{9, email}, "lookup_idx"},
		{sqlAllOfAccount, []any{email}, "lookup_idx"},
		{sqlRevoked, []any{49900}, "replaced_at_idx"},
	} {
		var plan []string
		var line string
		explain := pgdb.Statement{Name: "test", SQL: `EXPLAIN ` + c.statement.SQL}
		err := db.ForEach(ctx, explain, c.args, func() {}, func() error { plan = append(plan, line); return nil }, &line)
		if err != nil {
			t.Fatalf("%s: %v", c.statement.Name, err)
		}
		text := strings.Join(plan, "\n")
		if strings.Contains(text, "Seq Scan on users") || strings.Contains(text, "Seq Scan on account_labels") || strings.Contains(text, "Seq Scan on account_access") && c.statement.Name != sqlRevoked.Name || !strings.Contains(text, c.index) {
			t.Error(fmt.Sprintf("%s does not use %s:\n", c.statement.Name, c.index), text)
		}
	}
}
