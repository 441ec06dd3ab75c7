package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
)

// FuzzPrecondition checks that an accepted header is a number that survives formatting.
func FuzzPrecondition(f *testing.F) {
	for _, v := range []string{"0", "0.00", "1790000000.12", "2.01", ".5", "1.", "", ".", "-1", "nan", "inf", "1e3", " 1 ", "1,5", "99999999999999999999999", "1.999999999", "1_0", "0x1p3"} {
		f.Add(v, "")
		f.Add("", v)
		f.Add(v, v)
	}
	f.Fuzz(func(t *testing.T, modified, unmodified string) {
		h := http.Header{}
		if modified != "" {
			h.Set("X-If-Modified-Since", modified)
		}
		if unmodified != "" {
			h.Set("X-If-Unmodified-Since", unmodified)
		}
		p, err := precondition(h)
		if err != nil {
			return
		}
		if modified != "" && unmodified != "" || p.ModifiedSince.Set != (modified != "") || p.UnmodifiedSince.Set != (unmodified != "") {
			t.Fatalf("%q and %q are taken as %+v", modified, unmodified, p)
		}
		for _, c := range []struct {
			text string
			got  ss.Optional[ss.Timestamp]
		}{{modified, p.ModifiedSince}, {unmodified, p.UnmodifiedSince}} {
			if !c.got.Set {
				continue
			}
			ts := c.got.Value
			if v, err := strconv.ParseFloat(strings.TrimSpace(c.text), 64); err != nil || ts < 0 || ts > ss.MaxTimestamp ||
				v < float64(ss.MaxTimestamp)/1000 && (float64(ts)/1000 > v+0.001 || float64(ts)/1000 < v-0.011) {
				t.Fatalf("%q is taken as %s", c.text, ts)
			}
			if again, ok := ss.ParseTimestamp(ts.String()); !ok || again != ts {
				t.Fatalf("%q is taken as %s and then as %s", c.text, ts, again)
			}
		}
	})
}

// FuzzAccept checks that adding an acceptable type never makes a header unacceptable.
func FuzzAccept(f *testing.F) {
	for _, v := range []string{"", "*/*", "application/json", "application/newlines", "application/newlines;q=0.9, application/json;q=0.8", "application/*;q=0.1", "text/plain", ";q=", ",,",
		"application/json;q=NaN", "application/json;q=-1", "application/json;q=1e-400", "*/*;q=0, application/newlines", "application/json; q = 1"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		form, ok := negotiate(http.Header{"Accept": {accept}})
		json, lines := quality(accept, typeJSON), quality(accept, typeNewlines)
		if strings.TrimSpace(accept) == "" {
			json = 1
		}
		for _, q := range []float64{json, lines} {
			if !(q >= 0 && q <= 1) {
				t.Fatalf("%q has the quality %v", accept, q)
			}
		}
		want := asJSON
		if lines > json {
			want = asLines
		}
		if ok != (json > 0 || lines > 0) || ok && form != want {
			t.Fatalf("%q: %+v, %v", accept, form, ok)
		}
		if !strings.Contains(strings.ToLower(accept), "application/newlines") {
			form, ok := negotiate(http.Header{"Accept": {"application/newlines", accept}})
			if !ok || json < 1 && form != asLines {
				t.Fatalf("application/newlines, %q: %+v, %v", accept, form, ok)
			}
		}
	})
}

func FuzzRoute(f *testing.F) {
	for _, p := range []string{
		"/1.5/1", "/1.5/1/storage", "/1.5/1/info/collections", "/1.5/1/info/quota", "/1.5/1/info/configuration", "/storage/1.5/1/storage/toys", "/1.5/1/storage/toys/a", "/1.5/1/storage/toys/%7Bguid%7D",
		"/1.5/1/storage/toys/..", "/1.5/1/storage/toys/a%2Fb", "/1.5/1/storage/toys/%00", "/1.5/1/storage/toys/%zz", "/1.5//storage", "/1.5/-0", "/1.5/0001", "/1.5", "", "/", "/1.5/99999999999", "/1.5/1/storage/toys/%",
		"/1.5/1/%73torage/t%6Fys/ ",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		rt := parseRoute(path)
		label := Label(path)
		if rt.resource == nothing {
			if label != "unknown" && label != "other" {
				t.Fatalf("%q has the label %q", path, label)
			}
			return
		}
		if !Owns(path) || label != rt.resource.String() || rt.uid < 0 || rt.uid > 9999999999 {
			t.Fatalf("%q: %+v, %q", path, rt, label)
		}
		if (rt.collection != "") != (rt.resource >= collection) || (rt.id != "") != (rt.resource == bso) ||
			rt.collection != "" && !ss.ValidCollection(rt.collection) || rt.id != "" && !ss.ValidID(rt.id) {
			t.Fatalf("%q: %+v", path, rt)
		}
		if built := build(rt); parseRoute(built) != rt {
			t.Fatalf("%q: %+v, and %q: %+v", path, rt, built, parseRoute(built))
		}
	})
}

func build(rt route) string {
	path := "/1.5/" + strconv.FormatInt(rt.uid, 10)
	switch rt.resource {
	case user:
		return path
	case collection:
		return path + "/storage/" + rt.collection
	case bso:
		return path + "/storage/" + rt.collection + "/" + url.PathEscape(rt.id)
	default:
		return path + "/" + rt.resource.String()
	}
}
