package s3api

import (
	"slices"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
)

// values returns the condition values for an access. This file must not read the request: a test checks that.
func (x *request) values(a access) *policy.Values {
	p := &x.parsed
	object := existing{request: x, key: a.key, version: a.version}
	return &policy.Values{
		Client: x.client(), Signature: x.signature(), Owner: x.owner, Now: x.Service.Now().Time(),
		Operation: policy.Operation{
			Keys: x.needs().keys, Version: buckets.VersionID(a.version), Condition: p.condition,
			Prefix: p.prefix, Delimiter: p.delimiter, MaxKeys: p.maxKeys,
			Creates: x.op.puts && x.parameter != "uploads", ACL: p.acl, Class: p.class, Directive: p.directive, Source: p.source,
			Redirect: p.object.Headers["x-amz-website-redirect-location"], Lock: p.object.Lock,
			Tags:       func() (map[string]string, error) { return p.object.Tags, nil },
			ObjectTags: object.tags,
		},
	}
}

// applies reports whether the operation applies a condition key.
func (x *request) applies(k policy.Key) bool { return slices.Contains(x.needs().keys, k) }
