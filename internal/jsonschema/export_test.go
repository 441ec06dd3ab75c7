package jsonschema

// Spent returns the steps of the last validation by a schema that is not in use.
func (s *Schema) Spent() int {
	i := <-s.idle
	defer func() { s.idle <- i }()
	return MaxSteps - i.steps
}

// Confine limits this process like that of a trial.
func Confine() error { return confine() }

// Try runs a trial in this process, without limits.
func Try(document []byte) error { return try(document, nil) }

// Probes returns the values of a trial.
func Probes(document []byte) ([]any, error) {
	d, err := parse(document)
	if err != nil {
		return nil, err
	}
	return d.probes(), nil
}

// Measured returns the bytes of a schema that is not in use, and of another
// instance.
func (s *Schema) Measured() (all, each int) { return s.bytes(), s.each }

// Matching returns the part of an instance that its matches hold.
func (s *Schema) Matching() int {
	longest := 0
	for _, p := range s.document.expressions {
		longest = max(longest, p.instructions)
	}
	return matching(longest)
}

// Charged returns the bytes of a cache's schemas that are not in use.
func (c *Cache) Charged() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.schemas {
		sum += e.Schema.bytes()
	}
	return sum
}
