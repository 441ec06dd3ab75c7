package operate_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

type plan struct {
	Wall string `subject:"wall" doc:"name of the wall"`
}

type read struct {
	Text string `json:"text"`
}

func (r read) Notice() string { return "read " + r.Text }

var errCut = errors.New("the connection was cut")

// TestDownload checks that the file is written only after validation.
func TestDownload(t *testing.T) {
	t.Parallel()
	o := operate.NewDownload(operate.About{Path: "walls/plan", Doc: "Get the plan", Media: "text/plain"}, func(_ context.Context, in plan, p operate.Progress) (operate.File, error) {
		f := operate.File{Name: in.Wall + ".txt", Size: 4, Write: func(w io.Writer) error {
			p.Report(1, 2)
			_, err := io.WriteString(w, in.Wall)
			return err
		}}
		switch in.Wall {
		case "none":
			return f, errcode.New(errcode.NotFound, "there is no such wall")
		case "cut":
			f.Write = func(io.Writer) error { return errCut }
		case "any size":
			f.Size = 0
		}
		return f, nil
	})
	if o.Kind.Changes() || o.Media != "text/plain" {
		t.Errorf("%+v", o)
	}
	for wall, want := range map[string]string{
		"wall": "", "any size": "", "cut": errCut.Error(), "short wall": "short wall.txt: 4 of 10 bytes", "w": "w.txt: 4 of 1 bytes", "none": "there is no such wall", "": "wall: must not be empty",
	} {
		var out strings.Builder
		r, err := o.Run(t.Context(), map[string]string{"wall": wall}, nil)
		if err == nil {
			err = r.File.Send(&out)
		}
		if (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && out.String() != wall {
			t.Errorf("%s: %q, %v, want %q", wall, &out, err, want)
		}
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	begun := 0
	o := operate.NewUpload(operate.About{Path: "walls/draw", Doc: "Draw", Media: "text/plain", Largest: 8}, func(_ context.Context, _ plan, body operate.Body, _ operate.Progress) (read, error) {
		begun++
		text, _ := io.ReadAll(body)
		return read{string(text)}, nil
	})
	if !o.Kind.Changes() {
		t.Error("an upload is no change")
	}
	for name, c := range map[string]struct {
		body   operate.Body
		says   string
		begins bool
	}{
		"a file":               {operate.Body{Reader: strings.NewReader("12345678"), Size: 8}, "", true},
		"of an unknown size":   {operate.Body{Reader: iotest.OneByteReader(strings.NewReader("12345678"))}, "", true},
		"of an announced size": {operate.Body{Reader: strings.NewReader("123456789"), Size: 9}, "the file is larger than 8 bytes", false},
		"too large":            {operate.Body{Reader: iotest.OneByteReader(strings.NewReader("123456789"))}, "the file is larger than 8 bytes", true},
		"cut":                  {operate.Body{Reader: io.MultiReader(strings.NewReader("12"), iotest.ErrReader(errCut))}, errCut.Error(), true},
		"shorter than it says": {operate.Body{Reader: strings.NewReader("12"), Size: 3}, "the file ended after 2 of 3 bytes", true},
	} {
		begun = 0
		r, err := o.Upload(t.Context(), map[string]string{"wall": "a"}, c.body, nil)
		if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || (begun > 0) != c.begins || err == nil && r.Notice != "read 12345678" {
			t.Errorf("%s: %+v, %v, begun %d times", name, r, err, begun)
		}
	}
	begun = 0
	if _, err := o.Upload(t.Context(), nil, operate.Body{Reader: strings.NewReader("")}, nil); err == nil || begun > 0 {
		t.Errorf("without a wall: %v", err)
	}
	if _, err := o.Run(t.Context(), map[string]string{"wall": "a"}, nil); err == nil || err.Error() != "a file is required" {
		t.Errorf("without a file: %v", err)
	}
}

// TestWrongStreams checks that downloads and uploads require a content type, and that other operations refuse it.
func TestWrongStreams(t *testing.T) {
	t.Parallel()
	send := func(context.Context, plan, operate.Progress) (operate.File, error) { return operate.File{}, nil }
	take := func(context.Context, plan, operate.Body, operate.Progress) (read, error) { return read{}, nil }
	for name, declare := range map[string]func(){
		"no content type": func() { operate.NewDownload(operate.About{Path: "walls/plan", Doc: "Get"}, send) },
		"no largest file": func() { operate.NewUpload(operate.About{Path: "walls/draw", Doc: "Draw", Media: "text/plain"}, take) },
		"a read": func() {
			operate.NewRead(operate.About{Path: "walls/show", Doc: "Show", Media: "text/plain"}, func(context.Context, plan) (read, error) { return read{}, nil })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			declare()
		}()
	}
}
