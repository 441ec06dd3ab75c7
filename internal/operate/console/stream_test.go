package console_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type drawn struct {
	Text string `json:"text"`
}

func (d drawn) Notice() string { return "drawn " + d.Text }

func studio() []operate.Operation {
	return append(house()[:2],
		operate.NewDownload(operate.About{Path: "walls/plan", Access: operate.ForViewers, Doc: "Get the plan", Button: "Download plan", Media: "text/plain", Memory: 7}, func(_ context.Context, in oneWall, _ operate.Progress) (operate.File, error) {
			if in.Wall == "none" {
				return operate.File{}, errcode.New(errcode.NotFound, "there is no such wall")
			}
			return operate.File{Name: in.Wall, Size: 1, Write: func(w io.Writer) error {
				_, err := io.WriteString(w, in.Wall)
				return err
			}}, nil
		}),
		operate.NewDownload(operate.About{Path: "walls/plans", Access: operate.ForAdmins, Doc: "Get all plans", Media: "text/plain", Secret: true}, func(context.Context, operate.None, operate.Progress) (operate.File, error) {
			return operate.File{}, nil
		}),
		operate.NewUpload(operate.About{Path: "walls/draw", Doc: "Draw", Media: "text/plain", Largest: 8}, func(_ context.Context, in oneWall, body operate.Body, _ operate.Progress) (drawn, error) {
			text, err := io.ReadAll(body)
			return drawn{in.Wall + string(text)}, err
		}),
	)
}

func TestStreamPages(t *testing.T) {
	t.Parallel()
	pages := map[string]service.Page{}
	for _, p := range console.Pages(nil, studio()) {
		pages[p.Path] = p
	}
	list, read, plan, plans := pages["walls"], pages["walls/show"], pages["walls/plan"], pages["walls/plans"]
	all := &service.Links{All: []service.Link{{Text: "Plans", To: "walls/plans"}}}
	if blocks := show(t, &list, nil).Blocks; !reflect.DeepEqual(blocks[len(blocks)-1], all) {
		t.Errorf("the list: %s", dump(blocks))
	}
	want := []service.Block{
		&service.Links{All: []service.Link{{Text: "Download plan", To: "walls/plan?wall=a"}, all.All[0]}},
		&service.Form{Page: "walls", Action: "draw", Submit: "Draw", Keep: map[string]string{"wall": "a"}, Fields: []service.Field{{Name: "file", Label: "File", File: true, One: true}}},
	}
	if blocks := show(t, &read, url.Values{"wall": {"a"}}).Blocks; !reflect.DeepEqual(blocks[1:], want) {
		t.Errorf("the read: %s", dump(blocks))
	}
	var text strings.Builder
	f, err := plan.Send(t.Context(), &service.PageRequest{Values: url.Values{"wall": {"a"}}})
	if err == nil {
		err = f.Write(&text)
	}
	if err != nil || text.String() != "a" || f.Name != "a" || f.Size != 1 || plan.Listed || plan.Access != operate.ForViewers || plan.Memory != 7 || plans.Access != operate.ForAdmins {
		t.Errorf("%+v, %q, %v", plan, &text, err)
	}
	if _, err := plan.Send(t.Context(), &service.PageRequest{Values: url.Values{"wall": {"none"}}}); !errcode.Is(err, errcode.NotFound) {
		t.Errorf("%v", err)
	}
}

// TestUploadAction checks that an upload takes a single file, and fails if the file is truncated.
func TestUploadAction(t *testing.T) {
	t.Parallel()
	draw := console.Pages(nil, studio())[0].Actions[0]
	if draw.Name != "draw" || !draw.Uploads || draw.Reads {
		t.Fatalf("%+v", draw)
	}
	for name, c := range map[string]struct {
		file io.Reader
		says string
	}{
		"a file": {strings.NewReader("bricks"), ""}, "none": {nil, "choose a file"}, "too large": {strings.NewReader("123456789"), "the file is larger than 8 bytes"},
		"cut": {io.MultiReader(strings.NewReader("br"), failing{}), "cut"},
	} {
		o, err := draw.Run(t.Context(), &service.PageRequest{Values: url.Values{"wall": {"a"}}, NextFile: func() (*service.Upload, error) {
			if c.file == nil {
				return nil, io.EOF
			}
			return &service.Upload{Name: "x", Body: c.file}, nil
		}})
		if (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || err == nil && o.Notice != "drawn abricks" {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("cut") }
