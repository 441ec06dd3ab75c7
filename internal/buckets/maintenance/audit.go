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

// Store is what audits and drains use of the database.
type Store interface {
	buckets.References
	buckets.Counters
	buckets.Accounts
	buckets.Damages
	buckets.Scrubs
	buckets.Leases
	buckets.Holds
}

// Options of an Audit or a Drain.
type Options struct {
	Store   Store
	Nodes   *buckets.NodeService
	Cluster *blobs.Cluster
	Clock   clock.Clock
	Folder  string // for temporary files; the caller has locked it

	// Show is called with the progress of each step; total is 0 if it is unknown. It may
	// be called by one goroutine at a time.
	Show func(step Step, n, total int64)
	// Waiting is called when a backup holds the garbage collection, by several goroutines.
	// Until the backup has ended, no row is changed and no copy is removed. The hold of a
	// backup that was killed expires at the moment given.
	Waiting func(expires buckets.Moment)
}

// holdPoll is how often a hold is read again.
const holdPoll = 200 * time.Millisecond

// wait waits while a backup holds the garbage collection.
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

// Step is a step of an audit or a drain.
type Step string

// The steps.
const (
	Listing   Step = "references" // reading the references from the database
	Comparing Step = "copies"     // comparing the nodes with them
	Deciding  Step = "findings"   // checking findings again, and repairing them
	Moving    Step = "bodies"     // moving bodies off a node
)

// Problem is what a finding is about.
type Problem string

// The problems.
const (
	Unreferenced Problem = "unreferenced" // a file that no row names
	Missing      Problem = "missing"      // a row names a copy that is not there
	Corrupt      Problem = "corrupt"      // a copy has a wrong length or MD5, or cannot be read
	FewCopies    Problem = "few-copies"   // a row names fewer nodes than a body should have
	WrongUsage   Problem = "wrong-usage"  // a counter differs from what is stored
	BadNode      Problem = "bad-node"     // a node that cannot be read
)

// Problems are all problems.
var Problems = []Problem{Missing, Corrupt, FewCopies, Unreferenced, WrongUsage, BadNode}

// Finding is something that is not as it should be.
type Finding struct {
	Problem  Problem           `json:"problem"`
	Node     string            `json:"node,omitempty"`
	Path     string            `json:"path,omitempty"`
	Account  buckets.AccountID `json:"account,omitempty"`
	Bucket   buckets.BucketID  `json:"bucket,omitempty"`
	Object   string            `json:"object,omitempty"` // its name, or that of the object that a part is for
	Body     buckets.ObjectID  `json:"body,omitempty"`   // the version of the object, or of the part
	Upload   buckets.UploadID  `json:"upload,omitempty"` // not empty: a part of an upload, with its number
	Part     int               `json:"part,omitempty"`
	Size     int64             `json:"size,omitempty"`
	Modified time.Time         `json:"modified,omitzero"` // of an unreferenced file
	Detail   string            `json:"detail,omitempty"`
	Repaired bool              `json:"repaired"`
	Lost     bool              `json:"lost,omitempty"` // no good copy of the body is left
}

// AuditOptions are what an audit does.
type AuditOptions struct {
	Verify bool          // read every copy and compare its MD5
	Repair bool          // repair what is found
	Node   string        // audit this node only, and no counters; empty: all
	Level  int           // the number of copies that a body should have; 0: as many as its row names
	Grace  time.Duration // unreferenced files that are younger are ignored; at least MinGrace, 0: DefaultGrace
	// UnknownAccounts also removes unreferenced files of accounts that the database does not
	// have. They may be the bodies of another database.
	UnknownAccounts bool
	// Restart begins a new audit even if there is an interrupted one.
	Restart bool
}

// Grace times of unreferenced files.
const (
	DefaultGrace = 24 * time.Hour
	MinGrace     = 2 * buckets.CommitWithin // clocks of nodes differ
)

// Result is the result of an audit.
type Result struct {
	Began   time.Time         `json:"began"`
	Bodies  int64             `json:"bodies"`    // of objects, parts and garbage
	Copies  int64             `json:"copies"`    // that were compared
	Young   int64             `json:"young"`     // files that no row names and that were skipped, because they are younger than the grace time
	Found   map[Problem]int64 `json:"found"`     // findings
	Left    int64             `json:"left"`      // findings that were not repaired
	Resumed bool              `json:"continued"` // it is the rest of an audit that was interrupted
}

// audit is an audit that runs.
type audit struct {
	Options
	AuditOptions
	state   *state
	nodes   map[string]buckets.NodeState
	report  func(Finding) error
	result  Result
	pending int64 // findings that were not decided

	// background is true for the work of a server, which must not take a node that failed
	// for one without the copy. marks is true if it leaves damaged copies to Repair.
	background, marks bool

	accounts map[buckets.AccountID]bool // whether the database has them, as far as they were looked up
}

// Audit compares the bodies on storage nodes and the usage counters with the database,
// and calls report for every finding. If it is interrupted, even by SIGKILL, the next
// call with the same options continues where it compared last, at most a few seconds
// earlier. What it has repaired is not reported again.
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

// say reports a finding that is decided.
func (a *audit) say(f Finding) error {
	a.result.Found[f.Problem]++
	if !f.Repaired {
		a.result.Left++
	}
	return a.report(f)
}

// of fills in the object that a body belongs to.
func (f Finding) of(b *body) Finding {
	f.Path, f.Account, f.Bucket, f.Object, f.Size = b.path, b.ref.Owner, b.ref.Bucket, b.ref.Name, b.ref.Length
	f.Body, f.Upload, f.Part = b.ref.ID, b.ref.Upload, b.ref.Number
	return f
}

// list writes the references to a sorted file, and finds rows with too few nodes.
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
	err := a.Store.References(ctx, func(r buckets.Reference) error {
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

// findInRow finds what is wrong with the list of nodes of a row.
func (a *audit) findInRow(b *body) error {
	if b.ref.Garbage || a.Node != "" {
		return nil
	}
	for _, id := range b.ref.Sharks {
		if _, ok := a.nodes[id]; !ok {
			if err := a.state.find(Finding{Problem: Missing, Node: id, Detail: "there is no such storage node"}.of(b)); err != nil {
				return err
			}
		}
	}
	if len(b.ref.Sharks) < a.Level {
		return a.state.find(Finding{Problem: FewCopies}.of(b))
	}
	return nil
}

// auditUsage compares the counters of all accounts with their rows. Each account is read
// from one snapshot, so a write that runs meanwhile is counted in both or in none.
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
			wrong, err := a.Store.Audit(ctx, account.ID, a.Repair)
			if err != nil {
				return err
			}
			for _, m := range wrong {
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

// decide reads the references again, drops findings that they contradict, and repairs
// the others.
func (a *audit) decide(ctx context.Context) error {
	if a.pending = a.state.Findings; a.pending == 0 {
		return nil
	}
	paths, err := a.sortFindings()
	if err != nil {
		return err
	}
	s := newSorter(a.Folder, againFile)
	err = a.Store.References(ctx, func(r buckets.Reference) error {
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

// sortFindings sorts the findings by path, and returns their paths.
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
