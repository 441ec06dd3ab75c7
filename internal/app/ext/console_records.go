package ext

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

func (s *Extensions) showRecords(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parsePlace(r, parseNamespace...)
	if err != nil {
		return nil, err
	}
	records, next, err := s.opened.ListRecords(ctx, p.request(ctx), ext.Listing{
		Namespace: p.Namespace, Prefix: r.Value("prefix"), Cursor: r.Value("after"), Limit: ext.MaxPage,
	})
	if err != nil {
		return nil, explained("", err)
	}
	t := &service.Table{
		Columns: []service.Column{{Title: "Key"}, {Title: "Revision", Number: true}, {Title: "Bytes", Number: true}, {Title: "Updated"}, {Title: "Expires"}},
		Empty:   "There are no records.", Search: []service.Field{{Name: "prefix", Label: "Keys that begin with"}},
		Keep: parseNamespace, Next: next,
	}
	for i := range records {
		rec := &records[i]
		t.Rows = append(t.Rows, []service.Cell{
			{Text: string(rec.Key), To: service.PageLink("record", p.values("key", string(rec.Key))...)}, service.TextCell(decimal(int64(rec.Revision))),
			service.TextCell(decimal(rec.Bytes())), momentCell(rec.UpdatedAt), momentCell(rec.ExpiresAt),
		})
	}
	fields := append([]service.Field{{Name: "key", Label: "Key"}}, recordFields(&ext.Record{}, 0)...)
	return &service.View{Title: "Records of " + string(p.Namespace), Parents: p.trail()[:3], Blocks: []service.Block{
		&service.Links{All: []service.Link{{Text: "Schemas of " + string(p.Namespace), To: service.PageLink("schemas", p.values()...)}}},
		t, &service.Form{Title: "Create a record", Action: "create", Submit: "Create", Keep: p.keep("revision", "0"), Fields: fields},
	}}, nil
}

// recordFields are the fields of a record.
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

// indented returns JSON with line breaks, for people.
func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// parseKey reads the place and the key of a record.
func parseKey(r *service.PageRequest) (p place, key ext.Key, err error) {
	if p, err = parsePlace(r, parseNamespace...); err != nil {
		return p, "", err
	}
	if key, err = ext.ParseKey(r.Value("key")); err != nil {
		err = errcode.Newf(errcode.Invalid, "key: %v", err)
	}
	return p, key, err
}

func (s *Extensions) showRecord(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, key, err := parseKey(r)
	if err != nil {
		return nil, err
	}
	rec, err := s.opened.GetRecord(ctx, p.request(ctx), p.Namespace, key, ext.Precondition{})
	if err != nil {
		return nil, err
	}
	keep := p.keep("key", string(key), "revision", decimal(int64(rec.Revision)))
	return &service.View{
		Title:   "Record " + string(key),
		Parents: p.trail(),
		Blocks: []service.Block{
			&service.Facts{Rows: []service.Fact{
				{Name: "Revision", Cell: service.TextCell(decimal(int64(rec.Revision)))}, {Name: "Created", Cell: momentCell(rec.CreatedAt)},
				{Name: "Updated", Cell: momentCell(rec.UpdatedAt)}, {Name: "Expires", Cell: momentCell(rec.ExpiresAt)},
			}},
			&service.Text{Title: "Value", Body: indented(string(rec.Value)), Copy: true},
			&service.Form{Title: "Edit", Action: "save", Submit: "Save", Keep: keep, Fields: recordFields(&rec, ext.At(s.deps.Clock()))},
			&service.Form{Title: "Delete", Action: "delete", Submit: "Delete record", Danger: true, Keep: keep, Ask: "This cannot be undone."},
		},
	}, nil
}

// expected is the revision that the operator saw; 0 means that there was no record.
func expected(r *service.PageRequest) (ext.Precondition, error) {
	n, err := strconv.ParseInt(r.Value("revision"), 10, 64)
	if err != nil {
		return ext.Precondition{}, service.Usagef("revision: expected a number")
	}
	return ext.Precondition{Revision: ext.Some(ext.Revision(n))}, nil
}

// parseTask reads a put from a form.
func (s *Extensions) parseTask(r *service.PageRequest, p place, key ext.Key) (t ext.Task, err error) {
	t = ext.Task{Kind: ext.PutTask, Namespace: p.Namespace, Key: key}
	if t.Precondition, err = expected(r); err != nil {
		return t, err
	}
	limits := s.opened.Limits()
	if t.Value, err = canonjson.Parse([]byte(r.Value("value")), limits.Value); err != nil {
		return t, explained("value", err)
	}
	if text := r.Value("metadata"); text != "" {
		if t.Metadata, err = ext.ParseMetadata([]byte(text), limits.Metadata); err != nil {
			return t, explained("metadata", err)
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

// saveRecord writes a record if it still has the revision that was shown. Otherwise it
// shows what the operator typed.
func (s *Extensions) saveRecord(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, key, err := parseKey(r)
	if err != nil {
		return o, err
	}
	t, err := s.parseTask(r, p, key)
	if err != nil {
		return o, err
	}
	to := service.PageLink("record", p.values("key", string(key))...)
	done, err := s.opened.Do(ctx, p.request(ctx), t)
	if _, changed := errors.AsType[*ext.MismatchError](err); changed {
		o.View = &service.View{Title: "Record " + string(key), Parents: p.trail(), Blocks: []service.Block{
			&service.Notice{State: service.Wrong, Text: "Nothing was saved, because the record was changed, created or deleted since the form was shown."},
			&service.Links{All: []service.Link{{Text: "Show the record as it is now", To: to}}},
			&service.Text{Title: "What you typed", Body: r.Value("value"), Copy: true},
		}}
		return o, err
	}
	o.Notice, o.Next = fmt.Sprintf("saved revision %d", done.Revision), to
	return o, explained("", err)
}

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
	o.Notice, o.Next = "deleted record "+string(key), service.PageLink("records", p.values()...)
	return o, explained("", err)
}
