package s3api

import (
	"maps"
	"net/http"
	"slices"
)

// operation is what a method does on a resource.
type operation struct {
	serve       func(*request) error
	needsBucket bool // it exists, and the client may use it
	public      bool // everybody may do it in a public bucket
	reads       bool // it has no body, so it takes its slot at once
	object      bool // it needs the object, which is read with its bucket
	byName      bool // it may use its bucket by name alone: see serveByName
}

// bySubresource are the operations on buckets and objects with a parameter in the query
// that selects them, in the order in which they are looked for.
var ofBucket = []struct {
	parameter string
	byMethod  map[string]operation
}{
	{"location", methods{http.MethodGet: read((*request).getLocation)}},
	{"uploads", methods{http.MethodGet: read((*request).listUploads)}},
	{"delete", methods{http.MethodPost: write((*request).deleteObjects)}},
	{"versioning", methods{http.MethodGet: read((*request).getVersioning), http.MethodPut: write((*request).notImplemented)}},
	{"versions", methods{http.MethodGet: read((*request).listVersions)}},
	{"acl", methods{http.MethodGet: read((*request).getACL), http.MethodPut: write((*request).putACL)}},
	{"cors", methods{http.MethodGet: read((*request).getCORS), http.MethodPut: write((*request).putCORS), http.MethodDelete: write((*request).deleteCORS)}},
	{"tagging", methods{http.MethodGet: read((*request).getBucketTags), http.MethodPut: write((*request).putBucketTags), http.MethodDelete: write((*request).deleteBucketTags)}},
	{"policyStatus", methods{http.MethodGet: read((*request).getPolicyStatus)}},
	{"ownershipControls", absent("OwnershipControlsNotFoundError", "The bucket ownership controls were not found")},
	{"publicAccessBlock", absent("NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")},
	{"policy", absent("NoSuchBucketPolicy", "The bucket policy does not exist")},
	{"lifecycle", absent("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")},
	{"encryption", absent("ServerSideEncryptionConfigurationNotFoundError", "The server side encryption configuration was not found")},
	{"replication", absent("ReplicationConfigurationNotFoundError", "The replication configuration was not found")},
	{"object-lock", absent("ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket")},
	{"website", absent("NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration")},
	{"logging", empty("BucketLoggingStatus")},
	{"notification", empty("NotificationConfiguration")},
	{"accelerate", empty("AccelerateConfiguration")},
	{"requestPayment", methods{http.MethodGet: read((*request).getRequestPayment), http.MethodPut: write((*request).notImplemented)}},
	{"analytics", methods{}}, {"inventory", methods{}}, {"metrics", methods{}}, {"intelligent-tiering", methods{}},
}

var ofObject = []struct {
	parameter string
	byMethod  map[string]operation
}{
	{"uploadId", methods{
		http.MethodPut: write((*request).putPart), http.MethodGet: read((*request).listParts),
		http.MethodPost: write((*request).completeUpload), http.MethodDelete: write((*request).abortUpload),
	}},
	{"uploads", methods{http.MethodPost: write((*request).createUpload)}},
	{"acl", methods{http.MethodGet: read((*request).getACL), http.MethodPut: write((*request).putObjectACL)}},
	{"tagging", methods{http.MethodGet: read((*request).getTags), http.MethodPut: write((*request).putTags), http.MethodDelete: write((*request).deleteTags)}},
	{"attributes", methods{http.MethodGet: read((*request).getAttributes)}},
	{"legal-hold", absent("NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")},
	{"retention", absent("NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")},
	{"restore", methods{}}, {"select", methods{}}, {"torrent", methods{}},
}

type methods = map[string]operation

// Route is a method that the listener has for buckets or objects.
type Route struct {
	Method    string
	OfObject  bool
	Parameter string // of the query, which selects the operation; ""
}

// Routes returns all routes but the list of buckets. Tests walk them.
func Routes() (all []Route) {
	add := func(ofObject bool, parameter string, of methods) {
		for _, method := range slices.Sorted(maps.Keys(of)) {
			all = append(all, Route{method, ofObject, parameter})
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
	return append(all, Route{http.MethodPost, false, ""}) // a form
}

func read(serve func(*request) error) operation {
	return operation{serve: serve, needsBucket: true, reads: true}
}

func write(serve func(*request) error) operation { return operation{serve: serve, needsBucket: true} }

func public(serve func(*request) error) operation {
	return operation{serve: serve, needsBucket: true, public: true, reads: true}
}

// absent answers a probe for a configuration that no bucket has.
func absent(code, message string) methods {
	err := refuse(http.StatusNotFound, code, message)
	return methods{
		http.MethodGet:    read(func(*request) error { return err }),
		http.MethodPut:    write((*request).notImplemented),
		http.MethodDelete: write(func(x *request) error { return x.send(http.StatusNoContent) }),
	}
}

// empty answers a probe with an empty configuration.
func empty(root string) methods {
	return methods{
		http.MethodGet: read(func(x *request) error {
			sendXML(x.out, http.StatusOK, newDocument(root))
			return nil
		}),
		http.MethodPut: write((*request).notImplemented),
	}
}

func (x *request) notImplemented() error {
	return errNotImplemented(x.in.Method + " ?" + x.parameter)
}

// operation selects what the request asks for.
func (x *request) operation() (operation, error) {
	method := x.in.Method
	switch {
	case x.route.bucket == "":
		if method != http.MethodGet {
			return operation{}, errMethod
		}
		if x.signed == nil {
			return operation{}, errAccessDenied
		}
		return operation{serve: (*request).listBuckets, reads: true}, nil
	case x.key == "":
		for _, s := range ofBucket {
			if x.has(s.parameter) {
				return x.byMethod(s.byMethod, s.parameter)
			}
		}
		return x.byMethod(bucketMethods, "")
	}
	for _, s := range ofObject {
		if x.has(s.parameter) {
			return x.byMethod(s.byMethod, s.parameter)
		}
	}
	return x.byMethod(objectMethods, "")
}

var bucketMethods = methods{
	http.MethodGet:    public((*request).listObjects),
	http.MethodHead:   public((*request).headBucket),
	http.MethodPut:    {serve: (*request).createBucket},
	http.MethodDelete: write((*request).deleteBucket),
}

var objectMethods = methods{
	http.MethodGet:    {serve: (*request).getObject, needsBucket: true, public: true, reads: true, object: true},
	http.MethodHead:   {serve: (*request).getObject, needsBucket: true, public: true, reads: true, object: true},
	http.MethodPut:    {serve: (*request).putOrCopy, needsBucket: true, byName: true},
	http.MethodDelete: {serve: (*request).deleteObject, needsBucket: true, byName: true},
}

// byMethod selects one of the operations of a query parameter.
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
	return operation{}, errMethod
}
