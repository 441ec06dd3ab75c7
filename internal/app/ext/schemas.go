package ext

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

// schemaOperations declares a namespace's schema versions. A version's document never changes.
func (s *Extensions) schemaOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "schemas", Doc: "List a namespace's schemas, newest first", Title: "Schemas", Empty: "There are no schemas: every JSON value is valid.",
			Group: "Manage the JSON Schemas of an install's namespaces",
		}, on(s, s.listSchemas)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "schemas/show", Doc: "Show a schema version", Title: "Schema version"}, on(s, s.showSchema)),
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "schemas/check", Doc: "Compare a version with the active version, and validate stored records against it", Title: "Check for schema version",
			More:  "It changes nothing. If the time does not suffice for all records, it prints where to continue.",
			Opens: "record", Resumes: true,
		}, on(s, s.checkSchema)),
		operate.NewDownload(operate.About{
			Access: operate.ForViewers, Path: "schemas/export", Doc: "Print all versions' documents, one per line, newest first",
			Media: operate.Lines, Memory: transferSize,
		}, s.exportSchemas),
		operate.NewUpload(operate.About{
			Path: "schemas/put", Doc: "Register a schema as a draft; with --activate, validate new values by it",
			Media: "application/schema+json", Memory: transferSize, Largest: 4 * ext.MaxSchemaBytes,
			Title: "Register a file", Button: "Register file", MayBeStdin: true,
			More: "The file, or standard input, is a JSON Schema (draft 2020-12). It is checked as in the API and becomes the next\n" +
				"schema version in the namespace, a draft. With --activate it replaces the active version. Stored records are not\n" +
				"validated again.",
			Example: "--tenant $TENANT --install $INSTALL --namespace settings schema.json --activate\n" +
				"--tenant $TENANT --install $INSTALL --namespace settings <schema.json\n",
		}, s.putSchema),
		operate.NewChange(operate.About{
			Path: "schemas/activate", Doc: "Validate new values by a version", Stays: true,
			Ask: "New values are validated by this version. Stored records are not validated again.",
		}, on(s, s.setSchema(ext.Active))),
		operate.NewChange(operate.About{
			Path: "schemas/deprecate", Doc: "Do not validate new values by the active version any more", Stays: true, Danger: true, Ask: "After that, every JSON value is valid.",
		}, on(s, s.setSchema(ext.Deprecated))),
		operate.NewChange(operate.About{
			Path: "schemas/delete", Doc: "Delete a version that is neither active nor the newest", Button: "Delete version", Danger: true, Ask: "This cannot be undone.",
			More: "Version numbers are not used again.",
		}, on(s, s.deleteSchema)),
		operate.NewChange(operate.About{
			Path: "schemas/delete-all", Doc: "Delete all schema versions in a namespace",
			Title: "Delete all versions", Text: "After that, every JSON value is valid.", Button: "Delete all versions", Ask: "This cannot be undone.", Danger: true, Retypes: true,
			More: "Afterwards the namespace accepts any JSON, and counts toward the namespace quota only while it contains keys.\n" +
				"Version numbers are not reused.",
		}, on(s, s.deleteSchemas)),
	}
}

// namespaceInput names a namespace, which need not exist.
type namespaceInput struct {
	installInput
	Namespace string `subject:"namespace,flag" value:"NAME" doc:"namespace NAME" example:"settings"`
}

// Check refuses the inputs before the operation runs.
func (in namespaceInput) Check() error {
	_, err := in.ref()
	return err
}

// ref parses the names. The error is an *operate.InputError.
func (in namespaceInput) ref() (p namespaceRef, err error) {
	if p.Owner, err = in.owner(); err != nil {
		return p, err
	}
	if p.Namespace, err = ext.ParseNamespace(in.Namespace); err != nil {
		err = &operate.InputError{Input: "namespace", Reason: err.Error()}
	}
	return p, err
}

// versionInput names a schema version. Versions begin at 1.
type versionInput struct {
	namespaceInput
	Version int64 `subject:"version,flag" value:"N" doc:"version N" least:"1" example:"1"`
}

// Check refuses numbers that do not fit into ext.SchemaVersion.
func (in versionInput) Check() error {
	if in.Version != int64(ext.SchemaVersion(in.Version)) {
		return errNoVersion(in)
	}
	return nil
}

// errNoVersion returns errcode.NotFound.
func errNoVersion(in versionInput) error {
	return errcode.Newf(errcode.NotFound, "namespace %s has no schema version %d", in.Namespace, in.Version)
}

// schemaOutput is a version without its document. Updated is when its status last changed.
type schemaOutput struct {
	Version int64         `json:"version" title:"Version" subject:"version" least:"1"`
	Status  string        `json:"status" title:"Status" enum:"draft,active,deprecated"`
	Created time.Time     `json:"createdAt" title:"Created"`
	Updated time.Time     `json:"updatedAt" title:"Updated"`
	Bytes   service.Bytes `json:"bytes" title:"Bytes"`
}

// outputOfSchema leaves out the document, but not its size.
func outputOfSchema(sc *ext.Schema) schemaOutput {
	return schemaOutput{int64(sc.Version), string(sc.Status), service.TimeOf(sc.CreatedAt), service.TimeOf(sc.UpdatedAt), service.Bytes(len(sc.Document))}
}

// Offers activate for versions that are not active, and deprecate for the active version.
func (o schemaOutput) Offers(verb string) bool {
	isActive := o.Status == string(ext.Active)
	return verb != "activate" && verb != "deprecate" || isActive == (verb == "deprecate")
}

