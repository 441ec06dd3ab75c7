package conf

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func FuzzEnvironment(f *testing.F) {
	f.Add("HOLDFAST_SERVER__LISTEN", "hunter-two")
	f.Add("HOLDFAST_SYNC__COLLECTIONS__A__MAX_RECORDS", "9223372036854775808")
	f.Add("HOLDFAST_SERVER__GRACE", "-9223372036")
	f.Add("SYNC_STORE__LIMITS__MAX_POST_BYTES", "100")
	f.Add("HOLDFAST___", "__")
	f.Fuzz(func(t *testing.T, name, value string) {
		if strings.HasSuffix(name, "_FILE") {
			return // the fuzzer could name any file
		}
		o := Options{Environ: []string{name + "=" + value}, Aliases: aliases()}
		got := defaults()
		report, err := Load(got, o)
		if _, ok := errors.AsType[*Error](err); err != nil && !ok {
			t.Fatalf("%T %v", err, err)
		}
		// A word in a message may equal the value by chance.
		if said := lines(append(report.Warnings, report.Notes...), ""); len(value) > 8 && !strings.Contains(name, value) {
			if err != nil {
				said = append(said, err.Error())
			}
			// Only the value of a number, a duration or a boolean is shown, which is never a secret.
			if s := strings.Join(said, "\n"); strings.Contains(s, value) && !strings.Contains(s, ": invalid value ") {
				t.Fatalf("%s=%s is quoted: %s", name, value, s)
			}
		}
		if err != nil {
			return
		}
		again := defaults()
		if _, err := Load(again, o); err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("loaded %+v, again %+v, %v", got, again, err)
		}
		if changed := !reflect.DeepEqual(got, defaults()); changed && len(report.origins) != 1 {
			t.Fatalf("changed without an origin: %+v, %v", got, report.origins)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add("[server]\nlisten = \"a\"\n[sync.collections.x]\nmax_records = 1\n")
	f.Add("a.b.c = {d = {e = 1}, f = [{g = 2}]}\n[[sync]]\n\"\" = 1")
	f.Add("sync.collections.\"\".max_records = 1")
	f.Fuzz(func(t *testing.T, content string) {
		if strings.Contains(content, "_file") {
			return // the fuzzer could name any file
		}
		schema, root := schemaOf(defaults())
		l := &loader{schema: schema, root: root, report: Report{origins: map[string]string{}}}
		l.newLayer()
		l.readTOML("f", []byte(content))
		for _, p := range l.problems {
			if p.line == 0 || p.line > strings.Count(content, "\n")+1 {
				t.Fatalf("%q: a problem without a place: %s", content, p)
			}
		}
	})
}
