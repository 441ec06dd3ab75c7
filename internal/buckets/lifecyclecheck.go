package buckets

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// MaxLifecycleRules is S3's maximum per bucket.
const MaxLifecycleRules = 1000

// MaxLifecycleBytes limits the document with the rules. It suffices for 1,000 typical rules.
const MaxLifecycleBytes = 512 << 10

// MinimumSizeAll is S3's default for Lifecycle.MinimumSize.
const MinimumSizeAll = "all_storage_classes_128K"

// CheckMinimumSize validates Lifecycle.MinimumSize.
func (l *Lifecycle) CheckMinimumSize() *LifecycleError {
	if l.MinimumSize != "" && l.MinimumSize != MinimumSizeAll && l.MinimumSize != "varies_by_storage_class" {
		return &LifecycleError{RuleInvalidArgument, "x-amz-transition-default-minimum-object-size", "is not valid"}
	}
	return nil
}

// Limits documented by S3.
const (
	maxRuleTags = 10  // in a filter
	maxKept     = 100 // NewerNoncurrentVersions
)

// LifecycleProblem is the S3 error for an invalid rule.
type LifecycleProblem string

const (
	RuleMalformed       LifecycleProblem = "MalformedXML"
	RuleInvalidArgument LifecycleProblem = "InvalidArgument"
	RuleInvalidRequest  LifecycleProblem = "InvalidRequest"
)

// LifecycleError is an invalid element.
type LifecycleError struct {
	Problem LifecycleProblem
	Member  string // S3 element, e.g. NoncurrentDays
	Reason  string // the sentence after the element's name
}

func (e *LifecycleError) Error() string { return fmt.Sprintf("'%s' %s", e.Member, e.Reason) }

// Check returns nil for valid rules. An empty list is malformed: DeleteBucketLifecycle removes rules.
func (l *Lifecycle) Check() *LifecycleError {
	if len(l.Rules) == 0 || len(l.Rules) > MaxLifecycleRules {
		return &LifecycleError{RuleMalformed, "Rule", "must occur 1 to 1,000 times"}
	}
	if l.text() > MaxLifecycleBytes {
		return &LifecycleError{RuleMalformed, "Rule", "must have at most 512 KiB together"}
	}
	if invalid := l.CheckMinimumSize(); invalid != nil {
		return invalid
	}
	ids := map[string]bool{}
	for i := range l.Rules {
		r := &l.Rules[i]
		if ids[r.ID] {
			return &LifecycleError{RuleInvalidArgument, "ID", "must be unique: two rules have the same ID"}
		}
		ids[r.ID] = true
		if invalid := r.check(); invalid != nil {
			return invalid
		}
	}
	return nil
}

// check validates a rule by itself.
func (r *LifecycleRule) check() *LifecycleError {
	switch {
	case r.ID == "" || utf8.RuneCountInString(r.ID) > maxRuleID:
		return &LifecycleError{RuleInvalidArgument, "ID", "must have 1 to 255 characters"}
	case (r.Prefix == nil) == (r.Filter == nil):
		return &LifecycleError{RuleMalformed, "Filter", "or 'Prefix' is required, but not both"}
	case len(r.Begins()) > MaxObjectName:
		return &LifecycleError{RuleInvalidRequest, "Prefix", "must not exceed 1,024 bytes"}
	}
	if r.Filter != nil {
		if invalid := r.Filter.check(); invalid != nil {
			return invalid
		}
	}
	return r.checkActions()
}

// checkActions validates the actions. Uploads and delete markers have neither tags nor sizes, so rules with such
// filters cannot remove them.
func (r *LifecycleRule) checkActions() *LifecycleError {
	const filtered = "cannot be specified with tags or sizes"
	if r.Expiration == nil && r.Noncurrent == nil && r.AbortDays == 0 {
		return &LifecycleError{RuleInvalidRequest, "Rule", "must have at least one action"}
	}
	if e := r.Expiration; e != nil {
		if invalid := e.check(); invalid != nil {
			return invalid
		}
		if e.removesMarkers() && r.filtersObjects() {
			return &LifecycleError{RuleInvalidRequest, "ExpiredObjectDeleteMarker", filtered}
		}
	}
	if n := r.Noncurrent; n != nil {
		if n.Days < 1 || n.Days > math.MaxInt32 {
			return &LifecycleError{RuleInvalidArgument, "NoncurrentDays", "for NoncurrentVersionExpiration action must be a positive integer"}
		}
		if n.Keep != nil && (*n.Keep < 1 || *n.Keep > maxKept) {
			return &LifecycleError{RuleInvalidArgument, "NewerNoncurrentVersions", "must be from 1 to 100"}
		}
	}
	switch {
	case r.AbortDays < 0 || r.AbortDays > math.MaxInt32:
		return &LifecycleError{RuleInvalidArgument, "DaysAfterInitiation", "for AbortIncompleteMultipartUpload action must be a positive integer"}
	case r.AbortDays > 0 && r.filtersObjects():
		return &LifecycleError{RuleInvalidRequest, "AbortIncompleteMultipartUpload", filtered}
	}
	return nil
}

