package ext

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// showDraft shows the form for a schema draft below the list of versions.
func (s *Extensions) showDraft(_ context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return nil, err
	}
	return &service.View{Title: "Schemas for " + string(p.Namespace), Parents: p.trail()[:3], Blocks: []service.Block{
		&service.Links{All: []service.Link{{Text: "Records in " + string(p.Namespace), To: service.PageLink("records", p.values()...)}}},
		draftForm(p, "{}"),
	}}, nil
}

// draftForm returns the form for a draft, which can be validated, tried or registered. document is shown in it.
func draftForm(p namespaceRef, document string) *service.Form {
	return &service.Form{
		Title: "Write a draft", Text: "Trying it compares it with the active version and validates the stored records by it, which changes nothing. Registered, it is the next version, which validates new values only after you activate it.",
		Page: "schemas", Action: "register", Submit: "Register draft", Check: "check", Trial: &service.Trial{Action: "try", Submit: "Try draft"}, Keep: p.keep(),
		Fields: []service.Field{{Name: "document", Label: "JSON Schema", Value: document, Lines: 20, Help: "JSON Schema, draft 2020-12."}},
	}
}

// registerDraft stores the draft as the next version, which is not active.
func (s *Extensions) registerDraft(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	sc, err := s.opened.RegisterSchema(ctx, p.request(ctx), p.Namespace, []byte(r.Value("document")))
	o.Notice, o.Next = fmt.Sprintf("registered version %d as a draft", sc.Version), service.PageLink("schemas/show", p.values("version", decimal(int64(sc.Version)))...)
	return o, explained(err)
}

// checkDraft validates the draft as a JSON Schema while the operator types. It does not read records.
func (s *Extensions) checkDraft(_ context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	document := r.Value("document")
	err = s.opened.CheckDocument([]byte(document))
	pointer, ok := ext.PointerOf(err)
	if _, large := errors.AsType[*ext.LimitError](err); ok && !large {
		err = errcode.Newf(errcode.Of(err), "%s: %v", placeIn("schema", document, pointer), err)
	}
	o.Notice = "valid"
	return o, plain(err)
}

// tryDraft compares a draft with the active version and validates stored records, as many as a request's time allows; a
// button continues.
func (s *Extensions) tryDraft(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	document := r.Value("document")
	report, err := s.opened.CheckSchema(ctx, p.request(ctx), p.Namespace, []byte(document), r.Value("cursor"))
	if err != nil {
		return o, explained(err)
	}
	o.View = &service.View{
		Title:   "Draft trial for " + string(p.Namespace),
		Parents: p.schemaTrail(),
		Blocks:  reportBlocks(p, &report),
	}
	if next := report.DryRun.Next; next != "" {
		o.View.Blocks = append(o.View.Blocks, &service.Form{Page: "schemas", Action: "try", Submit: "Continue with the next records", Keep: p.keep("document", document, "cursor", next)})
	}
	o.View.Blocks = append(o.View.Blocks, draftForm(p, document))
	return o, nil
}

// showVersion shows a version's document as a new draft, because versions do not change.
func (s *Extensions) showVersion(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return nil, err
	}
	v, err := strconv.ParseInt(r.Value("version"), 10, 32)
	if err != nil || v < 1 {
		return nil, errcode.New(errcode.Invalid, "version: expected a whole number from 1")
	}
	sc, err := s.opened.Schema(ctx, p.request(ctx), p.Namespace, ext.SchemaVersion(v))
	if err != nil {
		return nil, err
	}
	return &service.View{
		Title: fmt.Sprintf("Schema version %d for %s", v, p.Namespace), Parents: p.schemaTrail(), Blocks: []service.Block{draftForm(p, indented(string(sc.Document)))},
	}, nil
}

// schemaTrail is trail with the schemas page instead of the records page.
func (p namespaceRef) schemaTrail() []service.Link {
	return append(p.trail()[:3], service.Link{Text: "Schemas for " + string(p.Namespace), To: service.PageLink("schemas", p.values()...)})
}

// reportBlocks shows the differences from the active version, and the first records that would be refused.
func reportBlocks(p namespaceRef, report *ext.SchemaReport) []service.Block {
	effect, same := "-", "There is no version to compare with."
	if report.Active != 0 {
		effect, same = report.Compatibility.Effect, "There are no differences."
	}
	changes := &service.Table{Title: "Differences", Columns: []service.Column{{Title: "Location"}, {Title: "Change"}, {Title: "Effect"}}, Empty: same}
	for _, c := range report.Compatibility.Changes {
		changes.Rows = append(changes.Rows, []service.Cell{service.TextCell(cmp.Or(c.Pointer, "the whole schema")), service.TextCell(c.Change), service.TextCell(c.Effect)})
	}
	failures := &service.Table{Title: "Records that are not valid", Columns: []service.Column{{Title: "Key"}, {Title: "Location"}, {Title: "Reason"}}, Empty: "All these records are valid."}
	for _, f := range report.DryRun.First {
		failures.Rows = append(failures.Rows, []service.Cell{
			{Text: string(f.Key), To: service.PageLink("record", p.values("key", string(f.Key))...)}, service.TextCell(cmp.Or(f.Pointer, "the whole value")), service.TextCell(f.Reason),
		})
	}
	return []service.Block{
		&service.Facts{Rows: []service.Fact{
			{Name: "Active", Cell: service.TextCell(activeVersion(report.Active).String())}, {Name: "Effect", Cell: service.TextCell(effect)},
			{Name: "Records checked", Cell: service.TextCell(strconv.Itoa(report.DryRun.Checked))}, {Name: "Not valid", Cell: service.TextCell(strconv.Itoa(report.DryRun.Failed))},
		}},
		changes, failures,
	}
}
