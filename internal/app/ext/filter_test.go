package ext_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extapp "holdfast/internal/app/ext"
	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

type filtered struct {
	keys     []string
	searched int
	text     string
	next     string
	empty    string
}

func (p *operator) filterRecords(values url.Values) (f filtered, err error) {
	p.t.Helper()
	at := slices.IndexFunc(p.pages, func(page service.Page) bool { return page.Path == "records" })
	view, err := p.pages[at].Show(p.t.Context(), &service.PageRequest{Values: values})
	if err != nil {
		return f, err
	}
	for _, b := range view.Blocks {
		switch b := b.(type) {
		case *service.Table:
			for _, row := range b.Rows {
				f.keys = append(f.keys, row[0].Text)
			}
			f.next, f.empty = b.Next, b.Empty
			if len(b.Bulk.Keys) > ext.MaxPage {
				p.t.Errorf("a page has %d rows", len(b.Bulk.Keys))
			}
		case *service.Facts:
			for _, fact := range b.Rows {
				if fact.Name == "Searched" {
					f.text = fact.Text
					_, _ = fmt.Sscan(fact.Text, &f.searched)
				}
			}
		}
	}
	return f, nil
}

func (p *operator) allFiltered(values url.Values) (keys []string, searched int) {
	p.t.Helper()
	for {
		page, err := p.filterRecords(values)
		if err != nil {
			p.t.Fatal(err)
		}
		if page.searched > 10_000 || page.empty != "No record matches." {
			p.t.Errorf("%v: a page searched %q and says %q", values, page.text, page.empty)
		}
		if isLast := strings.HasSuffix(page.text, "the end of the list"); isLast != (page.next == "") {
			p.t.Errorf("%v: a page with the next one %q says %q", values, page.next, page.text)
		}
		keys, searched = append(keys, page.keys...), searched+page.searched
		if page.next == "" {
			return keys, searched
		}
		values.Set("after", page.next)
	}
}

func keysOf(n int, prefix string, is func(i int) bool) (keys []string) {
	for i := range n {
		if key := fmt.Sprintf("%05d", i); is(i) && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

const insertRecords = "INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq, created_at, updated_at, value_bytes, metadata_bytes, metadata, value)"

func (p *operator) fill(o ext.Owner, n int, value func(i int) string) {
	p.t.Helper()
	now := "1"
	if strings.HasSuffix(p.t.Name(), "postgres") {
		now = "now()"
	}
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("('%s', '%s', 'rooms', '%05d', 1, 1, %s, %s, 150, 2, '{}', '%s')", o.Tenant, o.Install, i, now, now, value(i))
	}
	p.damage(p.t, insertRecords+" VALUES "+strings.Join(rows, ","))
}

// TestFilterRecords checks that a filter's pages contain each matching record once and in order, and that no page
// exceeds its limits.
func TestFilterRecords(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		const all = 10_500
		o := owned(1, 1)
		p.t = t
		p.fill(o, all, func(i int) string {
			switch {
			case i%1000 == 0:
				return fmt.Sprintf(`{"a/b":{"c":[%d]}}`, i%3)
			case i%500 == 0:
				return `"text"`
			}
			return fmt.Sprintf(`{"n":%d.5,"open":%t,"tag":"%d","title":"Room %d"}`, i, i%2 == 0, i%40, i)
		})
		for _, c := range []struct {
			property, equals, prefix string
			is                       func(i int) bool
		}{
			{"open", "true", "", func(i int) bool { return i%2 == 0 && i%500 != 0 }},
			{"open", "false", "00", func(i int) bool { return i%2 == 1 && i < 1000 }},
			{"tag", "7", "", func(i int) bool { return i%40 == 7 }},
			{"tag", `"7"`, "", func(i int) bool { return i%40 == 7 }},
			{"tag", "7.0", "", func(int) bool { return false }},
			{"n", " 10399.50 ", "", func(i int) bool { return i == 10_399 }},
			{"title", "Room 4499", "", func(i int) bool { return i == 4499 }},
			{"title", "Room", "", func(int) bool { return false }},
			{"title", "", "", func(i int) bool { return i%500 == 0 }},
			{"/a~1b/c/0", "1", "", func(i int) bool { return i%1000 == 0 && i%3 == 1 }},
			{"/a~1b", `{ "c": [2] }`, "", func(i int) bool { return i%1000 == 0 && i%3 == 2 }},
			{"a/b", "", "", func(i int) bool { return i%1000 != 0 }},
			{"none", "x", "9", func(int) bool { return false }},
		} {
			want := keysOf(all, c.prefix, c.is)
			got, searched := p.allFiltered(url.Values{
				"tenant": {string(o.Tenant)}, "install": {string(o.Install)}, "namespace": {"rooms"},
				"property": {c.property}, "equals": {c.equals}, "prefix": {c.prefix},
			})
			if !slices.Equal(got, want) {
				t.Errorf("%+v finds %d records %v, want %d", c, len(got), got[:min(len(got), 10)], len(want))
			}
			if searched != all && c.prefix == "" {
				t.Errorf("%+v searched %d keys", c, searched)
			}
		}
		for property, says := range map[string]string{"": "name the property", "/~2": "property: "} {
			_, err := p.filterRecords(url.Values{"tenant": {string(o.Tenant)}, "install": {string(o.Install)}, "namespace": {"rooms"}, "property": {property}, "equals": {"1"}})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("the property %q: %v", property, err)
			}
		}
	})
}

