package s3api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
)

// operation describes an entry in the tables of this file. serve runs after access is allowed.
type operation struct {
	serve       func(*request) error
	right       buckets.Right // that an access key needs
	also        buckets.Right // a second right that an access key needs; may be empty
	needsBucket bool          // resolve finds and authorizes the bucket first
	public      bool          // allowed for anyone in a public bucket
	reads       bool          // without a request body, so it acquires its slot immediately
	object      bool          // resolve reads the object together with the bucket
	byName      bool          // see serveByName
	need        need          // zero: the need in actionsOf

	conditions []string             // conditional headers that the operation applies; a write with others is refused
	puts       bool                 // creates an object, so If-None-Match must be *
	copies     bool                 // with x-amz-copy-source, the body is another object
	form       bool                 // the request is a form upload
	chunks     bool                 // the body may be in chunks, which only streaming payload modes announce
	parse      func(*request) error // parses more than the conditions; may be nil

	optionalBody bool // a request without Content-Length is valid
}

// inBucket is the right of every access key for the bucket, because clients read bucket settings before anything else.
const inBucket buckets.Right = "in bucket"

// selected are the operations that a query parameter selects.
type selected struct {
	parameter string
	byMethod  map[string]operation
}

// ofBucket and ofObject list the operations that a query parameter selects, in lookup order.
var ofBucket = []selected{
	{"location", methods{http.MethodGet: read(inBucket, (*request).getLocation)}},
	{"uploads", methods{http.MethodGet: list((*request).listUploads)}},
	{"delete", methods{http.MethodPost: write(inBucket, (*request).deleteObjects)}},
	{"versioning", methods{http.MethodGet: read(inBucket, (*request).getVersioning), http.MethodPut: write(buckets.RightManage, (*request).putVersioning)}},
	{"versions", methods{http.MethodGet: list((*request).listVersions)}},
	{"acl", methods{http.MethodGet: read(inBucket, (*request).getACL), http.MethodPut: write(buckets.RightPolicy, (*request).putACL).withOptionalBody()}},
	{"cors", methods{http.MethodGet: read(inBucket, (*request).getCORS), http.MethodPut: write(buckets.RightManage, (*request).putCORS), http.MethodDelete: write(buckets.RightManage, (*request).deleteCORS)}},
	{"tagging", methods{http.MethodGet: read(inBucket, (*request).getBucketTags), http.MethodPut: write(buckets.RightManage, (*request).putBucketTags), http.MethodDelete: write(buckets.RightManage, (*request).deleteBucketTags)}},
	{"policyStatus", methods{http.MethodGet: read(inBucket, (*request).getPolicyStatus)}},
	{"ownershipControls", methods{http.MethodGet: read(inBucket, (*request).getOwnership), http.MethodPut: write(buckets.RightPolicy, (*request).putOwnership), http.MethodDelete: write(buckets.RightPolicy, (*request).deleteOwnership)}},
	{"publicAccessBlock", methods{http.MethodGet: read(inBucket, (*request).getPublicAccess), http.MethodPut: write(buckets.RightPolicy, (*request).putPublicAccess), http.MethodDelete: write(buckets.RightPolicy, (*request).deletePublicAccess)}},
	{"policy", methods{http.MethodGet: read(inBucket, (*request).getPolicy), http.MethodPut: write(buckets.RightPolicy, (*request).putPolicy), http.MethodDelete: write(buckets.RightPolicy, (*request).deletePolicy)}},
	{"lifecycle", methods{http.MethodGet: read(inBucket, (*request).getLifecycle), http.MethodPut: write(buckets.RightManage, (*request).putLifecycle).and(buckets.RightDelete), http.MethodDelete: write(buckets.RightManage, (*request).deleteLifecycle)}},
	{"encryption", absent(buckets.RightManage, "ServerSideEncryptionConfigurationNotFoundError", "The server side encryption configuration was not found")},
	{"replication", absent(buckets.RightManage, "ReplicationConfigurationNotFoundError", "The replication configuration was not found")},
	{"object-lock", methods{http.MethodGet: read(inBucket, (*request).getBucketLock), http.MethodPut: write(buckets.RightManage, (*request).putBucketLock)}},
	{"website", absent(buckets.RightManage, "NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration")},
	{"logging", logging},
	{"notification", methods{http.MethodGet: read(inBucket, (*request).getNotification), http.MethodPut: write(buckets.RightManage, (*request).putNotification)}},
	{"accelerate", acceleration},
	{"requestPayment", payment},
	{"abac", abac},
	{"analytics", listed("ListBucketAnalyticsConfigurationResult")},
	{"inventory", listed("ListInventoryConfigurationsResult")},
	{"metrics", listed("ListMetricsConfigurationsResult")},
	{"intelligent-tiering", listed("ListBucketIntelligentTieringConfigurationsOutput")},
	{"metadataConfiguration", methods{}}, {"metadataTable", methods{}}, {"metadataInventoryTable", methods{}}, {"metadataJournalTable", methods{}}, {"session", methods{}},
}

