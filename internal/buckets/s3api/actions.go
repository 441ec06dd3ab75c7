package s3api

import (
	"net/http"
	"slices"

	"holdfast/internal/buckets/policy"
)

// need is the access that an operation needs.
type need struct {
	actions []policy.Action // S3 actions that a policy must allow, all for the same resource

	// keys are the condition keys that the operation applies. Policies see no others.
	keys []policy.Key

	// late means that the operation calls allow once it knows all values, e.g. tags in the body. A copy does this, too.
	late bool
}

var (
	// Condition keys that several operations apply.
	ofVersion = []policy.Key{policy.VersionID, policy.ExistingObjectTag}
	ofObjects = []policy.Key{policy.ExistingObjectTag}
	ofListing = []policy.Key{policy.Prefix, policy.Delimiter, policy.MaxKeys}

	ofLock   = []policy.Key{policy.LockMode, policy.LockUntil, policy.LockDays, policy.LockHold}
	ofUpload = join(ofObjects, ofLock, policy.ObjectCreation, policy.Redirect, policy.RequestObjectTag, policy.RequestTagKeys)
	ofPut    = join(ofUpload, nil, policy.IfMatch, policy.IfNoneMatch, policy.ACL, policy.StorageClass)
)

func join(a, b []policy.Key, more ...policy.Key) []policy.Key { return slices.Concat(a, b, more) }

