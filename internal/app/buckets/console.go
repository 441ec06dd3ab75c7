package buckets

import (
	"cmp"
	"context"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/durations"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// consoleRows is how many rows a page shows, and how many can be selected.
const consoleRows = 100

// counts excludes the usage rows of whole accounts.
var counts = []service.Counted{
	{Of: "bucket", Table: "manta_bucket"},
	{Of: "object", Table: "manta_bucket_usage", Where: "bucket_id <> '00000000-0000-0000-0000-000000000000'", Sum: "objects"},
}

// console returns the pages that need more than an operation's form: the object browser with uploads, and forms beside
// operations' pages. Files are only sent to admins, because they are user data.
func (s *Buckets) console() *service.Console {
	menu := []service.MenuItem{
		{Pages: []string{"buckets"}}, {Title: "Accounts", Pages: []string{"accounts", "quotas", "tokens"}}, {Title: "Import", Pages: []string{"imports"}},
		{Title: "Storage nodes", Pages: []string{"nodes", "damages", "audits"}}, {Title: "Plain names", Pages: []string{"names"}}, {Title: "Dead letters", Pages: []string{"dead-letters"}},
		{Under: service.MenuActivity, Title: "Background jobs", Pages: []string{"runs"}},
	}
	return &service.Console{Title: "Buckets", Icon: "bucket", Menu: menu, Frame: frame, Backlogs: s.backlogs, Search: s.search, Choose: s.chooseThing, Finds: finds, Counts: counts, Pages: []service.Page{
		{Path: "buckets", Title: "Buckets", Listed: true, Instead: true, Access: operate.ForViewers, Show: s.showBuckets},
		{Path: "objects", Title: "Objects", Instead: true, Access: operate.ForViewers, Show: s.showObjects, Actions: []service.Action{
			{Name: "upload", Uploads: true, Logged: []string{"account", "bucket", "objects"}, Run: s.uploadObjects},
			{Name: "delete-chosen", Logged: []string{"account", "bucket", "objects"}, Run: s.deleteChosen},
			{Name: "move-chosen", Logged: []string{"account", "bucket", "objects", "to-bucket", "to-folder"}, Run: s.moveChosen},
		}},
		{Path: "object", Title: "Object", Access: operate.ForViewers, Show: s.showObject, Actions: []service.Action{
			{Name: "presign", Logged: []string{"account", "bucket", "object"}, Run: s.presignObject},
			{Name: "move", Logged: []string{"account", "bucket", "object", "to-bucket", "to"}, Run: s.moveObject},
			{Name: "delete", Logged: []string{"account", "bucket", "object"}, Run: s.dropObject},
			{Name: "restore", Logged: []string{"account", "bucket", "object", "version"}, Run: s.restoreVersion},
			{Name: "delete-version", Logged: []string{"account", "bucket", "object", "version"}, Run: s.deleteVersion},
		}},
		{Path: "keys", Access: operate.ForViewers, Show: s.showKeyForm},
		{Path: "buckets/show", Access: operate.ForViewers, Show: s.showQuotaForm},
		{Path: "lifecycle/show", Access: operate.ForViewers, Show: s.showAboveLifecycle},
		{Path: "nodes", Access: operate.ForViewers, Show: showAuditLink},
		{Path: "image", Title: "Image", Access: operate.ForAdmins, Send: s.sendImage},
		{Path: "thumbnail", Title: "Thumbnail", Access: operate.ForAdmins, Send: s.sendThumbnail, Memory: thumbnailHead},
	}}
}

// backlogs uses the values that are cached for metrics, because counting garbage reads it all.
func (s *Buckets) backlogs(ctx context.Context) ([]service.Fact, error) {
	b, known := s.metrics.backlog.get()
	if !known {
		return nil, errcode.New(errcode.Unavailable, "the garbage could not be counted")
	}
	facts := []service.Fact{{Name: "Deleted objects to remove", Cell: service.TextCell(service.Count(b.Rows, "object") + ", " + service.FormatBytes(b.Bytes))}}
	if h, known := s.metrics.health.get(); known {
		var copies int64
		for _, d := range h.Damages {
			copies += d.Copies
		}
		damaged := service.Cell{Text: strconv.FormatInt(copies, 10), To: "damages"}
		if copies > 0 {
			damaged.State = service.Warning
		}
		facts = append(facts, service.Fact{Name: "Damaged copies", Cell: damaged})
	}
	events, err := s.publisher.backlogs(ctx)
	return append(facts, events...), err
}

// momentCell shows "-" for 0.
func momentCell(m buckets.Moment) service.Cell {
	if m == 0 {
		return service.TextCell("-")
	}
	return service.TimeCell(m.Time())
}

// usageCell shows n with a bar for the quota; 0 means no quota. text formats both.
func usageCell(n, quota int64, text func(int64) string) service.Cell {
	if quota == 0 {
		return service.TextCell(text(n))
	}
	return service.Cell{Text: text(n) + " of " + text(quota), Share: float64(n), Most: float64(quota)}
}

// usageFacts shows a bucket's use above its objects.
func usageFacts(u buckets.BucketUsage) *service.Facts {
	return &service.Facts{Inline: true, Rows: []service.Fact{
		{Name: "Objects", Cell: usageCell(u.Usage.Objects, u.Quota.Objects, decimal)}, {Name: "Bytes", Cell: usageCell(u.Usage.Bytes, u.Quota.Bytes, service.FormatBytes)},
	}}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// publicEndpoint returns the S3 endpoint for clients or, if it is unknown, for this machine.
func (s *Buckets) publicEndpoint() string { return cmp.Or(s.client().Address, s.endpoint()) }

// bucket reads the account and the bucket in a page's address.
func (s *Buckets) bucket(ctx context.Context, r *service.PageRequest) (a buckets.Account, b buckets.Bucket, err error) {
	if a, err = s.opened.Account(ctx, r.Value("account")); err == nil {
		b, err = s.opened.Bucket(ctx, a.ID, r.Value("bucket"))
	}
	return a, b, err
}

// above returns the breadcrumbs down to the folder of an object, which name is in; "" is the bucket itself.
func above(a buckets.Account, bucket, name string) []service.Link {
	all := []service.Link{
		{Text: "Buckets", To: "buckets"}, {Text: a.Name, To: service.PageLink("accounts/show", "account", a.Name)},
		{Text: bucket, To: service.PageLink("objects", "account", a.Name, "bucket", bucket)},
	}
	end := 0
	for part := range strings.SplitAfterSeq(name, "/") {
		if !strings.HasSuffix(part, "/") || len(all) == mostAbove {
			break
		}
		end += len(part)
		all = append(all, service.Link{Text: part, To: service.PageLink("objects", "account", a.Name, "bucket", bucket, "prefix", name[:end])})
	}
	return all
}

// mostAbove limits the breadcrumbs, because a name may consist of slashes.
const mostAbove = 20

// folderOf returns a name up to its last slash; "" for an object without a folder.
func folderOf(name string) string { return name[:strings.LastIndexByte(name, '/')+1] }

// object reads the current object in a page's address.
func (s *Buckets) object(ctx context.Context, r *service.PageRequest) (a buckets.Account, b buckets.Bucket, o buckets.Object, err error) {
	if a, b, err = s.bucket(ctx, r); err == nil {
		o, err = s.opened.Object(ctx, a.ID, b.ID, r.Value("object"))
	}
	return a, b, o, err
}

// linkLives are the lifetimes of links. Signature Version 4 allows at most 7 days.
var linkLives = []service.Option{{Value: "1h", Text: "1 hour"}, {Value: "24h", Text: "1 day"}, {Value: "168h", Text: "7 days"}}

// showObject shows a version or the current object, with a preview, its versions, and the forms for the current object.
func (s *Buckets) showObject(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	a, b, v, err := s.version(ctx, r)
	if err != nil {
		return nil, err
	}
	view := &service.View{Title: "Object " + v.Name, Parents: above(a, b.Name, v.Name)}
	switch {
	case v.Marker:
		view.Title = "Deleted object " + v.Name
		view.Blocks = []service.Block{&service.Notice{State: service.Warning, Text: "A delete marker hides this object's versions. Restore a version, or delete the marker."}}
	default:
		view.Blocks = append([]service.Block{
			&service.Links{All: []service.Link{{Text: "Download", To: objectPage("objects/get", a, b, v.Name, shownVersion(&v))}}},
			objectFacts(b, &v),
		}, s.preview(ctx, a, b, &v)...)
		if !v.Current {
			view.Title = "Version of " + v.Name
			view.Parents = append(view.Parents, service.Link{Text: path.Base(v.Name), To: objectPage("object", a, b, v.Name, "")})
		}
	}
	if b.Versioning != buckets.VersioningOff {
		versions, err := s.versionsTable(ctx, r, a, b, &v)
		if err != nil {
			return nil, err
		}
		view.Blocks = append(view.Blocks, versions)
	}
	if v.Current && !v.Marker {
		view.Blocks = append(view.Blocks, objectForms(a, b, &v.Object)...)
	}
	return view, nil
}

// shownVersion returns the version for links; "" means the current object, so that the link stays valid when the object
// changes.
func shownVersion(v *buckets.Version) buckets.VersionID {
	if v.Current {
		return ""
	}
	return v.VersionID()
}

// objectFacts shows where the body is: small bodies are in the database.
func objectFacts(b buckets.Bucket, v *buckets.Version) *service.Facts {
	where := "the database"
	if len(v.Sharks) > 0 {
		where = "storage nodes " + strings.Join(v.Sharks, " and ")
		if len(v.Sharks) == 1 {
			where = "storage node " + v.Sharks[0]
		}
	}
	f := &service.Facts{Rows: []service.Fact{
		{Name: "Size", Cell: service.TextCell(service.Count(v.Length, "byte"))}, {Name: "Type", Cell: service.TextCell(v.ContentType)},
		{Name: "Created", Cell: momentCell(v.Created)}, {Name: "Modified", Cell: momentCell(v.Modified)}, {Name: "Stored in", Cell: service.TextCell(where)},
		{Name: "Storage class", Cell: service.TextCell(v.Class.Name())},
	}}
	if b.Versioning != buckets.VersioningOff {
		id := service.IDCell(string(v.VersionID()))
		f.Rows = append(f.Rows, service.Fact{Name: "Version", Cell: id}, service.Fact{Name: "State", Cell: service.TextCell(wordOf(v))})
	}
	return f
}

// objectForms returns the changes to the current object.
func objectForms(a buckets.Account, b buckets.Bucket, o *buckets.Object) []service.Block {
	keep := map[string]string{"account": a.Name, "bucket": b.Name, "object": o.Name}
	after := "This cannot be undone."
	if b.Versioning == buckets.VersioningEnabled {
		after = "A delete marker hides the object. Its versions stay, and can be restored."
	}
	return []service.Block{
		&service.Form{
			Title: "Create a link", Text: "Anyone with the link can read the object until the link expires.", Action: "presign", Submit: "Create link", Keep: keep,
			Fields: []service.Field{{Name: "lifetime", Label: "Lifetime", Options: linkLives}},
		},
		moveForm(b, o, keep),
		&service.Form{Title: "Delete the object", Text: after, Action: "delete", Submit: "Delete object", Danger: true, Confirm: path.Base(o.Name), Keep: keep},
	}
}

// sent reads the version whose body a page sends. It returns buckets.ErrMarker for a delete marker, which has none.
func (s *Buckets) sent(ctx context.Context, r *service.PageRequest) (a buckets.Account, b buckets.Bucket, v buckets.Version, err error) {
	if a, b, v, err = s.version(ctx, r); err == nil && v.Marker {
		err = buckets.ErrMarker
	}
	return a, b, v, err
}

// file reads the body when the file is sent. o must be in bucket b.
func (s *Buckets) file(ctx context.Context, a buckets.Account, b buckets.Bucket, o *buckets.Object) *service.File {
	return &service.File{Name: path.Base(o.Name), Size: o.Length, Write: func(to io.Writer) error {
		body := s.opened.Open(ctx, a.ID, b.ID, o, buckets.Span{Length: o.Length})
		defer body.Close()
		_, err := io.Copy(to, body)
		return err
	}}
}

// presignObject shows a link that reads an object without a session. It is not shown again.
func (s *Buckets) presignObject(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, object, err := s.object(ctx, r)
	if err != nil {
		return o, err
	}
	life, err := durations.Parse(r.Value("lifetime"))
	if err != nil || life < time.Second || life > 7*24*time.Hour {
		return o, service.Usagef("lifetime: choose one")
	}
	key, err := s.signingKey(ctx, a, linked{b.Name, object.Name, s.opened.Now().Add(life)})
	if err != nil {
		return o, err
	}
	link := presigner{s.publicEndpoint(), s.cfg.Region, key}.link(b.Name, object.Name, s.deps.Clock(), life)
	var blocks []service.Block
	if note := s.endpointNote(); note != "" {
		blocks = append(blocks, &service.Notice{State: service.Warning, Text: note})
	}
	o.View = &service.View{Title: "Link to " + object.Name, Parents: above(a, b.Name, object.Name), Blocks: append(blocks,
		&service.Text{Body: link, Copy: true}, &service.Text{Body: "It works until " + service.TimeCell(s.deps.Clock().Add(life)).Text + ", or until access key " + key.id + " is revoked."},
	)}
	return o, nil
}

// endpointNote warns if the S3 endpoint for clients is unknown, because signatures include it.
func (s *Buckets) endpointNote() string {
	if s.client().Address != "" {
		return ""
	}
	return "This address works on this machine only. To show the address for clients, set buckets.domain to the S3 host name."
}

// linked is an object that a link must be able to read until a time.
type linked struct {
	bucket, object string
	until          buckets.Moment
}

// signingKey finds a key that may read the linked object until the link expires.
func (s *Buckets) signingKey(ctx context.Context, a buckets.Account, l linked) (newKey, error) {
	for _, k := range s.cfg.ConfiguredKeys() {
		if k.Account == a.Name {
			return newKey{k.ID, k.Secret}, nil
		}
	}
	for after, more := "", true; more; {
		keys, err := s.opened.Keys(ctx, a.ID, after, buckets.MaxPage)
		if err != nil {
			return newKey{}, err
		}
		for _, k := range keys {
			lasts := k.Expires == 0 || k.Expires >= l.until
			if k.Revoked == 0 && lasts && len(k.Limits.Networks) == 0 && k.Limits.Allow(buckets.RightRead, l.bucket, l.object) {
				secret, err := s.keys.Secret(k)
				return newKey{k.ID, secret}, err
			}
			after = k.ID
		}
		more = len(keys) == buckets.MaxPage
	}
	return newKey{}, errcode.New(errcode.Conflict, "no access key may read the object until the link expires: create a key")
}

// dropObject deletes the current object, or adds a delete marker in a versioned bucket.
func (s *Buckets) dropObject(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a, b, object, err := s.object(ctx, r)
	if err != nil {
		return o, err
	}
	err = s.opened.DeleteObject(ctx, a.ID, b.BucketRef, buckets.Delete{Name: object.Name})
	o.Notice, o.Next = "deleted object "+object.Name, service.PageLink("objects", "account", a.Name, "bucket", b.Name, "prefix", folderOf(object.Name))
	return o, err
}
