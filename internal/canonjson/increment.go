package canonjson

import "strconv"

// Increment adds to a number in a value.
type Increment struct {
	Pointer  Pointer // to the number
	By       Number
	Min, Max Number // bounds of the sum, both allowed; empty: none
	Create   bool   // what is missing is made: objects on the way, and at its end a 0 to begin with
}

// Apply is the value with the sum in place of the number, and the sum. An empty
// v is no value, and is missing as a whole.
//
// An *Error with the pointer refuses an increment whose number is not
// there, is not a number, or has a sum beyond Min, Max or the bounds of Number;
// what is there and not an array or object is not replaced on the way. A sum
// beyond Min or Max is no conflict, since no precondition was broken and repeating does
// not help: it is a value that is not as the request wants it, just as one that
// a schema refuses. Other errors are those of Parse for the result.
func (in *Increment) Apply(v Value, limit int) (Value, Number, error) {
	text := []byte(v)
	place, missing, err := in.find(text)
	if err != nil {
		return "", "", err
	}
	number := Number("0")
	if missing == nil {
		old := Value(place.of(text))
		if !old.isNumber() {
			return "", "", in.refuse("is not a number")
		}
		number = Number(old)
	}
	sum, err := in.sum(number)
	if err != nil {
		return "", "", err
	}
	made := []byte(sum)
	if len(missing) > 0 {
		made = merge(nil, place.of(text), nest(missing, sum))
	}
	changed := make([]byte, 0, len(text)+len(made))
	changed = append(append(append(changed, text[:place.from]...), made...), text[place.to:]...)
	result, err := canonical(changed, limit)
	return result, sum, err
}

func (in *Increment) refuse(reason string) *Error {
	return &Error{Pointer: in.Pointer.String(), Reason: reason}
}

// find follows the pointer as far as there is something. When not all of it is
// there and may be made, missing is the rest, and the place is of the object
// into which it goes. missing is empty and not nil when there is no value.
func (in *Increment) find(text []byte) (place span, missing Pointer, err error) {
	place = span{0, len(text)}
	if len(in.Pointer) > MaxDepth {
		return place, nil, in.refuse("is nested deeper than " + strconv.Itoa(MaxDepth))
	}
	if len(text) == 0 {
		if !in.Create {
			return place, nil, in.refuse("is not there")
		}
		return place, append(Pointer{}, in.Pointer...), nil
	}
	for i, token := range in.Pointer {
		at, found := element(text, place.from, token)
		switch {
		case found:
			place = at
		case in.Create && text[place.from] == '{':
			return place, in.Pointer[i:], nil
		default:
			return place, nil, in.refuse("is not there")
		}
	}
	return place, nil, nil
}

func (in *Increment) sum(number Number) (Number, error) {
	sum, err := number.Add(in.By)
	switch {
	case err != nil:
		return "", in.refuse("would be a number with too many digits or too large an exponent")
	case in.Min != "" && sum.Compare(in.Min) < 0:
		return "", in.refuse("would be less than min")
	case in.Max != "" && sum.Compare(in.Max) > 0:
		return "", in.refuse("would be greater than max")
	}
	return sum, nil
}

// nest is a number inside of objects with one member each.
func nest(names Pointer, number Number) (out []byte) {
	for _, name := range names {
		out = append(appendString(append(out, '{'), name), ':')
	}
	out = append(out, number...)
	for range names {
		out = append(out, '}')
	}
	return out
}
