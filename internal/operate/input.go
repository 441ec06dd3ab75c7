package operate

import (
	"fmt"
	"reflect"
	"strconv"

	"holdfast/internal/fault"
)

// Input is a value that an operation takes: an argument or a flag of the command, a field of the form, a
// part of the path, or a member of the body of a request.
type Input struct {
	Name    string
	Doc     string
	Subject bool         // it names what is changed: the argument of the command, and a part of the path
	Kind    reflect.Kind // String, Int or Bool
	Default string       // as text

	at int
}

// Number returns the default of a number.
func (i *Input) Number() int {
	n, _ := strconv.Atoi(i.Default) // inputsOf has parsed it
	return n
}

// IsBool reports whether the input is true or false.
func (i *Input) IsBool() bool { return i.Kind == reflect.Bool }

// Expected says what the input takes.
func (i *Input) Expected() string {
	switch i.Kind {
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	}
	return "a text"
}

// InputError means that the value of an input is wrong.
type InputError struct {
	Input  string
	Reason string // such as "must be at least 1"
}

func (e *InputError) Error() string { return e.Input + ": " + e.Reason }

// Unwrap returns the error as one of package fault.
func (e *InputError) Unwrap() error { return fault.New(fault.Invalid, e.Error()) }

// inputsOf reads the tags of the input of an operation.
func inputsOf(t reflect.Type) (all []Input) {
	for i := range t.NumField() {
		f := t.Field(i)
		in := Input{Name: f.Tag.Get("flag"), Doc: f.Tag.Get("doc"), Default: f.Tag.Get("default"), Kind: f.Type.Kind(), at: i}
		if name := f.Tag.Get("subject"); name != "" {
			in.Name, in.Subject = name, true
		}
		if in.Name == "" || in.Doc == "" || in.Subject && i > 0 {
			panic(fmt.Sprintf("field %s of %s: expected the tag doc, and the tag flag or, of the first field, subject", f.Name, t))
		}
		if err := in.set(reflect.New(f.Type).Elem(), in.Default); err != nil && !in.Subject {
			panic(fmt.Sprintf("field %s of %s: the default is wrong: %v", f.Name, t, err))
		}
		all = append(all, in)
	}
	return all
}

// parse returns the input of an operation, and calls its method Check if there is one.
func parse[In any](inputs []Input, values map[string]string) (in In, err error) {
	v := reflect.ValueOf(&in).Elem()
	for _, input := range inputs {
		text := values[input.Name]
		if text == "" {
			text = input.Default
		}
		if err := input.set(v.Field(input.at), text); err != nil {
			return in, err
		}
	}
	if c, ok := any(in).(interface{ Check() error }); ok {
		return in, c.Check()
	}
	return in, nil
}

func (i *Input) set(field reflect.Value, text string) error {
	wrong := &InputError{i.Name, "expected " + i.Expected()}
	switch i.Kind {
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return wrong
		}
		field.SetInt(int64(n))
	case reflect.Bool:
		if text != "" && text != "true" && text != "false" {
			return wrong
		}
		field.SetBool(text == "true")
	case reflect.String:
		if i.Subject && text == "" {
			return &InputError{i.Name, "must not be empty"}
		}
		field.SetString(text)
	default:
		return &InputError{i.Name, "is neither a text nor a whole number nor true or false"}
	}
	return nil
}
