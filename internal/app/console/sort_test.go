package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
)

func things(title string, cells ...service.Cell) *service.Table {
	t := &service.Table{Title: title, Columns: []service.Column{{Title: "Name"}, {Title: "Value"}, {Title: "Action"}}}
	for i, c := range cells {
		t.Rows = append(t.Rows, []service.Cell{service.TextCell(string(rune('a' + i))), c, {Forms: []service.Form{{Action: "x"}}}})
	}
	return t
}

func rendered(values string, tables ...*service.Table) string {
	query, err := url.ParseQuery(values)
	if err != nil {
		panic(err)
	}
	at := &service.Page{Path: "things", Title: "Things"}
	r := renderer{page: &page{}, x: &exchange{Console: &Console{}}, section: &Section{Console: service.Console{Pages: []service.Page{*at}}}, at: at, values: query}
	for _, t := range tables {
		r.block(t)
	}
	return r.String()
}

func names(html string) string {
	var all strings.Builder
	for _, part := range strings.Split(html, `data-label="Name">`)[1:] {
		all.WriteByte(part[0])
	}
	return all.String()
}

func TestSort(t *testing.T) {
	t.Parallel()
	texts := func(all ...string) (cells []service.Cell) {
		for _, text := range all {
			cells = append(cells, service.TextCell(text))
		}
		return cells
	}
	now := time.Unix(1e9, 0)
	for name, tc := range map[string]struct {
		cells    []service.Cell
		up, down string
	}{
		"numbers":   {texts("10", "9", "-", "100"), "badc", "dabc"},
		"sizes":     {texts("1.0 KiB", "900 B", "1.0 GiB of 2.0 GiB", "5.5 MiB"), "badc", "cdab"},
		"counts":    {texts("12 objects", "2 objects", "-1 object"), "cba", "abc"},
		"shares":    {texts("12.5%", "9%"), "ba", "ab"},
		"durations": {texts("1h30m", "5m0s", "24h"), "bac", "cab"},
		"texts":     {texts("Bb", "aa", "", "bA"), "bdac", "adbc"},
		"mixed":     {texts("10", "9", "x"), "abc", "cba"},
		"equal":     {texts("1", "1", "0"), "cab", "abc"},
		"times":     {[]service.Cell{service.TimeCell(now), service.TimeCell(now.Add(-time.Hour)), service.TimeCell(time.Time{})}, "bac", "abc"},
		"states":    {[]service.Cell{{State: service.Wrong, Text: "a"}, {State: service.OK, Text: "z"}, {State: service.Warning, Text: "b"}}, "bca", "acb"},
	} {
		if got := names(rendered("sort=Value", things("", tc.cells...))); got != tc.up {
			t.Errorf("%s: %s, want %s", name, got, tc.up)
		}
		if got := names(rendered("sort=Value&desc=1", things("", tc.cells...))); got != tc.down {
			t.Errorf("%s, descending: %s, want %s", name, got, tc.down)
		}
	}
}

func TestSortedTables(t *testing.T) {
	t.Parallel()
	three := func(title string) *service.Table {
		return things(title, service.TextCell("3"), service.TextCell("2"), service.TextCell("1"))
	}
	html := rendered("account=x&sort=Value&sort2=Name&desc2=1", three("One"), three("Other"))
	if got := names(html); got != "cbacba" {
		t.Errorf("two tables: %s in\n%s", got, html)
	}
	for _, want := range []string{
		`aria-sort="ascending"><a href="/console/things?account=x&amp;desc=1&amp;desc2=1&amp;sort=Value&amp;sort2=Name">Value</a>`,
		`aria-sort="descending"><a href="/console/things?account=x&amp;sort=Value&amp;sort2=Name">Name</a>`,
		`<a href="/console/things?account=x&amp;desc2=1&amp;sort=Name&amp;sort2=Name">Name</a>`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("no %s in\n%s", want, html)
		}
	}
	if strings.Count(html, "<th ") != 6 || strings.Count(html, "?") != 4 {
		t.Errorf("buttons have an order in\n%s", html)
	}

	unsorted := func(what, values string, table *service.Table) {
		t.Helper()
		if html := rendered(values, table); names(html) != "abc" || strings.Contains(html, "aria-sort") {
			t.Errorf("%s is sorted:\n%s", what, html)
		}
	}
	for _, column := range []string{"Nothing", "value", "Action", ""} {
		unsorted("a table by the column "+column, "sort="+column, three(""))
	}
	next, partial, own := three(""), three(""), three("")
	next.Next, partial.Partial, own.Columns[0].Sort = "d", true, "name"
	unsorted("a first page", "sort=Value", next)
	unsorted("a last page", "sort=Value&after=d", three(""))
	unsorted("a part", "sort=Value", partial)
	unsorted("a list with orders of its own", "sort=Value", own)
	for _, table := range []*service.Table{next, partial} {
		if html := rendered("", table); strings.Contains(html, "<th") && strings.Contains(html, "sort=") {
			t.Errorf("a table that does not show all its rows has orders:\n%s", html)
		}
	}
}

// TestSortKeepsChoices checks that a row's check box selects the same row after sorting.
func TestSortKeepsChoices(t *testing.T) {
	t.Parallel()
	table := things("", service.TextCell("3"), service.TextCell("2"), service.TextCell("1"))
	table.Bulk = &service.Bulk{Keys: []string{"a", "b", "c"}, Names: []string{"a", "b", "c"}}
	o := &order{column: 1}
	sorted := o.sorted(table)
	if !slices.Equal(sorted.Bulk.Keys, []string{"c", "b", "a"}) || !slices.Equal(sorted.Bulk.Names, sorted.Bulk.Keys) || sorted.Rows[0][0].Text != "c" {
		t.Errorf("%+v", sorted)
	}
	if table.Bulk.Keys[0] != "a" || table.Rows[0][0].Text != "a" {
		t.Error("the table of the page has changed")
	}
}
