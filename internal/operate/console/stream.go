package console

import (
	"cmp"
	"context"
	"errors"
	"io"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// download returns the page that sends a file.
func download(o *operate.Operation) service.Page {
	p := service.Page{Path: o.Path, Title: cmp.Or(o.Title, o.Label()), Access: o.Access, Memory: o.Memory}
	p.Send = func(ctx context.Context, r *service.PageRequest) (*service.File, error) {
		result, err := o.Run(ctx, values(o, r), nil)
		if err != nil {
			return nil, err
		}
		return &service.File{Name: result.File.Name, Size: result.File.Size, Write: result.File.Send}, nil
	}
	return p
}

// downloads returns links to the noun's files that at names completely.
func downloads(noun string, all []operate.Operation, at names) (links []service.Link) {
	for _, o := range downloadsOf(noun, all) {
		if at.name(o) {
			links = append(links, service.Link{Text: o.Label(), To: at.link(o)})
		}
	}
	return links
}

// downloadsOf returns the noun's downloads.
func downloadsOf(noun string, all []operate.Operation) (operations []*operate.Operation) {
	for i := range all {
		if o := &all[i]; o.Kind == operate.Download && o.Noun() == noun {
			operations = append(operations, o)
		}
	}
	return operations
}

// unlisted returns the noun's downloads if neither a list nor a read can link to them.
func unlisted(noun string, all []operate.Operation) []*operate.Operation {
	if first(operate.List, noun, all) != nil || first(operate.Read, noun, all) != nil {
		return nil
	}
	return downloadsOf(noun, all)
}

// downloadForm returns a form whose result is a link to the file.
func downloadForm(o *operate.Operation, all []operate.Operation) *service.Form {
	f := form(o, nil, all)
	f.Text = operate.Sentence(o.Doc) + "."
	return f
}

// downloadAction checks the form and answers with a page that has the link: a form itself cannot send a file and stay
// usable.
func downloadAction(o *operate.Operation) service.Action {
	// The form only leads to the file. The download itself is recorded if the file has secrets.
	return service.Action{Name: o.Verb(), Reads: o.Access == operate.ForViewers, Recorded: true, Run: func(_ context.Context, r *service.PageRequest) (service.Outcome, error) {
		if err := o.Check(values(o, r)); err != nil {
			return service.Outcome{}, err
		}
		at, given := names{}, []string{}
		for _, in := range o.Inputs {
			if text := r.Value(in.Name); text != "" && !in.Local {
				at[in.Name], given = text, append(given, in.Name)
			}
		}
		title := o.Label() + " " + at[o.Subject().Name]
		return service.Outcome{View: &service.View{Title: title, Blocks: []service.Block{&service.Links{All: []service.Link{{Text: "Download the file", To: at.linkTo(o.Path, given)}}}}}}, nil
	}}
}

// run runs a change with the request's values and, for an upload, its file.
func run(ctx context.Context, o *operate.Operation, r *service.PageRequest) (*operate.Result, error) {
	if o.Kind != operate.Upload {
		return o.Run(ctx, values(o, r), nil)
	}
	if r.NextFile == nil {
		return nil, errNoFile
	}
	file, err := r.NextFile()
	if errors.Is(err, io.EOF) {
		return nil, errNoFile
	} else if err != nil {
		return nil, err
	}
	return o.Upload(ctx, values(o, r), operate.Body{Reader: file.Body}, nil)
}

var errNoFile = errcode.New(errcode.Invalid, "choose a file")
