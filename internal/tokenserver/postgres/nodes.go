package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

// nodeRow holds the destinations for a node. Mozilla's tables store flags as numbers.
type nodeRow struct {
	n               tokenserver.Node
	downed, backoff int64
}

// dest returns the destinations in order.
func (r *nodeRow) dest() []any {
	return []any{&r.n.ID, &r.n.URL, &r.n.Available, &r.n.Load, &r.n.Capacity, &r.downed, &r.backoff}
}

// node decodes the last row read.
func (r *nodeRow) node() tokenserver.Node {
	r.n.Downed, r.n.Backoff = r.downed != 0, r.backoff != 0
	return r.n
}

// flag stores nil as NULL.
func flag(b *bool) *int64 {
	if b == nil {
		return nil
	}
	var n int64
	if *b {
		n = 1
	}
	return &n
}

// ListNodes implements tokenserver.Nodes.
func (s *Store) ListNodes(ctx context.Context) ([]tokenserver.Node, error) {
	var r nodeRow
	return collect(ctx, s.db, sqlNodes, nil, r.node, r.dest()...)
}

// nodeArgs are the parameters for a node's row.
func nodeArgs(n tokenserver.Node) []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "node text", Value: n.URL},
		{Param: "available int", Value: n.Available},
		{Param: "load int", Value: n.Load},
		{Param: "capacity int", Value: n.Capacity},
		{Param: "downed int", Value: flag(&n.Downed)},
		{Param: "backoff int", Value: flag(&n.Backoff)},
	}
}

// AddNode implements tokenserver.Nodes.
func (s *Store) AddNode(ctx context.Context, n tokenserver.Node) (tokenserver.Node, error) {
	var r nodeRow
	added, err := s.db.QueryRow(ctx, sqlAddNode.Statement, sqlAddNode.Args(n), r.dest()...)
	if err == nil && !added {
		err = errcode.Newf(errcode.Conflict, "node %s already exists", n.URL)
	}
	if err != nil {
		return tokenserver.Node{}, err
	}
	return r.node(), nil
}

// EnsureNode implements tokenserver.Nodes.
func (s *Store) EnsureNode(ctx context.Context, n tokenserver.Node) (bool, error) {
	_, err := s.AddNode(ctx, n)
	if errcode.Is(err, errcode.Conflict) {
		return false, nil
	}
	return err == nil, err
}

// EnsureFirstNode implements tokenserver.Nodes.
func (s *Store) EnsureFirstNode(ctx context.Context, n tokenserver.Node) (added bool, err error) {
	err = s.db.Tx(ctx, "token.ensure_first_node", func(tx *pgdb.Tx) error {
		added = false
		if _, err := tx.Exec(sqlLockFirstNode); err != nil {
			return err
		}
		var first string
		if found, err := tx.QueryRow(sqlFirstNode, nil, &first); err != nil || found {
			return err
		}
		var r nodeRow
		nodes, err := collectTx(tx, sqlNodes, nil, r.node, r.dest()...)
		if err != nil {
			return err
		}
		if len(nodes) > 0 {
			n = nodes[0]
		} else if added, err = tx.QueryRow(sqlAddNode.Statement, sqlAddNode.Args(n), r.dest()...); err != nil {
			return err
		}
		_, err = tx.Exec(sqlSetFirstNode, n.URL)
		return err
	})
	return added && err == nil, err
}

// SetNode implements tokenserver.Nodes.
func (s *Store) SetNode(ctx context.Context, url string, c tokenserver.NodeChange) (tokenserver.Node, error) {
	var r nodeRow
	found, err := s.db.QueryRow(ctx, sqlSetNode, []any{c.Available, c.Capacity, flag(c.Downed), flag(c.Backoff), url}, r.dest()...)
	if err == nil && !found {
		err = errcode.Newf(errcode.NotFound, "node %s does not exist; holdfast tokenserver nodes list shows the nodes", url)
	}
	if err != nil {
		return tokenserver.Node{}, err
	}
	return r.node(), nil
}
