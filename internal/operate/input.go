package operate

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/durations"
	"holdfast/internal/errcode"
)

// Input is a field in an operation's input struct: a command's argument or flag, a form field, and part of a
// request's path, query or body. inputsOf makes it from the field's tags; the table in CONTRIBUTING.md lists them.
type Input struct {
	Name     string       // the tag flag or subject: the flag without "--", the form field, and, in camelCase, the JSON member
	Doc      string       // help, without a full stop
	Subject  bool         // names the thing shown or changed: a command argument and a path part
	IsFlag   bool         // a subject that the command takes as a required flag, not as an argument
	Value    string       // placeholder for the value in the command's help, e.g. "DURATION"; it also occurs in Doc
	Private  bool         // may be personal: omitted from the change log
	Argument string       // makes a non-subject an optional last argument with this name
	Title    string       // in forms; "": the name
	Kind     reflect.Kind // String, Int, Int64, Bool, or Slice for words; a time.Duration is a String
	Default  string       // the value if none is given, as text
	Schema   string       // schema name in the API description; "": derived from Kind
	Example  string       // for the API description
	Enum     []string     // nil: any value
	Least    string       // minimum number, or ""; an int64 without a value and a default is 0
	Local    bool         // only the command has this input
	Remote   bool         // not in the command
	Secret   bool         // hidden in forms, and never logged or shown
	Names    string       // the named thing's kind, as in list rows; "": the equally named subject; "-": nothing listed
	Also     []string     // values besides these names; "*": any
	Lines    int          // height in lines; 0: single line

	at         []int // field index path in the input struct
	isDuration bool  // the field is a time.Duration, parsed from text such as "30d"
}

// Number returns a number's default, or 0 without a default.
func (i *Input) Number() int {
	n, _ := strconv.Atoi(i.Default) // validated by inputsOf
	return n
}

// IsWords reports whether the input is a word list: a repeatable flag, or an array in JSON.
func (i *Input) IsWords() bool { return i.Kind == reflect.Slice }

// IsBool reports whether the input is true or false.
func (i *Input) IsBool() bool { return i.Kind == reflect.Bool }

// IsNumber reports whether the input is a whole number.
func (i *Input) IsNumber() bool { return i.Kind == reflect.Int || i.Kind == reflect.Int64 }

// Label returns the text beside the field in a form.
func (i *Input) Label() string {
	if i.Title != "" {
		return i.Title
	}
	return Sentence(i.Name)
}

// Member returns the JSON name, e.g. "dryRun" for "dry-run".
func (i *Input) Member() string { return Camel(i.Name) }

// Camel joins words at hyphens and slashes, e.g. "dryRun" for "dry-run".
func Camel(words string) string {
	all := strings.FieldsFunc(words, func(r rune) bool { return r == '-' || r == '/' })
	for i := 1; i < len(all); i++ {
		all[i] = strings.ToUpper(all[i][:1]) + all[i][1:]
	}
	return strings.Join(all, "")
}

// Expected completes the error "expected …" with the values that the input accepts.
func (i *Input) Expected() string {
	switch i.Kind {
	case reflect.String:
		if n := len(i.Enum); n > 1 {
			return strings.Join(i.Enum[:n-1], ", ") + " or " + i.Enum[n-1]
		}
		if i.isDuration {
			return durations.Expected
		}
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of words"
	}
	return "a text"
}

// InputError refuses an input's value. The command prints it with the flag's name, the API with the member's
// name. Its errcode is Invalid, also for errors.As on an errcode.Error.
type InputError struct {
	Input  string // Input.Name
	Reason string // e.g. "must be at least 1"; never quotes the value
}

func (e *InputError) Error() string { return e.Input + ": " + e.Reason }

func (e *InputError) Unwrap() error { return errcode.New(errcode.Invalid, e.Error()) }

// MaxLimit is the largest limit, in rows, that the API accepts for a page.
const MaxLimit = 1000

// Page is embedded in a list's input if the list is read in pages. After is the field tagged cursor in the
// previous page's last row; its zero value begins the list. A page with fewer than Limit rows is the last page. The API
// refuses a Limit above MaxLimit; a command may pass more.
type Page[Cursor int64 | string] struct {
	After Cursor `flag:"after" doc:"next from the previous page" least:"0"`
	Limit int    `flag:"limit" doc:"rows per page" default:"100" least:"1"`
}

// Check refuses a negative cursor and a limit below 1.
func (p Page[Cursor]) Check() error {
	if n, ok := any(p.After).(int64); ok && n < 0 {
		return &InputError{"after", "must be at least 0"}
	}
	return checkLimit(p.Limit)
}

// limit tells NewList how many rows fill a page.
func (p Page[Cursor]) limit() int { return p.Limit }

// Latest is embedded in the input if a list shows only the latest rows.
type Latest struct {
	Limit int `flag:"limit" doc:"rows" default:"100" least:"1"`
}

// Check refuses a limit below 1.
func (l Latest) Check() error { return checkLimit(l.Limit) }

func (l Latest) limit() int { return l.Limit }

// Lifetime is embedded in the input if an operation creates a token.
type Lifetime struct {
	TTL time.Duration `flag:"ttl" value:"DURATION" doc:"token lifetime as a DURATION, e.g. 30d" default:"1h"`
}

