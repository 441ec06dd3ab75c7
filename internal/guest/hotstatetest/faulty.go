package hotstatetest

import (
	"context"
	"encoding/json"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/tenants"
)

// Faulty is a store whose operations fail, before or after taking effect, when Fault returns an error. Point is the
// operation's name.
type Faulty struct {
	Hot   backend.Hot
	Fault func(point string) error
}

var _ backend.Hot = (*Faulty)(nil)

func call[T any](f *Faulty, point string, fn func() (T, error)) (v T, err error) {
	var none T
	if err := f.Fault(point); err != nil {
		return none, err
	}
	if v, err = fn(); err != nil {
		return none, err
	}
	if err := f.Fault(point + " done"); err != nil {
		return none, err
	}
	return v, nil
}

func do(f *Faulty, point string, fn func() error) error {
	_, err := call(f, point, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

type pair[A, B any] struct {
	a A
	b B
}

func call2[A, B any](f *Faulty, point string, fn func() (A, B, error)) (A, B, error) {
	p, err := call(f, point, func() (pair[A, B], error) {
		a, b, err := fn()
		return pair[A, B]{a, b}, err
	})
	return p.a, p.b, err
}

func (f *Faulty) Session(ctx context.Context, id guest.ID, c guest.Change) (guest.Session, error) {
	return call(f, "session", func() (guest.Session, error) { return f.Hot.Session(ctx, id, c) })
}

func (f *Faulty) PutAttributes(ctx context.Context, id guest.ID, was string, next guest.Attributes) (bool, error) {
	return call(f, "put attributes", func() (bool, error) { return f.Hot.PutAttributes(ctx, id, was, next) })
}

func (f *Faulty) Push(ctx context.Context, id guest.ID, list guest.List, item guest.Item) error {
	return do(f, "push", func() error { return f.Hot.Push(ctx, id, list, item) })
}

func (f *Faulty) Items(ctx context.Context, id guest.ID, list guest.List) ([]guest.Item, error) {
	return call(f, "items", func() ([]guest.Item, error) { return f.Hot.Items(ctx, id, list) })
}

func (f *Faulty) PutSearch(ctx context.Context, s guest.Search) error {
	return do(f, "put search", func() error { return f.Hot.PutSearch(ctx, s) })
}

func (f *Faulty) Search(ctx context.Context, id guest.ID) (guest.Search, bool, error) {
	return call2(f, "search", func() (guest.Search, bool, error) { return f.Hot.Search(ctx, id) })
}

func (f *Faulty) DropSession(ctx context.Context, id guest.ID, searches []guest.ID) error {
	return do(f, "drop session", func() error { return f.Hot.DropSession(ctx, id, searches) })
}

func (f *Faulty) Mirror(ctx context.Context, id guest.ID) (guest.Mirror, error) {
	return call(f, "mirror", func() (guest.Mirror, error) { return f.Hot.Mirror(ctx, id) })
}

func (f *Faulty) FillMirror(ctx context.Context, id guest.ID, lease string, wishes json.RawMessage) error {
	return do(f, "fill mirror", func() error { return f.Hot.FillMirror(ctx, id, lease, wishes) })
}

func (f *Faulty) BlockMirror(ctx context.Context, id guest.ID) error {
	return do(f, "block mirror", func() error { return f.Hot.BlockMirror(ctx, id) })
}

func (f *Faulty) UnblockMirror(ctx context.Context, id guest.ID) error {
	return do(f, "unblock mirror", func() error { return f.Hot.UnblockMirror(ctx, id) })
}

func (f *Faulty) DropMirror(ctx context.Context, id guest.ID) error {
	return do(f, "drop mirror", func() error { return f.Hot.DropMirror(ctx, id) })
}

func (f *Faulty) ClaimAnswer(ctx context.Context, key, owner string) (guest.AnswerClaim, error) {
	return call(f, "claim answer", func() (guest.AnswerClaim, error) { return f.Hot.ClaimAnswer(ctx, key, owner) })
}

func (f *Faulty) PutAnswer(ctx context.Context, key string, digest [32]byte, a guest.StoredAnswer) error {
	return do(f, "put answer", func() error { return f.Hot.PutAnswer(ctx, key, digest, a) })
}

func (f *Faulty) ReleaseAnswer(ctx context.Context, key, owner string) error {
	return do(f, "release answer", func() error { return f.Hot.ReleaseAnswer(ctx, key, owner) })
}

func (f *Faulty) DropAnswers(ctx context.Context, keys []string) error {
	return do(f, "drop answers", func() error { return f.Hot.DropAnswers(ctx, keys) })
}

func (f *Faulty) Cached(ctx context.Context, key string) (catalogue.CachedValue, error) {
	return call(f, "cached", func() (catalogue.CachedValue, error) { return f.Hot.Cached(ctx, key) })
}

func (f *Faulty) PutCached(ctx context.Context, key string, value []byte, life time.Duration) error {
	return do(f, "put cached", func() error { return f.Hot.PutCached(ctx, key, value, life) })
}

func (f *Faulty) Lock(ctx context.Context, key, owner string, life time.Duration) (bool, error) {
	return call(f, "lock", func() (bool, error) { return f.Hot.Lock(ctx, key, owner, life) })
}

func (f *Faulty) Unlock(ctx context.Context, key, owner string) (bool, error) {
	return call(f, "unlock", func() (bool, error) { return f.Hot.Unlock(ctx, key, owner) })
}

func (f *Faulty) FillCached(ctx context.Context, key, owner string, value []byte, life time.Duration) (bool, error) {
	return call(f, "fill cached", func() (bool, error) { return f.Hot.FillCached(ctx, key, owner, value, life) })
}

func (f *Faulty) FailCached(ctx context.Context, key, owner string, life time.Duration) (bool, error) {
	return call(f, "fail cached", func() (bool, error) { return f.Hot.FailCached(ctx, key, owner, life) })
}

func (f *Faulty) Take(ctx context.Context, buckets []guest.Bucket) ([]guest.Taken, error) {
	return call(f, "take", func() ([]guest.Taken, error) { return f.Hot.Take(ctx, buckets) })
}

func (f *Faulty) SeeBrowser(ctx context.Context, s bots.Sighting) (bots.Sighted, error) {
	return call(f, "see browser", func() (bots.Sighted, error) { return f.Hot.SeeBrowser(ctx, s) })
}

func (f *Faulty) AddOffence(ctx context.Context, browser, offence string) error {
	return do(f, "add offence", func() error { return f.Hot.AddOffence(ctx, browser, offence) })
}

func (f *Faulty) SolvedChallenge(ctx context.Context, browser string, session guest.ID) error {
	return do(f, "solved challenge", func() error { return f.Hot.SolvedChallenge(ctx, browser, session) })
}

func (f *Faulty) Suspended(ctx context.Context, tenants []string) ([]string, bool, error) {
	return call2(f, "suspended", func() ([]string, bool, error) { return f.Hot.Suspended(ctx, tenants) })
}

func (f *Faulty) SuspensionVersion(ctx context.Context) (int64, bool, error) {
	return call2(f, "suspension version", func() (int64, bool, error) { return f.Hot.SuspensionVersion(ctx) })
}

func (f *Faulty) PutSuspensions(ctx context.Context, version int64, all []tenants.Suspension) (bool, error) {
	return call(f, "put suspensions", func() (bool, error) { return f.Hot.PutSuspensions(ctx, version, all) })
}

func (f *Faulty) SetSuspension(ctx context.Context, s tenants.Suspension) error {
	return do(f, "set suspension", func() error { return f.Hot.SetSuspension(ctx, s) })
}

func (f *Faulty) Ping(ctx context.Context) error {
	return do(f, "ping", func() error { return f.Hot.Ping(ctx) })
}