// ofObject lists the operations on objects; an empty map is a feature that S3 knows and this server does not.
var ofObject = []selected{
	{"uploadId", methods{
		http.MethodPut:    {serve: (*request).putPart, right: buckets.RightWrite, needsBucket: true, copies: true, chunks: true, parse: (*request).parsePart},
		http.MethodGet:    read(buckets.RightWrite, (*request).listParts),
		http.MethodPost:   {serve: (*request).completeUpload, right: buckets.RightWrite, needsBucket: true, conditions: putConditions, puts: true},
		http.MethodDelete: write(buckets.RightWrite, (*request).abortUpload),
	}},
	{"uploads", methods{http.MethodPost: {serve: (*request).createUpload, right: buckets.RightWrite, needsBucket: true, conditions: putConditions, puts: true, parse: (*request).parsePut}}},
	{"acl", methods{http.MethodGet: read(buckets.RightRead, (*request).getACL), http.MethodPut: write(buckets.RightWrite, (*request).putObjectACL).withOptionalBody()}},
	{"tagging", methods{http.MethodGet: read(buckets.RightRead, (*request).getTags), http.MethodPut: write(buckets.RightWrite, (*request).putTags), http.MethodDelete: write(buckets.RightWrite, (*request).deleteTags)}},
	{"attributes", methods{http.MethodGet: read(buckets.RightRead, (*request).getAttributes)}},
	{"legal-hold", methods{http.MethodGet: read(buckets.RightRead, (*request).getLegalHold), http.MethodPut: write(buckets.RightWrite, (*request).putLegalHold)}},
	{"retention", methods{http.MethodGet: read(buckets.RightRead, (*request).getRetention), http.MethodPut: write(buckets.RightWrite, (*request).putRetention)}},
	{"encryption", methods{}}, {"renameObject", methods{}}, {"restore", methods{}}, {"select", methods{}}, {"torrent", methods{}},
}

// tableOf returns the operations on objects or buckets.
func tableOf(objects bool) []selected {
	if objects {
		return ofObject
	}
	return ofBucket
}

// selected finds the operations for the request's query parameters; false for the main operations.
func (x *request) selected() (selected, bool) {
	for _, s := range tableOf(x.key != "") {
		if x.has(s.parameter) {
			return s, true
		}
	}
	return selected{}, false
}

// formUpload is POST on a bucket. Its fields are parsed after its signature is verified.
var formUpload = operation{
	right: inBucket, conditions: putConditions, puts: true, form: true,
	need: need{actions: []policy.Action{policy.PutObject}, late: true, keys: ofPut},
}

type methods = map[string]operation

// Route is a supported method on buckets or objects.
type Route struct {
	Method    string
	OfObject  bool
	Parameter string
	Right     buckets.Right // if not in buckets.Rights, any key for the bucket
	Also      buckets.Right // a second right; may be empty
	Actions   []policy.Action
	Keys      []policy.Key // condition keys that the operation applies
}

// Routes returns all routes except the bucket list, for tests.
func Routes() (all []Route) {
	add := func(ofObject bool, parameter string, of methods) {
		for _, method := range slices.Sorted(maps.Keys(of)) {
			n := actionsOf[ofObject][parameter][method]
			all = append(all, Route{method, ofObject, parameter, of[method].right, of[method].also, n.actions, n.keys})
		}
	}
	for _, s := range ofBucket {
		add(false, s.parameter, s.byMethod)
	}
	for _, s := range ofObject {
		add(true, s.parameter, s.byMethod)
	}
	add(false, "", bucketMethods)
	add(true, "", objectMethods)
	return append(all, Route{http.MethodPost, false, "", buckets.RightWrite, "", formUpload.need.actions, formUpload.need.keys})
}

