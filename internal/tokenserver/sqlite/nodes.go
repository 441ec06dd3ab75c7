package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

// scanNode reads the columns of sqlNodes.
func scanNode(stmt *sqlite.Stmt) tokenserver.Node {
	return tokenserver.Node{
		ID:        stmt.ColumnInt64(0),
		URL:       stmt.ColumnText(1),
		Available: stmt.ColumnInt64(2),
		Load:      stmt.ColumnInt64(3),
		Capacity:  stmt.ColumnInt64(4),
		Downed:    stmt.ColumnBool(5),
		Backoff:   stmt.ColumnBool(6),
	}
}

// ListNodes implements tokenserver.Nodes.
func (s *Store) ListNodes(ctx context.Context) (nodes []tokenserver.Node, err error) {
	err = s.db.Read(ctx, "token.list_nodes", func(c *sqlite.Conn) error {
		nodes, err = sqlitedb.QueryAll(c, sqlNodes, scanNode)
		return err
	})
	return nodes, err
}

// AddNode implements tokenserver.Nodes.
func (s *Store) AddNode(ctx context.Context, n tokenserver.Node) (tokenserver.Node, error) {
	var added []tokenserver.Node
	err := s.db.Write(ctx, "token.add_node", func(c *sqlite.Conn) (err error) {
		added, err = addNode(c, n)
		return err
	})
	if err == nil && len(added) == 0 {
		err = errcode.Newf(errcode.Conflict, "node %s already exists", n.URL)
	}
	if err != nil {
		return tokenserver.Node{}, err
	}
	return added[0], nil
}

// addNode returns the new node, or nothing if the URL is taken.
func addNode(c *sqlite.Conn, n tokenserver.Node) ([]tokenserver.Node, error) {
	return sqlitedb.QueryAll(c, sqlAddNode, scanNode, n.URL, n.Available, n.Load, n.Capacity, n.Downed, n.Backoff)
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
	err = s.db.Write(ctx, "token.ensure_first_node", func(c *sqlite.Conn) error {
		text := func(stmt *sqlite.Stmt) string { return stmt.ColumnText(0) }
		first, err := sqlitedb.QueryAll(c, sqlFirstNode, text)
		if err != nil || len(first) > 0 {
			return err
		}
		nodes, err := sqlitedb.QueryAll(c, sqlNodes, scanNode)
		if err != nil {
			return err
		}
		if added = len(nodes) == 0; added {
			if nodes, err = addNode(c, n); err != nil {
				return err
			}
		}
		return sqlitedb.Exec(c, sqlSetFirstNode, nodes[0].URL)
	})
	return added && err == nil, err
}

// SetNode implements tokenserver.Nodes.
func (s *Store) SetNode(ctx context.Context, url string, ch tokenserver.NodeChange) (tokenserver.Node, error) {
	var set []tokenserver.Node
	err := s.db.Write(ctx, "token.set_node", func(c *sqlite.Conn) (err error) {
		set, err = sqlitedb.QueryAll(c, sqlSetNode, scanNode,
			optional(ch.Available), optional(ch.Capacity), optional(ch.Downed), optional(ch.Backoff), url)
		return err
	})
	if err == nil && len(set) == 0 {
		err = errcode.Newf(errcode.NotFound, "node %s does not exist; holdfast tokenserver nodes list shows the nodes", url)
	}
	if err != nil {
		return tokenserver.Node{}, err
	}
	return set[0], nil
}
