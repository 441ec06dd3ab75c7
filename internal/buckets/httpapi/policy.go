package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/web"
)

var errPolicy = web.Refuse(http.StatusForbidden, codeForbidden, "the bucket policy denies this")

// checkPolicy refuses an action if the bucket policy denies it to the owner. The rest of the policy does not apply,
// because a token is only for the account's own buckets.
func (x *exchange) checkPolicy(a policy.Action) error {
	p := x.policies.Of(&x.bucket)
	if p == nil {
		return nil
	}
	d, err := p.Evaluate(policy.Request{Account: x.owner, Action: a, Object: x.route.object, Context: x})
	if err == nil && d == policy.Denied {
		err = errPolicy
	}
	return err
}

func (x *exchange) Value(k policy.Key, name string) ([]string, error) {
	switch k {
	case policy.ExistingObjectTag:
		o, err := x.read()
		if v, ok := o.Tags[name]; err == nil && ok {
			return []string{v}, nil
		}
		if errors.Is(err, buckets.ErrNoObject) || errors.Is(err, buckets.ErrNoVersion) || errors.Is(err, errMarker) {
			err = nil
		}
		return nil, err
	case policy.SourceIP:
		if ip, ok := web.ClientIP(x.out); ok {
			return []string{ip.String()}, nil
		}
	case policy.SecureTransport:
		return []string{strconv.FormatBool(x.at.Scheme == "https")}, nil
	case policy.CurrentTime, policy.EpochTime:
		return []string{strconv.FormatInt(x.Clock().Unix(), 10)}, nil
	case policy.ResourceAccount, policy.S3ResourceAccount:
		return []string{string(x.owner)}, nil
	case policy.ObjectCreation:
		return []string{strconv.FormatBool(x.route.resource == object)}, nil
	case policy.Prefix, policy.Delimiter:
		return x.query[string(k[len("s3:"):])], nil
	case policy.VersionID:
		return x.query["version"], nil
	case policy.MaxKeys:
		return x.query["limit"], nil
	case policy.UserAgent, policy.Referer, policy.IfMatch, policy.IfNoneMatch:
		return x.in.Header.Values(k.Header()), nil
	}
	return nil, nil
}
