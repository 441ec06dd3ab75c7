package s3api

import (
	"net/http"
	"net/url"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/optional"
)

// parsed is the request as the operation will apply it. The request is parsed before it is authorized, and bucket policies
// and key limits see only these values, so they decide on the operation's effect. Values in a body, in the object to copy
// or in the upload to complete are added later, before the operation calls allow.
type parsed struct {
	condition       buckets.Condition // expected state of the object
	sourceCondition buckets.Condition // expected state of the source of a copy

	object buckets.Object // to store: its content type, headers, tags and lock
	acl    string         // canned ACL
	public bool           // the ACL lets everybody read
	class  string         // storage class as sent

	from      copyFrom
	replace   bool   // a copy gets new metadata
	retag     bool   // a copy gets new tags
	directive string // the metadata directive as sent
	source    string // the source of a copy as policies see it; set when it is resolved

	prefix, delimiter optional.Of[string]
	maxKeys           optional.Of[int]
}

// copyFrom is a parsed x-amz-copy-source.
type copyFrom struct {
	account string // "" for the requester's or a shared bucket
	bucket  string
	key     string
	version string // "" for the current version
}

// parse reads all headers that the operation applies, before access is checked.
func (x *request) parse() error {
	if err := x.parseConditions(); err != nil || x.op.parse == nil {
		return err
	}
	return x.op.parse(x)
}

// parsePut parses the headers of a request that describes a new object: PUT, a copy, or a new upload.
func (x *request) parsePut() (err error) {
	if err := x.parseFeatures(); err != nil {
		return err
	}
	p, copies := &x.parsed, x.isCopy()
	if copies {
		if err := x.parseCopy(); err != nil {
			return err
		}
	}
	if !copies || p.replace {
		if p.object.ContentType, p.object.Headers, err = x.metadata(); err != nil {
			return err
		}
	} else if to := text(x.in.Header.Get(redirectHeader)); to != "" {
		p.object.Headers = map[string]string{redirectHeader: to}
	}
	if !copies || p.retag {
		if p.object.Tags, err = x.tagsHeader(); err != nil {
			return err
		}
	}
	p.object.Lock, err = x.parseLock()
	return err
}

// parsePart parses UploadPart and UploadPartCopy.
func (x *request) parsePart() (err error) {
	if err := x.parseFeatures(); err != nil {
		return err
	}
	if x.hasLockHeaders() {
		return errLockOfPart
	}
	if x.isCopy() {
		x.parsed.from, err = x.parseSource()
	}
	return err
}

// parseCopy parses a copy's source and directives.
func (x *request) parseCopy() (err error) {
	p := &x.parsed
	if p.from, err = x.parseSource(); err != nil {
		return err
	}
	if p.replace, err = x.directive("X-Amz-Metadata-Directive"); err != nil {
		return err
	}
	p.directive = x.in.Header.Get("X-Amz-Metadata-Directive")
	p.retag, err = x.directive("X-Amz-Tagging-Directive")
	return err
}

var errStorageClass = refuse(http.StatusBadRequest, "InvalidStorageClass", "The storage class you specified is not valid: the server does not keep it")

// parseFeatures rejects headers of unsupported features. Ignoring them could e.g. store an object unencrypted.
func (x *request) parseFeatures() (err error) {
	for name := range x.in.Header {
		switch {
		case strings.HasPrefix(name, "X-Amz-Server-Side-Encryption"), strings.HasPrefix(name, "X-Amz-Grant"), name == "X-Amz-Write-Offset-Bytes":
			return errHeader(strings.ToLower(name), "")
		case name == "X-Amz-Storage-Class":
			x.parsed.class = x.in.Header.Get(name)
			var known bool
			if x.parsed.object.Class, known = buckets.ParseStorageClass(x.parsed.class); !known || x.parsed.object.Class != "" && x.Service.Limits().StandardOnly {
				return errStorageClass
			}
		}
	}
	x.parsed.acl = x.in.Header.Get("X-Amz-Acl")
	x.parsed.public, err = cannedACL(x.parsed.acl)
	return err
}

// parseSource parses x-amz-copy-source: BUCKET/KEY or ACCOUNT:BUCKET/KEY, maybe with a version.
func (x *request) parseSource() (from copyFrom, err error) {
	// Some clients do not escape "?" in keys.
	source, version, ok := strings.Cut(x.in.Header.Get("X-Amz-Copy-Source"), "?versionId=")
	if ok && version == "" {
		return from, errVersion
	}
	if source, err = url.PathUnescape(source); err != nil {
		return from, invalidArgument("x-amz-copy-source", "Invalid copy source encoding.")
	}
	bucket, key, ok := strings.Cut(strings.TrimPrefix(source, "/"), "/")
	if !ok || bucket == "" || key == "" {
		return from, invalidArgument("x-amz-copy-source", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
	}
	from = copyFrom{bucket: bucket, key: key, version: version}
	if a, b, ok := strings.Cut(bucket, ":"); ok {
		from.account, from.bucket = a, b
	}
	return from, buckets.CheckObjectName(key)
}

// parseList reads the parameters that policies can restrict.
func (x *request) parseList() error {
	p := &x.parsed
	p.prefix, p.delimiter = x.parameterValue("prefix"), x.parameterValue("delimiter")
	if x.query.Get("max-keys") != "" {
		n, err := x.count("max-keys")
		p.maxKeys = optional.Of[int]{Value: n, Set: err == nil}
	}
	return nil
}

// parameterValue tells an empty parameter from a missing parameter, as policies do.
func (x *request) parameterValue(name string) optional.Of[string] {
	return optional.Of[string]{Value: x.query.Get(name), Set: x.has(name)}
}

// version returns the version that the request names, if the operation applies it.
func (x *request) version() string {
	if !x.applies(policy.VersionID) {
		return ""
	}
	return x.query.Get("versionId")
}
