package e2e

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// TestConsoleOnEngines changes many objects and records at once, causes an edit conflict, and cancels an upload.
func TestConsoleOnEngines(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "PostgreSQL shows the same")
		consoleOn(t, testdb.SQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testdb.PostgresDatabase(t)
		vars := []string{"SYNC_MASTER_SECRET=shared"}
		for _, service := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS"} {
			vars = append(vars, "HOLDFAST_"+service+"__DATABASE_URL="+url)
		}
		data := t.TempDir()
		binary.Migrate(t, data, vars...)
		consoleOn(t, data, vars...)
	})
}

func consoleOn(t *testing.T, data string, vars ...string) {
	t.Helper()
	s := binary.Start(t, data, append(vars, "HOLDFAST_BUCKETS__INLINE=0")...)
	p := chromium.Start(t).Open(t, s.Admin+"/console/")
	p.SetCookie(t, s.Admin, consoleCookie(t, s))
	e := bookings(t, s)
	place := "?tenant=" + consoleTenant + "&install=" + consoleInstall + "&namespace=bookings"
	conflictOfRecord(t, p, e, s.Admin+"/console/extstorage/record"+place+"&key=booking-0001")
	deleteChosen(t, p, e, s.Admin+"/console/extstorage/records"+place)

	c := s3{t, s.S3(t)}
	c.want(http.StatusOK, http.MethodPut, "/pictures", nil)
	objects := s.Admin + "/console/buckets/objects?account=main&bucket=pictures"
	changeChosen(t, p, c, objects)
	cancelUpload(t, p, c, s, objects)
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("page problems:\n%s", strings.Join(problems, "\n"))
	}
}

func conflictOfRecord(t *testing.T, p *chromium.Page, e extension, record string) {
	t.Helper()
	p.Go(t, record)
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/booking-0001", `{"value":{"title":"Theirs","price":120}}`)
	save := func(button, want string) {
		t.Helper()
		chromium.Run[bool](t, p, `const v = $('form[action$="do=save"] textarea'); v.value = arguments[0]; return true`, `{"title":"Ours","price":99}`)
		p.Await(t, func() {
			chromium.Run[bool](t, p, `all('form[action$="do=save"] button').find(b => b.textContent === arguments[0]).click(); return true`, button)
		})
		if text := chromium.Run[string](t, p, `return $('main').innerText`); !strings.Contains(text, want) {
			t.Errorf("after %s the page has no %q:\n%s", button, want, text)
		}
	}
	save("Save", "Nothing was saved, because the record was changed")
	if row := chromium.Run[string](t, p, `return $('main tbody').innerText`); !strings.Contains(row, "Theirs") || !strings.Contains(row, "Ours") {
		t.Errorf("the difference is %q", row)
	}
	save("Replace the stored record", "Saved revision 3.")
}

func changeChosen(t *testing.T, p *chromium.Page, c s3, objects string) {
	t.Helper()
	for _, name := range []string{"a.txt", "b.txt", "old/c.txt", "old/d.txt"} {
		c.want(http.StatusOK, http.MethodPut, "/pictures/"+name, []byte(name))
	}
	choose := func(page, do, folder, want string) {
		t.Helper()
		p.Go(t, page)
		p.Await(t, func() {
			chromium.Run[bool](t, p, `$('th.choice input').click();
				const button = $('.bulk button[formaction$="do=' + arguments[0] + '"]');
				button.closest('details').querySelector('summary').click();
				if (arguments[1]) button.form.elements['to-folder'].value = arguments[1];
				button.click(); return true`, do, folder)
		})
		if text := chromium.Run[string](t, p, `return $('main').innerText`); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	names := func() string {
		t.Helper()
		var all []string
		for name := range c.objects("pictures") {
			all = append(all, name)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	choose(objects, "move-chosen", "new", "Moved 4 objects.")
	if got := names(); got != "new/a.txt new/b.txt new/old/c.txt new/old/d.txt" {
		t.Errorf("after the move: %s", got)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "/pictures/new/old/c.txt", nil); string(got) != "old/c.txt" {
		t.Errorf("the moved object has %q", got)
	}
	choose(objects, "delete-chosen", "", "Deleted 4 objects.")
	if got := names(); got != "" {
		t.Errorf("after the deletion: %s", got)
	}
}

func cancelUpload(t *testing.T, p *chromium.Page, c s3, s *binary.Server, objects string) {
	t.Helper()
	body := bytes.Repeat([]byte("0123456789abcdef"), 4<<16)
	file := filepath.Join(t.TempDir(), "large.bin")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Go(t, objects)
	drop := func() {
		t.Helper()
		at := chromium.Run[[]float64](t, p, `const r = $('main h1').getBoundingClientRect(); return [r.left + 10, r.top + 10]`)
		p.Drop(t, at[0], at[1], file)
	}
	stored := func() (all []string) {
		t.Helper()
		err := filepath.WalkDir(filepath.Join(s.Data, "buckets"), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				all = append(all, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := stored()
	p.Throttle(t, 512<<10)
	drop()
	for end := time.Now().Add(binary.Bound); slices.Equal(stored(), before); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server stored no part of the upload")
		}
	}
	says := chromium.Run[string](t, p, `await until(() => $('.uploads progress')?.value > 0); $('.uploads button').click();
		return $('.upload-state').textContent + ': ' + await until(() => $('main > [role=status]:not(.notice)').textContent)`)
	if says != "canceled: Uploaded 0 of 1, canceled 1." {
		t.Errorf("after the upload the page says %q", says)
	}
	for end := time.Now().Add(binary.Bound); !slices.Equal(stored(), before); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("files after the upload: %q, before: %q", stored(), before)
		}
	}
	if got := c.objects("pictures"); len(got) != 0 {
		t.Errorf("the bucket contains %v", got)
	}
	p.Throttle(t, -1)
	drop()
	chromium.Run[bool](t, p, `return !!await until(() => $('main > [role=status]:not(.notice)').textContent.startsWith('Uploaded 1 of 2, canceled 1.'))`)
	if got := c.want(http.StatusOK, http.MethodGet, "/pictures/large.bin", nil); !bytes.Equal(got, body) {
		t.Errorf("the object has %d bytes", len(got))
	}
}
