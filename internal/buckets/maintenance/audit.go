package maintenance

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/clock"
	"holdfast/internal/durable"
)

// Store is the database access of audits and drains.
type Store interface {
	buckets.References
	buckets.Counters
	buckets.Accounts
	buckets.Damages
	buckets.Scrubs
	buckets.Leases
	buckets.Holds
}

// Options are the parts that audits, drains and repairs use.
type Options struct {
	Store   Store
	Nodes   *buckets.NodeService
	Cluster *blobs.Cluster
	Clock   clock.Clock // for ages of files and marks
	Folder  string      // for temporary files, locked by the caller

	// Show reports progress and is never called concurrently. total is 0 if unknown.
	Show func(step Step, n, total int64)
	// Waiting is called, possibly concurrently, while work pauses for a backup. A killed backup's hold ends at expires.
	Waiting func(expires buckets.Moment)
}

// holdPoll is how often a paused job looks whether the backup has ended.
const holdPoll = 200 * time.Millisecond

// wait pauses while a backup holds the garbage collection, because the backup counts on every body staying in place.
func (o *Options) wait(ctx context.Context) error {
	for first := true; ; first = false {
		until, err := o.Store.Held(ctx, buckets.At(o.Clock()))
		if err != nil || until == 0 {
			return err
		}
		if first {
			o.Waiting(until)
		}
		if !clock.Sleep(ctx, holdPoll) {
			return ctx.Err()
		}
	}
}

// Step is a step of an audit or drain.
type Step string

// Steps in order.
const (
	Listing   Step = "references"
	Comparing Step = "copies"
	Deciding  Step = "findings" // check findings again and repair them
	Moving    Step = "bodies"
)

// Problem is the kind of a Finding.
type Problem string

const (
	Unreferenced Problem = "unreferenced" // a file that no row names
	Missing      Problem = "missing"      // a row names a missing copy
	Corrupt      Problem = "corrupt"      // wrong length or checksum, or unreadable
	FewCopies    Problem = "few-copies"   // a row names too few nodes
	WrongUsage   Problem = "wrong-usage"  // a usage counter differs from the rows
	BadNode      Problem = "bad-node"     // the node failed during the audit
)

// Problems lists all in the order of reports.
var Problems = []Problem{Missing, Corrupt, FewCopies, Unreferenced, WrongUsage, BadNode}

// Finding is a problem that an audit found. The fields that describe the body are set if its row is known.
type Finding struct {
	Problem  Problem           `json:"problem"`
	Node     string            `json:"node,omitempty"`
	Path     string            `json:"path,omitempty"` // on the node
	Account  buckets.AccountID `json:"account,omitempty"`
	Bucket   buckets.BucketID  `json:"bucket,omitempty"`
	Object   string            `json:"object,omitempty"` // name
	Body     buckets.ObjectID  `json:"body,omitempty"`
	Upload   buckets.UploadID  `json:"upload,omitempty"`
	Part     int               `json:"part,omitempty"`
	Size     int64             `json:"size,omitempty"`    // bytes
	Modified time.Time         `json:"modified,omitzero"` // of an unreferenced file
	Detail   string            `json:"detail,omitempty"`  // for people, e.g. why it was not repaired
	Repaired bool              `json:"repaired"`
	Lost     bool              `json:"lost,omitempty"` // no good copy is left
}

// AuditOptions are the choices for an audit. A resumed audit must use the same.
type AuditOptions struct {
	Verify bool          // read and verify every copy; otherwise compare sizes only
	Repair bool          // repair findings, after checking each again
	Node   string        // audit only this node, and no usage counters
	Level  int           // expected copies per body; 0 for the number in its row
	Grace  time.Duration // ignore younger unreferenced files; at least MinGrace, 0 for DefaultGrace
	// UnknownAccounts also removes unreferenced files of accounts that are not in this database. Another database may use
	// the files.
	UnknownAccounts bool
	// Restart discards an interrupted audit.
	Restart bool
}

// Grace periods for unreferenced files.
const (
	DefaultGrace = 24 * time.Hour
	MinGrace     = 2 * buckets.CommitWithin // tolerates clock differences between nodes
)

// Result summarizes an audit.
type Result struct {
	Began   time.Time         `json:"began"`
	Bodies  int64             `json:"bodies"` // objects, parts and garbage
	Copies  int64             `json:"copies"` // compared
	Young   int64             `json:"young"`  // unreferenced files within the grace period
	Found   map[Problem]int64 `json:"found"`
	Left    int64             `json:"left"`      // findings that were not repaired
	Resumed bool              `json:"continued"` // continued an interrupted audit
}

// audit is a run of an audit, a scrub round or a repair batch: all three decide about findings in the same way.
type audit struct {
	Options
	AuditOptions
	state   *state
	nodes   map[string]buckets.NodeState
	report  func(Finding) error // called for each decided finding
	result  Result
	pending int64 // findings to decide

	// background is set on a server, where copies on a failed node do not count as missing. If marks is set, damaged
	// copies are left to Repair.
	background, marks bool

	accounts map[buckets.AccountID]bool // whether an account exists, by ID
}

