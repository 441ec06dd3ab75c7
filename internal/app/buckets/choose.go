package buckets

import (
	"cmp"
	"context"
	"net/url"
	"path"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// The kinds of fields with choices that no list has.
const (
	folderKind = "folder" // where an object goes
	rightKind  = "right"  // of an access key
)

// folderEntries is how many entries of a bucket are read for a choice of folders: objects are among them.
const folderEntries = 200

// chooseThing returns folders of a bucket, and the rights of access keys.
func (s *Buckets) chooseThing(ctx context.Context, kind, prefix string, at url.Values) (*service.Choices, error) {
	switch kind {
	case folderKind:
		return s.chooseFolder(ctx, prefix, at)
	case rightKind:
		c := &service.Choices{}
		for _, r := range buckets.Rights {
			c.All = append(c.All, service.Option{Value: string(r), Text: string(r)})
		}
		if at.Has("key") { // its limits are changed
			c.All = append(c.All, service.Option{Value: noLimit, Text: "no limit"})
		}
		return c, nil
	}
	return nil, nil
}

// chooseFolder returns the folders of a bucket whose names begin with a prefix; for an object, with its name in each.
func (s *Buckets) chooseFolder(ctx context.Context, prefix string, at url.Values) (*service.Choices, error) {
	a, err := s.opened.Account(ctx, at.Get("account"))
	if err != nil {
		return nil, err
	}
	b, err := s.opened.Bucket(ctx, a.ID, cmp.Or(at.Get("to-bucket"), at.Get("bucket")))
	if err != nil {
		return nil, err
	}
	page, err := s.opened.List(ctx, a.ID, b.ID, buckets.Query{Prefix: prefix, Delimiter: "/", Limit: folderEntries})
	c := &service.Choices{}
	for i := range page.Entries {
		if folder := page.Entries[i].Group; folder != "" && len(c.All) < service.MaxChoices {
			if object := at.Get("object"); object != "" {
				folder += path.Base(object)
			}
			c.All = append(c.All, service.Option{Value: folder, Text: folder})
		}
	}
	return c, err
}
