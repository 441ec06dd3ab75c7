package policy

import (
	"maps"
	"slices"
	"strings"
)

// Action is an S3 action, e.g. s3:GetObject.
type Action string

// Actions that the server refers to by name.
const (
	GetObject          Action = "s3:GetObject"
	PutObject          Action = "s3:PutObject"
	DeleteObject       Action = "s3:DeleteObject"
	ListBucket         Action = "s3:ListBucket"
	GetObjectTagging   Action = "s3:GetObjectTagging"
	PutObjectTagging   Action = "s3:PutObjectTagging"
	GetBucketPolicy    Action = "s3:GetBucketPolicy"
	PutBucketPolicy    Action = "s3:PutBucketPolicy"
	DeleteBucketPolicy Action = "s3:DeleteBucketPolicy"
	GetObjectRetention Action = "s3:GetObjectRetention"
	PutObjectRetention Action = "s3:PutObjectRetention"
	GetObjectLegalHold Action = "s3:GetObjectLegalHold"
	PutObjectLegalHold Action = "s3:PutObjectLegalHold"
	BypassGovernance   Action = "s3:BypassGovernanceRetention"
)

// resourceKind says whether an action concerns buckets, objects or both.
type resourceKind uint8

const (
	ofBucket resourceKind = 1 << iota
	ofObject
)

// known are all actions allowed in a policy, including those without an operation in this server.
var known = func() map[Action]resourceKind {
	all := map[Action]resourceKind{}
	add := func(kind resourceKind, names string) {
		for name := range strings.FieldsSeq(names) {
			all["s3:"+Action(name)] = kind
		}
	}
	add(ofBucket, `DeleteBucket DeleteBucketPolicy DeleteBucketWebsite GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAbac GetBucketAcl
		GetBucketCORS GetBucketLocation GetBucketLogging GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls
		GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock GetBucketRequestPayment GetBucketTagging GetBucketVersioning
		GetBucketWebsite GetEncryptionConfiguration GetIntelligentTieringConfiguration GetInventoryConfiguration
		GetLifecycleConfiguration GetMetricsConfiguration GetReplicationConfiguration ListBucket ListBucketMultipartUploads
		ListBucketVersions PutAccelerateConfiguration PutAnalyticsConfiguration PutBucketAbac PutBucketAcl PutBucketCORS PutBucketLogging
		PutBucketNotification PutBucketObjectLockConfiguration PutBucketOwnershipControls PutBucketPolicy
		PutBucketPublicAccessBlock PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite
		PutEncryptionConfiguration PutIntelligentTieringConfiguration PutInventoryConfiguration PutLifecycleConfiguration
		PutMetricsConfiguration PutReplicationConfiguration`)
	add(ofObject, `AbortMultipartUpload BypassGovernanceRetention DeleteObject DeleteObjectTagging DeleteObjectVersion
		DeleteObjectVersionTagging GetObject GetObjectAcl GetObjectAttributes GetObjectLegalHold GetObjectRetention GetObjectTagging
		GetObjectTorrent GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionForReplication
		GetObjectVersionTagging GetObjectVersionTorrent ListMultipartUploadParts ObjectOwnerOverrideToBucketOwner PutObject
		PutObjectAcl PutObjectLegalHold PutObjectRetention PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging
		ReplicateDelete ReplicateObject ReplicateTags RestoreObject`)
	return all
}()

var inOrder = slices.Sorted(maps.Keys(known))

// KnownActions lists all actions that a policy may name, sorted.
func KnownActions() []Action { return slices.Clone(inOrder) }

// OfVersion returns the action for a request that names a version.
func OfVersion(a Action) Action {
	switch a {
	case GetObject, DeleteObject, "s3:GetObjectAcl", "s3:GetObjectAttributes", "s3:GetObjectTagging", "s3:PutObjectAcl", "s3:PutObjectTagging", "s3:DeleteObjectTagging":
		verb, rest, _ := strings.Cut(string(a), "Object")
		return Action(verb + "ObjectVersion" + rest)
	}
	return a
}

// matchActions returns the known actions that match a pattern. It ignores case.
func matchActions(p string) (all []Action) {
	glob := literalGlob(strings.ToLower(p))
	for _, a := range inOrder {
		if glob.match(strings.ToLower(string(a)), nil) {
			all = append(all, a)
		}
	}
	return all
}
