package ext

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	exthttp "holdfast/internal/extstorage/httpapi"
	"holdfast/internal/operate"
)

const transferSize = 8 << 20 // bytes, with copies: an export page or an import batch

// transferOperations declares the export and the import of an install.
func (s *Extensions) transferOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewDownload(operate.About{
			Access: operate.ForAdmins, Path: "installs/export", Doc: "Export an install's records and schemas as JSON lines",
			Media: operate.Lines, Memory: transferSize, Counts: "records",
			More: "The format is the API's: a JSON line per record or schema, and a last line that marks the export as complete. Data\n" +
				"is read from the database page by page while servers run. If nothing may change meanwhile, revoke the install first:\n" +
				"revoked installs can be exported, too. The file gets its name when it is complete.",
			Example: "--tenant $TENANT --install $INSTALL -o install.ndjson\n",
		}, s.exportInstall),
		operate.NewUpload(operate.About{
			Path: "installs/import", Doc: "Import an export into an install",
			Media: operate.Lines, Memory: transferSize, Largest: operate.LargestLines, Stays: true,
			Title: "Import an export", Text: "Limits and quotas apply. If a line is wrong, the records before it stay.", Button: "Import",
			More: "Records and schemas are imported while servers run. FILE may be -, for standard input. Limits and quotas apply, and\n" +
				"so do active schemas that the file does not contain; rate limits do not. Records are written 20 at a time: after a\n" +
				"failure, earlier records are written, and the same file can be imported again. A file without an export's last line\n" +
				"is imported as far as it goes, and is an error.\n\n" +
				"With --preserve, records keep their revisions and times. A record with a newer revision here is not changed; a record\n" +
				"with the same revision and different contents is an error.",
			Example: "--tenant $TENANT --install $INSTALL install.ndjson\n--tenant $TENANT --install $INSTALL --preserve install.ndjson\n",
		}, s.importInstall),
	}
}

// exportInstall reads the first page before the download begins, so that an error can still be answered.
func (s *Extensions) exportInstall(ctx context.Context, in installInput, progress operate.Progress) (f operate.File, err error) {
	open, err := s.ready()
	if err != nil {
		return f, err
	}
	o, err := in.owner()
	if err != nil {
		return f, err
	}
	page, err := open.ExportInstall(ctx, o, "")
	if err != nil {
		return f, err
	}
	return operate.File{Name: in.Install + ".ndjson", Write: func(to io.Writer) error {
		next := func(cursor string) (ext.ExportPage, error) { return open.ExportInstall(ctx, o, cursor) }
		return writeExport(to, page, next, progress)
	}}, nil
}

// writeExport writes the header, the pages and the last line, which marks the export as complete. next reads the page
// at a cursor.
func writeExport(to io.Writer, page ext.ExportPage, next func(cursor string) (ext.ExportPage, error), progress operate.Progress) (err error) {
	records := page.Header.Records
	w := bufio.NewWriterSize(to, 64<<10)
	if _, err := w.Write(exthttp.AppendHeader(nil, page.Header)); err != nil {
		return err
	}
	for {
		if err := writePage(w, &page); err != nil {
			return err
		}
		progress.Report(page.Total, records)
		if page.Next == "" {
			_, err := w.Write(exthttp.AppendComplete(nil, &page))
			return errors.Join(err, w.Flush())
		}
		if page, err = next(page.Next); err != nil {
			return err
		}
	}
}

// writePage writes a page's schemas and records, a line each.
func writePage(w io.Writer, page *ext.ExportPage) error {
	for i := range page.Schemas {
		if _, err := w.Write(exthttp.AppendSchema(nil, &page.Schemas[i])); err != nil {
			return err
		}
	}
	for i := range page.Records {
		if _, err := w.Write(exthttp.AppendLine(nil, &page.Records[i])); err != nil {
			return err
		}
	}
	return nil
}

// importInput names the install to import into, which need not exist.
type importInput struct {
	installInput
	Preserve bool `flag:"preserve" doc:"keep record and schema revisions and times"`
}