// read is an operation without a request body.
func read(right buckets.Right, serve func(*request) error) operation {
	return operation{serve: serve, right: right, needsBucket: true, reads: true}
}

// list is a read that pages through keys.
func list(serve func(*request) error) operation {
	return operation{serve: serve, right: buckets.RightList, needsBucket: true, reads: true, parse: (*request).parseList}
}

// write is an operation with a request body, or one that waits for its slot until it writes.
func write(right buckets.Right, serve func(*request) error) operation {
	return operation{serve: serve, right: right, needsBucket: true}
}

// and requires a second right, because the operation makes the server use that right later.
func (op operation) and(right buckets.Right) operation {
	op.also = right
	return op
}

// withOptionalBody is for an operation whose headers may say everything.
func (op operation) withOptionalBody() operation {
	op.optionalBody = true
	return op
}

// public is a read that a public bucket allows to anyone.
func public(right buckets.Right, serve func(*request) error) operation {
	return operation{serve: serve, right: right, needsBucket: true, public: true, reads: true}
}

// notImplemented refuses the method on a known parameter.
func (x *request) notImplemented() error {
	return errNotImplemented(cmp.Or(nameOf(true, x.key != "", x.parameter, x.in.Method), x.in.Method+" with the parameter "+x.parameter))
}

// operation selects the operation by path, query parameters and method, in this order.
func (x *request) operation() (operation, error) {
	method := x.in.Method
	if x.route.bucket == "" {
		switch {
		case method != http.MethodGet:
			return operation{}, x.notAllowed(http.MethodGet)
		case x.signed == nil:
			return operation{}, errAccessDenied.because("a list of buckets needs a signed request")
		}
		return operation{serve: (*request).listBuckets, right: inBucket, reads: true}, nil
	}
	if s, ok := x.selected(); ok {
		return x.byMethod(s.byMethod, s.parameter)
	}
	if x.key == "" {
		return x.byMethod(bucketMethods, "")
	}
	return x.byMethod(objectMethods, "")
}

var bucketMethods = methods{
	http.MethodGet:    {serve: (*request).listObjects, right: buckets.RightList, needsBucket: true, public: true, reads: true, parse: (*request).parseList},
	http.MethodHead:   public(inBucket, (*request).headBucket),
	http.MethodPut:    {serve: (*request).createBucket, right: buckets.RightManage, optionalBody: true},
	http.MethodDelete: write(buckets.RightManage, (*request).deleteBucket),
}

var objectMethods = methods{
	http.MethodGet:    {serve: (*request).getObject, right: buckets.RightRead, needsBucket: true, public: true, reads: true, object: true, conditions: allConditions},
	http.MethodHead:   {serve: (*request).getObject, right: buckets.RightRead, needsBucket: true, public: true, reads: true, object: true, conditions: allConditions},
	http.MethodPut:    {serve: (*request).putOrCopy, right: buckets.RightWrite, needsBucket: true, byName: true, conditions: putConditions, puts: true, copies: true, chunks: true, parse: (*request).parsePut},
	http.MethodDelete: {serve: (*request).deleteObject, right: buckets.RightDelete, needsBucket: true, byName: true, conditions: allConditions},
}

// byMethod selects by method. HEAD is served like GET.
func (x *request) byMethod(all methods, parameter string) (operation, error) {
	method := x.in.Method
	x.parameter = parameter
	if len(all) == 0 {
		return operation{}, x.notImplemented()
	}
	if op, ok := all[method]; ok {
		return op, nil
	}
	if method == http.MethodHead {
		if op, ok := all[http.MethodGet]; ok {
			return op, nil
		}
	}
	return operation{}, x.notAllowed(slices.Sorted(maps.Keys(all))...)
}

// notAllowed refuses the method, and sets Allow to the methods that are.
func (x *request) notAllowed(allowed ...string) error {
	x.out.Header().Set("Allow", strings.Join(allowed, ", "))
	return errMethod
}
