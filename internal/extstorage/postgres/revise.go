package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// These functions run writes that depend on stored values. An install's waiting writes run in one message and transaction,
// each computed from the result of the previous write.

const (
	togetherWrites = 32        // maximum number of writes in a call
	togetherBytes  = 256 << 10 // of values in a call, unless a single write is larger
)

// revision is a waiting patch or increment: its value depends on the value before.
type revision struct {
	w       *ext.Write
	outcome outcome // valid once done is closed
	done    chan struct{}
	// ends the wait for a turn
	finish func()
}

// outcome is a write's result.
type outcome struct {
	applied ext.Applied
	err     error
}

// revisions collects revisions by install, so that the caller that gets the turn runs all that wait.
type revisions struct {
	mu      sync.Mutex
	waiting map[ext.Owner][]*revision
}

// add lets r wait.
func (a *revisions) add(o ext.Owner, r *revision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = map[ext.Owner][]*revision{}
	}
	a.waiting[o] = append(a.waiting[o], r)
}

// take removes the oldest waiting revisions, up to togetherWrites.
func (a *revisions) take(o ext.Owner) []*revision {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.waiting[o]
	n := min(len(all), togetherWrites)
	a.keep(o, slices.Clone(all[n:]))
	return all[:n]
}

// remove stops the wait, unless another request already took r.
func (a *revisions) remove(o ext.Owner, r *revision) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.waiting[o], r)
	if i >= 0 {
		a.keep(o, slices.Delete(a.waiting[o], i, i+1))
	}
	return i >= 0
}

// keep requires the lock.
func (a *revisions) keep(o ext.Owner, all []*revision) {
	if len(all) == 0 {
		delete(a.waiting, o)
	} else {
		a.waiting[o] = all
	}
}

// revise waits until the write is done, by this request or by another that has the install's turn.
func (s *Store) revise(ctx context.Context, o ext.Owner, w *ext.Write) (ext.Applied, error) {
	if err := ctx.Err(); err != nil {
		return ext.Applied{}, errcode.Wrap(errcode.Unavailable, "the request timed out waiting for other writes to the install", err)
	}
	waiting, finish := context.WithCancel(ctx)
	defer finish()
	r := &revision{w: w, done: make(chan struct{}), finish: finish}
	s.revisions.add(o, r)
	turn, err := s.queue.Enter(waiting, o, true)
	if err == nil {
		defer turn.Leave()
		for !r.isDone() {
			s.reviseAll(ctx, o, s.revisions.take(o))
		}
	}
	if !r.isDone() && s.revisions.remove(o, r) {
		return ext.Applied{}, err
	}
	select {
	case <-r.done:
		return r.outcome.applied, r.outcome.err
	case <-ctx.Done():
		return ext.Applied{}, errcode.Wrap(errcode.Unavailable, "the request timed out before the database answered", context.Cause(ctx))
	}
}

// isDone reports whether the outcome is set.
func (r *revision) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// end sets the outcome and wakes the request.
func (r *revision) end(out outcome) {
	r.outcome = out
	close(r.done)
	r.finish()
}

// reviseAll runs as many writes together as possible. It continues when its own request ends, because the other
// requests may still wait.
func (s *Store) reviseAll(ctx context.Context, o ext.Owner, all []*revision) {
	ctx = context.WithoutCancel(ctx)
	defer func() {
		for _, r := range all { // after a panic, answer the others
			r.end(outcome{err: errcode.New(errcode.Internal, "internal error")})
		}
	}()
	for len(all) > 0 {
		outcomes, err := s.reviseTogether(ctx, o, all)
		if err != nil && len(all) > 1 && !errcode.Is(err, errcode.Unavailable) {
			outcomes, err = s.reviseTogether(ctx, o, all[:1])
		}
		if err != nil {
			outcomes = slices.Repeat([]outcome{{err: err}}, len(all))
		}
		for i := range outcomes {
			all[i].end(outcomes[i])
		}
		all = all[len(outcomes):]
	}
}

// reviseTogether runs the first write and as many others as it can. It locks before reading only if another process
// changed a record, because locking takes more messages, on Citus many more, while the install's other writers wait.
func (s *Store) reviseTogether(ctx context.Context, o ext.Owner, all []*revision) ([]outcome, error) {
	outcomes, err := optimistic(s.alone(ctx), o, all)
	if err != nil || len(outcomes) > 0 {
		return outcomes, err
	}
	err = s.db.Tx(ctx, "ext.revise", func(tx *pgdb.Tx) (err error) {
		var (
			ignored string
			last    int64
		)
		if _, err := tx.QueryRow(sqlLock, []any{string(o.Tenant), string(o.Install), now(all[0].w.Now)}, &ignored, &last); err != nil {
			return err
		}
		outcomes, err = optimistic(tx.QueryRow, o, all)
		if err == nil && len(outcomes) == 0 {
			err = errcode.Wrap(errcode.Internal, "internal error", errors.New("a record changed while its install was locked"))
		}
		return err
	})
	return outcomes, err
}