// eachSchema starts with the newest version.
func (s *Extensions) eachSchema(ctx context.Context, in namespaceInput, fn func(*ext.Schema) error) error {
	p, err := in.ref()
	if err != nil {
		return err
	}
	for cursor := ""; ; {
		page, next, err := s.opened.Schemas(ctx, p.request(ctx), p.Namespace, cursor, ext.MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := fn(&page[i]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// listSchemas returns the newest version first. A namespace keeps few versions (ext.SchemasKept), so the list is not
// paged.
func (s *Extensions) listSchemas(ctx context.Context, in namespaceInput) (all []schemaOutput, err error) {
	err = s.eachSchema(ctx, in, func(sc *ext.Schema) error {
		all = append(all, outputOfSchema(sc))
		return nil
	})
	return all, err
}

// exportSchemas reads the versions while the file is sent.
func (s *Extensions) exportSchemas(ctx context.Context, in namespaceInput, _ operate.Progress) (f operate.File, err error) {
	if _, err := s.ready(); err != nil {
		return f, err
	}
	return operate.File{Name: in.Namespace + ".ndjson", Write: func(to io.Writer) error {
		return aboutInput(s.eachSchema(ctx, in, func(sc *ext.Schema) error {
			_, err := fmt.Fprintln(to, service.PrintableLines(string(sc.Document)))
			return err
		}))
	}}, nil
}

// schemaDetail is a version with its document, as it was registered.
type schemaDetail struct {
	schemaOutput
	Schema json.RawMessage `json:"schema" text:"Document"`
}

// showSchema also shows a version that is deprecated or a draft.
func (s *Extensions) showSchema(ctx context.Context, in versionInput) (d schemaDetail, err error) {
	p, err := in.ref()
	if err != nil {
		return d, err
	}
	sc, err := s.opened.Schema(ctx, p.request(ctx), p.Namespace, ext.SchemaVersion(in.Version))
	return schemaDetail{outputOfSchema(&sc), sc.Document}, err
}

// schemaChange reports a change to a version. did is the notice.
type schemaChange struct {
	Namespace string `json:"namespace"`
	Version   int64  `json:"version" least:"1"`
	Status    string `json:"status" enum:"draft,active,deprecated,deleted"`
	did       string
}

func (c schemaChange) Notice() string { return c.did }

// setSchema returns the function that sets a status. Activating a version replaces the active version.
func (s *Extensions) setSchema(status ext.SchemaStatus) func(context.Context, versionInput) (schemaChange, error) {
	return func(ctx context.Context, in versionInput) (c schemaChange, err error) {
		p, err := in.ref()
		if err != nil {
			return c, err
		}
		_, err = s.opened.SetSchema(ctx, p.request(ctx), p.Namespace, ext.SchemaVersion(in.Version), status)
		return schemaChange{in.Namespace, in.Version, string(status), fmt.Sprintf("version %d is %s", in.Version, status)}, explained(err)
	}
}

// deleteSchema refuses the active version, and the newest, whose number would be used again.
func (s *Extensions) deleteSchema(ctx context.Context, in versionInput) (c schemaChange, err error) {
	p, err := in.ref()
	if err != nil {
		return c, err
	}
	n, err := s.opened.DropSchemas(ctx, p.request(ctx), p.Namespace, ext.SchemaVersion(in.Version))
	if err == nil && n == 0 {
		err = errNoVersion(in)
	}
	return schemaChange{in.Namespace, in.Version, stateDeleted, fmt.Sprintf("deleted schema version %d for %s", in.Version, in.Namespace)}, err
}

// schemasChange counts the deleted versions.
type schemasChange struct {
	Namespace string `json:"namespace"`
	Deleted   int    `json:"deleted" least:"0"`
}

func (c schemasChange) Notice() string {
	return "deleted " + service.Count(int64(c.Deleted), "version") + " of the schema for " + c.Namespace
}

// deleteSchemas deletes all versions, including the active version: afterwards every JSON value is valid.
func (s *Extensions) deleteSchemas(ctx context.Context, in namespaceInput) (c schemasChange, err error) {
	p, err := in.ref()
	if err != nil {
		return c, err
	}
	n, err := s.opened.DropSchemas(ctx, p.request(ctx), p.Namespace, 0)
	return schemasChange{in.Namespace, n}, err
}

// putInput may activate the new version at once.
type putInput struct {
	namespaceInput
	Activate bool `flag:"activate" doc:"activate the new version"`
}

// putSchema registers a document. If only the activation fails, the error says that the version exists.
func (s *Extensions) putSchema(ctx context.Context, in putInput, file operate.Body, _ operate.Progress) (c schemaChange, err error) {
	open, err := s.ready()
	if err != nil {
		return c, err
	}
	p, err := in.ref()
	if err != nil {
		return c, err
	}
	document, err := io.ReadAll(file)
	if err != nil {
		return c, err
	}
	if strings.TrimSpace(string(document)) == "" {
		return c, errcode.New(errcode.Invalid, "the schema is empty: name a file, or write the schema to standard input")
	}
	r := p.request(ctx)
	sc, err := open.RegisterSchema(ctx, r, p.Namespace, document)
	if err != nil {
		return c, explained(err)
	}
	if in.Activate {
		version := sc.Version
		if sc, err = open.SetSchema(ctx, r, p.Namespace, version, ext.Active); err != nil {
			return c, fmt.Errorf("version %d was registered but could not be activated: %w", version, explained(err))
		}
	}
	did := fmt.Sprintf("registered schema version %d for %s: %s", sc.Version, p.Namespace, sc.Status)
	return schemaChange{in.Namespace, int64(sc.Version), string(sc.Status), did}, nil
}
