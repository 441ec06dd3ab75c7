package s3api_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets/s3api"
)

// body is a route's request body: documents that together contain all elements that the server applies, or the reason
// why there is no document.
type body struct {
	target    string // "" for none
	documents []string
	none      string
}

const none = "the server reads no body"

// bodies contains each route with PUT or POST. The elements follow the request syntax in Amazon's S3 API reference.
func bodies(s *server) map[string]body {
	owner := s.do("GET", "/photos?acl", "").want(200).element("ID")
	s.do("PUT", "/photos/k", hello).want(200)
	s.do("PUT", "/vault", "", "x-amz-bucket-object-lock-enabled: true").want(200)
	s.do("PUT", "/vault/k", hello).want(200)
	id := s.upload("/photos/m", "x-amz-checksum-algorithm: CRC32")
	part := s.do("PUT", "/photos/m?partNumber=1&uploadId="+id, hello).want(200)
	of := func(algorithm string) string {
		return "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.header.Get("Etag") + "</ETag><Checksum" + algorithm + ">" +
			part.header.Get("X-Amz-Checksum-Crc32") + "</Checksum" + algorithm + "></Part></CompleteMultipartUpload>"
	}
	acl := "<AccessControlPolicy><Owner><ID>" + owner + "</ID><DisplayName>main</DisplayName></Owner><AccessControlList>" +
		`<Grant><Grantee><ID>` + owner + `</ID><DisplayName>main</DisplayName></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>`
	group := strings.Replace(acl, "<Grant>", "<Grant><Grantee><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant><Grant>", 1)
	const tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value>2</Value></Tag></TagSet></Tagging>"
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	rule := func(inside string) string {
		return "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status>" + inside + "</Rule></LifecycleConfiguration>"
	}
	lock := func(unit string) string {
		return "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><" + unit + ">1</" + unit + "></DefaultRetention></Rule></ObjectLockConfiguration>"
	}
	notify := func(kind, arn string) string {
		return "<" + kind + "><Id>" + kind + "</Id><" + arn + ">arn:holdfast:webhook:::hook</" + arn + "><Event>s3:ObjectRemoved:*</Event><Event>s3:ObjectCreated:*</Event>" +
			"<Filter><S3Key><FilterRule><Name>prefix</Name><Value>" + kind + "</Value></FilterRule><FilterRule><Name>suffix</Name><Value>b</Value></FilterRule></S3Key></Filter></" + kind + ">"
	}
	return map[string]body{
		"PUT bucket":                    {target: "/fresh", documents: []string{"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>"}},
		"POST bucket":                   {target: "form", documents: []string{tags}},
		"POST bucket ?delete":           {target: "/photos?delete", documents: []string{"<Delete><Quiet>true</Quiet><Object><Key>x</Key><VersionId>null</VersionId></Object><Object><Key>y</Key><ETag>*</ETag></Object></Delete>"}},
		"PUT bucket ?versioning":        {target: "/photos?versioning", documents: []string{"<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Disabled</MfaDelete></VersioningConfiguration>"}},
		"PUT bucket ?acl":               {target: "/photos?acl", documents: []string{acl, group}},
		"PUT object ?acl":               {target: "/photos/k?acl", documents: []string{acl, group}},
		"PUT bucket ?cors":              {target: "/photos?cors", documents: []string{"<CORSConfiguration><CORSRule><ID>a</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>5</MaxAgeSeconds></CORSRule></CORSConfiguration>"}},
		"PUT bucket ?tagging":           {target: "/photos?tagging", documents: []string{tags}},
		"PUT object ?tagging":           {target: "/photos/k?tagging", documents: []string{tags}},
		"PUT bucket ?policy":            {none: "the body is JSON"},
		"PUT bucket ?ownershipControls": {target: "/photos?ownershipControls", documents: []string{"<OwnershipControls><Rule><ObjectOwnership>BucketOwnerPreferred</ObjectOwnership></Rule></OwnershipControls>"}},
		"PUT bucket ?publicAccessBlock": {target: "/photos?publicAccessBlock", documents: []string{"<PublicAccessBlockConfiguration><BlockPublicAcls>false</BlockPublicAcls><IgnorePublicAcls>TRUE</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>0</RestrictPublicBuckets></PublicAccessBlockConfiguration>"}},
		"PUT bucket ?lifecycle": {target: "/photos?lifecycle", documents: []string{
			rule("<Filter><And><Prefix>a</Prefix><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value>2</Value></Tag><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>" +
				"<Expiration><Days>1</Days></Expiration>"),
			rule("<Prefix>a</Prefix><Expiration><Date>2100-01-01T00:00:00Z</Date></Expiration>"),
			rule("<Filter><Prefix>a</Prefix></Filter><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration><AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>"),
			rule("<Filter><Tag><Key>a</Key><Value>1</Value></Tag></Filter><Expiration><Days>1</Days></Expiration>"),
			rule("<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter><Expiration><Days>1</Days></Expiration>"),
			rule("<Filter><ObjectSizeLessThan>1</ObjectSizeLessThan></Filter><Expiration><Days>1</Days></Expiration>"),
		}},
		"PUT bucket ?object-lock": {target: "/vault?object-lock", documents: []string{lock("Days"), lock("Years")}},
		"PUT object ?legal-hold":  {target: "/vault/k?legal-hold", documents: []string{"<LegalHold><Status>OFF</Status></LegalHold>"}},
		"PUT object ?retention":   {target: "/vault/k?retention", documents: []string{"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>" + until + "</RetainUntilDate></Retention>"}},
		"PUT bucket ?notification": {target: "/photos?notification", documents: []string{
			"<NotificationConfiguration>" + notify("TopicConfiguration", "Topic") + notify("QueueConfiguration", "Queue") + notify("CloudFunctionConfiguration", "CloudFunction") + "</NotificationConfiguration>",
		}},
		"PUT bucket ?logging":        {target: "/photos?logging", documents: []string{"<BucketLoggingStatus></BucketLoggingStatus>"}},
		"PUT bucket ?requestPayment": {target: "/photos?requestPayment", documents: []string{"<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>"}},
		"PUT bucket ?accelerate":     {target: "/photos?accelerate", documents: []string{"<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>"}},
		"PUT bucket ?abac":           {target: "/photos?abac", documents: []string{"<AbacStatus><Status>Disabled</Status></AbacStatus>"}},
		// One algorithm is right; the others differ from the part, which is refused after the document was read.
		"POST object ?uploadId": {target: "/photos/m?uploadId=" + id, documents: []string{of("CRC32"), of("CRC32C"), of("CRC64NVME"), of("SHA1"), of("SHA256")}},

		"PUT object": {none: "the body is the object"}, "PUT object ?uploadId": {none: "the body is the part"}, "POST object ?uploads": {none: none},
		"PUT bucket ?encryption": {none: none}, "PUT bucket ?replication": {none: none}, "PUT bucket ?website": {none: none},
		"PUT bucket ?analytics": {none: none}, "PUT bucket ?inventory": {none: none}, "PUT bucket ?metrics": {none: none}, "PUT bucket ?intelligent-tiering": {none: none},
	}
}

