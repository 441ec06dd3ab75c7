package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/tokenserver"
)

// SignIn implements tokenserver.Users.
func (s *Store) SignIn(ctx context.Context, a tokenserver.Account, in tokenserver.SignIn) (tokenserver.User, error) {
	st, err := s.AccountState(ctx, a)
	if err != nil {
		return tokenserver.User{}, err
	}
	plan, refusal := tokenserver.Decide(st, in)
	if refusal == nil && plan.Idle() || refusal != nil && !st.Records(refusal) {
		return plan.User, refusal
	}
	var u tokenserver.User
	err = s.db.Write(ctx, "token.sign_in", func(c *sqlite.Conn) error {
		st, err := stateOf(c, a)
		if err != nil {
			return err
		}
		plan, refusal = tokenserver.Decide(st, in)
		if refusal != nil {
			if st.Records(refusal) {
				return recordRefusal(c, a, in.Now)
			}
			return nil
		}
		u, err = apply(c, a, in, plan)
		return err
	})
	if err == nil {
		err = refusal
	}
	return u, err
}

// apply carries out a sign-in's plan: it adds or changes the user and, for a new user, allocates a node.
func apply(c *sqlite.Conn, a tokenserver.Account, in tokenserver.SignIn, p tokenserver.Plan) (tokenserver.User, error) {
	u := p.User
	if p.Allocate {
		node, err := allocate(c, in)
		if err != nil {
			return u, err
		}
		u.NodeID, u.Node = node.ID, node.URL
	}
	switch p.Op {
	case tokenserver.Insert:
		u.Email = a.Email()
		err := sqlitedb.Exec(c, sqlInsertUser, u.Email, u.Generation, u.ClientState, u.CreatedAt, u.NodeID, nullable(u.KeysChangedAt))
		if err != nil {
			return u, err
		}
		u.UID = c.LastInsertRowID()
	case tokenserver.Update:
		if err := sqlitedb.Exec(c, sqlUpdateUser, u.Generation, nullable(u.KeysChangedAt), a.Email()); err != nil {
			return u, err
		}
	}
	if p.Replace {
		return u, sqlitedb.Exec(c, sqlReplaceOthers, u.CreatedAt, a.Email(), u.UID)
	}
	return u, nil
}

// allocate takes a slot on a node, and releases slots if all are taken.
func allocate(c *sqlite.Conn, in tokenserver.SignIn) (tokenserver.Node, error) {
	nodes, err := sqlitedb.QueryAll(c, sqlNodes, scanNode)
	if err != nil {
		return tokenserver.Node{}, err
	}
	taken, changed, err := tokenserver.Allocate(nodes, in.ReleaseRate, in.SpannerNode)
	if err != nil {
		return tokenserver.Node{}, err
	}
	for _, n := range changed {
		if err := sqlitedb.Exec(c, sqlTakeNode, n.Available, n.Load, n.ID); err != nil {
			return tokenserver.Node{}, err
		}
	}
	return taken, nil
}

// recordRefusal remembers a refused account for the operator, and forgets the oldest.
func recordRefusal(c *sqlite.Conn, a tokenserver.Account, now time.Time) error {
	if err := sqlitedb.Exec(c, sqlRefuse, a.FxAUID, now.UnixMilli()); err != nil {
		return err
	}
	oldest, err := sqlitedb.QueryAll(c, sqlTrimRefused, func(stmt *sqlite.Stmt) string { return stmt.ColumnText(0) }, tokenserver.MaxRefused)
	if err != nil {
		return err
	}
	for _, id := range oldest {
		if err := forgetProfileLabel(c, tokenserver.Account{FxAUID: id, Domain: a.Domain}); err != nil {
			return err
		}
	}
	return nil
}
