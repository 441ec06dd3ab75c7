package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

type corsConfiguration struct {
	XMLName xml.Name `xml:"CORSConfiguration"`
	Rules   []struct {
		ID      string   `xml:"ID" s3:"empty"`
		Origins []string `xml:"AllowedOrigin"`
		Methods []string `xml:"AllowedMethod"`
		Headers []string `xml:"AllowedHeader"`
		Expose  []string `xml:"ExposeHeader" s3:"empty"`
		MaxAge  int      `xml:"MaxAgeSeconds"`
	} `xml:"CORSRule"`
}

// varyCORS names the request headers that CORS headers depend on.
const varyCORS = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"

// getCORS serves GetBucketCors.
func (x *request) getCORS() error {
	rules := x.bucket.Settings.CORS
	if len(rules) == 0 {
		return refuse(http.StatusNotFound, "NoSuchCORSConfiguration", "The CORS configuration does not exist")
	}
	d := newDocument("CORSConfiguration")
	for i := range rules {
		d.begin("CORSRule")
		d.optional("ID", rules[i].ID)
		for _, v := range rules[i].AllowedMethods {
			d.text("AllowedMethod", v)
		}
		for _, v := range rules[i].AllowedOrigins {
			d.text("AllowedOrigin", v)
		}
		for _, v := range rules[i].AllowedHeaders {
			d.text("AllowedHeader", v)
		}
		for _, v := range rules[i].ExposeHeaders {
			d.text("ExposeHeader", v)
		}
		if rules[i].MaxAgeSeconds > 0 {
			d.number("MaxAgeSeconds", int64(rules[i].MaxAgeSeconds))
		}
		d.end()
	}
	sendXML(x.out, http.StatusOK, d)
	return nil
}

// putCORS serves PutBucketCors, which replaces all rules.
func (x *request) putCORS() error {
	var c corsConfiguration
	if err := x.readXML(&c, sigv4.BodyOptions{MaxSize: maxSettings}); err != nil {
		return err
	}
	rules := make([]buckets.CORSRule, len(c.Rules))
	for i, r := range c.Rules {
		rules[i] = buckets.CORSRule{
			ID: r.ID, AllowedOrigins: r.Origins, AllowedMethods: r.Methods, AllowedHeaders: r.Headers, ExposeHeaders: r.Expose, MaxAgeSeconds: r.MaxAge,
		}
	}
	if invalid := buckets.CheckCORS(rules); invalid != nil && invalid.Malformed {
		return errMalformedXML
	} else if invalid != nil {
		return invalidRequest(invalid.Error() + ".")
	}
	return x.set(buckets.SettingsChange{CORS: &rules}, http.StatusOK)
}

// deleteCORS serves DeleteBucketCors.
func (x *request) deleteCORS() error {
	if err := x.ready(); err != nil {
		return err
	}
	return x.set(buckets.SettingsChange{CORS: new([]buckets.CORSRule)}, http.StatusNoContent)
}

// matches compares with a pattern that may contain "*" once.
func matches(pattern, text string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	return len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}

// corsRule returns the first rule that allows the request. headers must be in lower case.
func corsRule(rules []buckets.CORSRule, origin, method string, headers []string) *buckets.CORSRule {
	for i := range rules {
		r := &rules[i]
		if slices.ContainsFunc(r.AllowedOrigins, func(p string) bool { return matches(p, origin) }) &&
			slices.Contains(r.AllowedMethods, method) && !slices.ContainsFunc(headers, func(h string) bool {
			return !slices.ContainsFunc(r.AllowedHeaders, func(p string) bool { return matches(strings.ToLower(p), h) })
		}) {
			return r
		}
	}
	return nil
}

// preflight answers OPTIONS. Browsers send it without credentials, so any bucket that the following request could mean
// may allow it. A preflight reveals only rules, never whether an object exists.
func (x *request) preflight() error {
	origin, method := x.in.Header.Get("Origin"), x.in.Header.Get("Access-Control-Request-Method")
	if origin == "" || method == "" {
		return refuse(http.StatusBadRequest, "BadRequest", "Insufficient information. Origin request header needed.")
	}
	denied := refuse(http.StatusForbidden, "AccessForbidden", "CORSResponse: This CORS request is not allowed. The bucket has no CORS rules, or they do not allow the origin, the method or a header.")
	if x.route.bucket == "" {
		return denied
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	named, err := x.possibleBuckets()
	if err != nil && !errors.Is(err, buckets.ErrNoBucket) {
		return err
	}
	var headers []string
	for h := range strings.SplitSeq(x.in.Header.Get("Access-Control-Request-Headers"), ",") {
		if h = strings.ToLower(strings.TrimSpace(h)); h != "" {
			headers = append(headers, h)
		}
	}
	var rule *buckets.CORSRule
	for i := range named {
		if rule = corsRule(named[i].Settings.CORS, origin, method, headers); rule != nil {
			x.rules.set(x.ruleKey(x.keyID()), named[i])
			break
		}
	}
	if rule == nil {
		return denied
	}
	x.writeCORS(rule, origin)
	h := x.out.Header()
	h.Add("Vary", varyCORS)
	if len(headers) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(headers, ", "))
	}
	if rule.MaxAgeSeconds > 0 {
		h.Set("Access-Control-Max-Age", strconv.Itoa(rule.MaxAgeSeconds))
	}
	return x.send(http.StatusOK)
}

// allowOrigin adds CORS headers by the rules of the resolved bucket, and remembers the rules for errors.
func (x *request) allowOrigin() {
	if x.in.Header.Get("Origin") != "" {
		x.rules.set(x.ruleKey(x.keyID()), x.bucket)
	}
	x.allowBy(x.bucket.Settings.CORS)
}

// allowBy adds CORS headers if a rule allows the origin, and settles the question for errors too.
func (x *request) allowBy(rules []buckets.CORSRule) {
	x.originDecided = true
	if len(rules) == 0 {
		return
	}
	// Set the header even without an Origin, because caches must not reuse this response for other origins.
	x.out.Header().Add("Vary", varyCORS)
	origin := x.in.Header.Get("Origin")
	if origin == "" {
		return
	}
	if rule := corsRule(rules, origin, x.in.Method, nil); rule != nil {
		x.writeCORS(rule, origin)
	}
}

// writeCORS allows credentials except for origin "*", as S3 does.
func (x *request) writeCORS(rule *buckets.CORSRule, origin string) {
	h := x.out.Header()
	if slices.Contains(rule.AllowedOrigins, "*") {
		h.Set("Access-Control-Allow-Origin", "*")
	} else {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(rule.AllowedMethods, ", "))
	if len(rule.ExposeHeaders) > 0 {
		h.Set("Access-Control-Expose-Headers", strings.Join(rule.ExposeHeaders, ", "))
	}
}
