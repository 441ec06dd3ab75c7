package jsonschema

// Spent is the steps of the last validation, of a schema that nobody uses.
func (s *Schema) Spent() int {
	i := <-s.idle
	defer s.give(i)
	return MaxSteps - i.steps
}
