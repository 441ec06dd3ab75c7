package s3api

import (
	"cmp"
	"net/http"
	"slices"
)

// Operations lists the operation names passed to Handler.Observe.
var Operations = []string{
	"ListBuckets", "CreateBucket", "HeadBucket", "DeleteBucket", "ListObjects", "ListMultipartUploads", "DeleteObjects", "PostObject",
	"GetObject", "HeadObject", "PutObject", "CopyObject", "DeleteObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy",
	"ListParts", "CompleteMultipartUpload", "AbortMultipartUpload", other,
}

// other is the operation name for settings, preflights, and requests that S3 does not know.
const other = "other"

// name returns the operation for metrics. It is called even if the request failed before routing, so it looks only at
// the request.
func (x *request) name() string {
	if x.query == nil {
		return other
	}
	s, _ := x.selected()
	name := nameOf(x.route.bucket != "", x.key != "", s.parameter, x.in.Method)
	if x.in.Header.Get("X-Amz-Copy-Source") != "" {
		name = cmp.Or(copies[name], name)
	}
	if !slices.Contains(Operations, name) {
		return other
	}
	return name
}

// copies name the operations with x-amz-copy-source.
var copies = map[string]string{"PutObject": "CopyObject", "UploadPart": "UploadPartCopy"}

// names are the operations whose names do not begin with the method, by object or bucket, parameter and method.
var names = map[bool]map[string]map[string]string{
	false: {
		"":          {http.MethodGet: "ListObjects", http.MethodHead: "HeadBucket", http.MethodPut: "CreateBucket", http.MethodDelete: "DeleteBucket", http.MethodPost: "PostObject"},
		"uploads":   {http.MethodGet: "ListMultipartUploads"},
		"delete":    {http.MethodPost: "DeleteObjects"},
		"versions":  {http.MethodGet: "ListObjectVersions"},
		"lifecycle": {http.MethodDelete: "DeleteBucketLifecycle"},
		"session":   {http.MethodGet: "CreateSession"},

		"metadataConfiguration":  {http.MethodPost: "CreateBucketMetadataConfiguration"},
		"metadataTable":          {http.MethodPost: "CreateBucketMetadataTableConfiguration"},
		"metadataInventoryTable": {http.MethodPut: "UpdateBucketMetadataInventoryTableConfiguration"},
		"metadataJournalTable":   {http.MethodPut: "UpdateBucketMetadataJournalTableConfiguration"},
	},
	true: {
		"":         {http.MethodHead: "HeadObject"},
		"uploadId": {http.MethodPut: "UploadPart", http.MethodGet: "ListParts", http.MethodPost: "CompleteMultipartUpload", http.MethodDelete: "AbortMultipartUpload"},
		"uploads":  {http.MethodPost: "CreateMultipartUpload"},
		"restore":  {http.MethodPost: "RestoreObject"},
		"select":   {http.MethodPost: "SelectObjectContent"},

		"encryption":   {http.MethodPut: "UpdateObjectEncryption"},
		"renameObject": {http.MethodPut: "RenameObject"},
	},
}

// nouns follow Get, Put or Delete in the other operations' names.
var nouns = map[bool]map[string]string{
	false: {
		"location": "BucketLocation", "versioning": "BucketVersioning", "acl": "BucketAcl", "cors": "BucketCors", "tagging": "BucketTagging",
		"policyStatus": "BucketPolicyStatus", "ownershipControls": "BucketOwnershipControls", "publicAccessBlock": "PublicAccessBlock",
		"policy": "BucketPolicy", "lifecycle": "BucketLifecycleConfiguration", "encryption": "BucketEncryption", "replication": "BucketReplication",
		"object-lock": "ObjectLockConfiguration", "website": "BucketWebsite", "logging": "BucketLogging",
		"notification": "BucketNotificationConfiguration", "accelerate": "BucketAccelerateConfiguration", "requestPayment": "BucketRequestPayment",
		"analytics": "BucketAnalyticsConfiguration", "inventory": "BucketInventoryConfiguration", "metrics": "BucketMetricsConfiguration",
		"intelligent-tiering": "BucketIntelligentTieringConfiguration", "abac": "BucketAbac",
		"metadataConfiguration": "BucketMetadataConfiguration", "metadataTable": "BucketMetadataTableConfiguration",
	},
	true: {
		"": "Object", "acl": "ObjectAcl", "tagging": "ObjectTagging", "attributes": "ObjectAttributes", "legal-hold": "ObjectLegalHold",
		"retention": "ObjectRetention", "torrent": "ObjectTorrent",
	},
}

// verbs precede nouns.
var verbs = map[string]string{http.MethodGet: "Get", http.MethodHead: "Get", http.MethodPut: "Put", http.MethodDelete: "Delete"}

// nameOf returns an operation's name in the Amazon S3 API Reference, or "".
func nameOf(inBucket, ofObject bool, parameter, method string) string {
	if !inBucket {
		if method == http.MethodGet {
			return "ListBuckets"
		}
		return ""
	}
	name, ok := names[ofObject][parameter][method]
	verb, noun := verbs[method], nouns[ofObject][parameter]
	if !ok && verb != "" && noun != "" {
		return verb + noun
	}
	return name
}
