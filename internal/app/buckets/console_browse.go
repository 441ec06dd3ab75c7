package buckets

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

const (
	// Values of the parameter view: how the object browser shows a folder.
	viewList     = ""
	viewGrid     = "grid"
	viewVersions = "versions"
)

// showObjects shows a folder: its subfolders, objects and, above an empty folder's notice, the form for uploads.
func (s *Buckets) showObjects(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	a, b, err := s.bucket(ctx, r)
	if err != nil {
		return nil, err
	}
	folder, name := prefixOf(r)
	view := r.Value("view")
	t := &service.Table{
		Empty:  "There are no objects here.",
		Search: []service.Field{{Name: "name", Label: "Name prefix", Value: name}}, Keep: []string{"account", "bucket", "prefix", "view"}, Grid: view == viewGrid,
	}
	list := s.listObjects
	if view == viewVersions {
		list = s.listVersions
	}
	if err := list(ctx, r, a, b, t); err != nil {
		return nil, err
	}
	page := &service.View{Title: "Bucket " + b.Name, Parents: above(a, b.Name, "")[:2]}
	if folder != "" {
		page.Title, page.Parents = "Folder "+folder, above(a, b.Name, strings.TrimSuffix(folder, "/"))
	} else {
		used, err := s.opened.BucketTotals(ctx, a.ID, b.BucketRef)
		if err != nil {
			return nil, err
		}
		page.Blocks = append(page.Blocks, usageFacts(used[0]))
	}
	t.Views = viewsOf(a, b, t, r)
	page.Blocks = append(page.Blocks, t, uploadForm(a, b, folder))
	return page, nil
}

// viewsOf offers the grid only if the page shows an image, and versions only if the bucket keeps any.
func viewsOf(a buckets.Account, b buckets.Bucket, t *service.Table, r *service.PageRequest) service.Views {
	v := service.Views{Label: "View", Current: "List"}
	add := func(title, view string) {
		if r.Value("view") == view {
			v.Current = title
		}
		v.All = append(v.All, service.Link{Text: title, To: service.PageLink("objects", "account", a.Name, "bucket", b.Name, "prefix", r.Value("prefix"), "view", view)})
	}
	add("List", viewList)
	if t.Grid || slices.ContainsFunc(t.Rows, func(row []service.Cell) bool { return row[0].Thumb != "" }) {
		add("Grid", viewGrid)
	}
	if b.Versioning != buckets.VersioningOff {
		add("Show versions", viewVersions)
	}
	return v
}

// prefixOf splits the address into the folder and a name prefix in it, which a search replaces.
func prefixOf(r *service.PageRequest) (folder, name string) {
	prefix := r.Value("prefix")
	folder = folderOf(prefix)
	return folder, cmp.Or(r.Value("name"), prefix[len(folder):])
}

// listObjects fills t with a folder's page.
func (s *Buckets) listObjects(ctx context.Context, r *service.PageRequest, a buckets.Account, b buckets.Bucket, t *service.Table) error {
	folder, name := prefixOf(r)
	entries, next, err := s.listLevel(ctx, a, b, folder+name, r.Value("after"))
	if err != nil {
		return err
	}
	t.Columns = []service.Column{{Title: "Name"}, {Title: "Size", Number: true}, {Title: "Modified"}, {Title: "Type"}}
	t.Bulk = bulkForms(a, b, folder)
	for i := range entries {
		e := &entries[i]
		t.Bulk.Keys, t.Bulk.Names = append(t.Bulk.Keys, keyOf(e)), append(t.Bulk.Names, nameInFolder(e.Name(), folder))
		t.Rows = append(t.Rows, entryCells(a, b, e, folder, r.Value("view")))
	}
	t.Next = next
	return nil
}

// nameInFolder returns a name without its folder; an object with the folder's own name keeps it.
func nameInFolder(name, folder string) string {
	if in := strings.TrimPrefix(name, folder); in != "" {
		return in
	}
	return name
}

// entryCells returns the row for an object or a subfolder.
func entryCells(a buckets.Account, b buckets.Bucket, e *buckets.Entry, folder, view string) []service.Cell {
	if e.Group != "" {
		return []service.Cell{folderCell(a, b, e.Group, folder, view), service.TextCell("-"), service.TextCell("-"), service.TextCell("folder")}
	}
	o := e.Object
	return []service.Cell{objectCell(a, b, o, nameInFolder(o.Name, folder)), service.TextCell(service.FormatBytes(o.Length)), momentCell(o.Modified), service.TextCell(o.ContentType)}
}

// folderCell links to a subfolder, in the same view.
func folderCell(a buckets.Account, b buckets.Bucket, group, folder, view string) service.Cell {
	return service.Cell{Icon: "folder", Text: nameInFolder(group, folder), To: service.PageLink("objects", "account", a.Name, "bucket", b.Name, "prefix", group, "view", view)}
}

// objectCell links to an object, with a thumbnail if it is likely to have one.
func objectCell(a buckets.Account, b buckets.Bucket, o *buckets.Object, name string) service.Cell {
	c := service.Cell{Icon: "file", Text: name, To: objectPage("object", a, b, o.Name, "")}
	if strings.HasPrefix(o.ContentType, "image/") {
		c.Icon = "image"
	}
	if mayHaveThumbnail(o) {
		c.Thumb = objectPage("thumbnail", a, b, o.Name, "")
	}
	return c
}

// Row keys have a prefix, because an object may have the same name as a folder.
const (
	objectKey = "object:"
	folderKey = "folder:"
)

// keyOf returns the value that a selected row sends.
func keyOf(e *buckets.Entry) string {
	if e.Group != "" {
		return folderKey + e.Group
	}
	return objectKey + e.Object.Name
}

// bulkForms returns the forms for selected rows. A selected folder stands for all objects below it.
func bulkForms(a buckets.Account, b buckets.Bucket, folder string) *service.Bulk {
	after := "This cannot be undone."
	if b.Versioning == buckets.VersioningEnabled {
		after = "Their versions stay: Show versions lists them."
	}
	return &service.Bulk{Keep: map[string]string{"account": a.Name, "bucket": b.Name}, Forms: []service.Form{
		{Action: "move-chosen", Title: "Move or copy", Submit: "Move or copy", Fields: append([]service.Field{
			{Name: "to-bucket", Label: "Bucket", Kind: "bucket", Value: b.Name},
			{Name: "to-folder", Label: "Folder", Kind: folderKind, Typed: true, Value: folder, Optional: true, Help: "E.g. photos/2026/, or empty."},
		}, copyFields...)},
		{
			Action: "delete-chosen", Title: "Delete", Submit: "Delete the selected objects", Danger: true,
			Ask: "The selected objects, and all objects in the selected folders, are deleted. " + after,
		},
	}}
}

// copyFields are the options for moving and copying.
var copyFields = []service.Field{
	{Name: "keep", Label: "Copy: keep the original", Checkbox: true},
	{Name: "replace", Label: "Replace objects that exist", Checkbox: true},
}

// moveForm returns the form that renames, moves or copies an object. keep names the object.
func moveForm(b buckets.Bucket, o *buckets.Object, keep map[string]string) *service.Form {
	return &service.Form{
		Title: "Rename, move or copy", Action: "move", Submit: "Move or copy", Keep: keep,
		Fields: append([]service.Field{
			{Name: "to-bucket", Label: "Bucket", Kind: "bucket", Value: b.Name},
			{Name: "to", Label: "Name", Kind: folderKind, Typed: true, Value: o.Name, Help: "With the folder, e.g. photos/2026/a.jpg."},
		}, copyFields...),
	}
}