// optimistic computes writes from unlocked reads.
func optimistic(run query, o ext.Owner, all []*revision) (outcomes []outcome, _ error) {
	var (
		made  []*ext.Optimistic
		known ext.Known
		bytes int
	)
	for i, r := range all {
		a, err := r.w.Optimistic(known, func(ns ext.Namespace, key ext.Key) (ext.Record, error) { return get(run, o, ns, key, r.w.Now) })
		if i == 0 {
			if err != nil {
				return nil, err
			}
			if err := a.Done(); err != nil {
				return []outcome{{err: err}}, nil //nolint:nilerr // the error is the outcome of the first write
			}
		} else if err != nil || a.Done() != nil {
			break
		}
		for j := range a.Write.Ops {
			bytes += len(a.Write.Ops[j].Value) + len(a.Write.Ops[j].Metadata)
		}
		if i > 0 && bytes > togetherBytes {
			break
		}
		made, known = append(made, a), a.After
		if a.Last() {
			break
		}
	}
	outcomes, err := applyAll(run, o, made)
	if err != nil {
		return nil, err
	}
	for i := range outcomes {
		changed, err := made[i].Result(outcomes[i].err)
		if changed {
			return outcomes[:i], nil
		}
		outcomes[i].err = err
	}
	return outcomes, nil
}

// applyAll writes the results from optimistic, in a call. A refusal concerns a single write; any other error, all.
func applyAll(run query, o ext.Owner, all []*ext.Optimistic) ([]outcome, error) {
	if len(all) == 1 {
		applied, err := apply(run, o, &all[0].Write)
		if err != nil && !isRefusal(err) {
			return nil, err
		}
		return []outcome{{applied, err}}, nil
	}
	var text []byte
	if _, err := run(sqlApplyAll.Statement, sqlApplyAll.Args(applyingAll{o, all}), &text); err != nil {
		return nil, err
	}
	var answers []answer
	if err := json.Unmarshal(text, &answers); err != nil || len(answers) == 0 || len(answers) > len(all) {
		return nil, unexpected(text)
	}
	outcomes := make([]outcome, len(answers))
	for i := range answers {
		outcomes[i].applied, outcomes[i].err = answers[i].applied(&all[i].Write, text)
	}
	return outcomes, nil
}

// isRefusal reports whether an error is an answer for the client, after which the other writes go on.
func isRefusal(err error) bool {
	_, item := errors.AsType[*ext.ItemError](err)
	return item || errors.Is(err, ext.ErrKeyReused) || errors.Is(err, ext.ErrInstallDeleted)
}

// applyingAll holds the parameters for ext_apply_all_v2: those for ext_apply_v2, in arrays of arrays.
type applyingAll struct {
	owner ext.Owner
	all   []*ext.Optimistic
}

var applyAllParams = func() (params []string) {
	for _, arg := range (applying{}).args() {
		name, typ, _ := strings.Cut(arg.Param, " ")
		if strings.HasSuffix(typ, "[]") {
			typ = "text"
		}
		params = append(params, name+" "+typ+"[]")
	}
	return params
}()

// args names and orders the parameters for pgdb.
func (w applyingAll) args() []pgdb.Arg {
	args := []pgdb.Arg{tenant(w.owner), install(w.owner)}
	ofOwner := len(args)
	arrays := make([]array, len(applyAllParams)-ofOwner)
	for _, o := range w.all {
		for i, arg := range (applying{w.owner, o.Write}).args()[ofOwner:] {
			arrays[i].argument(arg.Value)
		}
	}
	for i, a := range arrays {
		args = append(args, pgdb.Arg{Param: applyAllParams[ofOwner+i], Value: a.whole()})
	}
	return args
}

// argument appends a parameter of applying.
func (a *array) argument(arg any) {
	switch v := arg.(type) {
	case string:
		a.text(v)
	case *string:
		if v == nil {
			a.null()
		} else {
			a.text(*v)
		}
	case []byte:
		if v == nil {
			a.null()
		} else {
			a.text(`\x` + hex.EncodeToString(v))
		}
	case int64:
		a.number(v)
	case pgtype.Timestamptz:
		a.text(v.Time.Format(time.RFC3339Nano))
	default:
		panic(fmt.Sprintf("no array of %T", arg)) // applying has an argument of a new type
	}
}
