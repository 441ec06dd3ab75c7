package jsonschema

// Spent returns the steps of the last validation. The schema must not be in use.
func (s *Schema) Spent() int {
	i := <-s.idle
	defer func() { s.idle <- i }()
	return MaxSteps - i.steps
}

// Confine limits this process like a trial.
func Confine() error { return confine() }

func Try(document []byte) error { return try(document, nil) }

func Probes(document []byte) ([]any, error) {
	d, err := parse(document)
	if err != nil {
		return nil, err
	}
	return d.probes(), nil
}

// Measured returns the schema's bytes and the bytes per instance. The schema must not be in use.
func (s *Schema) Measured() (all, each int) { return s.bytes(), s.each }

// Matching returns the bytes of an instance that its matches hold.
func (s *Schema) Matching() int {
	longest := 0
	for _, p := range s.document.expressions {
		longest = max(longest, p.instructions)
	}
	return matching(longest)
}

func (c *Cache) Charged() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.schemas {
		sum += e.Schema.bytes()
	}
	return sum
}
