package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// sevenToys returns a user with records a to g, a second apart, except that c and d share a stamp, and so do e and f.
// Their sortindexes are 3, none, -1, 3, none, 0 and 2.
func sevenToys(t *testing.T) *user {
	t.Helper()
	u := newUser(t)
	for _, body := range []string{
		`[{"id":"a","payload":"A","sortindex":3}]`,
		`[{"id":"b","payload":"B"}]`,
		`[{"id":"c","payload":"C","sortindex":-1},{"id":"d","payload":"D","sortindex":3}]`,
		`[{"id":"e","payload":"E"},{"id":"f","payload":"F","sortindex":0}]`,
		`[{"id":"g","payload":"G","sortindex":2}]`,
	} {
		u.post("/storage/toys", body).is(200)
		u.later(time.Second)
	}
	return u
}

func TestListing(t *testing.T) {
	t.Parallel()
	u := sevenToys(t)
	const newest, oldest, index = "gfedcba", "abcdefg", "dagfceb"
	for query, want := range map[string]string{
		"":                                     newest,
		"sort=newest":                          newest,
		"sort=oldest":                          oldest,
		"sort=index":                           index,
		"limit=3":                              "gfe",
		"limit=0":                              "",
		"limit=7":                              newest,
		"limit=10000":                          newest,
		"limit=4294967295":                     newest,
		"limit=2&offset=3":                     "dc",
		"offset=5":                             "ba",
		"offset=7":                             "",
		"offset=2147483647":                    "",
		"newer=0":                              newest,
		"newer=1790000002.12":                  "gfe",
		"newer=1790000002.11":                  "gfedc",
		"newer=1790000002.119999":              "gfedc", // the third decimal is dropped
		"older=1790000002.12":                  "ba",
		"older=1790000002.13":                  "dcba",
		"older=0":                              "",
		"newer=1790000000.12&older=1790000003": "dcb",
		"newer=99999999999999999999":           "",
		"older=99999999999999999999":           newest,
		"ids=a":                                "a",
		"ids=a,c,nobody,a":                     "ca",
		"ids=%20a%20,%20c%20,,":                "ca",
		"ids=a,b,c&sort=index":                 "acb",
		"ids=a,b,c&newer=1790000001":           "cb",
		"ids=a,b,c&limit=1":                    "c",
		"ids=A":                                "",
		"unknown=1&Sort=x&LIMIT=-1&ID=&commit=no&batch=x": newest,
		"sort=oldest&sort=x":                              oldest, // the first parameter applies
		"&&":                                              newest,
		"full":                                            newest, "full=": newest, "full=1": newest, "full=true": newest, "full=0": newest, "full=&sort=index": index,
	} {
		a := u.get("/storage/toys?"+query).is(200).has("Content-Type", "application/json")
		got := a.listed(strings.Contains(query, "full"))
		if strings.Join(got, "") != want {
			t.Errorf("%q lists %q; want %q", query, strings.Join(got, ""), want)
		}
		a.has("X-Weave-Records", fmt.Sprint(len(want))).has("X-Last-Modified", "1790000004.12")
	}
	u.get("/storage/toys?full&ids=b,f").is(200,
		`[{"id":"f","modified":1790000003.12,"payload":"F","sortindex":0},{"id":"b","modified":1790000001.12,"payload":"B"}]`)
	u.get("/storage/nothing?full").is(200, "[]").has("X-Last-Modified", "0.00").has("X-Weave-Records", "0")
	u.get("/info/collections").is(200, `{"toys":1790000004.12}`) // reading creates nothing
}

