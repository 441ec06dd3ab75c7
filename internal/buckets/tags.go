package buckets

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// S3's limits for tags.
const (
	MaxObjectTags = 10
	MaxBucketTags = 50

	maxTagKey  = 128 // characters
	maxTagText = 256 // characters in a value
)

// TagProblem is a rule for tags that is broken.
type TagProblem int

const (
	TagsTooMany TagProblem = iota + 1
	TagTwice               // two tags have the same key
	TagKey
	TagSystem // the key begins with "aws:", which only Amazon may set
	TagValue
)

// TagError reports tags that a client may not set. S3 answers BadRequest for TagsTooMany, otherwise InvalidTag.
type TagError struct {
	Problem TagProblem
	Most    int // the maximum, for TagsTooMany
	Tag     Tag // the invalid tag, for other problems
}

// Error is for operators. S3 has its own texts.
func (e *TagError) Error() string {
	switch e.Problem {
	case TagsTooMany:
		return "there are more than " + strconv.Itoa(e.Most) + " tags"
	case TagTwice:
		return "two tags have the same key"
	case TagSystem:
		return `the key of a tag begins with "aws:", which is reserved`
	case TagKey:
		return "the key of a tag is not 1 to 128 letters, digits, spaces and _.:/=+-@"
	}
	return "the value of a tag is not up to 256 letters, digits, spaces and _.:/=+-@"
}

// TagsOf converts a list of tags to a map and checks them. limit is MaxObjectTags or MaxBucketTags.
func TagsOf(list []Tag, limit int) (map[string]string, *TagError) {
	tags := make(map[string]string, min(len(list), limit))
	for _, t := range list {
		if _, ok := tags[t.Key]; ok {
			return nil, &TagError{Problem: TagTwice, Tag: t}
		}
		tags[t.Key] = t.Value
	}
	return tags, CheckTags(tags, limit)
}

// CheckTags applies S3's rules for tags: the number, lengths and characters, and no "aws:" names.
func CheckTags(tags map[string]string, limit int) *TagError {
	if len(tags) > limit {
		return &TagError{Problem: TagsTooMany, Most: limit}
	}
	for k, v := range tags {
		switch {
		case k == "" || !isTag(k, maxTagKey):
			return &TagError{Problem: TagKey, Tag: Tag{k, v}}
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return &TagError{Problem: TagSystem, Tag: Tag{k, v}}
		case !isTag(v, maxTagText):
			return &TagError{Problem: TagValue, Tag: Tag{k, v}}
		}
	}
	return nil
}

// isTag reports whether s has at most maxChars characters, all letters, digits, spaces or _.:/=+-@.
func isTag(s string, maxChars int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxChars && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N, unicode.Z) && !strings.ContainsRune("_.:/=+-@", r)
	})
}
