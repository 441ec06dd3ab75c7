package ext

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

func (s *Extensions) showSchemas(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parsePlace(r, parseNamespace...)
	if err != nil {
		return nil, err
	}
	schemas, next, err := s.opened.Schemas(ctx, p.request(r), p.Namespace, r.Value("after"), ext.MaxPage)
	if err != nil {
		return nil, explained("", err)
	}
	t := &service.Table{
		Columns: []service.Column{{Title: "Version"}, {Title: "Status"}, {Title: "Created"}, {Title: "Updated"}, {Title: "Bytes", Number: true}},
		Empty:   "There are no schemas: every JSON value is valid.", Keep: parseNamespace, Next: next,
	}
	for i := range schemas {
		sc := &schemas[i]
		t.Rows = append(t.Rows, []service.Cell{
			{Text: "Version " + decimal(int64(sc.Version)), To: service.PageLink("schema", p.values("version", decimal(int64(sc.Version)))...)},
			service.TextCell(string(sc.Status)), momentCell(sc.CreatedAt), momentCell(sc.UpdatedAt), service.TextCell(decimal(int64(len(sc.Document)))),
		})
	}
	view := &service.View{Title: "Schemas of " + string(p.Namespace), Parents: p.trail()[:3], Blocks: []service.Block{
		&service.Links{All: []service.Link{{Text: "Records of " + string(p.Namespace), To: service.PageLink("records", p.values()...)}}},
		t, draftForm(p, "{}"),
	}}
	if len(schemas) > 0 {
		view.Blocks = append(view.Blocks, &service.Form{
			Title: "Delete all versions", Text: "After that, every JSON value is valid. This cannot be undone.", Action: "delete-all", Submit: "Delete all versions",
			Danger: true, Confirm: string(p.Namespace), Keep: p.keep(),
		})
	}
	return view, nil
}

// draftForm tries a document, and registers it as the next version.
func draftForm(p place, document string) *service.Form {
	return &service.Form{
		Title: "Write a draft", Text: "Trying it compares it with the active version and validates the stored records by it, which changes nothing. Registered, it is the next version, which validates new values only after you activate it.",
		Page: "schemas", Action: "register", Submit: "Register draft", Trial: &service.Trial{Action: "try", Submit: "Try draft"}, Keep: p.keep(),
		Fields: []service.Field{{Name: "document", Label: "JSON Schema", Value: document, Lines: 20, Help: "JSON Schema, draft 2020-12."}},
	}
}

func (s *Extensions) registerDraft(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	sc, err := s.opened.RegisterSchema(ctx, p.request(r), p.Namespace, []byte(r.Value("document")))
	o.Notice, o.Next = fmt.Sprintf("registered version %d as a draft", sc.Version), service.PageLink("schema", p.values("version", decimal(int64(sc.Version)))...)
	return o, explained("", err)
}

// tryDraft compares a document that is not registered with the active version and validates the stored
// records by it. The form below the result edits it.
func (s *Extensions) tryDraft(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	document := r.Value("document")
	report, err := s.opened.CheckSchema(ctx, p.request(r), p.Namespace, []byte(document), r.Value("cursor"))
	if err != nil {
		return o, explained("", err)
	}
	o.View = &service.View{
		Title:   "Trial of a draft for " + string(p.Namespace),
		Parents: append(p.trail()[:3], service.Link{Text: "Schemas of " + string(p.Namespace), To: service.PageLink("schemas", p.values()...)}),
		Blocks:  reportBlocks(p, &report),
	}
	if next := report.DryRun.Next; next != "" {
		o.View.Blocks = append(o.View.Blocks, &service.Form{Page: "schemas", Action: "try", Submit: continues, Keep: p.keep("document", document, "cursor", next)})
	}
	o.View.Blocks = append(o.View.Blocks, draftForm(p, document))
	return o, nil
}

// continues is the button of a check that has not reached all records.
const continues = "Continue with the next records"

// parseVersion reads the place and the version of a schema.
func parseVersion(r *service.PageRequest) (p place, v ext.SchemaVersion, err error) {
	if p, err = parsePlace(r, parseNamespace...); err != nil {
		return p, 0, err
	}
	n, err := strconv.ParseInt(r.Value("version"), 10, 32)
	if err != nil || n < 1 {
		return p, 0, fault.New(fault.Invalid, "version: expected a whole number from 1")
	}
	return p, ext.SchemaVersion(n), nil
}

func (s *Extensions) showSchema(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, v, err := parseVersion(r)
	if err != nil {
		return nil, err
	}
	sc, err := s.opened.Schema(ctx, p.request(r), p.Namespace, v)
	if err != nil {
		return nil, err
	}
	document, keep := indented(string(sc.Document)), p.keep("version", decimal(int64(v)))
	view := &service.View{
		Title:   fmt.Sprintf("Schema version %d of %s", v, p.Namespace),
		Parents: append(p.trail()[:3], service.Link{Text: "Schemas of " + string(p.Namespace), To: service.PageLink("schemas", p.values()...)}),
		Blocks: []service.Block{
			&service.Facts{Rows: []service.Fact{
				{Name: "Status", Cell: service.TextCell(string(sc.Status))}, {Name: "Created", Cell: momentCell(sc.CreatedAt)}, {Name: "Updated", Cell: momentCell(sc.UpdatedAt)},
			}},
			&service.Text{Title: "Document", Body: document, Copy: true},
			checkForm(keep, "Compare and try", ""),
		},
	}
	if sc.Status == ext.Active {
		view.Blocks = append(view.Blocks, &service.Form{Title: "Deprecate", Text: "After that, every JSON value is valid.", Action: "deprecate", Submit: "Deprecate", Danger: true, Keep: keep})
	} else {
		view.Blocks = append(view.Blocks, activateForm(keep))
	}
	view.Blocks = append(view.Blocks, draftForm(p, document), &service.Form{Title: "Delete", Action: "delete", Submit: "Delete version", Danger: true, Keep: keep, Ask: "This cannot be undone."})
	return view, nil
}