// Audit compares the bodies on storage nodes and the usage counters with the database. After an interruption, even by
// SIGKILL, the next call with the same options resumes the audit.
func Audit(ctx context.Context, o Options, ao AuditOptions, report func(Finding) error) (Result, error) {
	ao.Grace = max(cmp.Or(ao.Grace, DefaultGrace), MinGrace)
	a := &audit{Options: o, AuditOptions: ao, nodes: map[string]buckets.NodeState{}, report: report, accounts: map[buckets.AccountID]bool{}}
	for _, n := range o.Cluster.Nodes() {
		a.nodes[n.ID] = n.State
	}
	if _, ok := a.nodes[ao.Node]; ao.Node != "" && !ok {
		return Result{}, errNoNode(ao.Node)
	}
	if err := durable.MakeFolder(o.Folder); err != nil {
		return Result{}, err
	}
	if err := a.load(); err != nil {
		return Result{}, err
	}
	a.result = Result{Began: a.state.Began, Found: map[Problem]int64{}, Resumed: a.state.Listed}
	for _, step := range []func(context.Context) error{a.list, a.compareAll, a.decide, a.auditUsage} {
		if err := step(ctx); err != nil {
			return a.result, err
		}
	}
	a.result.Bodies = a.state.Bodies
	for _, p := range a.state.Nodes {
		a.result.Copies += p.Compared
		a.result.Young += p.Young
	}
	return a.result, a.state.remove()
}

// say counts and reports a decided finding.
func (a *audit) say(f Finding) error {
	a.result.Found[f.Problem]++
	if !f.Repaired {
		a.result.Left++
	}
	return a.report(f)
}

// of adds the body's fields.
func (f Finding) of(b *body) Finding {
	f.Path, f.Account, f.Bucket, f.Object, f.Size = b.path, b.ref.Owner, b.ref.Bucket, b.ref.Name, b.ref.Length
	f.Body, f.Upload, f.Part = b.ref.ID, b.ref.Upload, b.ref.Number
	return f
}

// list writes all referenced bodies to a sorted file. The comparison merges it with each node's files, so memory does
// not grow with the number of bodies.
func (a *audit) list(ctx context.Context) error {
	if a.state.Listed {
		return nil
	}
	if err := a.state.clear(); err != nil {
		return err
	}
	a.state.Began = a.Clock()
	a.result.Began = a.state.Began
	for id := range a.nodes {
		if a.Node == "" || a.Node == id {
			a.state.Nodes[id] = &position{}
		}
	}
	s := newSorter(a.Folder, bodiesFile)
	err := references(ctx, a.Store, func(r buckets.Reference) error {
		if a.Node != "" && !slices.Contains(r.Sharks, a.Node) {
			return nil
		}
		b := newBody(r)
		a.state.Bodies++
		a.Show(Listing, a.state.Bodies, 0)
		for _, id := range r.Sharks {
			if p := a.state.Nodes[id]; p != nil {
				p.Copies++
			}
		}
		if err := a.findInRow(&b); err != nil {
			return err
		}
		line, err := encodeLine(b.path, r)
		if err != nil {
			return err
		}
		return s.add(line)
	})
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return err
	}
	a.state.Listed = true
	return a.state.save()
}

// findInRow notes problems that the row alone shows.
func (a *audit) findInRow(b *body) error {
	if b.ref.Garbage || a.Node != "" {
		return nil
	}
	for _, id := range b.ref.Sharks {
		if _, ok := a.nodes[id]; !ok {
			if err := a.state.find(Finding{Problem: Missing, Node: id, Detail: "no such storage node"}.of(b)); err != nil {
				return err
			}
		}
	}
	if len(b.ref.Sharks) < a.Level {
		return a.state.find(Finding{Problem: FewCopies}.of(b))
	}
	return nil
}

// auditUsage reads each account in one snapshot, so that concurrent writes do not matter.
func (a *audit) auditUsage(ctx context.Context) error {
	if a.Node != "" {
		return nil
	}
	for after := ""; ; {
		page, err := a.Store.ListAccounts(ctx, after, buckets.MaxPage)
		if err != nil {
			return err
		}
		for _, account := range page {
			after = account.Name
			miscounts, err := a.Store.Audit(ctx, account.ID, a.Repair)
			if err != nil {
				return err
			}
			for _, m := range miscounts {
				if err := a.say(usageFinding(account.ID, m, a.Repair)); err != nil {
					return err
				}
			}
		}
		if len(page) < buckets.MaxPage {
			return nil
		}
	}
}

// decide checks every finding again with fresh rows, because objects may have changed since the list. It reads all rows
// once, and keeps those whose path is among the findings.
func (a *audit) decide(ctx context.Context) error {
	if a.pending = a.state.Findings; a.pending == 0 {
		return nil
	}
	paths, err := a.sortFindings()
	if err != nil {
		return err
	}
	s := newSorter(a.Folder, againFile)
	err = references(ctx, a.Store, func(r buckets.Reference) error {
		b := newBody(r)
		if !paths.has(b.path) {
			return nil
		}
		line, err := encodeLine(b.path, r)
		if err != nil {
			return err
		}
		return s.add(line)
	})
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return err
	}
	return a.decideAll(ctx)
}

// sortFindings sorts the findings by path, and returns the set of paths.
func (a *audit) sortFindings() (*filter, error) {
	in, err := openLines(filepath.Join(a.Folder, findingsFile), 0)
	if err != nil {
		return nil, err
	}
	defer in.close()
	s, paths := newSorter(a.Folder, sortedFile), newFilter()
	for {
		if err := in.next(); err != nil || in.ended {
			return paths, errors.Join(err, s.finish())
		}
		var f Finding
		path, err := decodeLine(in.line, &f)
		if err != nil {
			return nil, err
		}
		paths.add(path)
		if err := s.add(in.line); err != nil {
			return nil, err
		}
	}
}
