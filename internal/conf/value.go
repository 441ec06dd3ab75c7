package conf

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/durations"
)

// expected describes valid values, for errors.
func (n *node) expected() string {
	var s string
	switch n.kind {
	case text:
		s = "a string in quotes"
	case boolean:
		s = "true or false"
	case integer:
		s = "a whole number"
	case number:
		s = "a number"
	case duration:
		s = `a duration with a unit, e.g. "30s", "2h", "90d" or "2w"`
	case list:
		s = `a list of strings, e.g. ["a", "b"]`
	case secretFile:
		s = "a file name in quotes"
	}
	if n.unit != "" {
		s += " of " + n.unit
	}
	return s
}

// fromText parses a variable or a flag. ok is false if the text is not valid.
func (n *node) fromText(s string) (any, bool) {
	switch n.kind {
	case text, secretFile:
		return s, true
	case boolean:
		b, err := strconv.ParseBool(s)
		return b, err == nil
	case integer:
		i, err := strconv.ParseInt(s, 10, n.typ.Bits())
		return i, err == nil
	case number:
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil && isFinite(f)
	case duration:
		d, err := durations.Parse(s) // 0 needs no unit
		return d, err == nil
	case list:
		return fields(s, ","), true
	}
	return nil, false
}

// fromAlias parses a variable of Mozilla's server, which has durations in seconds.
func (n *node) fromAlias(s string) (any, bool) {
	if n.kind == duration {
		if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
			return secondsOf(seconds)
		}
	}
	return n.fromText(s)
}

// fromTOML returns a setting's value. Strings are not converted: "8" is not a number.
func (n *node) fromTOML(value any) (any, bool) {
	switch v := value.(type) {
	case string:
		if n.kind == duration {
			d, err := durations.Parse(v)
			return d, err == nil
		}
		return v, n.kind == text || n.kind == secretFile
	case bool:
		return v, n.kind == boolean
	case int64:
		switch n.kind {
		case integer:
			return v, !reflect.Zero(n.typ).OverflowInt(v)
		case number:
			return float64(v), true
		case duration:
			return time.Duration(0), v == 0 // 0 needs no unit
		}
	case float64:
		return v, n.kind == number && isFinite(v)
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			s, ok := v[i].(string)
			if !ok {
				return nil, false
			}
			texts[i] = s
		}
		return texts, n.kind == list
	}
	return nil, false
}

// store sets a field to a value from fromText or fromTOML.
func store(field reflect.Value, value any) {
	switch v := value.(type) {
	case string:
		field.SetString(v)
	case bool:
		field.SetBool(v)
	case int64:
		field.SetInt(v)
	case float64:
		field.SetFloat(v)
	case time.Duration:
		field.SetInt(int64(v))
	case []string:
		texts := reflect.MakeSlice(field.Type(), len(v), len(v))
		for i, s := range v {
			texts.Index(i).SetString(s)
		}
		field.Set(texts)
	}
}

// literal returns a field as TOML; for a secret, only whether it is set.
func (n *node) literal(field reflect.Value) string {
	if n.secret {
		if field.Len() == 0 {
			return ""
		}
		return Secret("x").String()
	}
	switch n.kind {
	case text:
		return strconv.Quote(field.String())
	case boolean:
		return strconv.FormatBool(field.Bool())
	case integer:
		return strconv.FormatInt(field.Int(), 10)
	case number:
		return formatNumber(field.Float())
	case duration:
		return strconv.Quote(durations.Format(time.Duration(field.Int())))
	case list:
		texts := make([]string, field.Len())
		for i := range texts {
			texts[i] = strconv.Quote(field.Index(i).String())
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return ""
}

// data returns a field for JSON; nil for a secret.
func (n *node) data(field reflect.Value) any {
	switch {
	case n.secret:
		return nil
	case n.kind == duration:
		return durations.Format(time.Duration(field.Int()))
	case n.kind == list && field.Len() == 0:
		return []string{}
	}
	return field.Interface()
}

// standard returns the default for the reference, also for a secret.
func (n *node) standard(field reflect.Value) string {
	if n.secret && field.Len() == 0 {
		return ""
	}
	public := *n
	public.secret = false
	return public.literal(field)
}

// formatNumber writes a decimal point, because TOML reads a number without it as an integer.
func formatNumber(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// secondsOf returns a duration; ok is false if it overflows.
func secondsOf(n int64) (any, bool) {
	const limit = math.MaxInt64 / int64(time.Second)
	return time.Duration(n) * time.Second, -limit <= n && n <= limit
}

// isFinite rejects NaN and infinities, which TOML and ParseFloat accept.
func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// fields splits a list and drops empty parts.
func fields(s, separator string) []string {
	all := []string{}
	for part := range strings.SplitSeq(s, separator) {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
