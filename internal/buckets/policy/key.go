package policy

import (
	"slices"
	"strings"
)

// Key is a condition key without the part after a slash, e.g. aws:SourceIp.
type Key string

// Condition keys with a value. Keys of features that Holdfast refuses, e.g. grants, have none.
const (
	SourceIP          Key = "aws:SourceIp"
	SecureTransport   Key = "aws:SecureTransport"
	CurrentTime       Key = "aws:CurrentTime"
	EpochTime         Key = "aws:EpochTime"
	UserAgent         Key = "aws:UserAgent"
	Referer           Key = "aws:Referer"
	PrincipalAccount  Key = "aws:PrincipalAccount"
	PrincipalArn      Key = "aws:PrincipalArn"
	PrincipalType     Key = "aws:PrincipalType"
	ResourceAccount   Key = "aws:ResourceAccount"
	S3ResourceAccount Key = "s3:ResourceAccount"
	AuthType          Key = "s3:authType"
	SignatureVersion  Key = "s3:signatureversion"
	SignatureAge      Key = "s3:signatureAge"
	TLSVersion        Key = "s3:TlsVersion"
	VersionID         Key = "s3:versionid"
	Prefix            Key = "s3:prefix"
	Delimiter         Key = "s3:delimiter"
	MaxKeys           Key = "s3:max-keys"
	CopySource        Key = "s3:x-amz-copy-source"
	ObjectCreation    Key = "s3:ObjectCreationOperation"
	IfMatch           Key = "s3:if-match"
	IfNoneMatch       Key = "s3:if-none-match"
	ExistingObjectTag Key = "s3:ExistingObjectTag"
	RequestObjectTag  Key = "s3:RequestObjectTag"
	RequestTagKeys    Key = "s3:RequestObjectTagKeys"
	LockMode          Key = "s3:object-lock-mode"
	LockHold          Key = "s3:object-lock-legal-hold"
	LockUntil         Key = "s3:object-lock-retain-until-date"
	LockDays          Key = "s3:object-lock-remaining-retention-days"
	ContentSHA256     Key = "s3:x-amz-content-sha256"
	ACL               Key = "s3:x-amz-acl"
	StorageClass      Key = "s3:x-amz-storage-class"
	Redirect          Key = "s3:x-amz-website-redirect-location"
	MetadataDirective Key = "s3:x-amz-metadata-directive"
)

// kind is the type of a condition key's values.
type kind uint8

const (
	text kind = iota
	number
	date
	boolean
	network
	arn
)

// key is a known condition key.
type key struct {
	name  Key
	kind  kind
	multi bool              // the request may have several values
	named bool              // requires a name after a slash
	of    func(Action) bool // actions that have the key
}

var (
	// Actions that have certain keys, as S3's reference lists them.
	lists = actionsIn(ListBucket, "s3:ListBucketVersions", "s3:ListBucketMultipartUploads")
	puts  = actionsIn(PutObject)
	tags  = actionsIn(PutObject, PutObjectTagging, "s3:PutObjectVersionTagging")
	acls  = actionsIn(PutObject, "s3:PutObjectAcl", "s3:PutObjectVersionAcl", "s3:PutBucketAcl")
	keeps = actionsIn(PutObject, PutObjectRetention, BypassGovernance)
	holds = actionsIn(PutObject, PutObjectLegalHold)
	vers  = func(a Action) bool { return strings.Contains(string(a), "Version") && known[a] == ofObject }
)

// anyAction is for keys that belong to the client or the signature.
func anyAction(Action) bool { return true }

// objectAction is for keys of existing objects.
func objectAction(a Action) bool { return known[a] == ofObject }

// actionsIn is for keys of some actions.
func actionsIn(all ...Action) func(Action) bool {
	return func(a Action) bool { return slices.Contains(all, a) }
}

// keys are the known condition keys by name in lower case. Keys without a constant are valid in policies, but no
// request has a value for them.
var keys = func() map[string]key {
	all := map[string]key{}
	add := func(kind kind, of func(Action) bool, names ...Key) {
		for _, name := range names {
			all[strings.ToLower(string(name))] = key{name: name, kind: kind, of: of}
		}
	}
	add(network, anyAction, SourceIP)
	add(boolean, anyAction, SecureTransport)
	add(date, anyAction, CurrentTime, EpochTime)
	add(text, anyAction, UserAgent, Referer, PrincipalAccount, PrincipalType, ResourceAccount, S3ResourceAccount, AuthType, SignatureVersion, ContentSHA256)
	add(arn, anyAction, PrincipalArn)
	add(number, anyAction, SignatureAge, TLSVersion)
	add(text, vers, VersionID)
	add(text, lists, Prefix, Delimiter)
	add(number, lists, MaxKeys)
	add(text, acls, ACL, "s3:x-amz-grant-read", "s3:x-amz-grant-write", "s3:x-amz-grant-read-acp", "s3:x-amz-grant-write-acp", "s3:x-amz-grant-full-control")
	add(text, puts, CopySource, IfMatch, IfNoneMatch, MetadataDirective, StorageClass, Redirect,
		"s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id", "s3:x-amz-server-side-encryption-customer-algorithm")
	add(boolean, puts, ObjectCreation)
	add(text, keeps, LockMode)
	add(date, keeps, LockUntil)
	add(number, keeps, LockDays)
	add(text, holds, LockHold)
	for name, k := range map[Key]key{
		ExistingObjectTag: {of: objectAction, named: true},
		RequestObjectTag:  {of: tags, named: true},
		RequestTagKeys:    {of: tags, multi: true},
	} {
		k.name = name
		all[strings.ToLower(string(name))] = k
	}
	return all
}()

// KnownKeys returns all condition keys allowed in a policy.
func KnownKeys() (all []Key) {
	for _, k := range keys {
		all = append(all, k.name)
	}
	slices.Sort(all)
	return all
}

// findKey ignores the case of the key, but not of the name after the slash.
func findKey(text string) (k key, name string, ok bool) {
	text, name, slash := strings.Cut(text, "/")
	k, ok = keys[strings.ToLower(text)]
	return k, name, ok && k.named == (slash && name != "")
}
