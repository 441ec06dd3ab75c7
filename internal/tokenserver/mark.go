package tokenserver

// Mark is a value of the accounts server that only grows: an account's
// generation, or the moment at which its keys last changed. It may be unknown:
// not every token has a generation, and old rows have no keys_changed_at. The
// zero Mark is unknown.
type Mark struct {
	Value int64
	Known bool
}

// At is the mark with this value. A client that sends 0 says that it does not
// know, so 0 and less are the unknown mark.
func At(v int64) Mark {
	if v <= 0 {
		return Mark{}
	}
	return Mark{v, true}
}

// Before reports whether m is less than o; an unknown mark is neither before
// nor after another.
func (m Mark) Before(o Mark) bool { return m.Known && o.Known && m.Value < o.Value }

// UpTo reports whether m is at most o; never when either is unknown.
func (m Mark) UpTo(o Mark) bool { return m.Known && o.Known && m.Value <= o.Value }
