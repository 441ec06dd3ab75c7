package ext

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// showRecords shows a page of a namespace's records, searched and with columns as the address says.
func (s *Extensions) showRecords(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return nil, err
	}
	schema, err := s.opened.ActiveSchema(ctx, p.request(ctx), p.Namespace)
	if err != nil {
		return nil, explained(err)
	}
	f, err := parseFilter(r)
	if err != nil {
		return nil, err
	}
	matches, err := s.findRecords(ctx, p, ext.Listing{Namespace: p.Namespace, Prefix: r.Value("prefix"), Cursor: r.Value("after"), Values: true}, f)
	if err != nil {
		return nil, explained(err)
	}
	t, hidden, err := p.recordTable(matches.records, schema.Document, strings.TrimSpace(r.Value("columns")))
	if err != nil {
		return nil, err
	}
	t.Next = matches.next
	links := &service.Links{Primary: true, All: []service.Link{
		{Text: createTitle, To: service.PageLink(createPath, p.values()...)},
		{Text: "Schemas for " + string(p.Namespace), To: service.PageLink("schemas", p.values()...)},
		{Text: "Install changes", To: service.PageLink("feed", p.values()...)},
	}}
	facts := &service.Facts{Inline: true, Rows: []service.Fact{{Name: "Schema", Cell: service.TextCell(activeVersion(schema.Version).String())}}}
	if hidden > 0 {
		facts.Rows = append(facts.Rows, service.Fact{Name: "Columns not shown", Cell: service.TextCell(strconv.Itoa(hidden))})
	}
	if f != nil {
		facts.Rows = append(facts.Rows, matches.fact())
		t.Empty, t.First, t.More = "No record matches.", nil, "Continue the search"
	}
	return &service.View{Title: "Records in " + string(p.Namespace), Parents: p.trail()[:3], Blocks: []service.Block{links, facts, t}}, nil
}

// Records are created on a separate page, because the list may be long.
const (
	createPath  = "records/create"
	createTitle = "Create a record"
)

// showCreate shows the editor for a new record. Revision 0 means that the record must not exist when it is saved.
func (s *Extensions) showCreate(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return nil, err
	}
	fields, other, err := s.editor(ctx, r, p, &ext.Record{})
	if err != nil {
		return nil, err
	}
	fields = append([]service.Field{{Name: "key", Label: "Key", Value: r.Value("key")}}, fields...)
	return &service.View{Parents: p.trail(), Blocks: []service.Block{&service.Form{
		Action: "create", Submit: "Create", Check: "check", Trial: &service.Trial{Action: "check", Submit: "Check"}, Switch: other, Keep: p.keep("revision", "0"), Fields: fields,
	}}}, nil
}

// editor returns the fields for a record: by property if its schema and its value are objects, otherwise as JSON. other
// is the button that switches between the two, or nil. A form that is shown again keeps the editor and the values that
// were typed.
func (s *Extensions) editor(ctx context.Context, r *service.PageRequest, p namespaceRef, rec *ext.Record) (fields []service.Field, other *service.Trial, err error) {
	schema, err := s.opened.ActiveSchema(ctx, p.request(ctx), p.Namespace)
	if err != nil {
		return nil, nil, explained(err)
	}
	fields = recordFields(rec, ext.At(s.deps.Clock()))
	typed, isJSON := draftOf(r, rec.Revision), r.Value("view") == jsonView
	if typed != nil {
		isJSON = typed.Has("value")
	}
	properties, ok := propertyFields(schema.Document, rec.Value, typed)
	if !ok {
		return fields, nil, nil
	}
	if isJSON {
		return fields, &service.Trial{Action: "switch", Submit: "Edit by property"}, nil
	}
	return append(properties, fields[1:]...), &service.Trial{Action: "switch", Submit: "Edit as JSON"}, nil
}

// draftOf returns the typed values. All editors include the field "metadata".
func draftOf(r *service.PageRequest, revision ext.Revision) url.Values {
	if r.Typed.Has("metadata") && r.Typed.Get("revision") == decimal(int64(revision)) {
		return r.Typed
	}
	return nil
}

// jsonView is the value of the parameter view that opens the JSON editor.
const jsonView = "json"

