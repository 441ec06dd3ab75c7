package ext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

// recordMemory covers a value as text and in canonical form, in bytes.
const recordMemory = 1 << 20

// recordOperations declares the records of a namespace. The console has its own pages for them, with an editor.
func (s *Extensions) recordOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "records", Doc: "List a namespace's records", Title: "Records", Empty: "There are no records.",
			Group: "List, read, write and delete records", PageRows: ext.MaxPage,
			More:    "The values are not listed: records get prints one, and installs export all of an install.",
			Example: "--tenant $TENANT --install $INSTALL --namespace settings\n--tenant $TENANT --install $INSTALL --namespace settings --prefix ui. --json\n",
		}, on(s, s.listRecords)),
		operate.NewDownload(operate.About{
			Access: operate.ForAdmins, Path: "records/get", Doc: "Write a record's value to standard output or a file", Button: "Download",
			Media: "application/json", Memory: recordMemory,
			More:    "With --output, the file gets its name when it is complete.",
			Example: "--tenant $TENANT --install $INSTALL --namespace settings theme\n",
		}, s.recordFile),
		operate.NewUpload(operate.About{
			Path: "records/put", Doc: "Create a record, or replace its value", Title: "Put a record", Button: "Put record",
			Media: "application/json", Memory: recordMemory, Largest: 4 * ext.MaxValueBytes, MayBeStdin: true, NewRow: true,
			More: "The file, or standard input, is the value as JSON. Limits, quotas and the active schema apply, as in the API.\n" +
				"Metadata and expiry that are not given are removed.",
			Example: "--tenant $TENANT --install $INSTALL --namespace settings theme theme.json\n" +
				"--tenant $TENANT --install $INSTALL --namespace settings theme --if-revision 3 <theme.json\n",
		}, s.putRecord),
		operate.NewChange(operate.About{
			Path: "records/delete", Doc: "Delete a record", Alias: "rm", Button: "Delete record", Danger: true, Ask: "This cannot be undone.",
			Example: "--tenant $TENANT --install $INSTALL --namespace settings theme\n",
		}, on(s, s.removeRecord)),
	}
}

// recordsInput selects a namespace's records.
type recordsInput struct {
	namespaceInput
	Prefix string `flag:"prefix" doc:"only keys with this prefix"`
	operate.Page[string]
}

// recordOutput is a record without its value.
type recordOutput struct {
	Key      string        `json:"key" title:"Key" subject:"key" cursor:"" example:"theme"`
	Revision int64         `json:"revision" title:"Revision" least:"1"`
	Bytes    service.Bytes `json:"bytes" title:"Bytes" least:"0" doc:"value and metadata"`
	Created  time.Time     `json:"createdAt" title:"Created"`
	Updated  time.Time     `json:"updatedAt" title:"Updated"`
	Expires  *time.Time    `json:"expiresAt,omitempty" title:"Expires" zero:"-" doc:"missing: never"`
}

// listRecords orders by key. The position is a key.
func (s *Extensions) listRecords(ctx context.Context, in recordsInput) (all []recordOutput, err error) {
	p, err := in.ref()
	if err != nil {
		return nil, err
	}
	q := ext.Listing{Namespace: p.Namespace, Prefix: in.Prefix}
	if in.After != "" {
		if q.After, err = ext.ParseKey(in.After); err != nil {
			return nil, &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
		}
	}
	for len(all) < in.Limit {
		q.Limit = min(in.Limit-len(all), ext.MaxPage)
		page, next, err := s.opened.ListRecords(ctx, p.request(ctx), q)
		if err != nil {
			return nil, explained(err)
		}
		for i := range page {
			all = append(all, outputOfRecord(&page[i]))
			q.After = page[i].Key
		}
		if next == "" {
			break
		}
	}
	return all, nil
}

// outputOfRecord converts a record.
func outputOfRecord(r *ext.Record) recordOutput {
	o := recordOutput{
		Key: string(r.Key), Revision: int64(r.Revision), Bytes: service.Bytes(r.Header.Bytes()), Created: r.CreatedAt.Time(), Updated: r.UpdatedAt.Time(),
	}
	if r.ExpiresAt != 0 {
		expires := r.ExpiresAt.Time()
		o.Expires = &expires
	}
	return o
}

// recordInput names a record, which need not exist.
type recordInput struct {
	namespaceInput
	Key string `subject:"key" doc:"record key" example:"theme"`
}

// Check refuses the inputs before the operation runs.
func (in recordInput) Check() error {
	_, _, err := in.ref()
	return err
}

// ref parses the names. The error is an *operate.InputError.
func (in recordInput) ref() (p namespaceRef, key ext.Key, err error) {
	if p, err = in.namespaceInput.ref(); err != nil {
		return p, key, err
	}
	if key, err = ext.ParseKey(in.Key); err != nil {
		err = &operate.InputError{Input: "key", Reason: err.Error()}
	}
	return p, key, err
}

// recordFile returns the value in canonical JSON, as one line.
func (s *Extensions) recordFile(ctx context.Context, in recordInput, _ operate.Progress) (f operate.File, err error) {
	if _, err := s.ready(); err != nil {
		return f, err
	}
	p, key, err := in.ref()
	if err != nil {
		return f, err
	}
	rec, err := s.opened.GetRecord(ctx, p.request(ctx), p.Namespace, key, ext.Precondition{})
	if err != nil {
		return f, explained(err)
	}
	value := string(rec.Value) + "\n"
	return operate.File{Name: in.Key + ".json", Size: int64(len(value)), Write: func(to io.Writer) error {
		_, err := io.WriteString(to, value)
		return err
	}}, nil
}

// revisionInput is the expected state of a record.
type revisionInput struct {
	IfRevision string `flag:"if-revision" value:"N" doc:"only if the record has revision N; 0: only if it does not exist"`
}

