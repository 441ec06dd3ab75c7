package canonjson

import (
	"strconv"

	"holdfast/internal/errcode"
)

// Increment adds a number to a number in a value.
type Increment struct {
	Pointer  Pointer // location of the number
	By       Number  // may be negative
	Min, Max Number  // inclusive bounds for the sum; "" is unbounded
	Create   bool    // create missing objects on the path, and the number, starting at 0
}

// Apply returns the value with the number replaced by the sum, and the sum. An empty v means no value. It never
// replaces an existing scalar on the path.
//
// It returns an *Error if the number is missing or not a number, or the sum exceeds Number; a *BoundError beyond Min
// or Max; and a *LimitError above limit bytes. Error pointers are "/pointer", "/by", "/min", "/max", or "".
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
			return "", "", refusePointer("does not point to a number")
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
	if refused, ok := err.(*Error); ok { //nolint:errorlint // canonical does not wrap it
		err = refusePointer("would make a value that " + refused.Reason)
	}
	return result, sum, err
}

func refusePointer(reason string) *Error { return &Error{Pointer: "/pointer", Reason: reason} }

// BoundError means that the sum would exceed a bound.
type BoundError struct {
	Pointer string // as in Increment.Apply
	Reason  string
}

func (e *BoundError) Error() string { return e.Reason }

func (*BoundError) ErrorCode() errcode.Code { return errcode.Invalid }

// Under prepends an enclosing location to the pointer.
func (e *BoundError) Under(pointer string) *BoundError {
	return &BoundError{pointer + e.Pointer, e.Reason}
}

var errNothing = refusePointer("does not exist in the value: set create to start a missing object member at 0")

// find follows the pointer as far as the value exists. missing is the rest of the path, to be created in the object at
// place. If there is no value, missing is empty but not nil.
func (in *Increment) find(text []byte) (place span, missing Pointer, err error) {
	place = span{0, len(text)}
	if len(in.Pointer) > MaxDepth {
		return place, nil, refusePointer("is too long: the limit is " + strconv.Itoa(MaxDepth) + " levels")
	}
	if len(text) == 0 {
		if !in.Create {
			return place, nil, errNothing
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
			return place, nil, errNothing
		}
	}
	return place, nil, nil
}

// sum adds By and checks the bounds.
func (in *Increment) sum(number Number) (Number, error) {
	sum, err := number.Add(in.By)
	switch {
	case err != nil:
		return "", &Error{Pointer: "/by", Reason: "makes a sum that is out of range: at most 400 digits and an exponent from -308 to 308"}
	case in.Min != "" && sum.Compare(in.Min) < 0:
		return "", &BoundError{"/min", "the sum would be less than min"}
	case in.Max != "" && sum.Compare(in.Max) > 0:
		return "", &BoundError{"/max", "the sum would be greater than max"}
	}
	return sum, nil
}

// nest returns number inside an object for each name.
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
