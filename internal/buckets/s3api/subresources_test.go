package s3api_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/buckets/s3api"
)

// subresource is a query parameter that selects an operation in Amazon's S3 API reference, with the answer to each
// method: "yes" if the server implements the operation, "" if S3 does not define it, otherwise the error's status and code.
type subresource struct {
	object         bool
	name           string
	get, put, post string
	del            string
	same, other    string // PUT documents: same asks for the server's only behavior, other is refused with 501
}

// subresources follows https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html.
// The codes are from the Get operations' pages, and from the error code list.
var subresources = []subresource{
	{name: "abac", get: "200", put: "200", same: "<AbacStatus><Status>Disabled</Status></AbacStatus>", other: "<AbacStatus><Status>Enabled</Status></AbacStatus>"},
	{name: "accelerate", get: "200", put: "200", same: "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>", other: "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>"},
	{name: "acl", get: "yes", put: "yes"},
	{name: "analytics", get: "200", put: "501 NotImplemented", del: "404 NoSuchConfiguration"},
	{name: "cors", get: "yes", put: "yes", del: "yes"},
	{name: "delete", post: "yes"},
	{name: "encryption", get: "404 ServerSideEncryptionConfigurationNotFoundError", put: "501 NotImplemented", del: "204"},
	{name: "intelligent-tiering", get: "200", put: "501 NotImplemented", del: "404 NoSuchConfiguration"},
	{name: "inventory", get: "200", put: "501 NotImplemented", del: "404 NoSuchConfiguration"},
	{name: "lifecycle", get: "yes", put: "yes", del: "yes"},
	{name: "location", get: "yes"},
	{name: "logging", get: "200", put: "200", same: "<BucketLoggingStatus/>", other: "<BucketLoggingStatus><LoggingEnabled><TargetBucket>photos</TargetBucket><TargetPrefix/></LoggingEnabled></BucketLoggingStatus>"},
	{name: "metadataConfiguration", get: "501 NotImplemented", post: "501 NotImplemented", del: "501 NotImplemented"},
	{name: "metadataInventoryTable", put: "501 NotImplemented"},
	{name: "metadataJournalTable", put: "501 NotImplemented"},
	{name: "metadataTable", get: "501 NotImplemented", post: "501 NotImplemented", del: "501 NotImplemented"},
	{name: "metrics", get: "200", put: "501 NotImplemented", del: "404 NoSuchConfiguration"},
	{name: "notification", get: "yes", put: "yes"},
	{name: "object-lock", get: "yes", put: "yes"},
	{name: "ownershipControls", get: "yes", put: "yes", del: "yes"},
	{name: "policy", get: "yes", put: "yes", del: "yes"},
	{name: "policyStatus", get: "yes"},
	{name: "publicAccessBlock", get: "yes", put: "yes", del: "yes"},
	{name: "replication", get: "404 ReplicationConfigurationNotFoundError", put: "501 NotImplemented", del: "204"},
	{name: "requestPayment", get: "200", put: "200", same: "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>", other: "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>"},
	{name: "session", get: "501 NotImplemented"},
	{name: "tagging", get: "yes", put: "yes", del: "yes"},
	{name: "uploads", get: "yes"},
	{name: "versioning", get: "yes", put: "yes"},
	{name: "versions", get: "yes"},
	{name: "website", get: "404 NoSuchWebsiteConfiguration", put: "501 NotImplemented", del: "204"},

	{object: true, name: "acl", get: "yes", put: "yes"},
	{object: true, name: "attributes", get: "yes"},
	{object: true, name: "encryption", put: "501 NotImplemented"},
	{object: true, name: "legal-hold", get: "yes", put: "yes"},
	{object: true, name: "renameObject", put: "501 NotImplemented"},
	{object: true, name: "restore", post: "501 NotImplemented"},
	{object: true, name: "retention", get: "yes", put: "yes"},
	{object: true, name: "select", post: "501 NotImplemented"},
	{object: true, name: "tagging", get: "yes", put: "yes", del: "yes"},
	{object: true, name: "torrent", get: "501 NotImplemented"},
	{object: true, name: "uploadId", get: "yes", put: "yes", post: "yes", del: "yes"},
	{object: true, name: "uploads", post: "yes"},
}

// methods returns the answers by method.
func (r *subresource) methods() map[string]string {
	return map[string]string{"GET": r.get, "PUT": r.put, "POST": r.post, "DELETE": r.del}
}

