package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
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
	err = s.locked(ctx, "token.sign_in", a, func(tx *pgdb.Tx) error {
		var r stateRow
		if err := tx.ForEach(sqlAccountState, stateArgs(a), r.add, r.dest()...); err != nil {
			return err
		}
		var plan tokenserver.Plan
		plan, refusal = tokenserver.Decide(r.state, in)
		if refusal != nil {
			if r.state.Records(refusal) {
				return recordRefusal(tx, a, in.Now)
			}
			return nil
		}
		u, err = apply(tx, a, in, plan)
		return err
	})
	if err == nil {
		err = refusal
	}
	return u, err
}

// apply carries out a sign-in's plan: it adds or changes the user and, for a new user, allocates a node.
func apply(tx *pgdb.Tx, a tokenserver.Account, in tokenserver.SignIn, p tokenserver.Plan) (tokenserver.User, error) {
	u := p.User
	if p.Allocate {
		node, err := allocate(tx, in)
		if err != nil {
			return u, err
		}
		u.NodeID, u.Node = node.ID, node.URL
	}
	switch p.Op {
	case tokenserver.Insert:
		u.Email = a.Email()
		if _, err := tx.QueryRow(sqlInsertUser.Statement, sqlInsertUser.Args(u), &u.UID); err != nil {
			return u, err
		}
	case tokenserver.Update:
		if _, err := tx.Exec(sqlUpdateUser, u.Generation, nullable(u.KeysChangedAt), a.Email()); err != nil {
			return u, err
		}
	}
	if p.Replace {
		if _, err := tx.Exec(sqlReplaceOthers, u.CreatedAt, a.Email(), u.UID); err != nil {
			return u, err
		}
	}
	return u, nil
}

// userArgs are the parameters for a user's row.
func userArgs(u tokenserver.User) []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "email text", Value: u.Email},
		{Param: "generation bigint", Value: u.Generation},
		{Param: "client_state text", Value: u.ClientState},
		{Param: "created_at bigint", Value: u.CreatedAt},
		{Param: "node bigint", Value: u.NodeID},
		{Param: "keys_changed_at bigint", Value: nullable(u.KeysChangedAt)},
	}
}

// allocate takes a slot on a node, and releases slots if all are taken. It locks all nodes until the commit.
func allocate(tx *pgdb.Tx, in tokenserver.SignIn) (tokenserver.Node, error) {
	var r nodeRow
	nodes, err := collectTx(tx, sqlLockNodes, nil, r.node, r.dest()...)
	if err != nil {
		return tokenserver.Node{}, err
	}
	taken, changed, err := tokenserver.Allocate(nodes, in.ReleaseRate, in.SpannerNode)
	if err != nil {
		return tokenserver.Node{}, err
	}
	for _, n := range changed {
		if _, err := tx.Exec(sqlTakeNode, n.Available, n.Load, n.ID); err != nil {
			return tokenserver.Node{}, err
		}
	}
	return taken, nil
}

// recordRefusal remembers a refused account for the operator, and forgets the oldest.
func recordRefusal(tx *pgdb.Tx, a tokenserver.Account, now time.Time) error {
	if _, err := tx.Exec(sqlRefuse, a.FxAUID, now.UnixMilli()); err != nil {
		return err
	}
	_, err := tx.Exec(sqlTrimRefused, tokenserver.MaxRefused, a.Domain)
	return err
}
