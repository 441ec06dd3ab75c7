package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"holdfast/internal/buckets/policy"
	"holdfast/internal/web"
)

// resource is a kind of path.
type resource uint8

const (
	nothing resource = iota
	document
	bucketList
	bucket
	objectList
	object
	versionList
	metadata
	batchList
	batch
)

// String returns the label in logs and metrics.
func (r resource) String() string {
	return [...]string{
		nothing: "unknown", document: "openapi", bucketList: "buckets", bucket: "bucket", objectList: "objects",
		object: "object", versionList: "versions", metadata: "metadata", batchList: "gc/batches", batch: "gc/batch",
	}[r]
}

// route is a parsed path. Names are unescaped but not yet validated.
type route struct {
	resource resource
	account  string
	bucket   string
	object   string
	batch    string
}

// Owns reports whether this service handles a raw path on the main listener.
func Owns(path string) bool { return strings.HasPrefix(path, "/buckets/") }

// Routes lists all routes, for tests and the API description.
func Routes() []web.Route { return web.RoutesOf(resource.String, actions[:]) }

// Label returns the route of a raw path for metrics and logs. It contains no text chosen by clients.
func Label(path string) string {
	rt, err := parseRoute(path)
	if err != nil {
		return nothing.String()
	}
	return rt.resource.String()
}

// parseRoute parses the raw request path. The object name is everything after objects/ or metadata/, decoded once and
// not cleaned: "a/b" and "a%2Fb" are the same name, and ".." is valid.
func parseRoute(path string) (rt route, err error) {
	s := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 8)
	for i := range s {
		if s[i], err = url.PathUnescape(s[i]); err != nil {
			return rt, errPath
		}
	}
	is := func(i int, name string) bool { return len(s) > i && s[i] == name }
	switch {
	case len(s) == 2 && is(0, "buckets") && is(1, "openapi.json"):
		rt.resource = document
	case !is(0, "buckets") || !is(1, "v1"):
	case is(2, "gc") && is(3, "batches") && len(s) == 4:
		rt.resource = batchList
	case is(2, "gc") && is(3, "batches") && len(s) == 5:
		rt.resource, rt.batch = batch, s[4]
	case is(2, "accounts") && is(4, "buckets"):
		return inAccount(s[3], s[5:]), nil
	}
	return rt, nil
}

// inAccount parses the segments below /buckets/ACCOUNT/buckets.
func inAccount(account string, s []string) (rt route) {
	rt.account = account
	switch {
	case len(s) == 0:
		rt.resource = bucketList
		return rt
	case len(s) == 1:
		rt.resource = bucket
	case len(s) == 2 && s[1] == "objects":
		rt.resource = objectList
	case len(s) == 2 && s[1] == "versions":
		rt.resource = versionList
	case len(s) == 3 && s[1] == "objects":
		rt.resource, rt.object = object, s[2]
	case len(s) == 3 && s[1] == "metadata":
		rt.resource, rt.object = metadata, s[2]
	}
	rt.bucket = s[0]
	return rt
}

// action is a method on a resource.
type action struct {
	serve      func(*exchange) error
	needs      policy.Action
	versioned  policy.Action // needed instead if the request names a version
	keys       []policy.Key  // condition keys that the operation applies; policies see no others
	late       bool          // the operation calls checkPolicy, because values are in the body
	params     []string      // allowed query parameters
	conditions bool          // applies conditional headers
	creates    bool          // makes an object
	body       bool          // takes a request body
}

const getVersion policy.Action = "s3:GetObjectVersion"

var (
	ofVersions = []string{"version"}

	versionKeys = []policy.Key{policy.VersionID, policy.ExistingObjectTag}
	listKeys    = []policy.Key{policy.Prefix, policy.Delimiter, policy.MaxKeys}
	writeKeys   = []policy.Key{policy.IfMatch, policy.IfNoneMatch, policy.ObjectCreation, policy.Redirect, policy.ExistingObjectTag}
)

// actions lists all operations. A resource with no methods is an unknown path.
var actions = [...]map[string]*action{
	nothing: {},
	document: {
		http.MethodGet:  {serve: (*exchange).document},
		http.MethodHead: {serve: (*exchange).document},
	},
	bucketList: {http.MethodGet: {serve: (*exchange).listBuckets, params: []string{"prefix", "marker", "limit"}}},
	bucket: {
		http.MethodGet:    {serve: (*exchange).getBucket, needs: policy.ListBucket},
		http.MethodHead:   {serve: (*exchange).getBucket, needs: policy.ListBucket},
		http.MethodPut:    {serve: (*exchange).createBucket},
		http.MethodPatch:  {serve: (*exchange).updateBucket, needs: "s3:PutBucketVersioning", body: true},
		http.MethodDelete: {serve: (*exchange).deleteBucket, needs: "s3:DeleteBucket"},
	},
	objectList: {http.MethodGet: {serve: (*exchange).listObjects, needs: policy.ListBucket, keys: listKeys, params: []string{"prefix", "delimiter", "marker", "limit", "metadata"}}},
	object: {
		http.MethodGet:    {serve: (*exchange).getObject, needs: policy.GetObject, versioned: getVersion, keys: versionKeys, params: ofVersions, conditions: true},
		http.MethodHead:   {serve: (*exchange).getObject, needs: policy.GetObject, versioned: getVersion, keys: versionKeys, params: ofVersions, conditions: true},
		http.MethodPut:    {serve: (*exchange).putObject, creates: true, needs: policy.PutObject, keys: writeKeys, conditions: true, body: true},
		http.MethodDelete: {serve: (*exchange).deleteObject, needs: policy.DeleteObject, versioned: "s3:DeleteObjectVersion", keys: versionKeys, params: ofVersions, conditions: true},
	},
	versionList: {http.MethodGet: {serve: (*exchange).listVersions, needs: "s3:ListBucketVersions", keys: []policy.Key{policy.Prefix, policy.MaxKeys}, params: []string{"prefix", "marker", "limit"}}},
	metadata: {
		http.MethodGet:   {serve: (*exchange).getMetadata, needs: policy.GetObject, versioned: getVersion, keys: versionKeys, params: ofVersions},
		http.MethodPatch: {serve: (*exchange).updateMetadata, late: true, needs: policy.PutObject, keys: writeKeys, conditions: true, body: true},
	},
	batchList: {http.MethodPost: {serve: (*exchange).claimBatch, params: []string{"limit"}}},
	batch: {
		http.MethodGet:    {serve: (*exchange).readBatch},
		http.MethodDelete: {serve: (*exchange).freeBatch},
	},
}
