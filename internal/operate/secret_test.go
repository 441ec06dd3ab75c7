package operate_test

import (
	"context"
	"strings"
	"testing"

	"holdfast/internal/operate"
)

type minted struct {
	Key    string `json:"key" title:"Key" subject:"key"`
	Secret string `json:"secret" title:"Secret" secret:"It is shown only once."`
}

func (minted) Notice() string { return "" }

// TestSecret checks that only a change's result may contain a secret, which cannot be a subject.
func TestSecret(t *testing.T) {
	t.Parallel()
	type named struct {
		minted
		Token string `json:"token" title:"Token" subject:"token" secret:"It is shown only once."`
	}
	change := operate.NewChange(operate.About{Path: "keys/create", Doc: "Create"}, func(context.Context, operate.None) (minted, error) { return minted{"a", "b"}, nil })
	if r, err := change.Run(t.Context(), nil, nil); err != nil || !r.HasSecret() || r.Rows[0].Subjects["key"] != "a" {
		t.Errorf("%+v, %v", r, err)
	}
	for kind, declare := range map[string]func(){
		"list": func() {
			operate.NewList(operate.About{Path: "keys", Doc: "List"}, func(context.Context, operate.None) ([]minted, error) { return nil, nil })
		},
		"job": func() {
			operate.NewJob(operate.About{Path: "keys/create", Doc: "Create"}, func(context.Context, operate.None, operate.Progress) (minted, error) { return minted{}, nil })
		},
		"subject": func() {
			operate.NewChange(operate.About{Path: "keys/create", Doc: "Create"}, func(context.Context, operate.None) (named, error) { return named{}, nil })
		},
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.Contains(text, "only the result of a change has a secret") {
					t.Errorf("%s: %q", kind, text)
				}
			}()
			declare()
		}()
	}
}

type counted struct {
	Count bool `flag:"count" doc:"count them"`
}

type box struct {
	Name  string `json:"name" title:"Box"`
	Count *int64 `json:"count,omitempty" title:"Count" with:"count" zero:"-"`
	Size  *int64 `json:"size,omitempty" title:"Size"`
}

// TestWith checks that an optional column is shown only if its input is set, and how missing values are shown.
func TestWith(t *testing.T) {
	t.Parallel()
	n := int64(7)
	o := operate.NewList(operate.About{Path: "boxes", Doc: "List"}, func(_ context.Context, in counted) ([]box, error) {
		if !in.Count {
			return []box{{Name: "a"}}, nil
		}
		return []box{{Name: "a", Count: &n, Size: &n}, {Name: "b"}}, nil
	})
	r, err := o.Run(t.Context(), map[string]string{"count": "true"}, nil)
	if err != nil || len(r.Columns) != 3 || !r.Columns[1].IsNumber() || r.Rows[0].Cells[1] != n || r.Rows[0].Cells[2] != n || r.Rows[1].Cells[1] != "-" || r.Rows[1].Cells[2] != "" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = o.Run(t.Context(), nil, nil)
	if err != nil || len(r.Columns) != 2 || r.Columns[1].Title != "Size" || len(r.Rows[0].Cells) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, "tag with of Count") {
			t.Errorf("%q", text)
		}
	}()
	operate.NewList(operate.About{Path: "boxes", Doc: "List"}, func(context.Context, operate.None) ([]box, error) { return nil, nil })
}