// recordTable shows records with a column for each property. hidden is the number of columns that are not shown. Values
// that are not objects get a column of their own.
func (p namespaceRef) recordTable(records []ext.Record, schema []byte, chosen string) (t *service.Table, hidden int, err error) {
	values := make([]map[string]json.RawMessage, len(records))
	scalars, expiring := false, false
	for i := range records {
		values[i] = members(&records[i])
		scalars = scalars || values[i] == nil
		expiring = expiring || records[i].ExpiresAt != 0
	}
	columns, hidden, err := chooseColumns(chosen, schema, values)
	if err != nil {
		return nil, 0, err
	}
	t = &service.Table{
		Columns: []service.Column{{Title: "Key"}}, Empty: "There are no records.", Keep: parseNamespace,
		Bulk:  p.bulk(),
		First: &service.Link{Text: createTitle, To: service.PageLink(createPath, p.values()...)},
		Search: []service.Field{{Name: "prefix", Label: "Key prefix"}, {Name: "property", Label: "Property", Help: "A name, or a JSON pointer."},
			{Name: "equals", Label: "Its value", Help: "A text or JSON. Empty: records without the property."}, {Name: "columns", Label: "Columns", Help: "Names, separated by commas."}},
	}
	if scalars {
		t.Columns = append(t.Columns, service.Column{Title: "Value"})
	}
	for _, c := range columns {
		t.Columns = append(t.Columns, service.Column{Title: abbreviated(c.name), Number: c.isNumber})
	}
	t.Columns = append(t.Columns, service.Column{Title: "Revision", Number: true}, service.Column{Title: "Size", Number: true}, service.Column{Title: "Updated"})
	if expiring {
		t.Columns = append(t.Columns, service.Column{Title: "Expires"})
	}
	for i := range records {
		rec := &records[i]
		row := []service.Cell{{Text: string(rec.Key), To: service.PageLink("record", p.values("key", string(rec.Key))...)}}
		if scalars {
			shown := service.Cell{}
			if values[i] == nil {
				shown.Text = abbreviated(string(rec.Value))
			}
			row = append(row, shown)
		}
		for j := range columns {
			row = append(row, columns[j].cell(values[i][columns[j].name]))
		}
		row = append(row, service.TextCell(decimal(int64(rec.Revision))), service.TextCell(service.FormatBytes(rec.Bytes())), momentCell(rec.UpdatedAt))
		if expiring {
			row = append(row, momentCell(rec.ExpiresAt))
		}
		t.Rows = append(t.Rows, row)
		t.Bulk.Keys, t.Bulk.Names = append(t.Bulk.Keys, chosenKey(rec)), append(t.Bulk.Names, string(rec.Key))
	}
	return t, hidden, nil
}

// recordFields returns the fields of the JSON editor: the value first, which the property fields replace. The remaining
// lifetime is rounded up to a second.
func recordFields(rec *ext.Record, now ext.Moment) []service.Field {
	ttl := ""
	if rec.ExpiresAt != 0 {
		ttl = decimal(max(1, int64(rec.ExpiresAt-now+999)/1000))
	}
	metadata := ""
	if rec.Metadata != canonjson.EmptyObject {
		metadata = indented(string(rec.Metadata))
	}
	return []service.Field{
		{Name: "value", Label: "Value", Value: indented(string(rec.Value)), Lines: 16, Help: "JSON."},
		{Name: "metadata", Label: "Metadata", Value: metadata, Lines: 3, Optional: true, Help: "A JSON object."},
		{Name: "ttl", Label: "Seconds until it expires", Value: ttl, Optional: true, Help: "Empty: the record does not expire."},
	}
}

// indented returns a text unchanged if it is not JSON, e.g. "".
func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// parseKey parses the values that name a record.
func parseKey(r *service.PageRequest) (p namespaceRef, key ext.Key, err error) {
	if p, err = parseNamespaceRef(r, parseNamespace...); err != nil {
		return p, "", err
	}
	if key, err = ext.ParseKey(r.Value("key")); err != nil {
		err = errcode.Newf(errcode.Invalid, "key: %v", err)
	}
	return p, key, err
}