// Check refuses a revision that is not a number.
func (in revisionInput) Check() error {
	_, err := in.precondition()
	return err
}

// precondition returns the zero value if no revision is given. The error is an *operate.InputError.
func (in revisionInput) precondition() (g ext.Precondition, err error) {
	if in.IfRevision == "" {
		return g, nil
	}
	n, err := strconv.ParseInt(in.IfRevision, 10, 64)
	if err != nil || n < 0 {
		return g, &operate.InputError{Input: "if-revision", Reason: "expected a whole number from 0"}
	}
	g.Revision = ext.Some(ext.Revision(n))
	return g, nil
}

// putRecordInput describes a record beside its value.
type putRecordInput struct {
	recordInput
	Metadata string        `flag:"metadata" value:"JSON" doc:"metadata as a JSON object"`
	TTL      time.Duration `flag:"ttl" value:"DURATION" doc:"lifetime as a DURATION, e.g. 7d; 0s: the record does not expire" default:"0s"`
	revisionInput
}

// Check refuses a lifetime outside the limits.
func (in putRecordInput) Check() error {
	if in.TTL != 0 && (in.TTL < ext.MinTTL || in.TTL > ext.MaxTTL) {
		return &operate.InputError{Input: "ttl", Reason: "must be from 1m to 30d, or 0s"}
	}
	return nil
}

// recordChange is the written record.
type recordChange struct {
	Tenant    string `json:"tenant" subject:"tenant"`
	Install   string `json:"install" subject:"install"`
	Namespace string `json:"namespace" subject:"namespace" example:"settings"`
	Key       string `json:"key" subject:"key" example:"theme"`
	Revision  int64  `json:"revision,omitempty" least:"1"`
}

// Notice implements operate.Changed.
func (c recordChange) Notice() string { return fmt.Sprintf("wrote %s: revision %d", c.Key, c.Revision) }

// putRecord writes as the operator, with full access.
func (s *Extensions) putRecord(ctx context.Context, in putRecordInput, file operate.Body, _ operate.Progress) (c recordChange, err error) {
	return on(s, func(ctx context.Context, in putRecordInput) (recordChange, error) {
		t, err := s.putTask(in, file)
		if err != nil {
			return recordChange{}, err
		}
		revision, err := s.runTask(ctx, in.recordInput, t)
		if err != nil {
			return recordChange{}, err
		}
		return recordChange{in.Tenant, in.Install, in.Namespace, in.Key, int64(revision)}, nil
	})(ctx, in)
}

// putTask reads the file. Errors name the value or the metadata.
func (s *Extensions) putTask(in putRecordInput, file io.Reader) (t ext.Task, err error) {
	text, err := io.ReadAll(file)
	if err != nil {
		return t, err
	}
	limits := s.opened.Limits()
	t.Kind = ext.PutTask
	if t.Value, err = canonjson.Parse(text, limits.Value); err != nil {
		reason := "value: " + err.Error()
		if !json.Valid(text) { // not a limit
			reason += `: expected e.g. "text", 12 or {"dark": true}`
		}
		return t, errcode.New(errcode.Invalid, reason)
	}
	if in.Metadata != "" {
		if t.Metadata, err = ext.ParseMetadata([]byte(in.Metadata), limits.Metadata); err != nil {
			return t, &operate.InputError{Input: "metadata", Reason: err.Error()}
		}
	}
	if in.TTL != 0 {
		t.TTL = ext.Some(int64(in.TTL / time.Second))
	}
	t.Precondition, err = in.precondition()
	return t, err
}

// runTask runs a task on the record, and returns the record's new revision. It returns errcode.NotFound for a deletion
// without a record.
func (s *Extensions) runTask(ctx context.Context, in recordInput, t ext.Task) (ext.Revision, error) {
	p, key, err := in.ref()
	if err != nil {
		return 0, err
	}
	t.Namespace, t.Key = p.Namespace, key
	done, err := s.opened.Do(ctx, p.request(ctx), t)
	if mismatch, ok := errors.AsType[*ext.MismatchError](err); ok {
		return 0, errcode.New(errcode.Conflict, in.Key+": "+mismatch.Error())
	}
	if err != nil {
		return 0, explained(err)
	}
	if t.Kind == ext.DeleteTask && !done.Existed {
		return 0, errcode.New(errcode.NotFound, in.Key+": "+errcode.Message(ext.ErrNoRecord))
	}
	return done.Revision, nil
}

// deleteRecordInput may make the deletion depend on the revision.
type deleteRecordInput struct {
	recordInput
	revisionInput
}

// deletedRecord is the deleted record, with the copies that still have its value.
type deletedRecord struct {
	Tenant    string `json:"tenant" subject:"tenant"`
	Install   string `json:"install" subject:"install"`
	Namespace string `json:"namespace" subject:"namespace" example:"settings"`
	Key       string `json:"key" subject:"key" example:"theme"`
	service.Deleted
}

// Notice implements operate.Changed.
func (d deletedRecord) Notice() string { return "deleted " + d.Key + d.Retained.Notice() }

// removeRecord returns errcode.NotFound for a missing record.
func (s *Extensions) removeRecord(ctx context.Context, in deleteRecordInput) (d deletedRecord, err error) {
	t := ext.Task{Kind: ext.DeleteTask}
	if t.Precondition, err = in.precondition(); err != nil {
		return d, err
	}
	if _, err := s.runTask(ctx, in.recordInput, t); err != nil {
		return d, err
	}
	d = deletedRecord{Tenant: in.Tenant, Install: in.Install, Namespace: in.Namespace, Key: in.Key}
	d.Deleted, err = s.deps.Deleted(time.Time{}, Name)
	return d, err
}
