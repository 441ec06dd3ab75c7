package jsonschema

// Spent is the steps of the last validation, of a schema that nobody uses.
func (s *Schema) Spent() int {
	i := <-s.idle
	defer s.give(i)
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

// Kept is how many schemas the cache has, and how many bytes are charged.
func (c *Cache) Kept() (schemas, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len(), c.bytes
}
