package sqlite

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	sqlNodes     = `SELECT id, url, state, added FROM manta_bucket_node ORDER BY id`
	sqlSetNode   = `INSERT OR REPLACE INTO manta_bucket_node (id, url, state, added) VALUES (?, ?, ?, ?)`
	sqlNodeState = `SELECT state FROM manta_bucket_node WHERE id = ?`
	sqlSetState  = `UPDATE manta_bucket_node SET state = ?2 WHERE id = ?1`
	sqlNodeInUse = `SELECT 1 FROM manta_bucket_object, json_each(sharks) WHERE value = ?1
		UNION ALL SELECT 1 FROM manta_bucket_version, json_each(sharks) WHERE value = ?1
		UNION ALL SELECT 1 FROM manta_bucket_part, json_each(sharks) WHERE value = ?1
		UNION ALL SELECT 1 FROM manta_bucket_deleted_object, json_each(sharks) WHERE value = ?1 LIMIT 1`
)

// Nodes implements buckets.Nodes.
func (s *Store) Nodes(ctx context.Context) (all []buckets.Node, err error) {
	err = s.db.Read(ctx, "nodes", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlNodes, func(r *sqlite.Stmt) buckets.Node {
			return buckets.Node{ID: r.ColumnText(0), URL: r.ColumnText(1), State: buckets.NodeState(r.ColumnText(2)), Added: buckets.Moment(r.ColumnInt64(3))}
		})
		return err
	})
	return all, err
}

// SetNode implements buckets.Nodes.
func (s *Store) SetNode(ctx context.Context, n buckets.Node) error {
	return s.db.Write(ctx, "set_node", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlSetNode, n.ID, n.URL, string(n.State), n.Added)
	})
}

// ChangeNode implements buckets.Nodes.
func (s *Store) ChangeNode(ctx context.Context, id string, from []buckets.NodeState, to buckets.NodeState) (was buckets.NodeState, err error) {
	err = s.db.Write(ctx, "node_state", func(c *sqlite.Conn) error {
		was, _, err = sqlitedb.QueryRow(c, sqlNodeState, func(r *sqlite.Stmt) buckets.NodeState { return buckets.NodeState(r.ColumnText(0)) }, id)
		if err != nil || !slices.Contains(from, was) {
			return err
		}
		return sqlitedb.Exec(c, sqlSetState, id, string(to))
	})
	return was, err
}

// CheckUnused needs no lock: a write that commits after its snapshot cannot add a body to the node.
func (s *Store) CheckUnused(ctx context.Context, id string) error {
	return s.db.Read(ctx, "node_in_use", func(c *sqlite.Conn) error {
		used, err := exists(c, sqlNodeInUse, id)
		if err == nil && used {
			err = buckets.ErrNodeInUse
		}
		return err
	})
}

// notRemoved returns ErrNodeRemoved if a node is removed or being removed, unless the row already contains the node.
func notRemoved(c *sqlite.Conn, sharks, before []string) error {
	for _, id := range sharks {
		if slices.Contains(before, id) {
			continue
		}
		state, _, err := sqlitedb.QueryRow(c, sqlNodeState, func(r *sqlite.Stmt) buckets.NodeState { return buckets.NodeState(r.ColumnText(0)) }, id)
		if err != nil {
			return err
		}
		if state == buckets.NodeRemoving || state == buckets.NodeRemoved {
			return buckets.ErrNodeRemoved
		}
	}
	return nil
}