func (a *answer) listed(full bool) []string {
	a.t.Helper()
	if !full {
		return a.ids()
	}
	var list []record
	a.into(&list)
	ids := []string{}
	for _, r := range list {
		if r.Payload != strings.ToUpper(r.ID) {
			a.t.Errorf("%s: %+v", a.what, r)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func TestListingRefusesQuery(t *testing.T) {
	t.Parallel()
	u := sevenToys(t)
	many := strings.Repeat("a,", 100) + "a"
	for _, query := range []string{
		"sort=", "sort=Newest", "sort=random", "sort=newest%00",
		"limit=", "limit=-1", "limit=x", "limit=1.0", "limit=1e1", "limit=%201", "limit=4294967296", "limit=0x1", "limit=1_0",
		"newer=", "newer=-1", "newer=x", "newer=nan", "newer=inf", "newer=1e3", "newer=1,5", "newer=.", "newer=+1", "newer=0x1p1",
		"older=", "older=-0.01", "older=x", "older=NaN", "older=1.2.3",
		"offset=", "offset=-1", "offset=x", "offset=1.5", "offset=n", "offset=n_", "offset=n1", "offset=n1_", "offset=n1_%2B", "offset=n1_YQ%3D%3D",
		"offset=n-1_YQ", "offset=nx_YQ", "offset=z1_YQ", "offset=99999999999", "offset=n999999999999999999999_YQ", "offset=1790000000120%3A1", "offset=n1_/w",
		"offset=" + strings.Repeat("1", 200), "offset=o1790000000120_YQ", "offset=i3_YQ", "sort=oldest&offset=n1790000000120_YQ", "sort=index&offset=n1790000000120_YQ",
		"newer=1790000001&offset=n1790000000120_YQ", "older=1790000000&offset=n1790000000120_YQ",
		"ids=", "ids=,", "ids=%20", "ids=" + many, "ids=a," + strings.Repeat("b", 65), "ids=%C3%A9", "ids=a%00", "ids=a%0Ab",
		"full;limit=1", "%zz", "a=%", "limit=1%", "ids=%f", "limit=%ff",
	} {
		u.get("/storage/toys?"+query).is(400, "0")
	}
	u.get("/storage/toys?ids="+many[2:]).is(200, `["a"]`)
}

// TestPaging checks that pages contain every record once, even if others are written or deleted meanwhile.
func TestPaging(t *testing.T) {
	t.Parallel()
	for _, sort := range []string{"", "newest", "oldest", "index"} {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			u := sevenToys(t)
			query := url.Values{"full": {""}}
			if sort != "" {
				query.Set("sort", sort)
			}
			whole := u.get("/storage/toys?"+query.Encode()).is(200).has("X-Weave-Next-Offset", "").listed(true)
			for size := 1; size <= len(whole); size++ {
				query.Set("limit", fmt.Sprint(size))
				if got := u.pages(query, nil); !slices.Equal(got, whole) {
					t.Errorf("pages of %d: %q; want %q", size, got, whole)
				}
			}
			query.Set("limit", "2")
			got := u.pages(query, func(page []string) { u.delete("/storage/toys/" + page[0]).is(200) })
			if !slices.Equal(got, whole) {
				t.Errorf("pages while they shrink: %q; want %q", got, whole)
			}
		})
	}
}

func (u *user) pages(query url.Values, read func(page []string)) (all []string) {
	u.t.Helper()
	query = url.Values(map[string][]string(query))
	query.Del("offset")
	target := "/storage/toys?" + query.Encode()
	for next := target; ; {
		a := u.get(next).is(200)
		page := a.listed(query.Has("full"))
		all = append(all, page...)
		offset := a.header.Get("X-Weave-Next-Offset")
		if offset == "" {
			return all
		}
		if offset != url.QueryEscape(offset) {
			u.t.Fatalf("the offset %q needs escaping", offset)
		}
		if read != nil {
			read(page)
		}
		next = target + "&offset=" + offset
	}
}

func TestLimitOfNothing(t *testing.T) {
	t.Parallel()
	u := sevenToys(t)
	next := u.get("/storage/toys?limit=0").is(200, "[]").header.Get("X-Weave-Next-Offset")
	if next == "" {
		t.Fatal("no next page")
	}
	u.get("/storage/toys?limit=1&offset="+next).is(200, `["g"]`)
	u.get("/storage/nothing?limit=0").is(200, "[]").has("X-Weave-Next-Offset", "")
}

func TestAccept(t *testing.T) {
	t.Parallel()
	u := sevenToys(t)
	const lines, json = "application/newlines", "application/json"
	for accept, want := range map[string]string{
		"": json, " ": json, "*/*": json, "application/*": json, json: json, "Application/JSON": json, json + ";charset=utf-8": json,
		lines: lines, lines + ";q=1.0": lines, "application/newlines ; q=0.1": lines, lines + "," + json: json, json + "," + lines: json,
		lines + ";q=0.9," + json + ";q=0.8": lines, lines + ";q=0.1, */*;q=0.2": json, lines + ", */*;q=0.2": lines, json + ";q=0.9,*/*;q=0.2": json,
		json + ";q=0, */*": lines, "*/*;q=0," + lines: lines, "text/html, " + lines + ";q=0.001": lines, "text/plain," + json + ";q=0.5": json,
		"text/plain": "", "text/*": "", "image/png, text/html": "", json + ";q=0": "", "*/*;q=0": "", json + ";q=x": "", json + ";q=NaN": "", json + ";q=2": "", json + ";q=-1": "",
		",": "", ";": "", "*": "", "application/jsonx": "", "/": "",
	} {
		a := u.get("/storage/toys?sort=oldest", "Accept: "+accept)
		switch want {
		case "":
			a.is(406, "0").has("X-Weave-Records", "")
		case json:
			a.is(200, `["a","b","c","d","e","f","g"]`).has("Content-Type", json)
		case lines:
			a.is(200, "\"a\"\n\"b\"\n\"c\"\n\"d\"\n\"e\"\n\"f\"\n\"g\"\n").has("Content-Type", lines)
		}
	}
	u.get("/storage/toys", "Accept: text/html", "Accept: "+lines).is(200).has("Content-Type", lines)
	u.get("/storage/toys?full&ids=a,b&sort=oldest", "Accept: "+lines).is(200,
		`{"id":"a","modified":1790000000.12,"payload":"A","sortindex":3}`+"\n"+`{"id":"b","modified":1790000001.12,"payload":"B"}`+"\n").
		has("X-Weave-Records", "2")
	u.get("/storage/nothing", "Accept: "+lines).is(200, "").has("Content-Type", lines).has("X-Weave-Records", "0")
	u.get("/storage/toys/a", "Accept: text/html").is(200).has("Content-Type", json)
	u.get("/info/collections", "Accept: text/html").is(200).has("Content-Type", json)
}
