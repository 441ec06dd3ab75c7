package httpapi

import (
	"strconv"
	"time"
	"unicode/utf8"

	ext "holdfast/internal/extstorage"
)

// JSON is appended by hand: values are already canonical, and encoding/json would read each of them again.

// key appends a member's name, after a comma unless it is the first.
func key(b []byte, name string) []byte {
	if last := b[len(b)-1]; last != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), `":`...)
}

func appendInt[T ~int | ~int32 | ~int64](b []byte, n T) []byte {
	return strconv.AppendInt(b, int64(n), 10)
}

func appendFlag(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

const hexDigits = "0123456789abcdef"

func appendString[T ~string](b []byte, text T) []byte {
	s := string(text)
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, "\ufffd"...)
		}
		i += size
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// appendMoment appends a time in RFC 3339 with milliseconds, null for 0.
func appendMoment(b []byte, m ext.Moment) []byte {
	if m == 0 {
		return append(b, "null"...)
	}
	// Formatting milliseconds with a layout takes three times as long.
	b = m.Time().AppendFormat(append(b, '"'), time.RFC3339)
	ms := m.Time().Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}

// appendList appends an array; appendItem appends an element.
func appendList[T any](b []byte, list []T, appendItem func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, &list[i])
	}
	return append(b, ']')
}

// appendVersion appends revision and ETag.
func appendVersion(b []byte, revision ext.Revision, seq ext.Seq) []byte {
	b = appendInt(key(b, "revision"), revision)
	return appendString(key(b, "etag"), seq.ETag())
}

// appendTimes appends a record's times.
func appendTimes(b []byte, expires, created, updated ext.Moment) []byte {
	b = appendMoment(key(b, "ttlExpiresAt"), expires)
	b = appendMoment(key(b, "createdAt"), created)
	return appendMoment(key(b, "updatedAt"), updated)
}

// appendPlace appends namespace and key.
func appendPlace(b []byte, ns ext.Namespace, k ext.Key) []byte {
	return appendString(key(appendString(key(b, "namespace"), ns), "key"), k)
}

// appendMeta appends a record's members but value and metadata, as in the answer to a write.
func appendMeta(b []byte, r *ext.Result) []byte {
	return appendTimes(appendVersion(appendPlace(b, r.Namespace, r.Key), r.Revision, r.Seq), r.ExpiresAt, r.CreatedAt, r.UpdatedAt)
}

// appendRecord appends a whole record, as in exports.
func appendRecord(b []byte, rec *ext.Record) []byte {
	b = appendPlace(append(b, '{'), rec.Namespace, rec.Key)
	b = appendTimes(appendVersion(b, rec.Revision, rec.Seq), rec.ExpiresAt, rec.CreatedAt, rec.UpdatedAt)
	b = append(key(b, "value"), rec.Value...)
	return append(append(key(b, "metadata"), rec.Metadata...), '}')
}
