package console_test

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type street struct {
	Street string `json:"street" title:"Street" subject:"street" cursor:""`
}

type houseRow struct {
	House string `json:"house" title:"House" subject:"house"`
	Name  string `json:"name" title:"Name" names:"house"`
}

func (street) Notice() string   { return "done" }
func (houseRow) Notice() string { return "done" }

type streetInput struct {
	Street string `subject:"street" doc:"street"`
}

type houseInput struct {
	streetInput
	House string `subject:"house" doc:"house"`
}

type letterInput struct {
	houseInput
	From  string   `flag:"from" names:"house,abroad" doc:"sender"`
	Ways  []string `flag:"way" names:"street,*" doc:"streets to take"`
	Other string   `flag:"of" names:"-" doc:"no house of the list"`
	Text  string   `flag:"text" doc:"contents"`
}

// town is a service with a paged list of streets, and a short list of houses in each street.
func town(n int, asked *int) []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{Path: "streets", Doc: "List", Title: "Streets"}, func(_ context.Context, in operate.Page[string]) (all []street, err error) {
			for *asked = in.Limit; len(all) < min(n, in.Limit); {
				all = append(all, street{fmt.Sprintf("street-%02d", len(all))})
			}
			return all, nil
		}),
		operate.NewChange(operate.About{Path: "streets/pave", Doc: "Pave", Title: "Pave a street", NewRow: true}, func(context.Context, streetInput) (street, error) { return street{}, nil }),
		operate.NewList(operate.About{Path: "houses", Doc: "List", Title: "Houses"}, func(_ context.Context, in streetInput) ([]houseRow, error) {
			if in.Street != "high" {
				return nil, errcode.New(errcode.NotFound, "no such street")
			}
			return []houseRow{{"1", "inn"}, {"2", "Mill"}}, nil
		}),
		operate.NewChange(operate.About{Path: "houses/build", Doc: "Build", NewRow: true}, func(context.Context, houseInput) (houseRow, error) { return houseRow{}, nil }),
		operate.NewChange(operate.About{Path: "letters/send", Doc: "Send", NewRow: true}, func(context.Context, letterInput) (houseRow, error) { return houseRow{}, nil }),
	}
}

// TestChoose checks that a field offers a list's rows, up to one more than can be chosen from, if the list's subjects
// are known.
func TestChoose(t *testing.T) {
	t.Parallel()
	pave := &service.Link{Text: "Pave a street", To: "streets#form--pave"}
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, 60: service.MaxChoices + 1} {
		asked := 0
		c, err := console.Choose(nil, town(n, &asked))(t.Context(), "street", "", nil)
		if err != nil || len(c.All) != want || asked != service.MaxChoices+1 || !reflect.DeepEqual(c.First, pave) {
			t.Errorf("%d streets: %+v with %d rows asked for, %v", n, c, asked, err)
		}
	}
	asked := 0
	choose := console.Choose(func(_ context.Context, kind, _ string, _ url.Values) (*service.Choices, error) {
		if kind == "color" {
			return &service.Choices{All: []service.Option{{Value: "red"}}}, nil
		}
		return nil, nil
	}, town(3, &asked))
	high := url.Values{"street": {"high"}}
	for _, tc := range []struct {
		kind, prefix string
		at           url.Values
		want         string
	}{
		{"street", "STREET-01", nil, "street-01"},
		{"street", "x", nil, "nothing"},
		{"color", "", nil, "red"},
		{"house", "", nil, ""},
		{"house", "", high, "1 inn (1),2 Mill (2)"},
		{"house", "mi", high, "2 Mill (2)"},
		{"house", "2", high, "2 Mill (2)"},
		{"letter", "", high, ""},
	} {
		c, err := choose(t.Context(), tc.kind, tc.prefix, tc.at)
		if err != nil || (c == nil) != (tc.want == "") {
			t.Errorf("%+v: %+v, %v", tc, c, err)
		}
		if c != nil && texts(c.All) != strings.TrimPrefix(tc.want, "nothing") {
			t.Errorf("%+v: %s", tc, texts(c.All))
		}
	}
	if _, err := choose(t.Context(), "house", "", url.Values{"street": {"low"}}); errcode.Of(err) != errcode.NotFound {
		t.Errorf("houses of an unknown street: %v", err)
	}
	if c, err := choose(t.Context(), "house", "", high); err != nil || c.First.To != "houses?street=high#form--build" || c.First.Text != "Build" {
		t.Errorf("the first house: %+v, %v", c.First, err)
	}
}

func texts(all []service.Option) string {
	var got []string
	for _, o := range all {
		if o.Text != "" && o.Text != o.Value {
			o.Value += " " + o.Text
		}
		got = append(got, o.Value)
	}
	return strings.Join(got, ",")
}

// TestKind checks that an input names listed things unless its change creates the thing or the input declares
// otherwise.
func TestKind(t *testing.T) {
	t.Parallel()
	asked := 0
	all := town(1, &asked)
	var got []string
	for i := range all {
		for j := range all[i].Inputs {
			kind, isTyped := console.Kind(&all[i], &all[i].Inputs[j], all)
			got = append(got, fmt.Sprintf("%s %s: %s %v", all[i].Path, all[i].Inputs[j].Name, kind, isTyped))
		}
	}
	want := []string{
		"streets after:  false", "streets limit:  false", "streets/pave street:  false", "houses street: street false", "houses/build street: street false", "houses/build house:  false",
		"letters/send street: street true", "letters/send house: house true", "letters/send from: house false", "letters/send way: street true", "letters/send of:  false", "letters/send text:  false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
