package pgdb

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/rows"
)

func (v *view) Changes(service string, of map[string]*rows.Table, limit int) (all []rows.Change, err error) {
	found, err := v.tx.Query(v.ctx, `SELECT id, table_name, key FROM copy_log WHERE service = $1::text ORDER BY id LIMIT $2::integer`, service, limit)
	if err != nil {
		return nil, err
	}
	var change rows.Change
	var text string
	add := func() (err error) {
		change.Key, err = of[change.Table].ParseKey(text)
		all = append(all, change)
		return err
	}
	if _, err = pgx.ForEachRow(found, []any{&change.ID, &change.Table, &text}, add); err != nil || !v.citus {
		return all, err
	}
	if err := sameWorkers(v.ctx, v.tx, service); err != nil {
		return nil, err
	}
	lists, err := onWorkers(v.ctx, v.tx, `SELECT coalesce(json_agg(oldest), '[]') FROM (
		SELECT id, table_name AS "table", key FROM copy_log WHERE service = $1::text ORDER BY id LIMIT $2::integer) AS oldest`, service, limit)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		var entries []struct {
			ID    int64  `json:"id"`
			Table string `json:"table"`
			Key   string `json:"key"`
		}
		if err := json.Unmarshal([]byte(list), &entries); err != nil {
			return nil, err
		}
		for _, e := range entries {
			change.ID, change.Table, text = e.ID, e.Table, e.Key
			if err := add(); err != nil {
				return nil, err
			}
		}
	}
	// The rows that are read from now on are as new as these entries, or newer.
	if err := v.tx.Rollback(v.ctx); err != nil {
		return nil, err
	}
	return all, v.begin()
}

func (u update) Forget(ids []int64) error {
	const forget = `DELETE FROM copy_log WHERE id = ANY ($1::bigint[])`
	if err := u.exec(forget, ids); err != nil {
		return err
	}
	list := strings.NewReplacer("[", "{", "]", "}", " ", ",").Replace(fmt.Sprint(ids))
	_, err := onWorkers(u.ctx, u.tx, forget, list)
	return err
}
