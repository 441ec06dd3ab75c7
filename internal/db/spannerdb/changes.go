package spannerdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cloud.google.com/go/spanner"
	"google.golang.org/api/iterator"

	"holdfast/internal/db/rows"
)

// Changes may slightly exceed the limit, because a log entry is the JSON list of all keys changed by a write.

func (v view) Changes(service string, of map[string]*rows.Table, limit rows.LogLimit) (all []rows.Change, entries []int64, err error) {
	result := v.tx.Query(v.ctx, spanner.Statement{SQL: `SELECT id, changes FROM copy_log WHERE service = @service`, Params: Params{"service": service}})
	defer result.Stop()
	known := map[string]bool{}
	for len(all) < limit.Keys && len(entries) < limit.Entries {
		r, err := result.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		var id int64
		var text string
		if err := r.Columns(&id, &text); err != nil {
			return nil, nil, err
		}
		entries = append(entries, id)
		if all, err = changes(all, text, known, of); err != nil {
			return nil, nil, err
		}
	}
	return all, entries, v.renumber(all, of)
}

// changes adds an entry's keys that are not known yet.
func changes(all []rows.Change, text string, known map[string]bool, of map[string]*rows.Table) ([]rows.Change, error) {
	var entry map[string][]json.RawMessage
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return nil, err
	}
	for name, keys := range entry {
		t, ok := of[name]
		if !ok {
			return nil, fmt.Errorf("the log of the copy names a table %s", name)
		}
		for _, key := range keys {
			id := name + string(key)
			if known[id] {
				continue
			}
			known[id] = true
			parsed, err := t.ParseKey(string(key))
			if err != nil {
				return nil, err
			}
			all = append(all, rows.Change{Table: name, Key: parsed})
		}
	}
	return all, nil
}

// renumber replaces the numbers of replaced owners, which the writer knew, by their current numbers.
func (v view) renumber(all []rows.Change, tables map[string]*rows.Table) error {
	var numbers []int64
	for _, c := range all {
		if _, replaced := of(tables[c.Table]); replaced > 0 {
			numbers = append(numbers, c.Key[0].(int64))
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	owners, err := v.d.owners.Find(v.ctx, distinct(numbers))
	if err != nil {
		return err
	}
	now := map[int64]int64{}
	for _, o := range owners {
		now[o.Number] = o.Current
	}
	for _, c := range all {
		if _, replaced := of(tables[c.Table]); replaced > 0 {
			if n, ok := now[c.Key[0].(int64)]; ok {
				c.Key[0] = n
			}
		}
	}
	return nil
}

func (v view) Logged(service string) (int64, error) {
	return v.number(`SELECT COUNT(*) FROM copy_log WHERE service = @service`, Params{"service": service})
}

// Duplicates returns entries whose keys other entries repeat. Entry numbers are random, and it does not matter which
// entry stays, because each is complete.
func (v view) Duplicates(service string, limit int) (entries []int64, err error) {
	err = v.tx.Query(v.ctx, spanner.Statement{SQL: `
		SELECT id FROM copy_log WHERE service = @service
		AND id NOT IN (SELECT MAX(id) FROM copy_log WHERE service = @service GROUP BY changes) LIMIT @limit`,
		Params: Params{"service": service, "limit": int64(limit)}}).Do(func(r *spanner.Row) error {
		var id int64
		err := r.Columns(&id)
		entries = append(entries, id)
		return err
	})
	return entries, err
}

func (u update) Forget(entries []int64) error {
	var all []*spanner.Mutation
	for _, id := range distinct(slices.Clone(entries)) {
		all = append(all, spanner.Delete("copy_log", spanner.Key{id}))
	}
	return u.buffer(all...)
}