func activateForm(keep map[string]string) *service.Form {
	return &service.Form{Title: "Activate", Text: "New values are validated by this version. Stored records are not validated again.", Action: "activate", Submit: "Activate", Keep: keep}
}

func checkForm(keep map[string]string, submit, cursor string) *service.Form {
	f := &service.Form{Action: "check", Submit: submit, Keep: keep}
	if cursor == "" {
		f.Title, f.Text = "Compare with the active version and try on the stored records", "This changes nothing."
		return f
	}
	f.Keep["cursor"] = cursor
	return f
}

// checkSchema compares a version with the active one and validates the stored records by
// it, as many as the time allows.
func (s *Extensions) checkSchema(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, v, err := parseVersion(r)
	if err != nil {
		return o, err
	}
	sc, err := s.opened.Schema(ctx, p.request(r), p.Namespace, v)
	if err != nil {
		return o, err
	}
	report, err := s.opened.CheckVersion(ctx, p.request(r), p.Namespace, v, r.Value("cursor"))
	if err != nil {
		return o, explained("", err)
	}
	version := decimal(int64(v))
	o.View = &service.View{
		Title: fmt.Sprintf("Check of schema version %d of %s", v, p.Namespace),
		Parents: append(p.trail()[:3], service.Link{Text: "Schemas of " + string(p.Namespace), To: service.PageLink("schemas", p.values()...)},
			service.Link{Text: "Version " + version, To: service.PageLink("schema", p.values("version", version)...)}),
		Blocks: reportBlocks(p, &report),
	}
	if next := report.DryRun.Next; next != "" {
		o.View.Blocks = append(o.View.Blocks, checkForm(p.keep("version", version), continues, next))
	}
	if sc.Status != ext.Active {
		o.View.Blocks = append(o.View.Blocks, activateForm(p.keep("version", version)))
	}
	return o, nil
}

// reportBlocks show the comparison of a schema with the active one, and the stored records that are not
// valid by it.
func reportBlocks(p place, report *ext.SchemaReport) []service.Block {
	active, effect, same := "none: every JSON value is valid", "-", "There is no version to compare with."
	if report.Active != 0 {
		active, effect, same = "version "+decimal(int64(report.Active)), report.Compatibility.Effect, "There are no differences."
	}
	changes := &service.Table{Title: "Differences", Columns: []service.Column{{Title: "Location"}, {Title: "Change"}, {Title: "Effect"}}, Empty: same}
	for _, c := range report.Compatibility.Changes {
		changes.Rows = append(changes.Rows, []service.Cell{service.TextCell(cmp.Or(c.Pointer, "the whole schema")), service.TextCell(c.Change), service.TextCell(c.Effect)})
	}
	failures := &service.Table{Title: "Records that are not valid", Columns: []service.Column{{Title: "Key"}, {Title: "Location"}, {Title: "Reason"}}, Empty: "All of these records are valid."}
	for _, f := range report.DryRun.First {
		failures.Rows = append(failures.Rows, []service.Cell{
			{Text: string(f.Key), To: service.PageLink("record", p.values("key", string(f.Key))...)}, service.TextCell(cmp.Or(f.Pointer, "the whole value")), service.TextCell(f.Reason),
		})
	}
	return []service.Block{
		&service.Facts{Rows: []service.Fact{
			{Name: "Active", Cell: service.TextCell(active)}, {Name: "Effect", Cell: service.TextCell(effect)},
			{Name: "Records checked", Cell: service.TextCell(strconv.Itoa(report.DryRun.Checked))}, {Name: "Not valid", Cell: service.TextCell(strconv.Itoa(report.DryRun.Failed))},
		}},
		changes, failures,
	}
}

// statusAction returns an action that activates or deprecates a version.
func (s *Extensions) statusAction(name string, status ext.SchemaStatus, logged []string) service.Action {
	return service.Action{Name: name, Logged: logged, Run: func(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
		p, v, err := parseVersion(r)
		if err != nil {
			return o, err
		}
		_, err = s.opened.SetSchema(ctx, p.request(r), p.Namespace, v, status)
		o.Notice = fmt.Sprintf("version %d is %s", v, status)
		return o, explained("", err)
	}}
}

func (s *Extensions) dropSchema(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, v, err := parseVersion(r)
	if err != nil {
		return o, err
	}
	_, err = s.opened.DropSchemas(ctx, p.request(r), p.Namespace, v)
	o.Notice, o.Next = fmt.Sprintf("deleted version %d", v), service.PageLink("schemas", p.values()...)
	return o, explained("", err)
}

func (s *Extensions) dropAllSchemas(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parsePlace(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	n, err := s.opened.DropSchemas(ctx, p.request(r), p.Namespace, 0)
	o.Notice = "deleted " + service.Count(int64(n), "version")
	return o, explained("", err)
}
