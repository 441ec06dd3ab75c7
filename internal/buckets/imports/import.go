package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// Options configures Run. Report and Progress are required.
type Options struct {
	Source  *Source
	Target  *buckets.Service
	Account buckets.Account // owns the target buckets

	Bucket, Prefix string // at the source; "" for all
	To             string // target bucket; "" for the same name
	Parallel       int    // objects read at the same time
	DryRun         bool   // count only, change nothing
	CurrentOnly    bool   // ignore older versions
	IgnoreTags     bool   // ignore the tags of otherwise equal objects
	Final          bool   // nobody writes to the source any more, so compare again at the end

	Report   func(Problem)  // never called concurrently
	Progress func(Progress) // never called concurrently
}

// Problem is an object that was not fully imported, or a bucket if Key is "".
type Problem struct {
	Bucket string
	Key    string
	Reason string
	Failed bool // something is missing here
}

// Progress is reported after each object and read.
type Progress struct {
	Done, Total int64 // objects; the total is 0 if unknown
	Bytes       int64 // read from the source
}

// Result counts the work that an import did, or would do.
type Result struct {
	Buckets    int64
	Objects    int64 // listed at the source
	Imported   int64
	Bytes      int64
	Skipped    int64 // equal on both sides
	Deleted    int64
	Kept       int64 // changed here by clients later than at the source
	Failed     int64
	Unverified int64 // imported, but the source gave nothing to verify the bytes
	Retagged   int64 // only tags changed
	Absent     int64 // older versions that can no longer be added
	Left       int64 // still different at the end of a final import
}

// imports is a run.
type imports struct {
	Options
	pairs []pair

	mu     sync.Mutex
	result Result
	total  int64 // objects to compare; 0 until counted
	bytes  int64 // read so far
	inARow int   // failures since the last success
}

// pair is a source bucket with its target.
type pair struct {
	from, to string
	bucket   buckets.Bucket // without an ID if the import would create it

	versioning types.BucketVersioningStatus // "" if only current objects are imported
	lock       *buckets.BucketLock          // nil if version locks are not imported

	notes   []buckets.ImportNote // settings that this import leaves out
	missing *buckets.ImportNote  // about objects; nil if none failed
	noted   []buckets.ImportNote // all notes as stored

	keepsVersions func(context.Context) error // enables versioning and object lock, once
}

// Run returns the result even after an error. It can be repeated.
func Run(ctx context.Context, o Options) (Result, error) {
	i := &imports{Options: o}
	if i.Report == nil {
		i.Report = func(Problem) {}
	}
	if i.Progress == nil {
		i.Progress = func(Progress) {}
	}
	err := i.run(ctx)
	return i.result, err
}

// run prepares all buckets before it reads objects, so that a missing right shows early. Counting runs beside the
// import.
func (i *imports) run(ctx context.Context) error {
	names := []string{i.Bucket}
	if i.Bucket == "" {
		var err error
		if names, err = i.Source.buckets(ctx); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := i.addPair(ctx, name); err != nil {
			return err
		}
	}
	counting, stop := context.WithCancel(ctx)
	defer stop()
	var counter sync.WaitGroup
	counter.Go(func() { i.count(counting) })
	defer counter.Wait()
	defer stop()
	for n := range i.pairs {
		if err := i.pass(ctx, &i.pairs[n]); err != nil {
			return err
		}
	}
	if !i.Final || i.DryRun {
		return nil
	}
	return i.compare(ctx)
}

// addPair finds or creates the target bucket and imports settings.
func (i *imports) addPair(ctx context.Context, name string) error {
	names := pair{from: name, to: name}
	if i.To != "" {
		names.to = i.To
	}
	err := buckets.CheckBucketName(names.to)
	if err == nil {
		names.bucket, err = i.Target.Bucket(ctx, i.Account.ID, names.to)
	}
	isNew := errors.Is(err, buckets.ErrNoBucket)
	if isNew && !i.DryRun {
		if names.bucket, err = i.Target.CreateBucket(ctx, i.Account.ID, names.to); errors.Is(err, buckets.ErrBucketExists) {
			err = nil
		}
	}
	switch {
	case err == nil || isNew && i.DryRun:
	case errors.Is(err, buckets.ErrBucketName) && i.Bucket == "":
		i.problem(Problem{Bucket: name, Reason: err.Error() + "; import it by itself, with another name here", Failed: true})
		return nil
	default:
		return fmt.Errorf("bucket %s: %w", names.to, err)
	}
	names.noted = names.bucket.Settings.ImportNotes
	if at := slices.IndexFunc(names.noted, func(n buckets.ImportNote) bool { return n.Setting == buckets.SettingObjects }); at >= 0 {
		names.missing = &names.noted[at]
	}
	i.pairs = append(i.pairs, names)
	p := &i.pairs[len(i.pairs)-1]
	var once sync.Once
	var failed error
	p.keepsVersions = func(ctx context.Context) error {
		once.Do(func() { failed = i.keepVersions(ctx, p) })
		return failed
	}
	return i.settings(ctx, p)
}

// count lists the source only to show a total. Errors do not matter.
func (i *imports) count(ctx context.Context) {
	var n int64
	for at := range i.pairs {
		p := &i.pairs[at] // a copy would read what a pass writes
		var err error
		if p.versioning != "" {
			err = i.Source.listVersions(ctx, p.from, i.Prefix, func(_ string, all []Listed) error { n += int64(len(all)); return nil })
		} else {
			err = i.Source.list(ctx, p.from, i.Prefix, func(page []Listed) error { n += int64(len(page)); return nil })
		}
		if err != nil {
			return
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.total = n
}

// compare runs again without changes, and counts differences as Left.
func (i *imports) compare(ctx context.Context) error {
	again := &imports{Options: i.Options, pairs: i.pairs}
	again.DryRun = true
	again.Report, again.Progress = func(Problem) {}, func(Progress) {}
	for n := range again.pairs {
		if err := again.pass(ctx, &again.pairs[n]); err != nil {
			return err
		}
	}
	i.result.Left = again.result.Imported + again.result.Deleted + again.result.Retagged
	return nil
}

// problem reports and counts a problem.
func (i *imports) problem(p Problem) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.Failed {
		i.result.Failed++
	}
	i.Report(p)
}

// change updates the result and shows progress.
func (i *imports) change(fn func(*Result)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	fn(&i.result)
	i.show()
}

// show reports progress. The caller holds mu.
func (i *imports) show() {
	r := &i.result
	i.Progress(Progress{Done: r.Imported + r.Skipped + r.Kept + r.Failed, Total: i.total, Bytes: i.bytes})
}

// mostFailures consecutive failures mean that the cause is not a single object.
const mostFailures = 100

// settle counts the result of an object. It returns only errors that stop the import.
func (i *imports) settle(ctx context.Context, bucket, key string, err error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	defer i.show()
	if err == nil {
		i.inARow = 0
		return nil
	}
	code := errcode.Of(err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case code == errcode.Quota:
		return fmt.Errorf("%w: raise it with holdfast buckets quotas set, and import again", err)
	case errors.Is(err, buckets.ErrNoBucket):
		return err
	case code == errcode.Unavailable, code == errcode.Internal:
		if i.inARow++; i.inARow >= mostFailures {
			return fmt.Errorf("%d objects in a row failed, the last with: %w", mostFailures, err)
		}
	}
	i.result.Failed++
	i.Report(Problem{Bucket: bucket, Key: key, Reason: reason(err), Failed: true})
	return nil
}

// reason returns text for a person.
func reason(err error) string {
	if text := errcode.Message(err); text != "" {
		return text
	}
	return err.Error()
}
