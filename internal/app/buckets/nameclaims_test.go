package buckets

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
)

// TestNames follows a plain name through all its states, as operators see it.
func TestNames(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "a body")
	o := newOperator(t, s)
	o.send(201, "", "POST", "/buckets/accounts/other/create", "")
	o.send(200, `{"names":[],"next":null}`, "GET", "/buckets/names", "")
	o.send(404, "no bucket claims the name", "POST", "/buckets/names/photos/free", "")
	if text := o.send(200, "", "GET", "/buckets/buckets/main/photos", "").Text; strings.Contains(text, "sharedAs") {
		t.Errorf("a private bucket: %s", text)
	}
	o.send(200, "", "POST", "/buckets/buckets/main/photos/set-access", `{"access":"public-read"}`)
	o.send(200, `"sharedAs":"photos"`, "GET", "/buckets/buckets/main/photos", "")
	o.send(200, `{"names":[{"name":"photos","account":"main","state":"claimed","since":"`, "GET", "/buckets/names", "")

	o.send(201, "", "POST", "/buckets/buckets/other/photos/create", "")
	notice := func(want string, change func() (bucketChange, error)) {
		t.Helper()
		c, err := change()
		if err != nil || !strings.Contains(c.Notice(), want) || want == "" && strings.Contains(c.Notice(), ";") {
			t.Errorf("the notice is %q, %v, want %q", c.Notice(), err, want)
		}
	}
	of := func(account string) bucketInput { return bucketInput{accountInput{account}, "photos"} }
	access := func(account, to string) func() (bucketChange, error) {
		return func() (bucketChange, error) { return s.setAccess(t.Context(), accessInput{of(account), to}) }
	}
	notice("others reach it as other:photos", access("other", accessPublic))
	notice("", access("main", accessPublic))
	notice("", access("other", accessPrivate))
	notice("others reach it as other:photos", func() (bucketChange, error) {
		return s.setPolicy(t.Context(), policyInput{of("other"), `{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}}`})
	})
	o.send(200, `"sharedAs":"other:photos"`, "GET", "/buckets/buckets/other/photos", "")
	wantNamesCheck(t, s, "1 plain name claimed by public and shared buckets, 0 resting",
		"bucket photos of account other is reached as other:photos only: the plain name means the bucket of account main")

	notice("", access("main", accessPrivate))
	o.send(200, `"account":"main","state":"resting","since":"`, "GET", "/buckets/names", "")
	wantNamesCheck(t, s, "0 plain names claimed by public and shared buckets, 1 resting",
		"bucket photos of account other is reached as other:photos only: the plain name rests until ")
	o.send(200, `"state":"resting"`, "POST", "/buckets/names/photos/free", "")
	wantNamesCheck(t, s, "0 plain names claimed by public and shared buckets, 0 resting")
	notice("", access("other", accessPublic))
	o.send(200, `"sharedAs":"photos"`, "GET", "/buckets/buckets/other/photos", "")

	// Freeing a claim leaves the bucket public.
	freed, err := s.freeName(t.Context(), nameInput{"photos"})
	if want := "freed the name photos: bucket photos of account other is reached as other:photos"; err != nil || freed.Notice() != want {
		t.Errorf("%q, %v, want %q", freed.Notice(), err, want)
	}
	o.send(200, `"sharedAs":"other:photos"`, "GET", "/buckets/buckets/other/photos", "")
	notice("", access("main", accessPublic))
	o.send(200, `"sharedAs":"photos"`, "GET", "/buckets/buckets/main/photos", "")

	// The sweep removes rested names, and nothing else.
	notice("", access("main", accessPrivate))
	wantSwept(t, s, time.Now().Add(29*24*time.Hour), 0)
	wantSwept(t, s, time.Now().Add(31*24*time.Hour), 1)
	o.send(200, `{"names":[],"next":null}`, "GET", "/buckets/names", "")
}

// wantNamesCheck wants findings about names that start with these texts, and are all OK.
func wantNamesCheck(t *testing.T, s *Buckets, want ...string) {
	t.Helper()
	found, err := s.inspectNames(t.Context())
	var got []string
	for _, f := range found {
		if f.State != service.OK {
			t.Errorf("a tenant causes %s: %s", f.State, f.Says)
		}
		got = append(got, f.Says)
	}
	if err != nil || !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("the check says %q, %v, want %q", got, err, want)
	}
}

// wantSwept runs the job that removes rested names, and wants it to remove this many.
func wantSwept(t *testing.T, s *Buckets, now time.Time, want int) {
	t.Helper()
	for _, job := range s.jobs() {
		if job.Name == "plain names of buckets" {
			if n, err := job.Run(t.Context(), now, 10); err != nil || n != want {
				t.Errorf("the sweep has removed %d names, %v, want %d", n, err, want)
			}
			return
		}
	}
	t.Error("no sweep removes names")
}
