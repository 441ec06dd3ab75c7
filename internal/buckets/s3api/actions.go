package s3api

import (
	"net/http"

	"holdfast/internal/buckets/policy"
)

type need struct {
	actions []policy.Action
	late    bool // the operation calls allow once it knows the keys and tags
}

var actionsOf = map[bool]map[string]map[string]need{
	false: {
		"": {
			http.MethodGet: {actions: []policy.Action{policy.ListBucket}}, http.MethodHead: {actions: []policy.Action{policy.ListBucket}},
			http.MethodPut: {actions: []policy.Action{"s3:CreateBucket"}}, http.MethodDelete: {actions: []policy.Action{"s3:DeleteBucket"}},
			http.MethodPost: {[]policy.Action{policy.PutObject}, true},
		},
		"location":          readAndPut("s3:GetBucketLocation", ""),
		"uploads":           readAndPut("s3:ListBucketMultipartUploads", ""),
		"delete":            {http.MethodPost: {[]policy.Action{policy.DeleteObject}, true}},
		"versioning":        readAndPut("s3:GetBucketVersioning", "s3:PutBucketVersioning"),
		"versions":          readAndPut("s3:ListBucketVersions", ""),
		"acl":               readAndPut("s3:GetBucketAcl", "s3:PutBucketAcl"),
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
	},
	true: {
		"": {
			http.MethodGet: {actions: []policy.Action{policy.GetObject}}, http.MethodHead: {actions: []policy.Action{policy.GetObject}},
			http.MethodPut: {actions: []policy.Action{policy.PutObject}}, http.MethodDelete: {actions: []policy.Action{policy.DeleteObject}},
		},
		"uploadId": {
			http.MethodGet: {actions: []policy.Action{"s3:ListMultipartUploadParts"}}, http.MethodPut: {actions: []policy.Action{policy.PutObject}},
			http.MethodPost: {actions: []policy.Action{policy.PutObject}}, http.MethodDelete: {actions: []policy.Action{"s3:AbortMultipartUpload"}},
		},
		"uploads": {http.MethodPost: {actions: []policy.Action{policy.PutObject}}},
		"acl":     readAndPut("s3:GetObjectAcl", "s3:PutObjectAcl"),
		"tagging": {
			http.MethodGet: {actions: []policy.Action{policy.GetObjectTagging}}, http.MethodPut: {[]policy.Action{policy.PutObjectTagging}, true},
			http.MethodDelete: {actions: []policy.Action{"s3:DeleteObjectTagging"}},
		},
		"attributes": {http.MethodGet: {actions: []policy.Action{policy.GetObject, "s3:GetObjectAttributes"}}},
		"legal-hold": {
			http.MethodGet: {actions: []policy.Action{policy.GetObjectLegalHold}}, http.MethodPut: {[]policy.Action{policy.PutObjectLegalHold}, true},
		},
		"retention": {
			http.MethodGet: {actions: []policy.Action{policy.GetObjectRetention}}, http.MethodPut: {[]policy.Action{policy.PutObjectRetention}, true},
		},
	},
}

func readAndPut(get, put policy.Action) map[string]need {
	all := map[string]need{http.MethodGet: {actions: []policy.Action{get}}, http.MethodHead: {actions: []policy.Action{get}}}
	if put != "" {
		all[http.MethodPut], all[http.MethodDelete] = need{actions: []policy.Action{put}}, need{actions: []policy.Action{put}}
	}
	return all
}

func (x *request) needs() need {
	of := actionsOf[x.key != ""][x.parameter]
	n, ok := of[x.in.Method]
	if !ok && x.in.Method == http.MethodHead {
		n = of[http.MethodGet]
	}
	return n
}