// emptyTexts are the elements whose text may be empty, and why.
var emptyTexts = map[string]string{
	"AccessControlPolicy/Owner/DisplayName":                                              "accounts without a name, as lists show them to others",
	"AccessControlPolicy/AccessControlList/Grant/Grantee/DisplayName":                    "likewise",
	"CORSConfiguration/CORSRule/ID":                                                      "a missing ID, as MinIO's SDK sends it",
	"CORSConfiguration/CORSRule/ExposeHeader":                                            "refused with InvalidRequest",
	"CreateBucketConfiguration/LocationConstraint":                                       "us-east-1",
	"Delete/Object/ETag":                                                                 "refused with InvalidArgument, for this key alone",
	"Delete/Object/Key":                                                                  "refused, for this key alone",
	"LifecycleConfiguration/Rule/ID":                                                     "the server generates it",
	"LifecycleConfiguration/Rule/Prefix":                                                 "all objects",
	"LifecycleConfiguration/Rule/Filter/Prefix":                                          "all objects",
	"LifecycleConfiguration/Rule/Filter/And/Prefix":                                      "all objects",
	"LifecycleConfiguration/Rule/Filter/Tag/Key":                                         "refused with InvalidTag",
	"LifecycleConfiguration/Rule/Filter/Tag/Value":                                       "a tag may have an empty value",
	"LifecycleConfiguration/Rule/Filter/And/Tag/Key":                                     "refused with InvalidTag",
	"LifecycleConfiguration/Rule/Filter/And/Tag/Value":                                   "a tag may have an empty value",
	"NotificationConfiguration/TopicConfiguration/Id":                                    "the server generates it",
	"NotificationConfiguration/QueueConfiguration/Id":                                    "the server generates it",
	"NotificationConfiguration/CloudFunctionConfiguration/Id":                            "the server generates it",
	"NotificationConfiguration/TopicConfiguration/Filter/S3Key/FilterRule/Value":         "all keys",
	"NotificationConfiguration/QueueConfiguration/Filter/S3Key/FilterRule/Value":         "all keys",
	"NotificationConfiguration/CloudFunctionConfiguration/Filter/S3Key/FilterRule/Value": "all keys",
	"Tagging/TagSet/Tag/Key":                                                             "refused with InvalidTag",
	"Tagging/TagSet/Tag/Value":                                                           "a tag may have an empty value",
}