// showRecord shows a record with its editor. The form contains the revision, so that saving does not overwrite a later
// change.
func (s *Extensions) showRecord(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, key, err := parseKey(r)
	if err != nil {
		return nil, err
	}
	rec, err := s.opened.GetRecord(ctx, p.request(ctx), p.Namespace, key, ext.Precondition{})
	if err != nil {
		return nil, err
	}
	rec.Key = key
	fields, other, err := s.editor(ctx, r, p, &rec)
	if err != nil {
		return nil, err
	}
	keep := p.keep("key", string(key), "revision", decimal(int64(rec.Revision)))
	return &service.View{
		Title:   "Record " + string(key),
		Parents: p.trail(),
		Blocks: []service.Block{
			&service.Links{All: []service.Link{{Text: "Download", To: service.PageLink("records/get", p.values("key", string(key))...)}}},
			&service.Facts{Inline: true, Rows: []service.Fact{
				{Name: "Revision", Cell: service.TextCell(decimal(int64(rec.Revision)))}, {Name: "Created", Cell: momentCell(rec.CreatedAt)},
				{Name: "Updated", Cell: momentCell(rec.UpdatedAt)}, {Name: "Expires", Cell: momentCell(rec.ExpiresAt)},
			}},
			&service.Form{
				Title: "Edit", Action: "save", Submit: "Save", Check: "check", Trial: &service.Trial{Action: "check", Submit: "Check"}, Switch: other, Keep: keep, Fields: fields,
			},
			&service.Text{Title: "Stored value", Body: indented(string(rec.Value)), Copy: true},
			&service.Form{Title: "Delete", Action: "delete", Submit: "Delete record", Danger: true, Keep: keep, Ask: "This cannot be undone."},
		},
	}, nil
}

// expected returns the displayed revision; 0 means that the record did not exist.
func expected(r *service.PageRequest) (ext.Precondition, error) {
	n, err := strconv.ParseInt(r.Value("revision"), 10, 64)
	if err != nil {
		return ext.Precondition{}, service.Usagef("revision: expected a number")
	}
	return ext.Precondition{Revision: ext.Some(ext.Revision(n))}, nil
}

// parseTask makes the write from a form, and checks its limits. Errors refer to the form's fields.
func (s *Extensions) parseTask(r *service.PageRequest, p namespaceRef, key ext.Key) (t ext.Task, err error) {
	t = ext.Task{Kind: ext.PutTask, Namespace: p.Namespace, Key: key}
	if t.Precondition, err = expected(r); err != nil {
		return t, err
	}
	limits := s.opened.Limits()
	if t.Value, err = parseValue(r, limits.Value); err != nil {
		return t, explainDraft(r, ext.Under("/value", err))
	}
	if text := r.Value("metadata"); text != "" {
		if t.Metadata, err = ext.ParseMetadata([]byte(text), limits.Metadata); err != nil {
			return t, explainDraft(r, ext.Under("/metadata", err))
		}
	}
	if text := r.Value("ttl"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return t, service.Usagef("seconds until it expires: expected a whole number")
		}
		t.TTL = ext.Some(n)
	}
	return t, nil
}

// parseValue reads the value from the JSON editor or from the property fields, whichever was sent.
func parseValue(r *service.PageRequest, limit int) (canonjson.Value, error) {
	if r.Values.Has("value") {
		return canonjson.Parse([]byte(r.Value("value")), limit)
	}
	return assemble(r.Values, limit)
}

// checkRecord validates a draft without saving it. The browser calls it while the operator types.
func (s *Extensions) checkRecord(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	// Any valid key serves, because only the value is validated.
	key := ext.Key("key")
	if r.Value("key") != "" { // a new record's key may be typed last
		if _, key, err = parseKey(r); err != nil {
			return o, err
		}
	}
	t, err := s.parseTask(r, p, key)
	if err == nil {
		err = explainDraft(r, s.opened.CheckPut(ctx, p.request(ctx), t))
	}
	if r.Value("key") != "" && s.isChanged(ctx, p, key, t.Precondition) {
		o.View, err = s.conflict(ctx, r, t.Value)
		return o, err
	}
	if err == nil {
		o.Notice = "valid, " + service.FormatBytes(int64(len(t.Value)+len(t.Metadata)))
	}
	return s.keepDraft(ctx, r, o, err)
}