// TestFilterMillion checks that any page of a filter takes at most 200 ms in a namespace with a million records.
func TestFilterMillion(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it stores a million records")
	const value = `'{"n":' || i || '.5,"open":false,"note":"` + "a record of an ordinary size, which has a few properties and a short text, such as this one" + `"}'`
	onEachEngine(t, func(t *testing.T, p operator) {
		p.t = t
		o := owned(1, 1)
		row := fmt.Sprintf("'%s', '%s', 'rooms'", o.Tenant, o.Install)
		if strings.HasSuffix(t.Name(), "sqlite") {
			p.damage(t, insertRecords+" WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999) SELECT "+row+", printf('%07d', i), 1, 1, 1, 1, 150, 2, '{}', "+value+" FROM n")
		} else {
			p.damage(t, insertRecords+" SELECT "+row+", lpad(i::text, 7, '0'), 1, 1, created, updated, 150, 2, '{}', ("+value+")::jsonb FROM generate_series(0, 999999) i, now() created, now() updated")
		}
		for _, prefix := range []string{"", "05", "09999"} {
			best, page := time.Hour, filtered{}
			for range 3 {
				start := time.Now()
				var err error
				page, err = p.filterRecords(url.Values{
					"tenant": {string(o.Tenant)}, "install": {string(o.Install)}, "namespace": {"rooms"}, "property": {"open"}, "equals": {"true"}, "prefix": {prefix},
				})
				if err != nil {
					t.Fatal(err)
				}
				best = min(best, time.Since(start))
			}
			t.Logf("%s: %v", page.text, best)
			if best > 200*time.Millisecond {
				t.Errorf("keys that begin with %q: a page took %v and searched %s", prefix, best, page.text)
			}
		}
	})
}

func TestFilterTime(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	start := time.Now()
	s := extapp.New()
	servicetest.Open(t, s.Service(), func(d *service.Deps) {
		d.Clock = func() time.Time { return start.Add(time.Duration(passed.Add(int64(10 * time.Millisecond)))) }
	})
	p := operator{t: t, pages: s.Pages()}
	const all = 2000
	o := owned(1, 1)
	r := ext.Request{Grant: ext.Grant{Owner: o, Every: ext.Modify}}
	for i := 0; i < all; i += 20 {
		var tasks []ext.Task
		for j := range 20 {
			tasks = append(tasks, ext.Task{Namespace: "rooms", Key: ext.Key(fmt.Sprintf("%05d", i+j)), Value: `{"open":false}`})
		}
		if _, err := s.Opened().BulkPut(t.Context(), r, tasks); err != nil {
			t.Fatal(err)
		}
	}
	values := url.Values{"tenant": {string(o.Tenant)}, "install": {string(o.Install)}, "namespace": {"rooms"}, "property": {"open"}, "equals": {"true"}}
	searched, pages := 0, 0
	for {
		page, err := p.filterRecords(values)
		if err != nil {
			t.Fatal(err)
		}
		searched, pages = searched+page.searched, pages+1
		if page.next == "" {
			break
		}
		values.Set("after", page.next)
	}
	if searched != all || pages < 2 {
		t.Errorf("%d pages searched %d keys", pages, searched)
	}
}