// node is an element in a test document.
type node struct {
	name, attributes, text string
	children               []*node
	parent                 *node
}

func parseNode(t *testing.T, document string) *node {
	t.Helper()
	var root, at *node
	for d := xml.NewDecoder(strings.NewReader(document)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		switch v := token.(type) {
		case xml.StartElement:
			n := &node{name: v.Name.Local, parent: at}
			if at == nil {
				root = n
			} else {
				at.children = append(at.children, n)
			}
			at = n
		case xml.EndElement:
			at = at.parent
		case xml.CharData:
			at.text += string(v)
		}
	}
}

func (n *node) path() string {
	if n.parent == nil {
		return n.name
	}
	return n.parent.path() + "/" + n.name
}

func (n *node) all() []*node {
	all := []*node{n}
	for _, c := range n.children {
		all = append(all, c.all()...)
	}
	return all
}

func (n *node) String() string {
	inside := strings.ReplaceAll(n.text, `"`, "&quot;")
	for _, c := range n.children {
		inside += c.String()
	}
	name, _, _ := strings.Cut(n.name, " ")
	return "<" + n.name + n.attributes + ">" + inside + "</" + name + ">"
}

// mutations change n in place while do runs. Each mutated document must be refused as malformed.
func (n *node) mutations(of s3api.SchemaElement, do func(what string)) {
	was := *n
	try := func(what string, change func()) {
		change()
		do(what + " " + was.path())
		*n = was
	}
	try("unknown element instead of", func() { n.name = "Unknown" })
	try("lower case of", func() { n.name = strings.ToLower(n.name) })
	try("unknown element in", func() { n.children = append(slices.Clone(n.children), &node{name: "Unknown", parent: n}) })
	try("another namespace of", func() { n.attributes = ` xmlns="http://example.org/"` })
	try("undeclared prefix of", func() { n.name = "s3:" + n.name })
	try("prefix for another namespace of", func() { n.name, n.attributes = "s3:"+n.name, ` xmlns:s3="http://example.org/"` })
	try("attribute of", func() { n.attributes = ` a="b"` })
	try("xsi:nil of", func() { n.attributes = ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"` })
	try("xml:lang of", func() { n.attributes = ` xml:lang="en"` })
	if !of.Typed {
		try("xsi:type of", func() { n.attributes = ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="a"` })
	} else {
		try("wrong xsi:type of", func() { n.attributes = ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Other"` })
		try("xsi:type without a namespace of", func() { n.attributes = ` xsi:type="CanonicalUser"` })
	}
	switch {
	case of.Container:
		try("text in", func() { n.text = "text" })
	case !of.Empty:
		try("empty", func() { n.text = "" })
	}
	if n.parent == nil {
		return
	}
	siblings := n.parent.children
	try = func(what string, change func()) {
		change()
		do(what + " " + n.path())
		n.parent.children = siblings
	}
	if !of.Repeats {
		try("repeated", func() { n.parent.children = append(slices.Clone(siblings), n) })
	}
	only := !slices.ContainsFunc(siblings, func(c *node) bool { return c != n && c.name == n.name })
	if of.Required && only {
		try("missing", func() {
			n.parent.children = slices.DeleteFunc(slices.Clone(siblings), func(c *node) bool { return c == n })
		})
	}
}

// TestDocumentsAreStrict mutates each element in every route's documents, and checks that nothing is ignored.
func TestDocumentsAreStrict(t *testing.T) {
	t.Parallel()
	s := hooked(t)
	all := bodies(s)
	schemas, known := map[string]s3api.SchemaElement{}, map[string]bool{}
	for _, elements := range s3api.Schemas() {
		for _, e := range elements {
			schemas[e.Path] = e
			if e.Empty != (emptyTexts[e.Path] != "") {
				t.Errorf("%s: empty %v, and the reason is %q", e.Path, e.Empty, emptyTexts[e.Path])
			}
		}
	}
	for path := range emptyTexts {
		if _, ok := schemas[path]; !ok {
			t.Errorf("%s is no element", path)
		}
	}
	for _, r := range s3api.Routes() {
		if r.Method != http.MethodPut && r.Method != http.MethodPost {
			continue
		}
		name := r.Method + map[bool]string{true: " object", false: " bucket"}[r.OfObject]
		if r.Parameter != "" {
			name += " ?" + r.Parameter
		}
		b, ok := all[name]
		if !ok {
			t.Errorf("%s: add its documents", name)
			continue
		}
		if b.none == "" {
			s.strict(name, b, schemas, known)
		}
	}
	for path, e := range schemas {
		if !e.Refused && !known[path] {
			t.Errorf("no document has the element %s", path)
		}
	}
}

// sendDocument sends the document as the body, or as a form field.
func (s *server) sendDocument(name string, b body, document string) answer {
	s.t.Helper()
	if b.target == "form" {
		return s.send(s.form(map[string]string{"key": "k", "tagging": document}, hello))
	}
	method, _, _ := strings.Cut(name, " ")
	return s.do(method, b.target, document)
}

func (s *server) strict(name string, b body, schemas map[string]s3api.SchemaElement, known map[string]bool) {
	t := s.t.(*testing.T) //nolint:forcetypeassert // of this test
	code := "MalformedXML"
	if strings.HasSuffix(name, "?acl") {
		code = "MalformedACLError"
	}
	before := s.do("GET", b.target, "").body
	refused := func(what, document string) {
		t.Helper()
		if a := s.sendDocument(name, b, document); a.status != 400 || a.element("Code") != code {
			t.Errorf("%s, %s: %d %s, want 400 %s\n%s", name, what, a.status, a.element("Code"), code, document)
		}
	}
	for _, document := range b.documents {
		root := parseNode(t, document)
		if again := root.String(); strings.ReplaceAll(document, `"`, "&quot;") != again {
			t.Fatalf("%s is %s", document, again)
		}
		for _, n := range root.all() {
			e, ok := schemas[n.path()]
			if !ok {
				t.Fatalf("%s: the server does not know %s", name, n.path())
			}
			known[n.path()] = true
			n.mutations(e, func(what string) { refused(what, root.String()) })
			s.namesRefused(name, b, root, n, schemas)
		}
		for what, text := range map[string]string{
			"text after": document + "x", "element after": document + "<a/>", "document after": document + document, "declaration after": document + `<?xml version="1.0"?>`,
			"text before": "x" + document, "document type": "<!DOCTYPE a>" + document, "no end": document[:len(document)-1], "declaration inside": strings.Replace(document, ">", `><?xml version="1.0"?>`, 1),
			"end of another prefix": strings.Replace(strings.Replace(document, "<", `<a:`, 1), ">", ` xmlns:a="http://s3.amazonaws.com/doc/2006-03-01/">`, 1),
		} {
			refused(what, text)
		}
	}
	if after := s.do("GET", b.target, "").body; b.target != "form" && withoutID(after) != withoutID(before) {
		t.Errorf("%s: refused documents changed the answer\n%s\nto\n%s", name, before, after)
	}
	s.accepted(name, b)
}

// namesRefused adds to n each S3 element that the server does not apply, and expects an error that names it.
func (s *server) namesRefused(name string, b body, root, n *node, schemas map[string]s3api.SchemaElement) {
	was := n.children
	for path, e := range schemas {
		if parent, child, ok := cutLast(path); ok && e.Refused && parent == n.path() {
			n.children = append(slices.Clone(was), &node{name: child, parent: n})
			if a := s.sendDocument(name, b, root.String()); a.status != 501 || a.element("Code") != "NotImplemented" || !strings.Contains(a.element("Message"), child) {
				s.t.Errorf("%s, %s: %d %s, want 501 with its name", name, path, a.status, a.body)
			}
			n.children = was
		}
	}
}

// accepted sends the documents as they are, and in other forms that mean the same.
func (s *server) accepted(name string, b body) {
	t := s.t.(*testing.T) //nolint:forcetypeassert // of this test
	for _, document := range b.documents {
		want := s.sendDocument(name, b, document)
		if want.status >= 300 && !strings.HasPrefix(want.element("Code"), "Invalid") && want.element("Code") != "AccessControlListNotSupported" {
			t.Errorf("%s: %d %s\n%s", name, want.status, want.body, document)
		}
		root := parseNode(t, document)
		named := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(root.String(), "</", "\x00"), "<", "<s:"), "\x00", "</s:")
		for what, text := range map[string]string{
			"declaration": "\ufeff" + `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n<!-- a -->" + document + "\n<!-- b --> ",
			"namespace":   strings.Replace(document, ">", ` xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`, 1),
			"prefix":      strings.Replace(named, ">", ` xmlns:s="http://s3.amazonaws.com/doc/2006-03-01/">`, 1),
			"unused":      strings.Replace(document, ">", ` xmlns:a="http://example.org/">`, 1),
			"white space": strings.ReplaceAll(document, "><", ">\n\t<"),
		} {
			if a := s.sendDocument(name, b, text); a.status != want.status {
				t.Errorf("%s, %s: %d %s, want %d\n%s", name, what, a.status, a.body, want.status, text)
			}
		}
	}
}

func cutLast(path string) (parent, child string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

func withoutID(text string) string {
	before, rest, ok := strings.Cut(text, "<RequestId>")
	if !ok {
		return text
	}
	_, after, _ := strings.Cut(rest, "</RequestId>")
	return before + after
}
