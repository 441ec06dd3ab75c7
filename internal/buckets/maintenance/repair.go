package maintenance

import (
	"context"
	"errors"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Outcome is the result of repairing a damaged copy.
type Outcome string

const (
	IsGood      Outcome = "good"     // good, or no longer referenced
	WasRepaired Outcome = "repaired" // rewritten, or replaced by another copy
	IsLeft      Outcome = "left"     // cannot be repaired now
	IsLost      Outcome = "lost"     // no good copy is left
)

// Repair verifies damaged copies, rewrites bad copies from good ones, and removes the damage records. A failed
// repair's record stays with the reason. Repair must not run at the same time as an audit.
func Repair(ctx context.Context, o Options, marks []buckets.Damage, report func(buckets.Damage, Outcome)) error {
	a, err := newServerAudit(o)
	if err != nil {
		return err
	}
	defer func() { _ = a.state.remove() }()
	a.Repair = true
	said := map[buckets.Copy]Finding{}
	a.report = func(f Finding) error {
		said[buckets.Copy{Node: f.Node, Path: f.Path}] = f
		return nil
	}
	marks, err = a.reachable(ctx, marks, report)
	if err != nil {
		return err
	}
	for i := range marks {
		problem := Corrupt
		if marks[i].Problem == string(Missing) {
			problem = Missing
		}
		if err := a.state.find(Finding{Problem: problem, Node: marks[i].Node, Path: marks[i].Path}); err != nil {
			return err
		}
	}
	if err := a.state.buffer.Flush(); err != nil {
		return err
	}
	if err := a.decide(ctx); err != nil {
		return err
	}
	for _, mark := range marks {
		f, left := said[mark.Copy]
		if err := a.settleMark(ctx, mark, f, left, report); err != nil {
			return err
		}
	}
	return nil
}

// newServerAudit returns an audit that decides about marks in the background.
func newServerAudit(o Options) (*audit, error) {
	if err := durable.MakeFolder(o.Folder); err != nil {
		return nil, err
	}
	a := &audit{
		Options: o, AuditOptions: AuditOptions{Verify: true, Grace: DefaultGrace}, nodes: map[string]buckets.NodeState{},
		accounts: map[buckets.AccountID]bool{}, state: &state{folder: o.Folder}, background: true,
		result: Result{Found: map[Problem]int64{}}, report: func(Finding) error { return nil },
	}
	for _, n := range o.Cluster.Nodes() {
		a.nodes[n.ID] = n.State
	}
	return a, a.state.clear()
}

// reachable returns the marks whose nodes work. It forgets marks on removed nodes, and postpones marks on failed nodes
// without a change of their state.
func (a *audit) reachable(ctx context.Context, marks []buckets.Damage, report func(buckets.Damage, Outcome)) (now []buckets.Damage, err error) {
	known, err := a.Options.Nodes.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	exists, down := map[string]bool{}, map[string]error{}
	for _, n := range known {
		exists[n.ID] = n.State != buckets.NodeRemoved
	}
	for _, mark := range marks {
		if !exists[mark.Node] {
			if err := a.Store.Unmark(ctx, []buckets.Damage{mark}); err != nil {
				return nil, err
			}
			report(mark, IsGood)
			continue
		}
		failed, asked := down[mark.Node]
		if !asked {
			failed = a.Cluster.Ping(ctx, mark.Node)
			down[mark.Node] = failed
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case failed == nil:
			now = append(now, mark)
			continue
		}
		if err := a.Store.NoteAttempt(ctx, mark.Failed(mark.State, messageOf(failed), buckets.At(a.Clock()))); err != nil {
			return nil, err
		}
		report(mark, IsLeft)
	}
	return now, nil
}

// messageOf returns text for a person.
func messageOf(err error) string {
	if text := errcode.Message(err); text != "" {
		return text
	}
	return err.Error()
}

// settleMark removes the mark, or notes the attempt. left is false if the finding no longer holds.
func (a *audit) settleMark(ctx context.Context, mark buckets.Damage, f Finding, left bool, report func(buckets.Damage, Outcome)) error {
	if !left || f.Repaired {
		outcome := IsGood
		if left {
			outcome = WasRepaired
		}
		report(mark, outcome)
		return a.Store.Unmark(ctx, []buckets.Damage{mark})
	}
	state, outcome := buckets.Damaged, IsLeft
	if f.Lost {
		state, outcome = buckets.Lost, IsLost
	}
	if f.Object != "" {
		mark.Name, mark.Upload, mark.Number = f.Object, f.Upload, f.Part
	}
	reason := strings.TrimPrefix(f.Detail[max(0, strings.Index(f.Detail, notRepaired)):], notRepaired)
	report(mark, outcome)
	return a.Store.NoteAttempt(ctx, mark.Failed(state, reason, buckets.At(a.Clock())))
}

// notRepaired begins the reason in Finding.Detail.
const notRepaired = "not repaired: "

// IsNodeError reports whether background work stopped because a node failed.
func IsNodeError(err error) bool {
	_, bad := errors.AsType[errBadNode](err)
	return bad
}
