package buckets

import (
	"cmp"
	"context"
	"net/url"
	"path"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

const (
	// Kinds of names that no list of the service contains.
	folderKind = "folder"
	rightKind  = "right"
)

// folderEntries limits the entries that are read to find a folder's subfolders.
const folderEntries = 200

// chooseThing completes folders and rights in forms. at has the values in the page's address. It returns nil for other
// kinds, which lists complete.
func (s *Buckets) chooseThing(ctx context.Context, kind, prefix string, at url.Values) (*service.Choices, error) {
	switch kind {
	case folderKind:
		return s.chooseFolder(ctx, prefix, at)
	case rightKind:
		c := &service.Choices{}
		for _, r := range buckets.Rights {
			c.All = append(c.All, service.Option{Value: string(r), Text: string(r)})
		}
		if at.Has("key") {
			c.All = append(c.All, service.Option{Value: noLimit, Text: "no limit"})
		}
		return c, nil
	}
	return nil, nil
}

// chooseFolder returns the folders that begin with prefix. For an object, it returns the object's name in each
// folder.
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