// Within requires a lifetime from a second to longest, which is configured by setting, if not "".
func (l Lifetime) Within(longest time.Duration, setting string) error {
	if l.TTL >= time.Second && l.TTL <= longest {
		return nil
	}
	reason := "must be from 1s to " + durations.Format(longest)
	if setting != "" {
		reason += ", the setting " + setting
	}
	return &InputError{"ttl", reason}
}

func checkLimit(n int) error {
	if n < 1 {
		return &InputError{"limit", "must be at least 1"}
	}
	return nil
}

// inputsOf makes the inputs from a struct's tags. It panics on a wrong tag, default or type.
func inputsOf(t reflect.Type) (all []Input) {
	for _, f := range fieldsOf(t) {
		checkTags(&f, t, inputTags)
		in := Input{
			Name: f.Tag.Get("flag"), Doc: f.Tag.Get("doc"), Default: f.Tag.Get("default"), Kind: f.Type.Kind(),
			Value: f.Tag.Get("value"), Argument: f.Tag.Get("arg"), Title: f.Tag.Get("title"), Schema: f.Tag.Get("schema"), Example: f.Tag.Get("example"), Least: f.Tag.Get("least"), at: f.Index,
		}
		if in.isDuration = f.Type == reflect.TypeFor[time.Duration](); in.isDuration {
			in.Kind = reflect.String
		}
		_, in.Local = f.Tag.Lookup("local")
		_, in.Remote = f.Tag.Lookup("remote")
		_, in.Secret = f.Tag.Lookup("secret")
		_, in.Private = f.Tag.Lookup("private")
		if names := f.Tag.Get("names"); names != "" {
			all := strings.Split(names, ",")
			in.Names, in.Also = all[0], all[1:]
		}
		in.Lines, _ = strconv.Atoi(f.Tag.Get("lines"))
		if values := f.Tag.Get("enum"); values != "" {
			in.Enum = strings.Split(values, ",")
		}
		if name, option, _ := strings.Cut(f.Tag.Get("subject"), ","); name != "" {
			in.Name, in.Subject, in.IsFlag = name, true, option == "flag"
		}
		if in.Name == "" || in.Doc == "" || in.Subject && len(all) > 0 && !all[len(all)-1].Subject {
			panic(fmt.Sprintf("field %s of %s: expected the tag doc, and the tag flag or, of the first fields, subject", f.Name, t))
		}
		if in.Kind == reflect.Int && in.Default == "" && !in.Subject {
			panic(fmt.Sprintf("field %s of %s: expected the tag default, or an int64, which is 0 without it", f.Name, t))
		}
		if err := in.set(reflect.New(f.Type).Elem(), in.Default); err != nil && !in.Subject {
			panic(fmt.Sprintf("field %s of %s: the default is wrong: %v", f.Name, t, err))
		}
		all = append(all, in)
	}
	return all
}

// fieldsOf returns a struct's fields, also the fields in embedded structs, but not these themselves.
func fieldsOf(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			all = append(all, f)
		}
	}
	return all
}

// parse makes the input struct from texts by input name. A missing or empty value gets the default. The struct's
// Check methods then run, and their error is returned unchanged.
func parse[In any](inputs []Input, values map[string]string) (in In, err error) {
	v := reflect.ValueOf(&in).Elem()
	for _, input := range inputs {
		text := values[input.Name]
		if text == "" {
			text = input.Default
		}
		if err := input.set(v.FieldByIndex(input.at), text); err != nil {
			return in, err
		}
	}
	return in, check(v)
}

// check calls Check on each embedded struct, because promotion does not suffice: two embedded Checks cancel each
// other, and the struct's own Check hides them. A promoted Check may run twice.
func check(v reflect.Value) error {
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous && v.Field(i).Kind() == reflect.Struct {
			if err := check(v.Field(i)); err != nil {
				return err
			}
		}
	}
	// NewAt is needed because reflect does not call methods of unexported embedded structs.
	if c, ok := reflect.TypeAssert[interface{ Check() error }](reflect.NewAt(v.Type(), v.Addr().UnsafePointer())); ok {
		return c.Check()
	}
	return nil
}

// set parses a text into the struct's field. A subject must not be empty; other inputs may be.
func (i *Input) set(field reflect.Value, text string) error {
	invalid := &InputError{i.Name, "expected " + i.Expected()}
	if i.Subject && text == "" {
		return &InputError{i.Name, "must not be empty"}
	}
	switch i.Kind {
	case reflect.Int, reflect.Int64:
		if text == "" && i.Kind == reflect.Int64 {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, field.Type().Bits())
		if err != nil {
			return invalid
		}
		if least, err := strconv.ParseInt(i.Least, 10, 64); err == nil && n < least {
			return &InputError{i.Name, "must be at least " + i.Least}
		}
		field.SetInt(n)
	case reflect.Bool:
		if text != "" && text != "true" && text != "false" {
			return invalid
		}
		field.SetBool(text == "true")
	case reflect.String:
		if i.Enum != nil && text != "" && !slices.Contains(i.Enum, text) {
			return invalid
		}
		if i.isDuration {
			d, err := durations.Parse(text)
			if err != nil && text != "" {
				return invalid
			}
			field.SetInt(int64(d))
			return nil
		}
		field.SetString(text)
	case reflect.Slice:
		words, ok := reflect.TypeAssert[*[]string](field.Addr())
		if !ok {
			return &InputError{i.Name, "is no list of words"}
		}
		*words = strings.Fields(text)
	default:
		return &InputError{i.Name, "is neither a text nor a whole number nor true or false"}
	}
	return nil
}
