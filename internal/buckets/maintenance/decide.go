package maintenance

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/errcode"
)

// group is all findings for a path.
type group struct {
	path     string
	body     *body
	findings []Finding
}

// decideAll looks at each finding again, with its row as it is now: most findings come from writes during the audit.
func (a *audit) decideAll(ctx context.Context) error {
	sorted, err := openLines(filepath.Join(a.Folder, sortedFile), 0)
	if err != nil {
		return err
	}
	defer sorted.close()
	again, err := openLines(filepath.Join(a.Folder, againFile), 0)
	if err != nil {
		return err
	}
	defer again.close()
	rows := &bodies{lines: again}
	all := func(*buckets.Reference) bool { return true }
	if err := errors.Join(sorted.next(), rows.next(all)); err != nil {
		return err
	}
	done := int64(0)
	for !sorted.ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		g, err := nextGroup(sorted)
		if err != nil {
			return err
		}
		for !rows.ended && rows.path < g.path {
			if err := rows.next(all); err != nil {
				return err
			}
		}
		if !rows.ended && rows.path == g.path {
			b := rows.body
			g.body = &b
		}
		done += int64(len(g.findings))
		if err := a.settle(ctx, g); err != nil {
			return err
		}
		a.Show(Deciding, done, a.pending)
	}
	return nil
}