// isChanged reports whether the stored record differs from the revision that the form was made from. It returns false
// if the record cannot be read: saving will report the reason.
func (s *Extensions) isChanged(ctx context.Context, p namespaceRef, key ext.Key, shown ext.Precondition) bool {
	_, err := s.opened.GetRecord(ctx, p.request(ctx), p.Namespace, key, shown)
	if errcode.Is(err, errcode.NotFound) {
		err = shown.Check(0, 0)
	}
	_, changed := errors.AsType[*ext.MismatchError](err)
	return changed
}

// switchEditor converts the draft to the other editor. The draft must be valid JSON; it need not satisfy the schema.
func (s *Extensions) switchEditor(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	var value canonjson.Value
	if strings.TrimSpace(r.Value("value")) != "" || !r.Values.Has("value") {
		if value, err = parseValue(r, s.opened.Limits().Value); err != nil {
			return o, explainDraft(r, ext.Under("/value", err))
		}
	}
	if r.Value("key") != "" {
		_, key, err := parseKey(r)
		if err != nil {
			return o, err
		}
		g, err := expected(r)
		if err != nil {
			return o, err
		}
		if s.isChanged(ctx, p, key, g) {
			o.View, err = s.conflict(ctx, r, value)
			return o, err
		}
	}
	typed := maps.Clone(r.Values)
	if !r.Values.Has("value") {
		typed.Set("value", indented(string(value)))
		o.Typed = typed
		return o, nil
	}
	schema, err := s.opened.ActiveSchema(ctx, p.request(ctx), p.Namespace)
	if err != nil {
		return o, explained(err)
	}
	fields, ok := propertyFields(schema.Document, value, nil)
	if !ok {
		return o, errcode.New(errcode.Invalid, "value: expected an object with properties")
	}
	typed.Del("value")
	for i := range fields {
		typed.Set(fields[i].Name, fields[i].Value)
	}
	o.Typed = typed
	return o, nil
}

// saveRecord writes a record if it still has the displayed revision, and otherwise shows the stored record beside the
// draft.
func (s *Extensions) saveRecord(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, key, err := parseKey(r)
	if err != nil {
		return o, err
	}
	t, err := s.parseTask(r, p, key)
	if err != nil {
		return s.keepDraft(ctx, r, o, err)
	}
	done, err := s.opened.Do(ctx, p.request(ctx), t)
	if _, changed := errors.AsType[*ext.MismatchError](err); changed {
		if o.View, err = s.conflict(ctx, r, t.Value); o.View != nil {
			err = errcode.Newf(errcode.Conflict, "nothing was saved, because %v", err)
		}
		return o, err
	}
	if err != nil {
		return s.keepDraft(ctx, r, o, explainDraft(r, err))
	}
	view := ""
	if r.Values.Has("value") {
		view = jsonView
	}
	o.Notice, o.Next = fmt.Sprintf("saved revision %d", done.Revision), service.PageLink("record", p.values("key", string(key), "view", view)...)
	return o, nil
}

// keepDraft shows the conflict page again, because it lacks a URL.
func (s *Extensions) keepDraft(ctx context.Context, r *service.PageRequest, o service.Outcome, err error) (service.Outcome, error) {
	if r.Value("conflict") == "" || errcode.Of(err) == errcode.Internal && err != nil {
		return o, err
	}
	draft, _ := parseValue(r, s.opened.Limits().Value) // without it, nothing is compared
	view, conflict := s.conflict(ctx, r, draft)
	if view == nil {
		return o, conflict
	}
	if o.Notice != "" {
		view.Blocks = append([]service.Block{&service.Notice{State: service.OK, Text: "The draft is " + o.Notice + "."}}, view.Blocks...)
	}
	o.View = view
	return o, err
}