// listRoots are the lists' root elements in Amazon's API reference.
var listRoots = map[string]string{
	"analytics": "ListBucketAnalyticsConfigurationResult", "intelligent-tiering": "ListBucketIntelligentTieringConfigurationsOutput",
	"inventory": "ListInventoryConfigurationsResult", "metrics": "ListMetricsConfigurationsResult",
}

// TestSubresources sends each method to each S3 subresource. A parameter that the server does not know would select
// another operation, such as CreateBucket.
func TestSubresources(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	routes := s3api.Routes()
	for i := range subresources {
		r := &subresources[i]
		target := "/photos?" + r.name
		if r.object {
			target = "/photos/k?" + r.name
		}
		for method, want := range r.methods() {
			known := slices.ContainsFunc(routes, func(o s3api.Route) bool {
				return o.OfObject == r.object && o.Parameter == r.name && o.Method == method
			})
			if want == "yes" {
				if !known {
					t.Errorf("%s %s: there is no route", method, target)
				}
				continue
			}
			a := s.do(method, target, map[bool]string{true: r.same}[method == "PUT"])
			got := strings.TrimSpace(strconv.Itoa(a.status) + " " + a.element("Code"))
			if want == "" && got != "405 MethodNotAllowed" && got != "501 NotImplemented" || want != "" && got != want {
				t.Errorf("%s %s: %s, want %s", method, target, got, want)
			}
		}
		s.unused(r, target)
	}
	for _, o := range routes {
		if o.Parameter != "" && !slices.ContainsFunc(subresources, func(r subresource) bool {
			return r.object == o.OfObject && r.name == o.Parameter && r.methods()[o.Method] != ""
		}) {
			t.Errorf("%s ?%s: add its row", o.Method, o.Parameter)
		}
	}
	s.do("GET", "/photos?logging", "").hasNot("LoggingEnabled")
	s.do("GET", "/photos?accelerate", "").hasNot("<Status>")
	s.do("GET", "/photos?requestPayment", "").has("<Payer>BucketOwner</Payer>")
	s.do("GET", "/photos?abac", "").has("<Status>Disabled</Status>")
	s.do("GET", "/photos/k", "").want(200).is(hello)
}

// unused checks settings whose feature is missing: their documents and lists.
func (s *server) unused(r *subresource, target string) {
	s.t.Helper()
	if r.other != "" {
		s.do("PUT", target, r.other).fails(501, "NotImplemented")
		s.do("PUT", target, strings.NewReplacer("Enabled<", "Other<", "Requester<", "Other<", "LoggingEnabled", "Other").Replace(r.other)).fails(400, "MalformedXML")
	}
	if root := listRoots[r.name]; root != "" {
		s.do("GET", target, "").want(200).has("<"+root+" ", "<IsTruncated>false</IsTruncated></"+root+">")
		for _, method := range []string{"GET", "DELETE"} {
			s.do(method, target+"&id=a", "").fails(404, "NoSuchConfiguration")
		}
		s.do("PUT", target+"&id=a", "<a/>").fails(501, "NotImplemented")
	}
}

// TestSubresourcesInGuide compares the guide's missing features table with the rows above. If it fails, copy the
// printed table into the guide.
func TestSubresourcesInGuide(t *testing.T) {
	t.Parallel()
	const guide, begin, end = "../../../docs/buckets-reference.md", "<!-- subresources of missing features -->\n", "<!-- end of subresources of missing features -->"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	got, _, ok2 := strings.Cut(rest, end)
	var lines []string
	for _, r := range subresources {
		if r.get == "yes" || r.put == "yes" || r.post == "yes" {
			continue
		}
		write := r.put
		if r.post != "" {
			write = r.post
		}
		cell := func(s string) string {
			if s = strings.TrimSuffix(s, " NotImplemented"); s == "" {
				return "–"
			}
			if status, code, ok := strings.Cut(s, " "); ok {
				return status + " `" + code + "`"
			}
			return s
		}
		write = cell(write)
		if r.same != "" {
			write = "200 for `" + r.same + "`, otherwise 501"
		}
		lines = append(lines, "| "+map[bool]string{true: "object", false: "bucket"}[r.object]+" `?"+r.name+"` | "+cell(r.get)+" | "+write+" | "+cell(r.del)+" |\n")
	}
	if want := "| subresource | GET | PUT or POST | DELETE |\n|---|---|---|---|\n" + strings.Join(lines, ""); !ok || !ok2 || got != want {
		t.Errorf("%s: the table of missing features is\n%s\nwant\n%s", guide, got, want)
	}
}
