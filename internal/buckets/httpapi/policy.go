package httpapi

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

var errPolicy = web.Refuse(http.StatusForbidden, codeForbidden, "the bucket policy denies this")

// checkPolicy refuses an action if the bucket policy denies it to the owner. The rest of the policy does not apply,
// because a token is only for the account's own buckets.
func (x *exchange) checkPolicy() error {
	p := x.policies.Of(&x.bucket)
	if p == nil {
		return nil
	}
	d, err := p.Evaluate(policy.Request{Account: x.owner, Action: x.needs(), Object: x.route.object, Context: x.values()})
	if err == nil && d == policy.Denied {
		err = errPolicy
	}
	return err
}

// needs returns the action that a policy must not deny.
func (x *exchange) needs() policy.Action {
	if x.act.versioned != "" && x.query.Has("version") {
		return x.act.versioned
	}
	return x.act.needs
}

// client tells policies about the client.
func (x *exchange) client() policy.Client {
	h := x.in.Header
	c := policy.Client{Secure: x.at.Scheme == "https", UserAgent: h["User-Agent"], Referer: h["Referer"]}
	c.IP, _ = web.ClientIP(x.in)
	if x.in.TLS != nil {
		c.TLSVersion = "1." + strconv.Itoa(int(x.in.TLS.Version)-tls.VersionTLS10)
	}
	return c
}

// objectTags returns nil if the object does not exist.
func (x *exchange) objectTags() (map[string]string, error) {
	o, err := x.read()
	switch {
	case err == nil:
		return o.Tags, nil
	case errors.Is(err, buckets.ErrNoObject), errors.Is(err, buckets.ErrNoVersion), errors.Is(err, errMarker), errcode.Is(err, errcode.Invalid):
		return nil, nil //nolint:nilnil // no tags
	}
	return nil, err
}
