package canonjson

// Merge applies a merge patch (RFC 7396). The errors are Parse's, with pointers into the result.
func (v Value) Merge(patch Value, limit int) (Value, error) {
	merged := merge(make([]byte, 0, len(v)+len(patch)), []byte(v), []byte(patch))
	return canonical(merged, limit)
}

// merge appends the patched target, which may be empty. Both texts have the same member order, so one pass suffices.
func merge(out, target, patch []byte) []byte {
	if patch[0] != '{' {
		return append(out, patch...)
	}
	var old walker
	if len(target) > 0 && target[0] == '{' {
		old = walk(target, 0)
	}
	out = append(out, '{')
	begin := len(out)
	for change := walk(patch, 0); old.ok || change.ok; {
		var which int // 0 for both next members; negative for old only; positive for change only
		switch {
		case !change.ok:
			which = -1
		case !old.ok:
			which = 1
		default:
			which = compareNames(old.name, change.name)
		}
		switch {
		case which < 0:
			out = append(append(out, old.member()...), ',')
		case change.isNull():
		default:
			var under []byte
			if which == 0 {
				under = old.value.of(target)
			}
			out = append(out, patch[change.start:change.value.from]...)
			out = append(merge(out, under, change.value.of(patch)), ',')
		}
		if which <= 0 {
			old.next()
		}
		if which >= 0 {
			change.next()
		}
	}
	if len(out) > begin {
		out = out[:len(out)-1]
	}
	return append(out, '}')
}
