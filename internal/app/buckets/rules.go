package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// ruleInput names a rule by its ID, which is unique in a bucket.
type ruleInput struct {
	bucketInput
	Rule string `subject:"rule" doc:"rule ID"`
}

// ruleTerms are the terms that an operator can set in a rule; an S3 client can set more.
type ruleTerms struct {
	Prefix     string `flag:"prefix" title:"Objects that begin with" doc:"only objects with this name prefix"`
	Expire     int    `flag:"expire-days" title:"Delete objects after days" doc:"delete objects after this many days; 0: never" least:"0" default:"0"`
	Noncurrent int    `flag:"noncurrent-days" title:"Delete noncurrent versions after days" doc:"delete noncurrent versions after this many days; 0: never" least:"0" default:"0"`
	Keep       int    `flag:"keep-versions" title:"Noncurrent versions to keep" doc:"number of newest noncurrent versions to keep per object" least:"0" default:"0"`
	Abort      int    `flag:"abort-days" title:"Abort uploads after days" doc:"abort incomplete uploads after this many days; 0: never" least:"0" default:"0"`
	Disabled   bool   `flag:"disabled" doc:"disable the rule"`
}

// listedTerms has the fields of ruleTerms, in the same order: it is how a list shows them in JSON.
type listedTerms struct {
	Prefix     string `json:"prefix,omitempty" example:"logs/"`
	Expire     int    `json:"expireDays,omitempty" least:"1" doc:"deletes objects after this many days"`
	Noncurrent int    `json:"noncurrentDays,omitempty" least:"1" doc:"deletes noncurrent versions after this many days"`
	Keep       int    `json:"keepVersions,omitempty" least:"1" doc:"number of newest noncurrent versions to keep per object"`
	Abort      int    `json:"abortDays,omitempty" least:"1" doc:"aborts incomplete uploads after this many days"`
	Disabled   bool   `json:"disabled,omitempty"`
}

// setRuleInput is a whole rule: terms that are not given are removed.
type setRuleInput struct {
	ruleInput
	ruleTerms
}

// Check makes buckets.Lifecycle's errors refer to the inputs.
func (in setRuleInput) Check() error {
	invalid := func(input, reason string) error { return &operate.InputError{Input: input, Reason: reason} }
	switch {
	case !utf8.ValidString(in.Rule) || strings.ContainsFunc(in.Rule, unicode.IsControl):
		return invalid("rule", "must be UTF-8 without control characters")
	case in.Prefix != "" && buckets.CheckObjectName(in.Prefix) != nil:
		return invalid("prefix", "must be the beginning of a name: at most 1024 bytes of UTF-8")
	case in.Keep > 0 && in.Noncurrent == 0:
		return invalid("keep-versions", "expected noncurrent-days, too")
	}
	l := buckets.Lifecycle{Rules: []buckets.LifecycleRule{in.rule(in.Rule)}}
	if problem := l.Check(); problem != nil {
		of, ok := ruleInputs[problem.Member]
		if !ok {
			of = ruleProblem{"rule", problem.Reason}
		}
		return invalid(of.input, cmp.Or(of.reason, problem.Reason))
	}
	return nil
}

// ruleProblem is the input that an XML member corresponds to, with the reason to show; "" keeps the reason.
type ruleProblem struct{ input, reason string }

// ruleInputs are by the XML member that an error names.
var ruleInputs = map[string]ruleProblem{
	"ID":                      {"rule", ""},
	"Rule":                    {"expire-days", "expected at least one of expire-days, noncurrent-days and abort-days"},
	"Expiration":              {"expire-days", "must be from 0 to 2147483647"},
	"Days":                    {"expire-days", "must be from 0 to 2147483647"},
	"NoncurrentDays":          {"noncurrent-days", "must be from 0 to 2147483647"},
	"NewerNoncurrentVersions": {"keep-versions", "must be from 0 to 100"},
	"DaysAfterInitiation":     {"abort-days", "must be from 0 to 2147483647"},
}

// rule converts the terms; 0 means that the rule does not do it.
func (t *ruleTerms) rule(id string) buckets.LifecycleRule {
	r := buckets.LifecycleRule{ID: id, Disabled: t.Disabled, Filter: &buckets.LifecycleFilter{}, AbortDays: t.Abort}
	if t.Prefix != "" {
		r.Filter.Prefix = &t.Prefix
	}
	if t.Expire != 0 {
		r.Expiration = &buckets.Expiration{Days: t.Expire}
	}
	if t.Noncurrent != 0 {
		r.Noncurrent = &buckets.NoncurrentVersion{Days: t.Noncurrent}
	}
	if t.Keep != 0 && r.Noncurrent != nil {
		r.Noncurrent.Keep = &t.Keep
	}
	return r
}

