package imports

import (
	"context"
	"errors"
	"maps"

	"holdfast/internal/buckets"
)

// comparesTags reports whether to compare the tags of an otherwise equal object, because modification times do not
// reveal tag changes.
func (i *imports) comparesTags(here *buckets.Object) bool {
	return !i.IgnoreTags && here.Imported != 0 && here.Modified == here.Imported
}

// retag imports tags unless a client changed them here.
func (i *imports) retag(ctx context.Context, p *pair, t task) error {
	tags, err := i.Source.tags(ctx, p.from, &t.from)
	switch {
	case isGone(err):
		return nil // the next import sees it
	case err != nil:
		return err
	case maps.Equal(tags, t.here.Tags):
		return nil
	}
	now, err := i.Target.Version(ctx, i.Account.ID, p.bucket.ID, t.from.Key, t.here.VersionID())
	switch {
	case errors.Is(err, buckets.ErrNoVersion) || err == nil && (now.ID != t.here.ID || maps.Equal(tags, now.Tags)):
		return nil
	case err != nil:
		return err
	case buckets.TagsSum(now.Tags) != now.ImportedTags:
		i.change(func(r *Result) { r.Kept++; r.Skipped-- })
		i.problem(Problem{Bucket: p.from, Key: t.from.Key, Reason: "the tags differ; kept: a client changed them here"})
		return nil
	case !i.DryRun:
		_, err = i.Target.UpdateObject(ctx, i.Account.ID, p.bucket.BucketRef, buckets.Update{
			Name: t.from.Key, Version: t.here.VersionID(), Tags: &tags, Imported: true, Condition: unchanged(t.here),
		})
		if errors.Is(err, buckets.ErrNoVersion) || errors.Is(err, buckets.ErrNoObject) || errors.Is(err, buckets.ErrPrecondition) {
			return nil
		}
	}
	if err == nil {
		if why := unlikeClients(&buckets.Object{Properties: buckets.Properties{Tags: tags}}); why != "" && !i.DryRun {
			i.problem(Problem{Bucket: p.from, Key: t.from.Key, Reason: why})
		}
		i.change(func(r *Result) { r.Retagged++ })
	}
	return err
}
