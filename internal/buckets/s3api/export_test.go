package s3api

import "slices"

// SchemaElement is an element in a request document.
type SchemaElement struct {
	Path                                                string // from the root, with slashes
	Container, Repeats, Typed, Required, Empty, Refused bool
}

// Schemas returns the elements that the decoder knows, by root element.
func Schemas() map[string][]SchemaElement {
	all := map[string][]SchemaElement{}
	for _, root := range documents {
		all[root.name] = root.list("")
	}
	return all
}

func (e *element) list(parent string) []SchemaElement {
	s := SchemaElement{parent + e.name, e.children != nil, e.repeats, e.typed, e.required, e.empty, e.refused}
	all := []SchemaElement{s}
	for _, c := range e.children {
		all = slices.Concat(all, c.list(s.Path+"/"))
	}
	return all
}

// ErrorElements returns elementsOf.
func ErrorElements() map[string][]string { return elementsOf }

// Parameters returns the parameters that select an operation, also for missing features.
func Parameters(ofObject bool) (all []string) {
	for _, s := range tableOf(ofObject) {
		all = append(all, s.parameter)
	}
	return all
}
