package buckets

import (
	"cmp"
	"context"
	"net/url"
	"path"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// folderKind is the kind of the fields that say where an object goes.
const folderKind = "folder"

// folderEntries is how many entries of a bucket are read for a choice of folders: objects are among them.
const folderEntries = 200

// chooseFolder returns the folders of a bucket whose names begin with a prefix; for an object, with its name in each.
func (s *Buckets) chooseFolder(ctx context.Context, kind, prefix string, at url.Values) ([]service.Option, error) {
	if kind != folderKind {
		return nil, nil
	}
	a, err := s.opened.Account(ctx, at.Get("account"))
	if err != nil {
		return nil, err
	}
	b, err := s.opened.Bucket(ctx, a.ID, cmp.Or(at.Get("to-bucket"), at.Get("bucket")))
	if err != nil {
		return nil, err
	}
	page, err := s.opened.List(ctx, a.ID, b.ID, buckets.Query{Prefix: prefix, Delimiter: "/", Limit: folderEntries})
	all := []service.Option{}
	for i := range page.Entries {
		if folder := page.Entries[i].Group; folder != "" && len(all) < service.MaxChoices {
			if object := at.Get("object"); object != "" {
				folder += path.Base(object)
			}
			all = append(all, service.Option{Value: folder, Text: folder})
		}
	}
	return all, err
}
