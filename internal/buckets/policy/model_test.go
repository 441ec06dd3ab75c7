package policy_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
)

type modelStatement struct {
	Effect      string
	Principal   map[string][]string
	Action      []string `json:",omitempty"`
	NotAction   []string `json:",omitempty"`
	Resource    []string `json:",omitempty"`
	NotResource []string `json:",omitempty"`
	Condition   map[string]map[string][]string
}

func like(pattern, text string) bool {
	quoted := strings.NewReplacer(`\*`, `(?s:.*)`, `\?`, `(?s:.)`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`^(?:` + quoted + `)$`).MatchString(text)
}

func anyLike(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, text) })
}

// applies follows the IAM documentation literally.
func (s *modelStatement) applies(account, action, resource string, v values) bool {
	if !slices.Contains(s.Principal["AWS"], "*") && !slices.Contains(s.Principal["AWS"], account) {
		return false
	}
	if s.Action != nil && !anyLike(s.Action, action) || s.NotAction != nil && anyLike(s.NotAction, action) {
		return false
	}
	if s.Resource != nil && !anyLike(s.Resource, resource) || s.NotResource != nil && anyLike(s.NotResource, resource) {
		return false
	}
	for operator, of := range s.Condition {
		for key, want := range of {
			if !holds(operator, want, v[strings.ToLower(key)]) {
				return false
			}
		}
	}
	return true
}

func holds(operator string, want, have []string) bool {
	operator, ifExists := strings.CutSuffix(operator, "IfExists")
	if ifExists && have == nil {
		return true
	}
	set, rest, ok := strings.Cut(operator, ":")
	if !ok {
		set, rest = "", operator
	}
	one := func(text string) bool {
		switch rest {
		case "StringEquals":
			return slices.Contains(want, text)
		case "StringNotEquals":
			return !slices.Contains(want, text)
		case "StringLike":
			return anyLike(want, text)
		}
		return !anyLike(want, text)
	}
	switch {
	case rest == "Null":
		return slices.Contains(want, map[bool]string{true: "true", false: "false"}[have == nil])
	case set == "ForAllValues":
		return !slices.ContainsFunc(have, func(text string) bool { return !one(text) })
	case set == "ForAnyValue":
		return slices.ContainsFunc(have, one)
	case have == nil:
		return strings.Contains(rest, "Not")
	}
	return one(have[0])
}

func drawStatement(t *rapid.T) modelStatement {
	some := func(label string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, 3, rapid.ID[string]).Draw(t, label)
	}
	pattern := rapid.StringMatching(`arn:aws:s3:::photos/[ab/*?]{0,6}`)
	s := modelStatement{Effect: rapid.SampledFrom([]string{"Allow", "Deny"}).Draw(t, "effect"), Principal: map[string][]string{"AWS": some("principal", "*", "main", "other")}}
	actions := some("actions", "s3:GetObject", "s3:PutObject", "s3:Put*", "s3:?etObject", "s3:*Tagging", "s3:GetObjectTagging")
	if rapid.Bool().Draw(t, "not action") {
		s.NotAction = actions
	} else {
		s.Action = actions
	}
	resources := rapid.SliceOfN(pattern, 1, 3).Draw(t, "resources")
	if rapid.Bool().Draw(t, "not resource") {
		s.NotResource = resources
	} else {
		s.Resource = resources
	}
	s.Condition = map[string]map[string][]string{}
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		operator := rapid.SampledFrom([]string{"StringEquals", "StringNotEquals", "StringLike", "StringNotLike"}).Draw(t, "operator")
		key := rapid.SampledFrom([]string{"aws:Referer", "aws:UserAgent"}).Draw(t, "key")
		values := rapid.SliceOfN(rapid.StringMatching(`[ab*?]{0,4}`), 1, 3).Draw(t, "values")
		operator = rapid.SampledFrom([]string{"", "ForAllValues:", "ForAnyValue:"}).Draw(t, "set") + operator + rapid.SampledFrom([]string{"", "IfExists"}).Draw(t, "if exists")
		if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
			operator, values = "Null", some("null", "true", "false")
		}
		if s.Condition[operator] == nil {
			s.Condition[operator] = map[string][]string{}
		}
		s.Condition[operator][key] = values
	}
	return s
}

func expected(all []modelStatement, account, action, resource string, v values) (d policy.Decision) {
	for i := range all {
		switch {
		case !all[i].applies(account, action, resource, v):
		case all[i].Effect == "Deny":
			return policy.Denied
		case slices.Contains(all[i].Principal["AWS"], "*"):
			d = policy.AllowedEverybody
		default:
			d = max(d, policy.AllowedAccount)
		}
	}
	return d
}

