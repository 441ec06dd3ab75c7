package canonjson

import (
	"strconv"

	"holdfast/internal/errcode"
)

// Increment adds to a number in a value.
type Increment struct {
	Pointer  Pointer // location of the number
	By       Number
	Min, Max Number // inclusive bounds of the sum; empty: unbounded
	Create   bool   // create what is missing: the objects on the path, and the number itself, starting at 0
}

// Apply returns the value with the number replaced by the sum, and the sum. An
// empty v means that there is no value.
//
// The pointer of an error is relative to the increment as a request spells it:
// "/pointer", "/by", "/min" or "/max", or "" for the whole increment. Apply
// returns an *Error if the number is missing, is not a number, or if the sum
// exceeds the bounds of Number. It never replaces an existing scalar on the path.
// It returns a *BoundError if the sum is beyond Min or Max, and a *LimitError if
// the result exceeds limit bytes.
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

// BoundError reports an increment whose sum would be beyond one of its bounds.
// That depends on the stored number.
type BoundError struct {
	Pointer string // location of the bound, as in Increment.Apply
	Reason  string
}

func (e *BoundError) Error() string { return e.Reason }

// ErrorCode implements errcode.Coder.
func (*BoundError) ErrorCode() errcode.Code { return errcode.Invalid }

// Under works like Error.Under.
func (e *BoundError) Under(pointer string) *BoundError {
	return &BoundError{pointer + e.Pointer, e.Reason}
}

var errNothing = refusePointer("does not exist in the value: set create to start a missing object member at 0")

// find follows the pointer as far as the value exists. If the rest may be created,
// missing is the rest and place is the object that receives it. If there is no
// value at all, missing is empty but not nil.
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

// nest returns a number nested in objects with one member each.
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
