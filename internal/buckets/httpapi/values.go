package httpapi

import (
	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/optional"
)

// values returns the condition values. They must mean the same as on the S3 listener, so that a policy has the same
// effect on both. This file must not read the request: a test checks that.
func (x *exchange) values() *policy.Values {
	p := &x.parsed
	return &policy.Values{
		Client: x.client(), Owner: x.owner, Now: x.Clock(),
		Signature: policy.Signature{Payload: sigv4.UnsignedPayload}, // a token does not cover the body
		Operation: policy.Operation{
			Keys: x.act.keys, Version: buckets.VersionID(p.version), Condition: p.condition, Creates: x.act.creates,
			Prefix: p.prefix, Delimiter: p.delimiter, MaxKeys: p.limit,
			Redirect: p.headers["x-amz-website-redirect-location"], ObjectTags: x.objectTags,
		},
	}
}

// parsed is the request as the operation will apply it, parsed before it is authorized.
type parsed struct {
	condition buckets.Condition
	version   string            // "" for the current version
	headers   map[string]string // to store with the object

	prefix, delimiter optional.Of[string]
	limit             optional.Of[int]
}
