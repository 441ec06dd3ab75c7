package buckets

// decodePlain is a fast path for listings, in which encoding/json would take most of the time. It decodes only
// properties that consist of our member and contain no escaped characters.
func decodePlain(text []byte) (p Properties, ok bool) {
	r, seen := plain{text}, false
	ok = r.object(func(name []byte) bool {
		if seen || string(name) != propertiesMember {
			return false
		}
		seen = true
		return r.object(func(name []byte) bool { return r.property(name, &p) })
	})
	return p, ok && r.next() == 0 && len(r.rest) == 0
}

// property reads a member in "s3". Unknown members and tags leave the fast path.
func (r *plain) property(name []byte, p *Properties) bool {
	switch string(name) {
	case "etag":
		v, ok := r.text()
		p.ETag = string(v)
		return ok
	case "upload":
		v, ok := r.text()
		p.Upload = UploadID(v)
		return ok
	case "version":
		v, ok := r.text()
		p.Version = VersionID(v)
		return ok
	case "parts":
		v, ok := r.number()
		p.Parts = int(v)
		return ok
	case "imported":
		v, ok := r.number()
		p.Imported = Moment(v)
		return ok
	case "checksum":
		return r.object(func(name []byte) bool { return r.checksum(name, &p.Checksum) })
	case "class":
		v, ok := r.text()
		p.Class = StorageClass(v)
		return ok
	case "lock":
		return r.object(func(name []byte) bool { return r.lock(name, &p.Lock) })
	}
	return false // tags are rare
}

// checksum reads a member in "checksum".
func (r *plain) checksum(name []byte, c *Checksum) (ok bool) {
	var v []byte
	switch string(name) {
	case "algorithm":
		v, ok = r.text()
		c.Algorithm = algorithm(v)
	case "value":
		v, ok = r.text()
		c.Value = string(v)
	case "composite":
		c.Composite, ok = r.boolean()
	}
	return ok
}

// lock reads a member in "lock".
func (r *plain) lock(name []byte, l *Lock) (ok bool) {
	var v []byte
	switch string(name) {
	case "mode":
		v, ok = r.text()
		l.Mode = LockMode(v)
	case "until":
		var n int64
		n, ok = r.number()
		l.Until = Moment(n)
	case "hold":
		v, ok = r.text()
		l.Hold = HoldStatus(v)
	}
	return ok
}

// algorithm converts a name to a string, without allocating for common names.
func algorithm(name []byte) string {
	for _, known := range [...]string{"CRC64NVME", "CRC32", "CRC32C", "SHA256", "SHA1"} {
		if string(name) == known {
			return known
		}
	}
	return string(name)
}

// plain reads a subset of JSON. Its methods return false for other JSON.
type plain struct{ rest []byte }

// next returns the next byte that is no space, or 0 at the end.
func (r *plain) next() byte {
	for len(r.rest) > 0 {
		if c := r.rest[0]; c != ' ' {
			return c
		}
		r.rest = r.rest[1:]
	}
	return 0
}

// skip consumes c if it comes next.
func (r *plain) skip(c byte) bool {
	if r.next() != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// object calls member for each name in a JSON object. member consumes the value.
func (r *plain) object(member func(name []byte) bool) bool {
	for first := byte('{'); r.skip(first); first = ',' {
		name, ok := r.text()
		if !ok || !r.skip(':') || !member(name) {
			return false
		}
		if r.skip('}') {
			return true
		}
	}
	return false
}

// text reads a printable ASCII string without escapes.
func (r *plain) text() ([]byte, bool) {
	if !r.skip('"') {
		return nil, false
	}
	for i, c := range r.rest {
		switch {
		case c == '"':
			text := r.rest[:i]
			r.rest = r.rest[i+1:]
			return text, true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// number reads a positive number with at most 18 digits, which fits an int64.
func (r *plain) number() (n int64, ok bool) {
	if c := r.next(); c < '1' || c > '9' {
		return 0, false
	}
	for i := range 19 {
		if i == len(r.rest) || r.rest[i] < '0' || r.rest[i] > '9' {
			r.rest = r.rest[i:]
			return n, true
		}
		n = 10*n + int64(r.rest[i]-'0')
	}
	return 0, false
}

// boolean reads true or false.
func (r *plain) boolean() (v, ok bool) {
	word := "false"
	if v = r.next() == 't'; v {
		word = "true"
	}
	if len(r.rest) < len(word) || string(r.rest[:len(word)]) != word {
		return false, false
	}
	r.rest = r.rest[len(word):]
	return v, true
}
