package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/chromium"
)

// TestBucketsPageUploads uploads several files at once and shows each file's state; a refused file does not stop the
// others. It also deletes selected rows by keyboard, and aborts a multipart upload.
func TestBucketsPageUploads(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	p, objects := c.p, c.base+"buckets/objects?account=main&bucket=pictures"
	client := s3{t, c.s.S3(t)}
	client.want(http.StatusOK, http.MethodPut, "/pictures", nil)
	client.want(http.StatusOK, http.MethodPut, "/pictures/exists.txt", []byte("first"))
	dir := t.TempDir()
	write := func(name, body string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{write("a.txt", "a"), write("exists.txt", "second"), write("<b>.txt", strings.Repeat("b", 3<<20)), write("d.txt", "d"), write("e.txt", "e")}
	write("deep/inner/file.txt", "deep")
	drop := func(paths ...string) {
		at := chromium.Run[[]float64](t, p, `const r = $('main h1').getBoundingClientRect(); return [r.left + 10, r.top + 10]`)
		p.Drop(t, at[0], at[1], paths...)
	}
	p.Go(t, objects)
	drop(append(files, filepath.Join(dir, "deep"))...)
	const ended = `return !!await until(() => $('main > [role=status]:not(.notice)')?.textContent.includes('Uploaded 5 of 6, failed 1.'))`
	if !chromium.Run[bool](t, p, ended) {
		t.Fatal("the uploads did not end")
	}
	if failed := chromium.Run[string](t, p, `return $('.uploads .failed').textContent`); !strings.Contains(failed, "exists.txt") || !strings.Contains(failed, "an object with this name exists") {
		t.Errorf("the refused file shows %q", failed)
	}
	for name, body := range map[string]string{"a.txt": "a", "exists.txt": "first", "deep/inner/file.txt": "deep"} {
		if got := client.want(http.StatusOK, http.MethodGet, "/pictures/"+name, nil); string(got) != body {
			t.Errorf("%s has %q", name, got)
		}
	}

	p.Go(t, objects)
	p.Resize(t, 1280, 800)
	for _, v := range chromium.NewAxe(t).Violations(t, p) {
		t.Errorf("the objects: %s", v)
	}
	rows := chromium.Run[[]string](t, p, `return all('main tbody tr td:nth-child(2)').map(e => e.textContent.trim())`)
	if want := "deep/ <b>.txt a.txt d.txt e.txt exists.txt"; strings.Join(rows, " ") != want {
		t.Errorf("rows %q, want %s", rows, want)
	}
	p.TabTo(t, "th.choice input")
	p.Press(t, "th.choice input", " ")
	if says := chromium.Run[string](t, p, `return $('.chosen').textContent`); says != "6 selected" {
		t.Errorf("the bar shows %q", says)
	}
	p.Resize(t, 390, 800)
	p.Resize(t, 1280, 800)
	chromium.Run[bool](t, p, `all('.bulk summary').at(-1).focus(); return true`)
	p.Press(t, ".bulk details:last-of-type summary", "Enter")
	chromium.Run[bool](t, p, `return !!await until(() => $('.bulk button.danger').checkVisibility())`)
	p.Press(t, ".bulk details:last-of-type summary", "Tab")
	p.AwaitFocus(t, ".bulk button.danger")
	p.Await(t, func() { p.Press(t, ".bulk button.danger", "Enter") })
	if says := chromium.Run[string](t, p, `return $('main').textContent`); !strings.Contains(says, "Deleted 6 objects.") || !strings.Contains(says, "There are no objects here.") {
		t.Errorf("after the deletion the page shows %s", says)
	}

	client.want(http.StatusOK, http.MethodPost, "/pictures/a/video.mp4?uploads=", nil)
	p.Go(t, c.base+"buckets/uploads?account=main&bucket=pictures")
	c.submit(step{button: "Abort"})
	if says := chromium.Run[string](t, p, `return $('main').textContent`); !strings.Contains(says, "Aborted the upload of a/video.mp4.") {
		t.Errorf("after the upload the page shows %s", says)
	}
	p.Go(t, c.base+"buckets/buckets")
	for _, problem := range p.Problems() {
		if !strings.Contains(problem, "409") {
			t.Error(problem)
		}
	}
}
