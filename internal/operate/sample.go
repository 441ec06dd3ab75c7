package operate

import (
	"context"
	"encoding/json"
	"reflect"
	"time"
)

// Sample returns the operation with a function that returns one row without empty fields, for tests of pages and commands.
func (o Operation) Sample() Operation {
	out := reflect.New(o.out).Elem()
	fill(out)
	fields := outputsOf(o.out)
	o.run = func(context.Context, map[string]string, call) (*Result, error) {
		r := fields.row(out.Interface())
		r.Offers = func(string) bool { return true }
		return &Result{Rows: []Row{r}, value: r.Value}, nil
	}
	o.runs = nil
	return o
}

// fill sets what others may set of a value.
func fill(v reflect.Value) {
	isTime := v.Type() == reflect.TypeFor[time.Time]()
	switch {
	case v.Kind() == reflect.Struct && !isTime: // an embedded one may be private and have exported fields
		for _, field := range v.Fields() {
			fill(field)
		}
	case !v.CanSet():
	case isTime:
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0)))
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage("{}")))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.String:
		v.SetString("sample")
	case v.CanInt():
		v.SetInt(1)
	}
}
