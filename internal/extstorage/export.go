package extstorage

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// ExportHeader is the first line of an export. Counts may change while it runs.
type ExportHeader struct {
	Records    int64 // when the export starts
	LastChange Seq   // when the export starts
}

// ExportPage contains schemas by namespace and version, then records by namespace and key.
type ExportPage struct {
	Header       *ExportHeader // first page only
	Schemas      []Schema
	Records      []Record
	TotalSchemas int64  // up to this page
	Total        int64  // up to this page
	Next         string // next cursor; "" on the last page
}

// exportPlace is the position in an export, which a cursor contains.
type exportPlace struct {
	schema  SchemaPosition
	schemas int64 // exported so far

	inRecords bool
	record    Position
	records   int64 // exported so far
}

// String returns the text in a cursor.
func (p *exportPlace) String() string {
	schemas := strconv.FormatInt(p.schemas, 10)
	if !p.inRecords {
		return strings.Join([]string{"schemas", schemas, string(p.schema.Namespace), strconv.Itoa(int(p.schema.Version))}, "/")
	}
	return strings.Join([]string{"records", schemas, strconv.FormatInt(p.records, 10), string(p.record.Namespace), string(p.record.Key)}, "/")
}

// parseExportPlace reverses String.
func parseExportPlace(s string) (p exportPlace, err error) {
	part := strings.Split(s, "/")
	numbers := func(texts ...string) (all [2]int64) {
		for i, text := range texts {
			if n, failed := strconv.ParseInt(text, 10, 64); failed != nil {
				err = errCursor
			} else {
				all[i] = n
			}
		}
		return all
	}
	switch {
	case len(part) == 4 && part[0] == "schemas":
		n := numbers(part[1], part[3])
		p.schemas, p.schema = n[0], SchemaPosition{Namespace(part[2]), SchemaVersion(n[1])}
	case len(part) == 5 && part[0] == "records":
		n := numbers(part[1], part[2])
		p.inRecords, p.schemas, p.records, p.record = true, n[0], n[1], Position{Namespace(part[3]), Key(part[4])}
	default:
		err = errCursor
	}
	return p, err
}

// Export reads the next page of the readable namespaces: at most limit records, PageBytes of records, and PageBytes
// of schemas.
func (s *Service) Export(ctx context.Context, r Request, cursor string, limit int) (ExportPage, error) {
	p, err := s.pass(ctx, r.Grant)
	if err != nil {
		return ExportPage{}, err
	}
	if !p.reads() {
		return ExportPage{}, ErrAccess
	}
	if err := checkLimit(limit, 1, MaxPage); err != nil {
		return ExportPage{}, err
	}
	return s.exportPage(ctx, p.Owner, cursor, limit, func(ns Namespace) bool { return p.In(ns)&Read != 0 })
}

// ExportInstall exports everything, even from a revoked install.
func (s *Service) ExportInstall(ctx context.Context, o Owner, cursor string) (ExportPage, error) {
	return s.exportPage(ctx, o, cursor, MaxPage, func(Namespace) bool { return true })
}

const schemaPage = PageBytes / MaxSchemaBytes // schemas per page

// exportPage reads a page. Rows that the token cannot read count towards the page, so a page may be empty although
// others follow.
func (s *Service) exportPage(ctx context.Context, o Owner, cursor string, limit int, readable func(Namespace) bool) (page ExportPage, err error) {
	question := []string{"export", string(o.Tenant), string(o.Install)}
	var at exportPlace
	if cursor != "" {
		place, err := s.cursors.open(cursor, question...)
		if err == nil {
			at, err = parseExportPlace(place)
		}
		if err != nil {
			return page, Under("/cursor", err)
		}
	} else if page.Header, err = s.exportHeader(ctx, o, readable); err != nil {
		return page, err
	}
	more := true
	if !at.inRecords {
		schemas, err := s.opts.Registry.ExportSchemas(ctx, o, at.schema, schemaPage)
		if err != nil {
			return page, err
		}
		if n := len(schemas); n == schemaPage {
			at.schema = SchemaPosition{schemas[n-1].Namespace, schemas[n-1].Version}
		} else {
			at.inRecords = true
		}
		page.Schemas = slices.DeleteFunc(schemas, func(sc Schema) bool { return !readable(sc.Namespace) })
		at.schemas += int64(len(page.Schemas))
	}
	if at.inRecords {
		read, err := s.opts.Store.Export(ctx, o, ExportQuery{After: at.record, Limit: limit, Now: s.moment()})
		if err != nil {
			return page, err
		}
		if more = read.More; more {
			last := &read.Records[len(read.Records)-1]
			at.record = Position{last.Namespace, last.Key}
		}
		page.Records = slices.DeleteFunc(read.Records, func(rec Record) bool { return !readable(rec.Namespace) })
		at.records += int64(len(page.Records))
	}
	if page.TotalSchemas, page.Total = at.schemas, at.records; more {
		page.Next = s.cursors.seal(at.String(), question...)
	}
	return page, nil
}

// exportHeader counts the readable records. Another client may write in between.
func (s *Service) exportHeader(ctx context.Context, o Owner, readable func(Namespace) bool) (*ExportHeader, error) {
	now := s.moment()
	feed, err := s.opts.Store.Changes(ctx, o, 0, 0)
	if err != nil {
		return nil, err
	}
	used, err := s.opts.Store.Usage(ctx, o, now)
	if err != nil {
		return nil, err
	}
	h := &ExportHeader{LastChange: feed.Last}
	for _, n := range used.Namespaces {
		if readable(n.Namespace) {
			h.Records += n.Keys
		}
	}
	return h, nil
}
