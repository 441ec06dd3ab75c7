package console

import (
	"maps"
	"net/url"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

type names map[string]string

func namesOf(o *operate.Operation, r *service.PageRequest) names {
	n := names{}
	for _, s := range o.Subjects() {
		n[s.Name] = r.Value(s.Name)
	}
	return n
}

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

func (n names) with(row map[string]string) names {
	all := names{}
	maps.Copy(all, n)
	maps.Copy(all, row)
	return all
}

func (n names) of(o *operate.Operation) map[string]string {
	all := map[string]string{}
	for _, s := range o.Subjects() {
		all[s.Name] = n[s.Name]
	}
	return all
}

func (n names) name(o *operate.Operation) bool {
	return !slices.ContainsFunc(o.Subjects(), func(s operate.Input) bool { return n[s.Name] == "" })
}

func (n names) link(o *operate.Operation) string {
	var values []string
	for _, s := range o.Subjects() {
		values = append(values, s.Name, n[s.Name])
	}
	return service.PageLink(o.Path, values...)
}

func (n names) linkTo(path string, names []string) string {
	var values []string
	for _, name := range names {
		values = append(values, name, n[name])
	}
	return service.PageLink(path, values...)
}

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

func readOf(list *operate.Operation, named string, all []operate.Operation) (found *operate.Operation) {
	for i := range all {
		o := &all[i]
		if o.Kind != operate.Read || o.Subject().Name != named || slices.ContainsFunc(o.Subjects(), func(s operate.Input) bool { return !slices.Contains(rowNames(list), s.Name) }) {
			continue
		}
		if found == nil || o.Noun() == list.Noun() && found.Noun() != list.Noun() {
			found = o
		}
	}
	return found
}

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

func listsBelow(list *operate.Operation, all []operate.Operation) (below []*operate.Operation) {
	for i := range all {
		if o := &all[i]; o.Kind == operate.List && len(o.Subjects()) > 0 && parentOf(o, all) == list {
			below = append(below, o)
		}
	}
	return below
}

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