// actionsOf gives the needs by: object or bucket, the query parameter that selects the operation, and the method. A
// combination without an entry has no need, so it is refused with a policy.
var actionsOf = map[bool]map[string]map[string]need{
	false: {
		"": {
			http.MethodGet:  {actions: []policy.Action{policy.ListBucket}, keys: ofListing},
			http.MethodHead: {actions: []policy.Action{policy.ListBucket}},
			http.MethodPut:  {actions: []policy.Action{"s3:CreateBucket"}}, http.MethodDelete: {actions: []policy.Action{"s3:DeleteBucket"}},
		},
		"location":   readAndPut("s3:GetBucketLocation", ""),
		"uploads":    {http.MethodGet: {actions: []policy.Action{"s3:ListBucketMultipartUploads"}, keys: []policy.Key{policy.Prefix, policy.Delimiter}}},
		"delete":     {http.MethodPost: {actions: []policy.Action{policy.DeleteObject}, keys: ofVersion, late: true}},
		"versioning": readAndPut("s3:GetBucketVersioning", "s3:PutBucketVersioning"),
		"versions":   {http.MethodGet: {actions: []policy.Action{"s3:ListBucketVersions"}, keys: ofListing}},
		"acl": {
			http.MethodGet: {actions: []policy.Action{"s3:GetBucketAcl"}},
			http.MethodPut: {actions: []policy.Action{"s3:PutBucketAcl"}, keys: []policy.Key{policy.ACL}, late: true},
		},
		"cors":              readAndPut("s3:GetBucketCORS", "s3:PutBucketCORS"),
		"tagging":           readAndPut("s3:GetBucketTagging", "s3:PutBucketTagging"),
		"policyStatus":      readAndPut("s3:GetBucketPolicyStatus", ""),
		"ownershipControls": readAndPut("s3:GetBucketOwnershipControls", "s3:PutBucketOwnershipControls"),
		"publicAccessBlock": readAndPut("s3:GetBucketPublicAccessBlock", "s3:PutBucketPublicAccessBlock"),
		"policy": {
			http.MethodGet: {actions: []policy.Action{policy.GetBucketPolicy}}, http.MethodPut: {actions: []policy.Action{policy.PutBucketPolicy}},
			http.MethodDelete: {actions: []policy.Action{policy.DeleteBucketPolicy}},
		},
		"lifecycle":      readAndPut("s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration"),
		"encryption":     readAndPut("s3:GetEncryptionConfiguration", "s3:PutEncryptionConfiguration"),
		"replication":    readAndPut("s3:GetReplicationConfiguration", "s3:PutReplicationConfiguration"),
		"object-lock":    readAndPut("s3:GetBucketObjectLockConfiguration", "s3:PutBucketObjectLockConfiguration"),
		"website":        readAndPut("s3:GetBucketWebsite", "s3:PutBucketWebsite"),
		"logging":        readAndPut("s3:GetBucketLogging", "s3:PutBucketLogging"),
		"notification":   readAndPut("s3:GetBucketNotification", "s3:PutBucketNotification"),
		"accelerate":     readAndPut("s3:GetAccelerateConfiguration", "s3:PutAccelerateConfiguration"),
		"requestPayment": readAndPut("s3:GetBucketRequestPayment", "s3:PutBucketRequestPayment"),

		"abac":                readAndPut("s3:GetBucketAbac", "s3:PutBucketAbac"),
		"analytics":           readAndPut("s3:GetAnalyticsConfiguration", "s3:PutAnalyticsConfiguration"),
		"inventory":           readAndPut("s3:GetInventoryConfiguration", "s3:PutInventoryConfiguration"),
		"metrics":             readAndPut("s3:GetMetricsConfiguration", "s3:PutMetricsConfiguration"),
		"intelligent-tiering": readAndPut("s3:GetIntelligentTieringConfiguration", "s3:PutIntelligentTieringConfiguration"),
	},
	true: {
		"": {
			http.MethodGet:    {actions: []policy.Action{policy.GetObject}, keys: ofVersion},
			http.MethodHead:   {actions: []policy.Action{policy.GetObject}, keys: ofVersion},
			http.MethodPut:    {actions: []policy.Action{policy.PutObject}, keys: join(ofPut, nil, policy.CopySource, policy.MetadataDirective)},
			http.MethodDelete: {actions: []policy.Action{policy.DeleteObject}, keys: ofVersion},
		},
		"uploadId": {
			http.MethodGet:    {actions: []policy.Action{"s3:ListMultipartUploadParts"}, keys: ofObjects},
			http.MethodPut:    {actions: []policy.Action{policy.PutObject}, keys: join(ofUpload, nil, policy.CopySource), late: true},
			http.MethodPost:   {actions: []policy.Action{policy.PutObject}, keys: join(ofUpload, nil, policy.IfMatch, policy.IfNoneMatch), late: true},
			http.MethodDelete: {actions: []policy.Action{"s3:AbortMultipartUpload"}, keys: ofObjects},
		},
		"uploads": {http.MethodPost: {actions: []policy.Action{policy.PutObject}, keys: ofPut}},
		"acl": {
			http.MethodGet: {actions: []policy.Action{"s3:GetObjectAcl"}, keys: ofVersion},
			http.MethodPut: {actions: []policy.Action{"s3:PutObjectAcl"}, keys: join(ofVersion, nil, policy.ACL), late: true},
		},
		"tagging": {
			http.MethodGet:    {actions: []policy.Action{policy.GetObjectTagging}, keys: ofVersion},
			http.MethodPut:    {actions: []policy.Action{policy.PutObjectTagging}, keys: join(ofVersion, nil, policy.RequestObjectTag, policy.RequestTagKeys), late: true},
			http.MethodDelete: {actions: []policy.Action{"s3:DeleteObjectTagging"}, keys: ofVersion},
		},
		"attributes": {http.MethodGet: {actions: []policy.Action{policy.GetObject, "s3:GetObjectAttributes"}, keys: ofVersion}},
		"legal-hold": {
			http.MethodGet: {actions: []policy.Action{policy.GetObjectLegalHold}, keys: ofVersion},
			http.MethodPut: {actions: []policy.Action{policy.PutObjectLegalHold}, keys: join(ofVersion, nil, policy.LockHold), late: true},
		},
		"retention": {
			http.MethodGet: {actions: []policy.Action{policy.GetObjectRetention}, keys: ofVersion},
			http.MethodPut: {actions: []policy.Action{policy.PutObjectRetention}, keys: join(ofVersion, nil, policy.LockMode, policy.LockUntil, policy.LockDays), late: true},
		},
	},
}

// readAndPut covers a bucket setting. S3 requires the same action for DELETE as for PUT. put is "" if S3 offers no
// change.
func readAndPut(get, put policy.Action) map[string]need {
	all := map[string]need{http.MethodGet: {actions: []policy.Action{get}}, http.MethodHead: {actions: []policy.Action{get}}}
	if put != "" {
		all[http.MethodPut], all[http.MethodDelete] = need{actions: []policy.Action{put}}, need{actions: []policy.Action{put}}
	}
	return all
}

// needs returns the need for this request. HEAD needs the same as GET.
func (x *request) needs() need {
	if x.op.need.actions != nil {
		return x.op.need
	}
	of := actionsOf[x.key != ""][x.parameter]
	n, ok := of[x.in.Method]
	if !ok && x.in.Method == http.MethodHead {
		n = of[http.MethodGet]
	}
	return n
}
