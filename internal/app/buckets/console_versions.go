package buckets

import (
	"context"
	"errors"
	"path"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

const (
	// States of a version for people and in JSON.
	currentWord    = "current"
	noncurrentWord = "noncurrent"
	markerWord     = "delete marker"
)

// wordOf returns a version's state. A delete marker is a marker, whether current or not.
func wordOf(v *buckets.Version) string {
	switch {
	case v.Marker:
		return markerWord
	case v.Current:
		return currentWord
	}
	return noncurrentWord
}

// objectPage returns a link to a page about an object. version "" means the current object.
func objectPage(page string, a buckets.Account, b buckets.Bucket, name string, version buckets.VersionID) string {
	return service.PageLink(page, "account", a.Name, "bucket", b.Name, "object", name, "version", string(version))
}

// versionCells returns a version's row: name, state, size and time. name is the text to show.
func versionCells(a buckets.Account, b buckets.Bucket, v *buckets.Version, name string) []service.Cell {
	first := objectCell(a, b, &v.Object, name)
	first.To = objectPage("object", a, b, v.Name, v.VersionID())
	size := service.TextCell("-")
	if v.Marker {
		first.Icon, first.Thumb = "deleted", ""
	} else {
		size = service.TextCell(service.FormatBytes(v.Length))
		if first.Thumb != "" {
			first.Thumb = objectPage("thumbnail", a, b, v.Name, v.VersionID())
		}
	}
	return []service.Cell{first, service.TextCell(wordOf(v)), size, momentCell(v.Created)}
}

// listVersions lists versions. A cursor is VERSION/NAME.
func (s *Buckets) listVersions(ctx context.Context, r *service.PageRequest, a buckets.Account, b buckets.Bucket, t *service.Table) error {
	version, after, _ := strings.Cut(r.Value("after"), "/")
	folder, name := prefixOf(r)
	q := buckets.VersionQuery{Prefix: folder + name, Delimiter: "/", After: after, AfterVersion: buckets.VersionID(version), Limit: consoleRows}
	if version != "" {
		if _, err := buckets.ParseVersionID(version); err != nil {
			return err
		}
	}
	page, err := s.opened.ListVersions(ctx, a.ID, b.ID, q)
	if err != nil {
		return err
	}
	t.Columns = []service.Column{{Title: "Name"}, {Title: "State"}, {Title: "Size", Number: true}, {Title: "Created"}}
	for _, group := range page.Groups {
		first := folderCell(a, b, group, folder, viewVersions)
		t.Rows = append(t.Rows, []service.Cell{first, service.TextCell("folder"), service.TextCell("-"), service.TextCell("-")})
	}
	for i := range page.Versions {
		v := &page.Versions[i]
		t.Rows = append(t.Rows, versionCells(a, b, v, nameInFolder(v.Name, folder)))
	}
	if page.More {
		t.Next = string(page.AfterVersion) + "/" + page.After
	}
	return nil
}

// versionsTable lists the versions of the shown version's object, with their buttons.
func (s *Buckets) versionsTable(ctx context.Context, r *service.PageRequest, a buckets.Account, b buckets.Bucket, shown *buckets.Version) (*service.Table, error) {
	t := &service.Table{
		Title: "Versions", Columns: []service.Column{{Title: "Created", Names: true}, {Title: "State"}, {Title: "Size", Number: true}, {Title: "Actions"}},
		Keep: []string{"account", "bucket", "object", "version"},
	}
	q := buckets.VersionQuery{Prefix: shown.Name, Limit: consoleRows}
	if after := r.Value("after"); after != "" {
		id, err := buckets.ParseVersionID(after)
		if err != nil {
			return nil, err
		}
		q.After, q.AfterVersion = shown.Name, id
	}
	page, err := s.opened.ListVersions(ctx, a.ID, b.ID, q)
	if err != nil {
		return nil, err
	}
	for i := range page.Versions {
		v := &page.Versions[i]
		if v.Name != shown.Name {
			return t, nil // a longer name with this prefix
		}
		row := versionCells(a, b, v, v.Name)
		created := row[3]
		created.To, created.Icon, created.Thumb = row[0].To, row[0].Icon, row[0].Thumb
		t.Rows = append(t.Rows, []service.Cell{created, row[1], row[2], {Forms: versionForms(a, b, v)}})
	}
	if page.More && page.After == shown.Name {
		t.Next = string(page.AfterVersion)
	}
	return t, nil
}

// versionForms returns the buttons for a version: to restore a noncurrent version, and to delete any.
func versionForms(a buckets.Account, b buckets.Bucket, v *buckets.Version) (forms []service.Form) {
	at := momentCell(v.Created).Text
	keep := map[string]string{"account": a.Name, "bucket": b.Name, "object": v.Name, "version": string(v.VersionID())}
	if !v.Marker && !v.Current {
		forms = append(forms, service.Form{Action: "restore", Submit: "Restore", Label: "Restore the version of " + at, Keep: keep})
	}
	remove := service.Form{
		Action: "delete-version", Submit: "Delete", Label: "Delete the version of " + at, Danger: true, Keep: keep,
		Ask: "This version cannot be read or restored any more.",
	}
	if v.Marker {
		remove.Submit, remove.Label = "Delete marker", "Delete the marker of "+at
		remove.Ask = "The newest version below a delete marker becomes the object again."
	}
	return append(forms, remove)
}

// restoreVersion copies a version over the current object. The version itself stays.
func (s *Buckets) restoreVersion(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, v, err := s.version(ctx, r)
	if err != nil {
		return o, err
	}
	if v.Marker {
		return o, buckets.ErrMarker
	}
	c := &selection{s: s, account: a, bucket: b}
	if _, err := c.copy(ctx, &v.Object, v.Name, move{bucket: b, replace: true}, ""); err != nil {
		return o, err
	}
	o.Notice, o.Next = "restored "+path.Base(v.Name), objectPage("object", a, b, v.Name, "")
	return o, nil
}

// deleteVersion deletes a version or a delete marker for good, unless it is locked.
func (s *Buckets) deleteVersion(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, err := s.bucket(ctx, r)
	if err != nil {
		return o, err
	}
	name := r.Value("object")
	id, err := buckets.ParseVersionID(r.Value("version"))
	if err != nil {
		return o, err
	}
	deleted, err := s.opened.TakeObject(ctx, a.ID, b.BucketRef, buckets.Delete{Name: name, Version: id})
	if err != nil {
		return o, aboutLock(name, err)
	}
	o.Notice = "deleted a version of " + path.Base(name)
	if deleted.Marker {
		o.Notice = "deleted a delete marker of " + path.Base(name)
	}
	o.Next = objectPage("object", a, b, name, "")
	// The last version is deleted, so the object's page no longer exists.
	if _, err := s.opened.Version(ctx, a.ID, b.ID, name, ""); errors.Is(err, buckets.ErrNoObject) {
		o.Next = service.PageLink("objects", "account", a.Name, "bucket", b.Name, "prefix", folderOf(name), "view", viewVersions)
	}
	return o, nil
}

// version reads the version in a page's address, or the current object. The current object may be a delete marker.
func (s *Buckets) version(ctx context.Context, r *service.PageRequest) (a buckets.Account, b buckets.Bucket, v buckets.Version, err error) {
	if a, b, err = s.bucket(ctx, r); err == nil {
		v, err = s.versionIn(ctx, a, b, r.Value("object"), r.Value("version"))
	}
	return a, b, v, err
}

// versionIn reads a version of an object. id "" is the current object, which may be a delete marker.
func (s *Buckets) versionIn(ctx context.Context, a buckets.Account, b buckets.Bucket, name, id string) (v buckets.Version, err error) {
	var version buckets.VersionID
	if id != "" {
		if version, err = buckets.ParseVersionID(id); err != nil {
			return v, err
		}
	}
	if b.Versioning == buckets.VersioningOff && id == "" {
		v.Object, err = s.opened.Object(ctx, a.ID, b.ID, name)
		v.Current = true
		return v, err
	}
	v, err = s.opened.Version(ctx, a.ID, b.ID, name, version)
	if errors.Is(err, buckets.ErrNoVersion) {
		err = errcode.New(errcode.NotFound, "the version does not exist any more")
	}
	return v, err
}
