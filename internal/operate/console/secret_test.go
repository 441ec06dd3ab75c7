package console_test

import (
	"context"
	"net/url"
	"reflect"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type made struct {
	Name   string `json:"name" title:"Key" subject:"key"`
	Secret string `json:"secret" title:"Secret" secret:"The secret is shown only once." qr:"The secret as a QR code"`
}

func (made) Notice() string { return "" }
func (made) Note() string   { return "Write it down." }

type makeKey struct {
	Loud   bool     `flag:"loud" private:"" doc:"say it"`
	Rooms  []string `flag:"rooms" doc:"what it opens"`
	Old    string   `flag:"old" doc:"the old secret" secret:""`
	Hidden bool     `flag:"hidden" doc:"only of the command" local:""`
}

// TestSecret checks that a secret is shown instead of the page and is not logged, and that forms omit a command's own
// fields.
func TestSecret(t *testing.T) {
	t.Parallel()
	operations := []operate.Operation{
		operate.NewChange(operate.About{Path: "keys/create", Doc: "Create", Title: "Create a key"}, func(_ context.Context, in makeKey) (made, error) {
			if in.Hidden {
				t.Error("the console sets what only the command has")
			}
			return made{"k", "abc"}, nil
		}),
	}
	pages := console.Pages(nil, operations)
	if form, ok := show(t, &pages[0], nil).Blocks[0].(*service.Form); !ok || len(form.Fields) != 3 || form.Fields[0].Name != "loud" || !form.Fields[2].Secret {
		t.Errorf("%+v", form)
	}
	r := &service.PageRequest{Values: url.Values{"hidden": {"yes"}}}
	o, err := pages[0].Actions[0].Run(t.Context(), r)
	want := &service.View{Title: "Create a key", Blocks: []service.Block{
		&service.Notice{State: service.Warning, Text: "Write it down."},
		&service.Notice{State: service.Warning, Text: "The secret is shown only once."},
		&service.Text{Title: "Key", Body: "k", Copy: true}, &service.Text{Title: "Secret", Body: "abc", Copy: true},
		&service.QR{Text: "abc", Label: "The secret as a QR code"},
	}}
	if err != nil || o.Notice != "" || !reflect.DeepEqual(o.View, want) {
		t.Errorf("%+v, %v", o.View, err)
	}
	if names := logged(operations, "keys/create"); !reflect.DeepEqual(names, []string{"rooms", "key"}) || r.Value("key") != "k" {
		t.Errorf("logged: %v, %v", names, r.Values)
	}
}
