package policy_test

import (
	"errors"
	"testing"

	"holdfast/internal/buckets/policy"
)

var errUnloaded = errors.New("the store does not answer")

// unloaded is a Context that cannot load tags of the object.
type unloaded struct{}

func (unloaded) Value(k policy.Key, _ string) ([]string, error) {
	if k == policy.ExistingObjectTag {
		return nil, errUnloaded
	}
	return nil, nil
}

// TestUnloadedValues puts a value that cannot be loaded into every place of a statement, before and after a statement
// that allows everything. A Deny statement must deny, and an Allow statement must not allow.
func TestUnloadedValues(t *testing.T) {
	t.Parallel()
	const all, key = `"Resource": "arn:aws:s3:::photos/*"`, "${s3:ExistingObjectTag/class}"
	for place, fields := range map[string]string{
		"condition key":             all + `, "Condition": {"StringEquals": {"s3:ExistingObjectTag/class": "secret"}}`,
		"negated condition":         all + `, "Condition": {"StringNotEquals": {"s3:ExistingObjectTag/class": "public"}}`,
		"optional condition":        all + `, "Condition": {"StringEqualsIfExists": {"s3:ExistingObjectTag/class": "secret"}}`,
		"null":                      all + `, "Condition": {"Null": {"s3:ExistingObjectTag/class": "true"}}`,
		"not null":                  all + `, "Condition": {"Null": {"s3:ExistingObjectTag/class": "false"}}`,
		"second condition":          all + `, "Condition": {"Null": {"aws:Referer": "true"}, "StringEquals": {"s3:ExistingObjectTag/class": "secret"}}`,
		"value of a condition":      all + `, "Condition": {"StringEquals": {"aws:PrincipalType": "` + key + `"}}`,
		"one of several values":     all + `, "Condition": {"StringLike": {"aws:PrincipalType": ["x", "` + key + `*"]}}`,
		"resource":                  `"Resource": "arn:aws:s3:::photos/` + key + `/*"`,
		"one of several resources":  `"Resource": ["arn:aws:s3:::photos/other/*", "arn:aws:s3:::photos/` + key + `"]`,
		"resource with a default":   `"Resource": "arn:aws:s3:::photos/${s3:ExistingObjectTag/class, 'none'}/*"`,
		"excluded resource":         `"NotResource": "arn:aws:s3:::photos/` + key + `/*"`,
		"resource, and a condition": `"Resource": "arn:aws:s3:::photos/` + key + `/*", "Condition": {"Null": {"aws:Referer": "true"}}`,
		"besides a false condition": all + `, "Condition": {"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": "a"}, "Null": {"s3:ExistingObjectTag/class": "false"}}`,
	} {
		const allow = `{"Effect": "Allow", "Principal": "*", "Action": "s3:*", ` + all + `}`
		statement := func(effect string) string {
			return `{"Effect": "` + effect + `", "Principal": "*", "Action": "s3:PutObject", ` + fields + `}`
		}
		evaluate := func(statements string) (policy.Decision, error) {
			p := of(t, `{"Version": "2012-10-17", "Statement": [`+statements+`]}`)
			return p.Evaluate(policy.Request{Account: owner, Action: policy.PutObject, Object: "a/b", Context: unloaded{}})
		}
		for _, statements := range []string{statement("Deny"), allow + ", " + statement("Deny"), statement("Deny") + ", " + allow} {
			if place == "besides a false condition" {
				continue // another condition does not hold
			}
			if d, err := evaluate(statements); d != policy.Denied || !errors.Is(err, errUnloaded) {
				t.Errorf("%s: %v (%v), want %v\n%s", place, d, err, policy.Denied, statements)
			}
		}
		if d, err := evaluate(statement("Allow")); d != policy.None || (err == nil) != (place == "besides a false condition") {
			t.Errorf("%s: %v (%v) by a statement that allows", place, d, err)
		}
		for _, statements := range []string{allow + ", " + statement("Allow"), statement("Allow") + ", " + allow} {
			if d, err := evaluate(statements); d != policy.AllowedEverybody || err != nil {
				t.Errorf("%s: %v (%v), although another statement allows it", place, d, err)
			}
		}
		const deny = `{"Effect": "Deny", "Principal": "*", "Action": "s3:*", ` + all + `}`
		for _, statements := range []string{deny + ", " + statement("Deny"), statement("Deny") + ", " + deny, statement("Allow") + ", " + deny} {
			if d, err := evaluate(statements); d != policy.Denied || err != nil {
				t.Errorf("%s: %v (%v), although another statement denies it", place, d, err)
			}
		}
	}
}
