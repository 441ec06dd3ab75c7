package jsonschema

// Spent is the steps of the last validation, of a schema that nobody uses.
func (s *Schema) Spent() int {
	i := <-s.idle
	defer func() { s.idle <- i }()
	return MaxSteps - i.steps
}

// Confine limits the process as a trial's is.
func Confine() error { return confine() }

// Try is a trial in this process, without limits.
func Try(document []byte) error { return try(document, nil) }

// Probes are the values of a trial.
func Probes(document []byte) ([]any, error) {
	d, err := parse(document)
	if err != nil {
		return nil, err
	}
	return d.probes(), nil
}

// Measured is the bytes of a schema that nobody uses, and of one more instance.
func (s *Schema) Measured() (all, each int) { return s.bytes(), s.each }

// Matching is the part of an instance that is kept by matches, not by the schema.
func (s *Schema) Matching() int {
	longest := 0
	for _, p := range s.document.expressions {
		longest = max(longest, p.instructions)
	}
	return matching(longest)
}

// Charged is the bytes of the schemas of a cache that nobody uses.
func (c *Cache) Charged() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.schemas {
		sum += e.Schema.bytes()
	}
	return sum
}