// filtersObjects reports whether the filter needs tags or a size.
func (r *LifecycleRule) filtersObjects() bool {
	f := r.Filter
	return f != nil && (len(f.Tags) > 0 || f.GreaterThan != nil || f.LessThan != nil)
}

func (e *Expiration) removesMarkers() bool { return e.DeleteMarker != nil && *e.DeleteMarker }

func (e *Expiration) check() *LifecycleError {
	switch {
	case e.Days < 0 || e.Days > math.MaxInt32:
		return &LifecycleError{RuleInvalidArgument, "Days", "for Expiration action must be a positive integer"}
	case e.Days > 0 && e.Date != 0:
		return &LifecycleError{RuleMalformed, "Days", "cannot be specified with Date"}
	case e.Days == 0 && e.Date == 0 && e.DeleteMarker == nil:
		return &LifecycleError{RuleMalformed, "Expiration", "must have Days, Date or ExpiredObjectDeleteMarker"}
	case e.removesMarkers() && (e.Days > 0 || e.Date != 0):
		return &LifecycleError{RuleMalformed, "ExpiredObjectDeleteMarker", "cannot be specified with Days or Date"}
	case e.Date < 0 || e.Date > never:
		return &LifecycleError{RuleInvalidArgument, "Date", "must be from 1970 to 9999"}
	case e.Date%day != 0:
		return &LifecycleError{RuleInvalidArgument, "Date", "must be at midnight GMT"}
	}
	return nil
}

// check counts the conditions: S3 requires And for more than one.
func (f *LifecycleFilter) check() *LifecycleError {
	conditions := len(f.Tags)
	for _, given := range []bool{f.Prefix != nil, f.GreaterThan != nil, f.LessThan != nil} {
		if given {
			conditions++
		}
	}
	switch {
	case !f.And && conditions > 1:
		return &LifecycleError{RuleMalformed, "Filter", "must have one condition, or several in And"}
	case f.And && conditions == 0:
		return &LifecycleError{RuleMalformed, "And", "must not be empty"}
	case len(f.Tags) > maxRuleTags:
		return &LifecycleError{RuleInvalidRequest, "Tag", "must not occur more than 10 times"}
	case f.GreaterThan != nil && *f.GreaterThan < 0:
		return &LifecycleError{RuleInvalidRequest, "ObjectSizeGreaterThan", "must not be negative"}
	case f.LessThan != nil && *f.LessThan < 1:
		return &LifecycleError{RuleInvalidRequest, "ObjectSizeLessThan", "must be positive"}
	case f.GreaterThan != nil && f.LessThan != nil && *f.LessThan <= *f.GreaterThan:
		return &LifecycleError{RuleInvalidRequest, "ObjectSizeLessThan", "has to be a value greater than 'ObjectSizeGreaterThan'"}
	}
	for i, t := range f.Tags {
		switch {
		case t.Key == "" || utf8.RuneCountInString(t.Key) > maxTagKey:
			return &LifecycleError{RuleInvalidRequest, "Key", "of a tag must have 1 to 128 characters"}
		case utf8.RuneCountInString(t.Value) > maxTagText:
			return &LifecycleError{RuleInvalidRequest, "Value", "of a tag must not exceed 256 characters"}
		case slices.ContainsFunc(f.Tags[:i], func(other Tag) bool { return other.Key == t.Key }):
			return &LifecycleError{RuleInvalidRequest, "Tag", "must not repeat a key"}
		}
	}
	return nil
}
