package operate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

type recordInput struct {
	Wall  string `subject:"wall" doc:"the wall"`
	Color string `flag:"color" doc:"the color"`
	Note  string `flag:"note" private:"" doc:"a note"`
	Pass  string `flag:"pass" doc:"opens the gate" secret:""`
	Dry   bool   `flag:"dry-run" doc:"without paint"`
}

func records() (all []operate.Operation, take func() string) {
	fail := func(in recordInput) error {
		if in.Wall == "none" {
			return errcode.New(errcode.NotFound, "no such wall")
		}
		return nil
	}
	file := func(_ context.Context, in recordInput, _ operate.Progress) (operate.File, error) {
		return operate.File{Name: in.Wall, Write: func(w io.Writer) error {
			_, err := io.WriteString(w, in.Wall)
			return err
		}}, fail(in)
	}
	change := func(_ context.Context, in recordInput) (wall, error) { return wall{Name: in.Wall}, fail(in) }
	var seen []string
	return operate.Recorded([]operate.Operation{
			operate.NewList(operate.About{Path: "walls", Doc: "List"}, func(context.Context, operate.None) ([]wall, error) { return nil, nil }),
			operate.NewRead(operate.About{Path: "walls/show", Doc: "Show"}, func(_ context.Context, in recordInput) (wall, error) { return wall{}, fail(in) }),
			operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint"}, change),
			operate.NewJob(operate.About{Path: "walls/wash", Doc: "Wash"}, func(ctx context.Context, in recordInput, _ operate.Progress) (wall, error) { return change(ctx, in) }),
			operate.NewUpload(operate.About{Path: "walls/draw", Doc: "Draw", Media: "text/plain", Largest: 8}, func(ctx context.Context, in recordInput, _ operate.Body, _ operate.Progress) (wall, error) {
				return change(ctx, in)
			}),
			operate.NewDownload(operate.About{Path: "walls/plan", Doc: "Get", Media: "text/plain"}, file),
			operate.NewDownload(operate.About{Path: "walls/safe", Doc: "Get", Media: "text/plain", Secret: true}, file),
			operate.NewChange(operate.About{Path: "walls/add", Doc: "Add"}, func(context.Context, operate.None) (wall, error) { return wall{Name: "new"}, nil }),
		}, func(_ context.Context, r operate.Record) { seen = append(seen, fmt.Sprint(r.Path, r.Inputs, r.Err)) }), func() string {
			defer func() { seen = nil }()
			return strings.Join(seen, "; ")
		}
}

type noWriter struct{}

func (noWriter) Write([]byte) (int, error) { return 0, errors.New("the client has left") }

// TestRecorded checks that each change and each download with secrets is recorded once, with its outcome and without
// secrets.
func TestRecorded(t *testing.T) {
	t.Parallel()
	all, take := records()
	for i := range all {
		o := &all[i]
		run := func(values map[string]string, to io.Writer) {
			values["color"], values["note"], values["pass"] = "red", "a note", "sesame"
			if o.Kind == operate.Upload {
				_, _ = o.Upload(t.Context(), values, operate.Body{Reader: strings.NewReader("x")}, nil)
			} else if r, err := o.Run(t.Context(), values, nil); err == nil && r.File != nil {
				_ = r.File.Send(to)
			}
		}
		want := func(text string) {
			t.Helper()
			if o.Path == "walls/add" {
				text = "walls/add[{wall new}] <nil>"
			} else if !o.Kind.Changes() && !o.Secret {
				text = ""
			}
			if got := take(); got != text {
				t.Errorf("%s, want %s", got, text)
			}
		}
		run(map[string]string{"wall": "a"}, io.Discard)
		want(o.Path + "[{wall a} {color red}] <nil>")
		run(map[string]string{"wall": "none"}, io.Discard)
		want(o.Path + "[{wall none} {color red}] no such wall")
		run(map[string]string{}, io.Discard)
		want(o.Path + "[{wall } {color red}] wall: must not be empty")
		run(map[string]string{"wall": "a", "dry-run": "true"}, io.Discard)
		want(o.Path + "[{wall a} {color red} {dry-run true}] <nil>")
		if o.Kind == operate.Download {
			run(map[string]string{"wall": "a"}, noWriter{})
			want(o.Path + "[{wall a} {color red}] the client has left")
		}
	}
}

func TestRecordedJob(t *testing.T) {
	t.Parallel()
	s := newSite()
	var seen []string
	s.all = operate.Recorded(s.all, func(_ context.Context, r operate.Record) { seen = append(seen, fmt.Sprint(r.Path, r.Inputs, r.Err)) })
	s.begin(t)
	job := &s.all[0]
	if _, err := job.Start(t.Context(), map[string]string{"left": "0", "pass": "sesame"}); err != nil {
		t.Fatal(err)
	}
	<-s.progress
	s.end <- nil
	s.await(t)
	if _, err := job.Start(t.Context(), map[string]string{"left": "x"}); err == nil {
		t.Error("a wrong value starts a job")
	}
	if got := strings.Join(seen, "; "); got != "houses/build[{left 0}] <nil>; houses/build[{left x}] left: expected a whole number" {
		t.Error(got)
	}
}
