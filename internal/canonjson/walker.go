package canonjson

// walker iterates over a canonical array or object. Its position is an element, or after the last element.
type walker struct {
	text  []byte
	ok    bool
	start int    // of the element, with its name
	name  []byte // still escaped; nil in an array
	value span
}

type span struct{ from, to int }

func (s span) of(text []byte) []byte { return text[s.from:s.to] }

// walk returns a walker on the first element of the array or object at from.
func walk(text []byte, from int) walker {
	w := walker{text: text}
	w.stand(from + 1)
	return w
}

func (w *walker) next() {
	if w.ok = w.text[w.value.to] == ','; w.ok {
		w.stand(w.value.to + 1)
	}
}

// stand moves to the element at a position.
func (w *walker) stand(at int) {
	c := w.text[at]
	if w.ok = c != '}' && c != ']'; !w.ok {
		return
	}
	w.start = at
	// A string followed by a colon is a name; in an array a comma or bracket follows.
	end := skip(w.text, at)
	if w.text[end] == ':' {
		w.name = w.text[at+1 : end-1]
		at = end + 1
		end = skip(w.text, at)
	}
	w.value = span{at, end}
}

func (w *walker) member() []byte { return w.text[w.start:w.value.to] }

func (w *walker) isNull() bool { return w.text[w.value.from] == 'n' }

// skip returns the end of the value at a position.
func skip(text []byte, at int) int {
	switch text[at] {
	case '"':
		for at++; text[at] != '"'; at++ {
			if text[at] == '\\' {
				at++
			}
		}
		return at + 1
	case '{', '[':
		for depth := 0; ; {
			switch text[at] {
			case '"':
				at = skip(text, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
			at++
		}
	}
	for at < len(text) && text[at] != ',' && text[at] != ']' && text[at] != '}' {
		at++
	}
	return at
}
