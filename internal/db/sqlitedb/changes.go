package sqlitedb

import (
	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/rows"
)

// Changes may return fewer keys than the limit, if the entries repeat keys.
func (v view) Changes(service string, of map[string]*rows.Table, limit rows.LogLimit) (all []rows.Change, entries []int64, err error) {
	type key struct{ table, text string }
	known := map[key]bool{}
	err = ForEach(v.c, `SELECT id, table_name, key FROM copy_log WHERE service = ?1 ORDER BY id LIMIT ?2`, func(s *sqlite.Stmt) error {
		k := key{s.ColumnText(1), s.ColumnText(2)}
		if !known[k] {
			if len(all) == limit.Keys {
				return nil
			}
			parsed, err := of[k.table].ParseKey(k.text)
			if err != nil {
				return err
			}
			known[k], all = true, append(all, rows.Change{Table: k.table, Key: parsed})
		}
		entries = append(entries, s.ColumnInt64(0))
		return nil
	}, service, limit.Entries)
	return all, entries, err
}

func (v view) Logged(service string) (n int64, err error) {
	n, _, err = QueryRow(v.c, `SELECT count(*) FROM copy_log WHERE service = ?`, func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) }, service)
	return n, err
}

func (v view) Duplicates(service string, limit int) (entries []int64, err error) {
	err = ForEach(v.c, `
		SELECT id FROM copy_log WHERE service = ?1
		AND id NOT IN (SELECT max(id) FROM copy_log WHERE service = ?1 GROUP BY table_name, key) LIMIT ?2`, func(s *sqlite.Stmt) error {
		entries = append(entries, s.ColumnInt64(0))
		return nil
	}, service, limit)
	return entries, err
}

func (u update) Forget(entries []int64) error {
	for _, id := range entries {
		if err := Exec(u.c, `DELETE FROM copy_log WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}