// TestModel compares random policies with modelStatement.
func TestModel(t *testing.T) {
	t.Parallel()
	names := map[string]buckets.AccountID{"main": owner, "other": other, "third": third}
	rapid.Check(t, func(t *rapid.T) {
		var all []modelStatement
		for range rapid.IntRange(1, 4).Draw(t, "statements") {
			all = append(all, drawStatement(t))
		}
		document, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": all})
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := policy.New(t.Context(), accounts{}, "", "photos", document)
		if err != nil {
			t.Skip(err) // e.g. because no action applies to an object
		}
		for range 20 {
			account := rapid.SampledFrom([]string{"main", "other", "third", ""}).Draw(t, "account")
			action := rapid.SampledFrom([]string{"s3:GetObject", "s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObject"}).Draw(t, "action")
			object := rapid.StringMatching(`[ab/]{1,5}`).Draw(t, "object")
			v := values{}
			for _, key := range []string{"aws:referer", "aws:useragent"} {
				if rapid.Bool().Draw(t, "has "+key) {
					v[key] = []string{rapid.StringMatching(`[ab]{0,4}`).Draw(t, key)}
				}
			}
			want := expected(all, account, action, "arn:aws:s3:::photos/"+object, v)
			got, err := p.Evaluate(policy.Request{Account: names[account], Action: policy.Action(action), Object: object, Context: v})
			if err != nil || got != want {
				t.Fatalf("%s of %s by %q with %v: %v (%v), want %v\n%s", action, object, account, v, got, err, want, document)
			}
		}
	})
}

// FuzzParse checks that every parsed policy can be evaluated, and that an added Deny statement denies everything.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"Version": "2012-10-17", "Id": "a", "Statement": [{"Sid": "b", "Effect": "Allow", "Principal": {"AWS": ["main", "*"]}, "NotAction": "s3:Get*", "NotResource": "arn:aws:s3:::photos/${aws:PrincipalAccount, 'x'}/?*"}]}`,
		`{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::photos*", "Condition": {"ForAnyValue:StringLikeIfExists": {"s3:RequestObjectTagKeys": ["a*", "?b"]}, "IpAddress": {"aws:SourceIp": "10.0.0.0/8"}, "DateLessThan": {"aws:CurrentTime": "2026-01-01"}, "Bool": {"aws:SecureTransport": true}, "NumericEquals": {"s3:max-keys": 1e3}}}}`,
		`[[[[[[[[[[`, "{\"Statement\": \xff}", `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"CanonicalUser": "x"}}]}`,
	} {
		f.Add(seed, "a/b")
	}
	f.Fuzz(func(t *testing.T, document, object string) {
		p, _, err := policy.New(t.Context(), accounts{}, "", "photos", []byte(document))
		if err != nil {
			if _, ok := errors.AsType[*policy.Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		_, _ = p.IsPublic(), p.Shares(other)
		v := values{"aws:sourceip": {"10.1.2.3"}, "s3:requestobjecttagkeys": {object, "b"}, "aws:currenttime": {object}, "s3:max-keys": {object}, "aws:securetransport": {"true"}}
		for _, a := range policy.KnownActions() {
			d, err := p.Evaluate(policy.Request{Account: other, Action: a, Object: object, Context: v})
			if err != nil {
				t.Fatal(err)
			}
			if d == policy.AllowedEverybody && !strings.Contains(document, "*") {
				t.Fatalf("%s is allowed for everybody", a)
			}
		}
	})
}

// TestLongPatterns checks that no policy or key makes evaluation slow.
func TestLongPatterns(t *testing.T) { //nolint:paralleltest // AllocsPerRun
	for _, pattern := range []string{strings.Repeat("*a", 9000), strings.Repeat("a?*", 6000), strings.Repeat("*", 19000) + "b", "*" + strings.Repeat("a", 1000) + "b"} {
		p := of(t, `{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/`+pattern+`"}}`)
		if n := testing.AllocsPerRun(1, func() { decide(t, p, "", "s3:GetObject "+strings.Repeat("a", 1024), nil) }); n > 10 {
			t.Errorf("%.20s…: %v allocations", pattern, n)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	p := of(b, `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"], "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
		{"Effect": "Allow", "Principal": {"AWS": ["other", "third"]}, "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::photos/shared/*"},
		{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/public/*"}]}`)
	v := values{"aws:securetransport": {"true"}}
	for b.Loop() {
		if decide(b, p, other, "s3:GetObject shared/2026/01/31/photo.jpg", v) != policy.AllowedAccount {
			b.Fatal("not allowed")
		}
	}
}