// termsOf ignores terms that ruleTerms cannot express; see isAll.
func termsOf(r *buckets.LifecycleRule) ruleTerms {
	t := ruleTerms{Prefix: r.Begins(), Abort: r.AbortDays, Disabled: r.Disabled}
	if r.Expiration != nil {
		t.Expire = r.Expiration.Days
	}
	if r.Noncurrent != nil {
		t.Noncurrent = r.Noncurrent.Days
		if r.Noncurrent.Keep != nil {
			t.Keep = *r.Noncurrent.Keep
		}
	}
	return t
}

// isAll reports whether r consists of these terms: it has no date, tags, sizes or separate action for delete markers.
func (t ruleTerms) isAll(r *buckets.LifecycleRule) bool {
	same, prefix := *r, r.Begins()
	same.Prefix, same.Filter = nil, &buckets.LifecycleFilter{}
	if prefix != "" {
		same.Filter.Prefix = &prefix
	}
	hasNoOther := r.Filter == nil || len(r.Filter.Tags) == 0 && r.Filter.GreaterThan == nil && r.Filter.LessThan == nil
	return hasNoOther && reflect.DeepEqual(same, t.rule(r.ID))
}

// indexOfRule returns -1 if there is no such rule.
func indexOfRule(rules []buckets.LifecycleRule, id string) int {
	return slices.IndexFunc(rules, func(r buckets.LifecycleRule) bool { return r.ID == id })
}

// editRules applies edit to the stored rules, and again if they were changed in between, so that no change is lost.
// edit must not modify its argument.
func (s *Buckets) editRules(ctx context.Context, in bucketInput, edit func([]buckets.LifecycleRule) ([]buckets.LifecycleRule, error)) error {
	a, err := s.account(ctx, in.Account)
	if err == nil {
		err = about(in.Bucket, s.opened.EditLifecycle(ctx, a.ID, in.Bucket, edit))
	}
	if invalid, ok := errors.AsType[*buckets.LifecycleError](err); ok {
		return errcode.Newf(errcode.Conflict, "%s: the lifecycle rules would not be valid: %s", in.Bucket, invalid.Error())
	}
	return err
}

// setRule adds a rule, or replaces it if the form can express all of it: otherwise terms that an S3 client set would be
// lost.
func (s *Buckets) setRule(ctx context.Context, in setRuleInput) (bucketChange, error) {
	rule := in.rule(in.Rule)
	c := bucketChange{in.Account, in.Bucket, fmt.Sprintf("rule %s in bucket %s %s", in.Rule, in.Bucket, ruleDoes(&rule))}
	return c, s.editRules(ctx, in.bucketInput, func(rules []buckets.LifecycleRule) ([]buckets.LifecycleRule, error) {
		at := indexOfRule(rules, in.Rule)
		if at < 0 {
			return append(slices.Clone(rules), rule), nil
		}
		if !termsOf(&rules[at]).isAll(&rules[at]) {
			return nil, errcode.Newf(errcode.Conflict, "rule %s uses a date, tags or sizes, or removes delete markers: change it with an S3 client, or delete it first", in.Rule)
		}
		rules = slices.Clone(rules)
		rules[at] = rule
		return rules, nil
	})
}

// deleteRule returns errcode.NotFound if there is no such rule.
func (s *Buckets) deleteRule(ctx context.Context, in ruleInput) (bucketChange, error) {
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("deleted rule %s in bucket %s", in.Rule, in.Bucket)}, s.editRules(ctx, in.bucketInput, func(rules []buckets.LifecycleRule) ([]buckets.LifecycleRule, error) {
		at := indexOfRule(rules, in.Rule)
		if at < 0 {
			return nil, errcode.Newf(errcode.NotFound, "the bucket has no rule %s", in.Rule)
		}
		return slices.Delete(slices.Clone(rules), at, at+1), nil
	})
}

// clearRules succeeds for a bucket without rules.
func (s *Buckets) clearRules(ctx context.Context, in bucketInput) (bucketChange, error) {
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("bucket %s has no lifecycle rules", in.Bucket)}, s.editRules(ctx, in, func([]buckets.LifecycleRule) ([]buckets.LifecycleRule, error) {
		return nil, nil
	})
}
