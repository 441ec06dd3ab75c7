package ext

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
)

// SchemaPage reads one page of the schemas, the newest first, of at most limit of
// them; 0 is the server's default. The cursor is the NextCursor of the page before,
// or "".
func (r Records) SchemaPage(ctx context.Context, limit int, cursor string) (page SchemaList, err error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	_, err = r.client.send(ctx, call{method: http.MethodGet, path: r.path + "/schemas", query: q, again: true}, &page)
	return page, err
}

// Schemas goes through the schemas of the namespace, the newest first, page by page.
// It ends with the first error.
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

// RegisterSchema adds a JSON Schema of Draft 2020-12 as a draft: it refuses
// nothing until it is activated.
func (r Records) RegisterSchema(ctx context.Context, document any) (s Schema, err error) {
	text, err := encode(document)
	if err != nil {
		return s, err
	}
	_, err = r.client.sendJSON(ctx, call{method: http.MethodPost, path: r.path + "/schemas"}, RegisterSchemaRequest{Schema: text}, &s)
	return s, err
}

// Schema reads one version.
func (r Records) Schema(ctx context.Context, version int32) (s Schema, err error) {
	_, err = r.client.send(ctx, call{method: http.MethodGet, path: r.schema(version), again: true}, &s)
	return s, err
}

// SetSchemaStatus makes a version SchemaActive, which deprecates the one that is,
// or SchemaDeprecated.
func (r Records) SetSchemaStatus(ctx context.Context, version int32, status SchemaStatus) (s Schema, err error) {
	_, err = r.client.sendJSON(ctx, call{method: http.MethodPatch, path: r.schema(version), again: true}, SchemaStatusRequest{Status: status}, &s)
	return s, err
}

func (r Records) schema(version int32) string {
	return r.path + "/schemas/" + strconv.Itoa(int(version))
}

// CheckSchema compares a document with the active schema, and holds the stored
// records against it. The server checks them in pieces; the report is about all of
// them. Nothing is changed.
func (r Records) CheckSchema(ctx context.Context, document any) (report SchemaReport, err error) {
	text, err := encode(document)
	if err != nil {
		return report, err
	}
	return r.check(ctx, SchemaCheckRequest{Schema: text})
}

// CheckSchemaVersion is CheckSchema of a version that is registered.
func (r Records) CheckSchemaVersion(ctx context.Context, version int32) (SchemaReport, error) {
	return r.check(ctx, SchemaCheckRequest{Version: &version})
}

// mostFailures is how many failures a report names.
const mostFailures = 10

func (r Records) check(ctx context.Context, request SchemaCheckRequest) (report SchemaReport, err error) {
	for sum := (DryRun{}); ; {
		var piece SchemaReport
		if _, err := r.client.sendJSON(ctx, call{method: http.MethodPost, path: r.path + "/schemas/check", again: true}, request, &piece); err != nil {
			return SchemaReport{}, err
		}
		found := append(sum.FirstFailures, piece.Records.FirstFailures...)
		sum = DryRun{
			Checked: sum.Checked + piece.Records.Checked, Failed: sum.Failed + piece.Records.Failed,
			FirstFailures: found[:min(len(found), mostFailures)], NextCursor: piece.Records.NextCursor,
		}
		if report = piece; sum.NextCursor == nil {
			report.Records = sum
			return report, nil
		}
		request.Cursor = sum.NextCursor
	}
}
