package buckets

import (
	"context"
	"path"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

func (s *Buckets) showObjects(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	a, b, err := s.bucket(ctx, r)
	if err != nil {
		return nil, err
	}
	q := buckets.Query{Prefix: r.Value("prefix"), Delimiter: "/", Limit: consoleRows}
	if after := r.Value("after"); after != "" {
		q = q.Starting(after)
	}
	page, err := s.opened.List(ctx, a.ID, b.ID, q)
	if err != nil {
		return nil, err
	}
	t := &service.Table{
		Columns: []service.Column{{Title: "Name"}, {Title: "Size", Number: true}, {Title: "Modified"}, {Title: "Type"}},
		Empty:   "Upload files or create a folder prefix.",
		Search:  []service.Field{{Name: "prefix", Label: "Names that begin with"}}, Keep: []string{"account", "bucket"},
		Bulk: bulkForms(a, b, folderOf(q.Prefix)),
	}
	for i := range page.Entries {
		e := &page.Entries[i]
		name := nameInFolder(e.Name(), folderOf(q.Prefix))
		t.Bulk.Keys, t.Bulk.Names = append(t.Bulk.Keys, keyOf(e)), append(t.Bulk.Names, name)
		t.Rows = append(t.Rows, entryCells(a, b, e, name))
	}
	if page.More {
		t.Next = page.Entries[len(page.Entries)-1].Name()
	}
	view := &service.View{Title: "Bucket " + b.Name, Parents: above(a, b.Name, "")[:2]}
	if folder := folderOf(q.Prefix); folder != "" {
		view.Title, view.Parents = "Folder "+folder, above(a, b.Name, strings.TrimSuffix(folder, "/"))
	} else {
		used, err := s.opened.BucketTotals(ctx, a.ID, b.BucketRef)
		if err != nil {
			return nil, err
		}
		view.Blocks = append(view.Blocks, usageFacts(used[0]), bucketLinks(a, b))
	}
	list := []service.Block{t, uploadForm(a, b, q.Prefix)}
	if len(t.Rows) == 0 {
		slices.Reverse(list)
	}
	view.Blocks = append(view.Blocks, list...)
	return view, nil
}

// nameInFolder returns the name of an entry without its folder. An object may have the name of the folder itself.
func nameInFolder(name, folder string) string {
	if in := strings.TrimPrefix(name, folder); in != "" {
		return in
	}
	return name
}

// entryCells returns the row of a folder or an object.
func entryCells(a buckets.Account, b buckets.Bucket, e *buckets.Entry, name string) []service.Cell {
	if e.Group != "" {
		to := service.PageLink("objects", "account", a.Name, "bucket", b.Name, "prefix", e.Group)
		return []service.Cell{{Icon: "folder", Text: name, To: to}, service.TextCell("-"), service.TextCell("-"), service.TextCell("folder")}
	}
	icon := "file"
	if strings.HasPrefix(e.Object.ContentType, "image/") {
		icon = "image"
	}
	to := service.PageLink("object", "account", a.Name, "bucket", b.Name, "object", e.Object.Name)
	return []service.Cell{{Icon: icon, Text: name, To: to}, service.TextCell(service.FormatBytes(e.Object.Length)), momentCell(e.Object.Modified), service.TextCell(e.Object.ContentType)}
}

// Prefixes of the keys of rows: an object may have the name of a folder.
const (
	objectKey = "object:"
	folderKey = "folder:"
)

func keyOf(e *buckets.Entry) string {
	if e.Group != "" {
		return folderKey + e.Group
	}
	return objectKey + e.Object.Name
}

// bulkForms are what the operator may do with chosen rows.
func bulkForms(a buckets.Account, b buckets.Bucket, folder string) *service.Bulk {
	return &service.Bulk{Keep: map[string]string{"account": a.Name, "bucket": b.Name}, Forms: []service.Form{
		{Action: "move-chosen", Title: "Move or copy", Submit: "Move or copy", Fields: append([]service.Field{
			{Name: "to-bucket", Label: "Bucket", Kind: "bucket", Value: b.Name},
			{Name: "to-folder", Label: "Folder", Kind: folderKind, Typed: true, Value: folder, Optional: true, Help: "Such as photos/2026/, or empty."},
		}, copyFields...)},
		{
			Action: "delete-chosen", Title: "Delete", Submit: "Delete the selected objects", Danger: true,
			Ask: "The selected objects, and all objects in the selected folders, are deleted. This cannot be undone.",
		},
	}}
}

// copyFields are the choices of a move.
var copyFields = []service.Field{
	{Name: "keep", Label: "Copy: keep the original", Checkbox: true},
	{Name: "replace", Label: "Replace objects that exist", Checkbox: true},
}

// moveForm renames an object, or moves or copies it to another bucket.
func moveForm(b buckets.Bucket, o *buckets.Object, keep map[string]string) *service.Form {
	return &service.Form{
		Title: "Rename, move or copy " + path.Base(o.Name), Action: "move", Submit: "Move or copy", Keep: keep,
		Fields: append([]service.Field{
			{Name: "to-bucket", Label: "Bucket", Kind: "bucket", Value: b.Name},
			{Name: "to", Label: "Name", Kind: folderKind, Typed: true, Value: o.Name, Help: "With its folder, such as photos/2026/a.jpg."},
		}, copyFields...),
	}
}
