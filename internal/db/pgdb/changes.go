package pgdb

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/rows"
)

const (
	// These statements read a copy's log: the oldest entries by key, their number, and entries that a newer one with
	// the same key makes superfluous.
	oldestKeys = `SELECT table_name, key, array_agg(id) AS entries
		FROM (SELECT id, table_name, key FROM copy_log WHERE service = $1::text ORDER BY id LIMIT $2::bigint) AS oldest
		GROUP BY table_name, key ORDER BY min(id) LIMIT $3::bigint`

	countEntries = `SELECT count(*) FROM copy_log WHERE service = $1::text`

	olderEntries = `SELECT id FROM copy_log AS l WHERE service = $1::text
		AND NOT EXISTS (SELECT FROM (SELECT max(id) AS id FROM copy_log WHERE service = $1::text GROUP BY table_name, key) AS newest WHERE newest.id = l.id)
		LIMIT $2::bigint`
)

// Changes also reads the logs on Citus workers. It then begins a new snapshot: rows that the caller reads next are at
// least as new as the returned entries.
func (v *view) Changes(service string, of map[string]*rows.Table, limit rows.LogLimit) (all []rows.Change, entries []int64, err error) {
	result, err := v.tx.Query(v.ctx, oldestKeys, service, limit.Entries, limit.Keys)
	if err != nil {
		return nil, nil, err
	}
	var table, key string
	var ids []int64
	add := func() error {
		parsed, err := of[table].ParseKey(key)
		all, entries = append(all, rows.Change{Table: table, Key: parsed}), append(entries, ids...)
		return err
	}
	if _, err = pgx.ForEachRow(result, []any{&table, &key, &ids}, add); err != nil || !v.citus {
		return all, entries, err
	}
	if err := sameWorkers(v.ctx, v.tx, service); err != nil {
		return nil, nil, err
	}
	lists, err := onWorkers(v.ctx, v.tx, `SELECT coalesce(json_agg(oldest), '[]') FROM (`+oldestKeys+`) AS oldest`, service, limit.Entries, limit.Keys)
	if err != nil {
		return nil, nil, err
	}
	for _, list := range lists {
		var changes []struct {
			Table   string  `json:"table_name"`
			Key     string  `json:"key"`
			Entries []int64 `json:"entries"`
		}
		if err := json.Unmarshal([]byte(list), &changes); err != nil {
			return nil, nil, err
		}
		for _, c := range changes {
			table, key, ids = c.Table, c.Key, c.Entries
			if err := add(); err != nil {
				return nil, nil, err
			}
		}
	}
	// Rows read from now on are at least as new as these entries.
	if err := v.tx.Rollback(v.ctx); err != nil {
		return nil, nil, err
	}
	return all, entries, v.begin()
}

// Logged also counts the entries on Citus workers.
func (v *view) Logged(service string) (n int64, err error) {
	if err := v.tx.QueryRow(v.ctx, countEntries, service).Scan(&n); err != nil || !v.citus {
		return n, err
	}
	counts, err := onWorkers(v.ctx, v.tx, countEntries, service)
	for _, text := range counts {
		var more int64
		if _, err := fmt.Sscan(text, &more); err != nil {
			return 0, err
		}
		n += more
	}
	return n, err
}

func (v *view) Duplicates(service string, limit int) (entries []int64, err error) {
	result, err := v.tx.Query(v.ctx, olderEntries, service, limit)
	if err != nil {
		return nil, err
	}
	if entries, err = pgx.CollectRows(result, pgx.RowTo[int64]); err != nil || !v.citus {
		return entries, err
	}
	lists, err := onWorkers(v.ctx, v.tx, `SELECT coalesce(json_agg(id), '[]') FROM (`+olderEntries+`) AS older`, service, limit)
	for _, list := range lists {
		var more []int64
		if err := json.Unmarshal([]byte(list), &more); err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, err
}

// Forget also deletes entries on Citus workers, each in its own transaction, which stays committed if this one rolls
// back.
func (u update) Forget(entries []int64) error {
	const forget = `DELETE FROM copy_log WHERE id = ANY ($1::bigint[])`
	if err := u.exec(forget, entries); err != nil {
		return err
	}
	list := strings.NewReplacer("[", "{", "]", "}", " ", ",").Replace(fmt.Sprint(entries))
	_, err := onWorkers(u.ctx, u.tx, forget, list)
	return err
}
