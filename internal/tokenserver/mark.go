package tokenserver

// Mark is a growing value from the accounts server: a generation, or the time when keys last changed. The zero Mark
// is unknown, as in some tokens and old rows.
type Mark struct {
	Value int64
	Known bool
}

// At returns a mark. It is unknown if v <= 0, because clients send 0 for unknown.
func At(v int64) Mark {
	if v <= 0 {
		return Mark{}
	}
	return Mark{v, true}
}

// Before reports whether m < o. It returns false if either is unknown.
func (m Mark) Before(o Mark) bool { return m.Known && o.Known && m.Value < o.Value }

// UpTo reports whether m <= o. It returns false if either is unknown.
func (m Mark) UpTo(o Mark) bool { return m.Known && o.Known && m.Value <= o.Value }