// importOutput counts the lines that were read and the records by result; it is a partial result if the import fails.
type importOutput struct {
	Lines   int `json:"lines"`
	Records int `json:"records"`
	Written int `json:"written"`
	// Unchanged records are equal here already; Expired records are left out.
	Unchanged int `json:"unchanged"`
	Expired   int `json:"expired"`
	Newer     int `json:"newer" doc:"records with a newer revision here"`
	Schemas   int `json:"schemas"`

	// Unmatched are namespaces with values that their active schema refuses. An export contains values from before their
	// schema, so an import takes them over; no put of such a value would succeed.
	Unmatched []unmatchedNamespace `json:"unmatched" doc:"namespaces with values that their active schema refuses"`

	text string
}

// unmatchedNamespace counts values that the active schema of a namespace refuses.
type unmatchedNamespace struct {
	Namespace string `json:"namespace"`
	Version   int64  `json:"version" doc:"the active schema version"`
	Failed    int    `json:"failed" doc:"records that the schema refuses"`
	Checked   int    `json:"checked" doc:"records that were checked, which takes limited time"`
}

// Notice is also shown with an error.
func (o importOutput) Notice() string { return o.text }

// importInstall imports as the operator, without rate limits. Records before a wrong line stay.
func (s *Extensions) importInstall(ctx context.Context, in importInput, lines operate.Body, _ operate.Progress) (out importOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return out, err
	}
	o, err := in.owner()
	if err != nil {
		return out, err
	}
	r := ext.Request{Grant: ext.Grant{Owner: o, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin", ID: service.Operator(ctx)}}
	done, err := exthttp.Import(ctx, open, r, in.Preserve, lines)
	out = importOutput{Lines: done.Lines, Records: done.Records, Written: done.Written, Unchanged: done.Unchanged, Expired: done.Expired, Newer: done.Newer, Schemas: done.Schemas}
	newer := ""
	if in.Preserve {
		newer = fmt.Sprintf(", newer here: %d", done.Newer)
	}
	out.text = fmt.Sprintf("records: %d, written: %d, unchanged: %d, expired: %d%s; schemas: %d", done.Records, done.Written, done.Unchanged, done.Expired, newer, done.Schemas)
	if err == nil {
		var note string
		out.Unmatched, note = unmatched(ctx, open, r)
		out.text += note
	}
	return out, inLine(err)
}

// unmatched checks the stored values of an install against the active schemas, after an import. The note is for a
// person. An error ends only the check, because the import is complete.
func unmatched(ctx context.Context, s *ext.Service, r ext.Request) (namespaces []unmatchedNamespace, note string) {
	var notes strings.Builder
	namespaces = []unmatchedNamespace{}
	used, err := s.Usage(ctx, r)
	for i := 0; err == nil && i < len(used.Namespaces); i++ {
		ns := used.Namespaces[i].Namespace
		var active ext.SchemaVersion
		var run ext.DryRun
		if active, run, err = s.CheckStored(ctx, r, ns); err != nil || run.Failed == 0 {
			continue
		}
		u := unmatchedNamespace{string(ns), int64(active), run.Failed, run.Checked}
		namespaces = append(namespaces, u)
		fmt.Fprintf(&notes, "; namespace %s: the active schema version %d refuses %d of the %d records that were checked; a client cannot write them again. "+
			"holdfast ext schemas check --namespace %s --version %d lists them", ns, u.Version, u.Failed, u.Checked, ns, u.Version)
	}
	if err != nil {
		fmt.Fprintf(&notes, "; the values were not checked against the active schemas: %v", plain(err))
	}
	return namespaces, notes.String()
}

// inLine makes an error refer to the line in the file, from 1.
func inLine(err error) error {
	item, ok := errors.AsType[*ext.ItemError](err)
	if !ok {
		return plain(err)
	}
	where := fmt.Sprintf("line %d", item.Index+1)
	switch pointer, ok := ext.PointerOf(item.Err); {
	case ok && pointer == "":
		return errcode.Rephrase(item.Err, fmt.Sprintf("%s %s", where, ext.MessageOf(item.Err)))
	case ok:
		return errcode.Rephrase(item.Err, fmt.Sprintf("%s: %s %s", where, pointer, ext.MessageOf(item.Err)))
	}
	return errcode.Rephrase(item.Err, fmt.Sprintf("%s: %v", where, item.Err))
}