// conflict returns the page that compares a draft with the stored record, and an error that explains the change to the
// record. The page's form overwrites the stored revision. draft is "" if it is not valid. If the page is nil, the error
// is about the request.
func (s *Extensions) conflict(ctx context.Context, r *service.PageRequest, draft canonjson.Value) (*service.View, error) {
	p, key, err := parseKey(r)
	if err != nil {
		return nil, err
	}
	rec, err := s.opened.GetRecord(ctx, p.request(ctx), p.Namespace, key, ext.Precondition{})
	view := &service.View{Title: "Record " + string(key), Parents: p.trail()}
	// Before the check for a missing record, which needs the form, too.
	fields, fieldsErr := s.conflictFields(ctx, r, p, cmp.Or(draft, rec.Value))
	if fieldsErr != nil {
		return nil, fieldsErr
	}
	form := &service.Form{
		Page: "record", Action: "save", Fields: fields, Check: "check", Trial: &service.Trial{Action: "check", Submit: "Check"},
		Title: "Save your draft all the same", Submit: "Replace the stored record", Danger: true, Keep: p.keep("key", string(key), "revision", decimal(int64(rec.Revision)), "conflict", "yes"),
	}
	if errcode.Is(err, errcode.NotFound) {
		form.Submit, form.Danger, form.Keep["revision"] = "Create it again", false, "0"
		view.Blocks = []service.Block{form}
		return view, errcode.New(errcode.Conflict, "the record was deleted since the form was shown")
	} else if err != nil {
		return nil, err
	}
	view.Blocks = []service.Block{
		&service.Links{All: []service.Link{{Text: "Show the record as it is now", To: service.PageLink("record", p.values("key", string(key))...)}}},
		&service.Text{Title: fmt.Sprintf("Stored: revision %d", rec.Revision), Body: indented(string(rec.Value)), Copy: true},
		form,
	}
	if draft != "" {
		view.Blocks = slices.Insert(view.Blocks, 1, service.Block(differences(rec.Value, draft)))
	}
	return view, errcode.New(errcode.Conflict, "the record was changed or created since the form was shown")
}

// conflictFields returns the fields as they were typed. value replaces property fields that the active schema no longer
// supports.
func (s *Extensions) conflictFields(ctx context.Context, r *service.PageRequest, p namespaceRef, value canonjson.Value) ([]service.Field, error) {
	fields := recordFields(&ext.Record{}, 0)
	for i := range fields {
		fields[i].Value = r.Value(fields[i].Name)
	}
	if r.Values.Has("value") {
		return fields, nil
	}
	schema, err := s.opened.ActiveSchema(ctx, p.request(ctx), p.Namespace)
	if err != nil {
		return nil, explained(err)
	}
	if properties, ok := propertyFields(schema.Document, value, r.Values); ok {
		return append(properties, fields[1:]...), nil
	}
	fields[0].Value = indented(string(value))
	return fields, nil
}

// differences compares two values by member; values that are not objects are compared as a whole.
func differences(stored, draft canonjson.Value) *service.Table {
	t := &service.Table{Title: "Differences", Columns: []service.Column{{Title: "Location"}, {Title: "Stored"}, {Title: "Your draft"}}, Empty: "The values are equal."}
	if stored == draft {
		return t
	}
	before, after := members(&ext.Record{Value: stored}), members(&ext.Record{Value: draft})
	if before == nil || after == nil {
		t.Rows = [][]service.Cell{{service.TextCell("the whole value"), service.TextCell(abbreviated(string(stored))), service.TextCell(abbreviated(string(draft)))}}
		return t
	}
	for _, c := range recordColumns([]map[string]json.RawMessage{before, after}) {
		if a, b := before[c.name], after[c.name]; !bytes.Equal(a, b) && len(t.Rows) < ext.MaxPage {
			t.Rows = append(t.Rows, []service.Cell{service.TextCell(canonjson.Pointer{c.name}.String()), service.TextCell(cmp.Or(abbreviated(string(a)), "-")), service.TextCell(cmp.Or(abbreviated(string(b)), "-"))})
		}
	}
	return t
}

// deleteRecord deletes a record only if it still has the displayed revision.
func (s *Extensions) deleteRecord(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, key, err := parseKey(r)
	if err != nil {
		return o, err
	}
	t := ext.Task{Kind: ext.DeleteTask, Namespace: p.Namespace, Key: key}
	if t.Precondition, err = expected(r); err != nil {
		return o, err
	}
	_, err = s.opened.Do(ctx, p.request(ctx), t)
	if _, changed := errors.AsType[*ext.MismatchError](err); changed {
		return o, errcode.New(errcode.Conflict, "nothing was deleted, because the record was changed or deleted since the page was shown: look at it again")
	}
	o.Notice, o.Next = "deleted record "+string(key), service.PageLink("records", p.values()...)
	return o, explained(err)
}
