package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

const longestScan = 6 * time.Hour

// Nodes implements buckets.Nodes.
func (s *Store) Nodes(ctx context.Context) (all []buckets.Node, err error) {
	var n buckets.Node
	var state string
	var added pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlNodes, nil, func() { all = nil }, func() error {
		n.State, n.Added = buckets.NodeState(state), momentOf(added)
		all = append(all, n)
		return nil
	}, &n.ID, &n.URL, &state, &added)
	return all, err
}

// SetNode implements buckets.Nodes.
func (s *Store) SetNode(ctx context.Context, n buckets.Node) error {
	_, err := s.db.Exec(ctx, sqlSetNode, n.ID, n.URL, string(n.State), at(n.Added))
	return err
}

// CheckUnused first waits for writes that may have read an older node state: they have locked one of these tables
// since before they read it. Other writes wait for CheckUnused, for at most 2 s.
func (s *Store) CheckUnused(ctx context.Context, id string) error {
	for _, table := range []string{"manta_bucket_object", "manta_bucket_version", "manta_bucket_part", "manta_bucket_deleted_object"} {
		err := s.db.Tx(ctx, "buckets.await_writes", func(tx *pgdb.Tx) error {
			if _, err := tx.Exec(sqlLockTimeout); err != nil {
				return err
			}
			_, err := tx.Exec(pgdb.Statement{Name: "buckets.lock_table", Wide: true, SQL: `LOCK TABLE ` + table + ` IN EXCLUSIVE MODE`})
			return err
		})
		if err != nil {
			return err
		}
	}
	found, err := s.db.Patient(longestScan).QueryRow(ctx, sqlNodeInUse, []any{id}, new(int))
	if err == nil && found {
		err = buckets.ErrNodeInUse
	}
	return err
}

// ChangeNode implements buckets.Nodes.
func (s *Store) ChangeNode(ctx context.Context, id string, from []buckets.NodeState, to buckets.NodeState) (was buckets.NodeState, err error) {
	err = s.db.Tx(ctx, "buckets.change_node", func(tx *pgdb.Tx) error {
		var state string
		found, err := tx.QueryRow(sqlNodeState, []any{id}, &state)
		was = buckets.NodeState(state)
		if err != nil || !found || !slices.Contains(from, was) {
			return err
		}
		_, err = tx.Exec(sqlSetState, id, string(to))
		return err
	})
	return was, err
}
