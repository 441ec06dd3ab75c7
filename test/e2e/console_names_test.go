package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"holdfast/test/chromium"
)

// TestConsoleNamesWithLineBreaks deletes objects in a browser, which sends each line break of a form as CR LF: one by one,
// and as selected rows. A form that named another object would fail, or leave one.
func TestConsoleNamesWithLineBreaks(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	client := s3{t, c.s.S3(t)}
	client.want(http.StatusOK, http.MethodPut, "/pictures", nil)
	names := []string{"a\nb", "a\rb", "a\r\nb", "a\tb"}
	put := func() {
		for _, name := range names {
			client.want(http.StatusOK, http.MethodPut, "/pictures/"+url.PathEscape(name), []byte("x"))
		}
	}
	const bucket = "?account=main&bucket=pictures"
	put()
	for _, name := range names {
		shown := strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`).Replace(name)
		c.p.Go(t, c.base+"buckets/object"+bucket+"&object="+url.QueryEscape(name))
		text := c.submit(step{"", "Delete object", []string{"confirm", shown}, ""})
		if !strings.Contains(text, "Deleted object a") {
			t.Errorf("%q: %s", name, text)
		}
	}
	put()
	c.p.Go(t, c.base+"buckets/objects"+bucket)
	chromium.Run[bool](t, c.p, `const all = $('th input[type=checkbox]') ?? $('form.bulk input[type=checkbox]'); all.click(); return true`)
	if text := c.submit(step{"", "Delete the selected objects", nil, ""}); !strings.Contains(text, "Deleted 4 objects.") {
		t.Errorf("selected rows: %s", text)
	}
	if left := client.objects("pictures"); len(left) > 0 {
		t.Errorf("not deleted: %q", left)
	}
}
