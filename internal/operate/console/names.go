package console

import (
	"maps"
	"net/url"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// names are the subjects that a page is about: values by the subjects' names.
type names map[string]string

// namesOf returns the operation's subjects from the request.
func namesOf(o *operate.Operation, r *service.PageRequest) names {
	n := names{}
	for _, s := range o.Subjects() {
		n[s.Name] = r.Value(s.Name)
	}
	return n
}

// namesAfter is namesOf after a change: subjects that the form did not send are taken from the page on which it was.
func namesAfter(list *operate.Operation, r *service.PageRequest) names {
	n := namesOf(list, r)
	page, _ := url.ParseQuery(r.Value("return-to")) // malformed queries are rejected earlier
	for name, value := range n {
		if value == "" {
			n[name] = page.Get(name)
		}
	}
	return n
}

// with returns n with a row's names, which win.
func (n names) with(row map[string]string) names {
	all := names{}
	maps.Copy(all, n)
	maps.Copy(all, row)
	return all
}

// of returns the operation's subjects as a form's hidden values.
func (n names) of(o *operate.Operation) map[string]string {
	all := map[string]string{}
	for _, s := range o.Subjects() {
		all[s.Name] = n[s.Name]
	}
	return all
}

// name reports whether n names each subject.
func (n names) name(o *operate.Operation) bool {
	return !slices.ContainsFunc(o.Subjects(), func(s operate.Input) bool { return n[s.Name] == "" })
}

// link returns the operation's page with its subjects as parameters.
func (n names) link(o *operate.Operation) string {
	var values []string
	for _, s := range o.Subjects() {
		values = append(values, s.Name, n[s.Name])
	}
	return service.PageLink(o.Path, values...)
}

// linkTo returns a page with these names as parameters.
func (n names) linkTo(path string, names []string) string {
	var values []string
	for _, name := range names {
		values = append(values, name, n[name])
	}
	return service.PageLink(path, values...)
}

// rowNames returns the names that identify a row: the list's subjects, then those in the row.
func rowNames(list *operate.Operation) (all []string) {
	for _, s := range list.Subjects() {
		all = append(all, s.Name)
	}
	for _, name := range list.Names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// namesRow reports whether an operation is for a row or the thing that a read shows: the row names all its subjects,
// and the list alone does not.
func namesRow(list, o *operate.Operation) bool {
	of, isRow := rowNames(list), false
	for _, s := range o.Subjects() {
		if !slices.Contains(of, s.Name) {
			return false
		}
		isRow = isRow || list.Input(s.Name) == nil || list.Kind == operate.Read && s.Name == list.Subject().Name
	}
	return isRow
}

// readOf returns the read for a column's thing, or nil. A read with the list's own noun is preferred.
func readOf(list *operate.Operation, named string, all []operate.Operation) (op *operate.Operation) {
	for i := range all {
		o := &all[i]
		if o.Kind != operate.Read || o.Subject().Name != named || slices.ContainsFunc(o.Subjects(), func(s operate.Input) bool { return !slices.Contains(rowNames(list), s.Name) }) {
			continue
		}
		if op == nil || o.Noun() == list.Noun() && op.Noun() != list.Noun() {
			op = o
		}
	}
	return op
}

// parentOf returns the list whose rows this list belongs to, or nil: its row names are exactly the subjects in this
// list.
func parentOf(list *operate.Operation, all []operate.Operation) *operate.Operation {
	var subjects []string
	for _, s := range list.Subjects() {
		subjects = append(subjects, s.Name)
	}
	slices.Sort(subjects)
	for i := range all {
		if o := &all[i]; o.Kind == operate.List && len(o.Subjects()) < len(subjects) && slices.Equal(slices.Sorted(slices.Values(rowNames(o))), subjects) {
			return o
		}
	}
	return nil
}

// listsBelow returns the lists that belong to this list's rows.
func listsBelow(list *operate.Operation, all []operate.Operation) (below []*operate.Operation) {
	for i := range all {
		if o := &all[i]; o.Kind == operate.List && len(o.Subjects()) > 0 && parentOf(o, all) == list {
			below = append(below, o)
		}
	}
	return below
}

// below returns the links on a read's page: to other reads for the same thing, to lists that belong to it, to lists
// that can be filtered by it, and to its files.
func below(read *operate.Operation, all []operate.Operation, at names) (links []service.Link) {
	subject := read.Subject().Name
	for i := range all {
		if o := &all[i]; o.Kind == operate.Read && o.Noun() == read.Noun() && o.Path != read.Path && at.name(o) {
			links = append(links, service.Link{Text: o.Title, To: at.link(o)})
		}
	}
	if list := first(operate.List, read.Noun(), all); list != nil {
		for _, o := range listsBelow(list, all) {
			links = append(links, service.Link{Text: o.Title, To: at.link(o)})
		}
	}
	for i := range all {
		if o := &all[i]; o.Kind == operate.List && len(o.Subjects()) == 0 && o.Input(subject) != nil {
			links = append(links, service.Link{Text: o.Title, To: at.linkTo(o.Path, []string{subject})})
		}
	}
	return append(links, downloads(read.Noun(), all, at)...)
}

// trail returns the breadcrumbs above a list's page.
func trail(list *operate.Operation, all []operate.Operation, at names) []service.Link {
	parent := parentOf(list, all)
	if parent == nil {
		return nil
	}
	links := append(trail(parent, all, at), service.Link{Text: parent.Title, To: at.link(parent)})
	if read := first(operate.Read, parent.Noun(), all); read != nil && at.name(read) {
		links = append(links, service.Link{Text: at[read.Subject().Name], To: at.link(read)})
	}
	return links
}
