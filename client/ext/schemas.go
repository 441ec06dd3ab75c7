package ext

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
)

// SchemaPage returns at most limit schemas, newest first. cursor is the NextCursor of the previous page, or "". If
// limit is 0, the server's default applies.
func (r Records) SchemaPage(ctx context.Context, limit int, cursor string) (page SchemaList, err error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	_, err = r.client.send(ctx, call{method: http.MethodGet, path: r.path + "/schemas", query: q, idempotent: true}, &page)
	return page, err
}

// Schemas yields the schemas of the namespace, newest first. It stops after an error.
func (r Records) Schemas(ctx context.Context) iter.Seq2[Schema, error] {
	return func(yield func(Schema, error) bool) {
		for cursor := ""; ; {
			page, err := r.SchemaPage(ctx, 0, cursor)
			if err != nil {
				yield(Schema{}, fmt.Errorf("list schemas: %w", err))
				return
			}
			for _, s := range page.Schemas {
				if !yield(s, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			cursor = *page.NextCursor
		}
	}
}

// RegisterSchema registers a JSON Schema (Draft 2020-12) as a draft. The draft validates nothing until
// SetSchemaStatus activates it.
func (r Records) RegisterSchema(ctx context.Context, document any) (s Schema, err error) {
	text, err := encode(document)
	if err != nil {
		return s, err
	}
	_, err = r.client.sendJSON(ctx, call{method: http.MethodPost, path: r.path + "/schemas"}, RegisterSchemaRequest{Schema: text}, &s)
	return s, err
}

// Schema returns a version of the schema. It returns an *Error with CodeNotFound for an unknown version.
func (r Records) Schema(ctx context.Context, version int32) (s Schema, err error) {
	_, err = r.client.send(ctx, call{method: http.MethodGet, path: r.schema(version), idempotent: true}, &s)
	return s, err
}

// SetSchemaStatus sets a version to SchemaActive, which deprecates the previously active version, or to
// SchemaDeprecated.
func (r Records) SetSchemaStatus(ctx context.Context, version int32, status SchemaStatus) (s Schema, err error) {
	_, err = r.client.sendJSON(ctx, call{method: http.MethodPatch, path: r.schema(version), idempotent: true}, SchemaStatusRequest{Status: status}, &s)
	return s, err
}

// schema returns the version's path.
func (r Records) schema(version int32) string {
	return r.path + "/schemas/" + strconv.Itoa(int(version))
}

// CheckSchema compares a document with the active schema and reports which stored records the document would reject.
// It changes nothing. The server checks records in parts; the report covers all parts.
func (r Records) CheckSchema(ctx context.Context, document any) (report SchemaReport, err error) {
	text, err := encode(document)
	if err != nil {
		return report, err
	}
	return r.check(ctx, SchemaCheckRequest{Schema: text})
}

// CheckSchemaVersion is like CheckSchema, but for a registered version.
func (r Records) CheckSchemaVersion(ctx context.Context, version int32) (SchemaReport, error) {
	return r.check(ctx, SchemaCheckRequest{Version: &version})
}

// maxFailures is the number of failures that a report names, as in a single response.
const maxFailures = 10

// check sends the request until all records are checked, and adds up the parts.
func (r Records) check(ctx context.Context, request SchemaCheckRequest) (report SchemaReport, err error) {
	for sum := (DryRun{}); ; {
		var piece SchemaReport
		if _, err := r.client.sendJSON(ctx, call{method: http.MethodPost, path: r.path + "/schemas/check", idempotent: true}, request, &piece); err != nil {
			return SchemaReport{}, err
		}
		failures := append(sum.FirstFailures, piece.Records.FirstFailures...)
		sum = DryRun{
			Checked: sum.Checked + piece.Records.Checked, Failed: sum.Failed + piece.Records.Failed,
			FirstFailures: failures[:min(len(failures), maxFailures)], NextCursor: piece.Records.NextCursor,
		}
		if report = piece; sum.NextCursor == nil {
			report.Records = sum
			return report, nil
		}
		request.Cursor = sum.NextCursor
	}
}