// nextGroup reads the findings for the next path.
func nextGroup(sorted *lines) (*group, error) {
	g := &group{}
	for !sorted.ended {
		var f Finding
		path, err := decodeLine(sorted.line, &f)
		if err != nil {
			return nil, err
		}
		if len(g.findings) == 0 {
			g.path = path
		}
		if path != g.path {
			return g, nil
		}
		g.findings = append(g.findings, f)
		if err := sorted.next(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// settle drops the findings that hold no longer, repairs the others if the audit repairs, and reports them.
func (a *audit) settle(ctx context.Context, g *group) error {
	var left []Finding
	for _, f := range g.findings {
		holds, err := a.holds(ctx, g, &f)
		if err != nil {
			return err
		}
		if holds {
			if f.Object == "" && g.body != nil && f.Problem != Unreferenced {
				f = f.of(g.body)
			}
			left = append(left, f)
		}
	}
	g.findings = left
	if a.marks && slices.ContainsFunc(left, isDamage) {
		return a.sayAll(left)
	}
	if a.Repair && len(left) > 0 {
		if err := a.wait(ctx); err != nil {
			return err
		}
		began := buckets.At(a.Clock())
		a.repair(ctx, g)
		if err := errors.Join(ctx.Err(), a.unmark(ctx, g, began)); err != nil {
			return err
		}
	}
	return a.sayAll(g.findings)
}

// unmark removes damage records of good or removed copies, unless the damage was seen again.
func (a *audit) unmark(ctx context.Context, g *group, began buckets.Moment) error {
	if a.background {
		return nil
	}
	var good []buckets.Damage
	for i := range g.findings {
		f := &g.findings[i]
		if !f.Repaired || !isDamage(*f) {
			continue
		}
		if _, err := a.Cluster.Verify(ctx, g.path, g.body.ref, f.Node, nil); err == nil || errcode.Is(err, errcode.NotFound) {
			good = append(good, buckets.Damage{Copy: buckets.Copy{Node: f.Node, Path: g.path}, LastSeen: began})
		}
	}
	if len(good) == 0 {
		return nil
	}
	return a.Store.Unmark(ctx, good)
}

// sayAll reports findings.
func (a *audit) sayAll(all []Finding) error {
	for i := range all {
		if err := a.say(all[i]); err != nil {
			return err
		}
	}
	return nil
}

// isDamage reports whether a copy is missing or bad.
func isDamage(f Finding) bool { return f.Problem == Missing || f.Problem == Corrupt }

// holds reports whether a finding is still true. It may turn Corrupt into Missing.
func (a *audit) holds(ctx context.Context, g *group, f *Finding) (bool, error) {
	row := g.body
	live := row != nil && !row.ref.Garbage
	switch f.Problem {
	case Unreferenced:
		if row != nil && slices.Contains(row.ref.Sharks, f.Node) {
			return false, nil
		}
		return a.isUnchanged(ctx, f), ctx.Err()
	case FewCopies:
		return live && len(row.ref.Sharks) < a.Level, nil
	case Missing:
		if !live || !slices.Contains(row.ref.Sharks, f.Node) {
			return false, nil
		}
		_, err := a.Cluster.Stat(ctx, f.Node, f.Path)
		if a.background && err != nil && !errcode.Is(err, errcode.NotFound) {
			return false, errBadNode{err}
		}
		return err != nil, ctx.Err()
	case Corrupt:
		if !live || !slices.Contains(row.ref.Sharks, f.Node) {
			return false, nil
		}
		if _, err := a.Cluster.Stat(ctx, f.Node, f.Path); errcode.Is(err, errcode.NotFound) {
			f.Problem, f.Detail = Missing, ""
			return true, nil
		}
		_, detail, err := a.verify(ctx, f.Node, row, nil)
		if _, bad := errors.AsType[errBadNode](err); bad && a.background {
			return false, err
		}
		if detail != "" {
			f.Detail = detail
		}
		return detail != "" || err != nil, ctx.Err()
	}
	return true, nil
}

// isUnchanged returns true for an unreadable file, so that it is reported.
func (a *audit) isUnchanged(ctx context.Context, f *Finding) bool {
	if blobs.IsTemporary(f.Path) {
		return true // a later write would change its time
	}
	info, err := a.Cluster.Stat(ctx, f.Node, f.Path)
	if err != nil {
		return !errcode.Is(err, errcode.NotFound)
	}
	return info.Size == f.Size && info.Modified.Equal(f.Modified)
}

// repair repairs referenced copies first, because an unreferenced file may be the only good copy.
func (a *audit) repair(ctx context.Context, g *group) {
	var broken, strays []string
	few := false
	for _, f := range g.findings {
		switch f.Problem {
		case Missing, Corrupt:
			broken = append(broken, f.Node)
		case Unreferenced:
			strays = append(strays, f.Node)
		case FewCopies:
			few = true
		default:
			return
		}
	}
	var kept []string
	if len(broken) > 0 || few {
		var err error
		if kept, err = a.restore(ctx, g.body, broken, strays); err != nil {
			for i := range g.findings {
				f := &g.findings[i]
				f.Lost = isDamage(*f) && isLost(err)
				f.Detail = strings.TrimPrefix(f.Detail+"; "+notRepaired+err.Error(), "; ")
			}
			return
		}
	}
	for i := range g.findings {
		f := &g.findings[i]
		if f.Problem != Unreferenced || slices.Contains(kept, f.Node) {
			f.Repaired = true
			continue
		}
		if err := a.mayRemove(ctx, f.Path); err != nil {
			f.Detail = "not removed: " + err.Error()
			continue
		}
		// Check again, because the file may have been replaced by a young copy. No copy can appear after this, because drains
		// and audits exclude each other.
		if !a.isUnchanged(ctx, f) {
			continue
		}
		err := a.Cluster.Remove(ctx, f.Path, []string{f.Node})
		if f.Repaired = err == nil; err != nil {
			f.Detail = "not removed: " + err.Error()
		}
	}
}

var (
	errNoCopy  = errors.New("no good copy is left")
	errChanged = errors.New("the object was changed meanwhile: run the audit again")
)

// isLost returns false if a failed node may have a copy.
func isLost(err error) bool {
	return errors.Is(err, errNoCopy) || errors.Is(err, blobs.ErrCorrupt) && !errcode.Is(err, errcode.Unavailable)
}

// mayRemove rejects files of unknown accounts. If a new database uses the nodes of another database, all files are
// unreferenced.
func (a *audit) mayRemove(ctx context.Context, path string) error {
	version, rest, _ := strings.Cut(path, "/")
	text, _, _ := strings.Cut(rest, "/")
	id := buckets.AccountID(text)
	ofAccount := version == "v2" && id.Check() == nil
	if a.UnknownAccounts || !ofAccount {
		return nil
	}
	known, looked := a.accounts[id]
	if !looked {
		_, err := a.Store.AccountByID(ctx, id)
		if known = err == nil; err != nil && !errors.Is(err, buckets.ErrNoAccount) {
			return err
		}
		a.accounts[id] = known
	}
	if !known {
		return errNoAccount
	}
	return nil
}

var errNoAccount = errors.New("the account is not in the database; if the file belongs to no other database, use --unknown-accounts")

// elsewhere returns nodes that the row does not name. They may hold a good copy after a restore or a killed drain.
func (a *audit) elsewhere(r *buckets.Reference) (ids []string) {
	for _, id := range slices.Sorted(keys(a.nodes)) {
		if !slices.Contains(r.Sharks, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// goodCopies returns all nodes with a good copy, and at most want of them to keep. It searches unreferenced nodes
// only if a copy is broken.
func (a *audit) goodCopies(ctx context.Context, b *body, broken []string, want int) (from, nodes []string) {
	for _, id := range b.ref.Sharks {
		if !slices.Contains(broken, id) {
			from = append(from, id)
		}
	}
	nodes = slices.Clone(from)
	if len(broken) == 0 {
		return from, nodes
	}
	for _, id := range a.elsewhere(&b.ref) {
		if _, err := a.Cluster.Verify(ctx, b.path, b.ref, id, nil); err != nil {
			continue
		}
		from = append(from, id)
		if len(nodes) < want && a.nodes[id] == buckets.NodeActive || len(nodes) == 0 {
			nodes = append(nodes, id)
		}
	}
	return from, nodes
}

// restore restores the number of good copies. strays are nodes with an unreferenced copy.
func (a *audit) restore(ctx context.Context, b *body, broken, strays []string) (nodes []string, err error) {
	want := max(len(b.ref.Sharks), a.Level)
	from := b.ref
	from.Sharks, nodes = a.goodCopies(ctx, b, broken, want)
	good := len(from.Sharks)
	for _, id := range broken { // for chunks that are good nowhere else
		if _, known := a.nodes[id]; known {
			from.Sharks = append(from.Sharks, id)
		}
	}
	if len(from.Sharks) == 0 {
		return nil, errNoCopy
	}
	defer func() {
		if good == 0 && err != nil && !errcode.Is(err, errcode.Unavailable) {
			err = errNoCopy
		}
	}()
	var failed []error
	for _, id := range broken { // prefer the old node, so that the row does not change
		if len(nodes) >= want || a.nodes[id] != buckets.NodeActive {
			continue
		}
		if err := a.Cluster.Restore(ctx, b.path, from, id); err != nil {
			failed = append(failed, err)
			continue
		}
		nodes = append(nodes, id)
	}
	if n := want - len(nodes); n > 0 {
		have := slices.Concat(b.ref.Sharks, strays)
		added, err := a.Cluster.Replicate(ctx, b.path, from, n, have)
		if err != nil {
			return nil, errors.Join(append(failed, err)...)
		}
		nodes = append(nodes, added...)
	}
	if err := a.setSharks(ctx, b, nodes); err != nil {
		return nil, err
	}
	a.removeBroken(ctx, b, broken, nodes)
	return nodes, nil
}

// setSharks changes the row's nodes, unless they are the same. It returns errChanged if the row changed meanwhile.
func (a *audit) setSharks(ctx context.Context, b *body, nodes []string) error {
	now, before := slices.Sorted(slices.Values(nodes)), slices.Sorted(slices.Values(b.ref.Sharks))
	if slices.Equal(now, before) {
		return nil
	}
	set, err := a.Store.SetSharks(ctx, b.ref, nodes)
	if err == nil && !set {
		err = errChanged
	}
	return err
}

// removeBroken ignores errors, because the next audit finds the remaining copies.
func (a *audit) removeBroken(ctx context.Context, b *body, broken, nodes []string) {
	for _, id := range broken {
		if _, known := a.nodes[id]; known && !slices.Contains(nodes, id) {
			_ = a.Cluster.Remove(ctx, b.path, []string{id})
		}
	}
}
