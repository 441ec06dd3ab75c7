package ext

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// Search limits per page. Values are not indexed, so the next page continues the scan.
const (
	searchedKeys = 10_000
	searchTime   = 100 * time.Millisecond
)

type filter struct {
	property canonjson.Pointer
	text     string
	value    canonjson.Value // text as JSON; "" if it is not JSON
}

// parseFilter returns nil without a property.
func parseFilter(r *service.PageRequest) (*filter, error) {
	name, text := r.Value("property"), strings.TrimSpace(r.Value("equals"))
	if name == "" {
		if text != "" {
			return nil, errcode.New(errcode.Invalid, "property: name the property with this value")
		}
		return nil, nil //nolint:nilnil // as said above
	}
	f := &filter{property: canonjson.Pointer{name}, text: text}
	if strings.HasPrefix(name, "/") {
		var err error
		if f.property, err = canonjson.ParsePointer(name); err != nil {
			return nil, errcode.Newf(errcode.Invalid, "property: %v", err)
		}
	}
	if v, err := canonjson.Parse([]byte(text), 2*len(text)); err == nil {
		f.value = v
	}
	return f, nil
}

// matches compares the property with the text as JSON and as a string. An empty text matches a missing property.
func (f *filter) matches(value canonjson.Value) bool {
	v, found := value.Lookup(f.property)
	if !found || f.text == "" {
		return !found && f.text == ""
	}
	if v == f.value {
		return true
	}
	var s string
	return v[0] == '"' && json.Unmarshal([]byte(v), &s) == nil && s == f.text
}

// foundRecords is a page of matching records.
type foundRecords struct {
	records []ext.Record
	// searched is the number of records that were compared, from the key from to the key to.
	searched int
	from, to ext.Key
	// next is the cursor that continues the search; "" at the end.
	next string
}

// findRecords stops when a page is full or the limits are reached. Without a filter, all records match.
func (s *Extensions) findRecords(ctx context.Context, p namespaceRef, l ext.Listing, f *filter) (all foundRecords, err error) {
	until := s.deps.Clock().Add(searchTime)
	if f == nil {
		l.Limit = ext.MaxPage
		all.records, all.next, err = s.opened.ListRecords(ctx, p.request(ctx), l)
		return all, err
	}
	for {
		l.Limit = min(ext.MaxPage-len(all.records), searchedKeys-all.searched)
		page, next, err := s.opened.ListRecords(ctx, p.request(ctx), l)
		if err != nil {
			return all, err
		}
		for i := range page {
			if f.matches(page[i].Value) {
				all.records = append(all.records, page[i])
			}
		}
		if len(page) > 0 {
			if all.searched == 0 {
				all.from = page[0].Key
			}
			all.to = page[len(page)-1].Key
		}
		all.searched += len(page)
		all.next, l.Cursor = next, next
		if next == "" || len(all.records) >= ext.MaxPage/2 || all.searched >= searchedKeys || !s.deps.Clock().Before(until) {
			return all, nil
		}
	}
}

// fact tells the operator how far the search came, because a page without matches is not the end.
func (f *foundRecords) fact() service.Fact {
	says := service.Count(int64(f.searched), "key")
	if f.searched > 0 {
		says += fmt.Sprintf(", from %s to %s", f.from, f.to)
	}
	if f.next == "" {
		says += ", the end of the list"
	}
	return service.Fact{Name: "Searched", Cell: service.TextCell(says)}
}
