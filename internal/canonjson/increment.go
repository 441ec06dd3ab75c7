package canonjson

import (
	"strconv"

	"holdfast/internal/fault"
)

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
// Errors have their place in the increment as a request spells it: "/pointer",
// "/by", "/min" or "/max", and "" for all of it. An *Error refuses one whose number
// is not there, is not a number, or has a sum beyond the bounds of Number; what is
// there and not an array or object is not replaced on the way. A *BoundError
// refuses a sum beyond Min or Max, a *LimitError a result of more than limit bytes.
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

// BoundError refuses an increment whose sum would be beyond one of its bounds. That
// depends on the number that is stored.
type BoundError struct {
	Pointer string // to the bound, as Increment.Apply has it
	Reason  string
}

func (e *BoundError) Error() string { return e.Reason }

// FaultCode implements fault.Coder.
func (*BoundError) FaultCode() fault.Code { return fault.Invalid }

// Under is as Error.Under.
func (e *BoundError) Under(pointer string) *BoundError {
	return &BoundError{pointer + e.Pointer, e.Reason}
}

var errNothing = refusePointer("does not exist in the value: set create to start a missing object member at 0")

// find follows the pointer as far as there is something. When not all of it is
// there and may be made, missing is the rest, and the place is of the object
// into which it goes. missing is empty and not nil when there is no value.
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
