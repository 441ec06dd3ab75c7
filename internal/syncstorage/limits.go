package syncstorage

import (
	"fmt"
	"maps"
	"slices"

	"holdfast/internal/conf"
)

// Keys of the limits that depend on each other, below [syncstorage.limits] and its collections.
const (
	keyRecord  = "max_record_payload_bytes"
	keyPost    = "max_post_bytes"
	keyRequest = "max_request_bytes"
	keyTotal   = "max_total_bytes"
)

// Follow changes the limits that are not set so that clients can send what the others allow: a POST contains a record
// of the maximum size, a request body contains such a POST, and a batch contains one. Without an own value, the limit of a
// record follows a smaller POST. isSet reports whether a key was set.
func (l *Limits) Follow(isSet func(key string) bool) {
	if !isSet(keyRecord) {
		l.MaxRecordPayloadBytes = min(l.MaxRecordPayloadBytes, l.MaxPostBytes)
	}
	if !isSet(keyPost) {
		l.MaxPostBytes = max(l.MaxPostBytes, l.MaxRecordPayloadBytes)
	}
	if !isSet(keyRequest) {
		l.MaxRequestBytes = max(l.MaxRequestBytes, l.MaxPostBytes+requestOverhead)
	}
	if !isSet(keyTotal) {
		l.MaxTotalBytes = max(l.MaxTotalBytes, l.MaxPostBytes)
		for name := range l.Collections {
			l.MaxTotalBytes = max(l.MaxTotalBytes, l.For(name).MaxPostBytes)
		}
	}
}

// CheckLimits returns contradictions that remain after Follow, because both settings were set. Each problem names both
// and the fix. isSet is as for Follow.
func (l *Limits) CheckLimits(isSet func(key string) bool) (problems conf.Problems) {
	problems = l.contradictions("limits.", isSet)
	for _, name := range slices.Sorted(maps.Keys(l.Collections)) {
		own := l.For(name)
		problems = append(problems, own.contradictions("limits.collections."+name+".", l.Collections[name].isSet)...)
	}
	return problems
}

// contradictions compares the limits in a section. Collections have no total of their own.
func (l *Limits) contradictions(section string, isSet func(key string) bool) (problems conf.Problems) {
	// A POST that was not set follows the record, which is then the setting to change.
	cause, post := section+keyPost, l.MaxPostBytes
	if !isSet(keyPost) && isSet(keyRecord) && l.MaxPostBytes == l.MaxRecordPayloadBytes {
		cause = section + keyRecord
	}
	for _, c := range []struct {
		key          string
		value, least int64
		cause, plus  string
	}{
		{section + keyPost, l.MaxPostBytes, l.MaxRecordPayloadBytes, section + keyRecord, ""},
		{section + keyRequest, l.MaxRequestBytes, post + requestOverhead, cause, fmt.Sprintf(" + %d", requestOverhead)},
		{"limits." + keyTotal, l.MaxTotalBytes, post, cause, ""},
	} {
		if c.value < c.least {
			problems.Addf(c.key, "must be at least %d, which is %s%s: raise or unset it, or lower %s", c.least, c.cause, c.plus, c.cause)
		}
	}
	return problems
}
