package tokenserver

// Mark is a value of the accounts server that only grows: the generation of an account, or
// the time at which its keys last changed. It may be unknown, because some tokens have no
// generation and old rows have no keys_changed_at. The zero Mark is unknown.
type Mark struct {
	Value int64
	Known bool
}

// At returns the mark with the value v. It is unknown for v <= 0, because clients send 0
// for an unknown value.
func At(v int64) Mark {
	if v <= 0 {
		return Mark{}
	}
	return Mark{v, true}
}

// Before reports whether m is less than o. It is false if either is unknown.
func (m Mark) Before(o Mark) bool { return m.Known && o.Known && m.Value < o.Value }

// UpTo reports whether m is at most o. It is false if either is unknown.
func (m Mark) UpTo(o Mark) bool { return m.Known && o.Known && m.Value <= o.Value }
