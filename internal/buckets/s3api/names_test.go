package s3api_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

// names is a server with the accounts main, other and third and equally named buckets. Each object k contains
// the name of its account.
type names struct {
	*server
	accounts map[string]sigv4test.Signer // without anonymous
}

func newNames(t *testing.T) *names {
	t.Helper()
	s := serve(t)
	n := &names{s, map[string]sigv4test.Signer{"main": s.main, "other": s.other, "third": s.account("third")}}
	for name, signer := range n.accounts {
		s.as(signer, "PUT", "/copies-"+name, "").want(200)
	}
	return n
}

func (s *server) account(name string) sigv4test.Signer {
	s.t.Helper()
	a := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: name, Created: buckets.At(time.Now())}
	if err := s.options.Backend.CreateAccount(s.t.Context(), a); err != nil {
		s.t.Fatal(err)
	}
	id, secret, err := s.keys.Create(s.t.Context(), a.ID, buckets.KeyTerms{})
	if err != nil {
		s.t.Fatal(err)
	}
	return sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: region}
}

// by sends a request as an account, or anonymously.
func (n *names) by(who, method, target string, headers ...string) answer {
	n.t.Helper()
	if signer, ok := n.accounts[who]; ok {
		return n.as(signer, method, target, "", headers...)
	}
	return n.anonymous(method, target, "", headers...)
}

// body returns "" for a refused request.
func (n *names) body(a answer) string {
	n.t.Helper()
	switch a.status {
	case 200:
		return a.body
	case 403, 404:
	default:
		n.t.Errorf("%s: status %d: %s", a.what, a.status, a.body)
	}
	return ""
}

// whose returns the account whose object k has a matching MD5, or "".
func (n *names) whose(matches func(md5 string) bool) string {
	for name := range n.accounts {
		if matches(md5Tag(name)) {
			return name
		}
	}
	return ""
}

// whoseIn returns the account whose object k is named in text by its MD5, or "".
func (n *names) whoseIn(text string) string {
	return n.whose(func(md5 string) bool { return strings.Contains(text, md5) })
}

// ways are all ways in which a request names a bucket without its account, and reads the object k. They return its
// body, "" if the request was refused, or "-" if an anonymous client has no such way.
func (n *names) ways() map[string]func(who, bucket string) string {
	signedOnly := func(way func(who, bucket string) string) func(who, bucket string) string {
		return func(who, bucket string) string {
			if _, ok := n.accounts[who]; !ok {
				return "-"
			}
			return way(who, bucket)
		}
	}
	return map[string]func(who, bucket string) string{
		"path": func(who, bucket string) string { return n.body(n.by(who, "GET", "/"+bucket+"/k")) },
		"host": func(who, bucket string) string {
			return n.body(n.by(who, "GET", "/k", "Host: "+bucket+"."+domain))
		},
		"head": n.readHead,
		"list": func(who, bucket string) string {
			return n.whoseIn(n.body(n.by(who, "GET", "/"+bucket+"?list-type=2")))
		},
		"presigned":        signedOnly(n.readPresigned),
		"copy source":      signedOnly(n.readCopy),
		"part copy source": signedOnly(n.readPartCopy),
	}
}

func (n *names) readHead(who, bucket string) string {
	n.t.Helper()
	a := n.by(who, "HEAD", "/"+bucket+"/k")
	if n.body(a); a.status != 200 {
		return ""
	}
	return n.whose(func(md5 string) bool { return md5 == strings.Trim(a.header.Get("Etag"), `"`) })
}

func (n *names) readPresigned(who, bucket string) string {
	n.t.Helper()
	r := n.request("GET", "/"+bucket+"/k", "")
	signer := n.accounts[who]
	signer.Presign(r, time.Minute, time.Now())
	return n.body(n.send(r))
}

func (n *names) readCopy(who, bucket string) string {
	n.t.Helper()
	target := "/copies-" + who + "/k"
	n.by(who, "DELETE", target).want(204)
	if n.body(n.by(who, "PUT", target, "x-amz-copy-source: "+bucket+"/k")) == "" {
		return ""
	}
	return n.by(who, "GET", target).want(200).body
}

func (n *names) readPartCopy(who, bucket string) string {
	n.t.Helper()
	target := "/copies-" + who + "/p"
	id := n.by(who, "POST", target+"?uploads").want(200).element("UploadId")
	copied := n.body(n.by(who, "PUT", target+"?partNumber=1&uploadId="+id, "x-amz-copy-source: "+bucket+"/k"))
	if copied == "" {
		return ""
	}
	return cmp.Or(n.whoseIn(copied), "?")
}

// share brings a bucket into a state.
func (n *names) share(account, bucket, state string) {
	n.t.Helper()
	signer := n.accounts[account]
	if state == "absent" {
		return
	}
	n.as(signer, "PUT", "/"+bucket, "").want(200)
	if state == "empty" {
		return
	}
	n.as(signer, "PUT", "/"+bucket+"/k", account).want(200)
	allow := func(principal string) {
		n.as(signer, "PUT", "/"+bucket+"?policy", `{"Statement": {"Effect": "Allow", "Principal": `+principal+`, "Action": ["s3:GetObject", "s3:ListBucket"],
			"Resource": ["arn:aws:s3:::`+bucket+`", "arn:aws:s3:::`+bucket+`/*"]}}`).want(204)
	}
	switch state {
	case "private":
	case "public-read":
		n.as(signer, "PUT", "/"+bucket+"?acl", "", "x-amz-acl: public-read").want(200)
	case "public policy":
		allow(`"*"`)
	case "shared with third":
		allow(`{"AWS": "third"}`)
	case "own policy":
		allow(`{"AWS": "` + account + `"}`)
	case "blocked":
		allow(`"*"`)
		n.as(signer, "PUT", "/"+bucket+"?publicAccessBlock", publicAccess("RestrictPublicBuckets")).want(200)
	case "withdrawn":
		n.as(signer, "PUT", "/"+bucket+"?acl", "", "x-amz-acl: public-read").want(200)
		n.as(signer, "PUT", "/"+bucket+"?acl", "", "x-amz-acl: private").want(200)
	case "deleted":
		n.as(signer, "PUT", "/"+bucket+"?acl", "", "x-amz-acl: public-read").want(200)
		n.as(signer, "DELETE", "/"+bucket+"/k", "").want(204)
		n.as(signer, "DELETE", "/"+bucket, "").want(204)
	default:
		n.t.Fatalf("no state %s", state)
	}
}

// access says who may read a bucket in a state, whether it claims its name, and whether it frees it again.
var access = map[string]struct {
	readers        []string
	claims, freed  bool
	exists, filled bool
}{
	"absent":            {},
	"empty":             {exists: true},
	"private":           {exists: true, filled: true},
	"public-read":       {readers: []string{"anonymous", "main", "other", "third"}, claims: true, exists: true, filled: true},
	"public policy":     {readers: []string{"anonymous", "main", "other", "third"}, claims: true, exists: true, filled: true},
	"shared with third": {readers: []string{"third"}, claims: true, exists: true, filled: true},
	"own policy":        {exists: true, filled: true},
	"blocked":           {exists: true, filled: true, claims: true, freed: true}, // its policy was public before the block
	"withdrawn":         {exists: true, filled: true, claims: true, freed: true},
	"deleted":           {claims: true, freed: true},
}

// nameHolder returns the account that holds the name that main's bucket and other's later bucket share, or "".
func nameHolder(first, second string) string {
	switch {
	case access[first].claims && !access[first].freed:
		return "main"
	case access[second].claims && !access[second].freed && !access[first].claims:
		return "other"
	}
	return ""
}

// mayRead returns the account whose object a client reads by the name that main's bucket and other's later bucket share, or "".
// Its own bucket comes first.
func mayRead(who, first, second string) string {
	states := map[string]string{"main": first, "other": second}
	if own := access[states[who]]; own.exists {
		if own.filled {
			return who
		}
		return ""
	}
	holder := nameHolder(first, second)
	if slices.Contains(access[states[holder]].readers, who) {
		return holder
	}
	return ""
}

// TestNamesakes walks all states that two buckets with the same name may be in, all clients, and all ways to name a bucket.
// The second bucket never answers for the first.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "it walks all pairs of states")
	n := newNames(t)
	ways := n.ways()
	i := 0
	for _, first := range slices.Sorted(maps.Keys(access)) {
		for _, second := range slices.Sorted(maps.Keys(access)) {
			i++
			bucket := fmt.Sprintf("photos-%d", i)
			n.share("main", bucket, first)
			n.share("other", bucket, second)
			for _, who := range []string{"anonymous", "main", "other", "third"} {
				want := mayRead(who, first, second)
				for name, way := range ways {
					if got := way(who, bucket); got != want && got != "-" {
						t.Errorf("main's bucket is %s, then other's %s: %s by %s gets %q, want %q", first, second, name, who, got, want)
					}
				}
			}
		}
	}
}

// TestNamesakesCannotHide is the attack: B makes a bucket that is named like A's public bucket.
func TestNamesakesCannotHide(t *testing.T) {
	t.Parallel()
	n := newNames(t)
	cors := `<CORSConfiguration><CORSRule><AllowedOrigin>https://app.test</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>`
	preflight := []string{"Origin: https://app.test", "Access-Control-Request-Method: GET"}
	n.share("main", "photos", "public-read")
	n.share("main", "uploads", "private")
	for _, bucket := range []string{"photos", "uploads"} {
		n.do("PUT", "/"+bucket+"?cors", cors).want(200)
	}
	check := func(what string) {
		t.Helper()
		for _, who := range []string{"anonymous", "main", "third"} {
			for name, way := range n.ways() {
				if got := way(who, "photos"); got != "main" && got != "-" {
					t.Errorf("%s: %s by %s gets %q", what, name, who, got)
				}
			}
		}
		presigned := n.request("GET", "/uploads/k", "")
		n.main.Presign(presigned, time.Minute, time.Now())
		for _, target := range []string{"/photos/k", "/uploads/k", presigned.URL.Opaque + "?" + presigned.URL.RawQuery} {
			if a := n.anonymous("OPTIONS", target, "", preflight...); a.status != 200 {
				t.Errorf("%s: the preflight for %s: %d", what, target, a.status)
			}
		}
	}
	check("one bucket")
	for _, state := range []string{"empty", "private", "public-read", "shared with third", "withdrawn"} {
		for _, bucket := range []string{"photos", "uploads"} {
			n.share("other", bucket, state)
			n.as(n.other, "PUT", "/"+bucket+"?cors", strings.ReplaceAll(cors, "app.test", "evil.test")).want(200)
		}
		check("the other bucket is " + state)
	}
	n.anonymous("GET", "/other:photos/k", "").fails(403, "AccessDenied")
	n.as(n.other, "PUT", "/photos?acl", "", "x-amz-acl: public-read").want(200)
	n.anonymous("GET", "/other:photos/k", "").want(200).is("other")
	check("the other bucket is reached with its account")

	// In a host name, an account comes before a bucket with a dot, which anybody can create.
	n.share("other", "photos.main", "public-read")
	n.anonymous("GET", "/k", "", "Host: photos.main."+domain).want(200).is("main")
	n.as(n.accounts["third"], "GET", "/k", "", "Host: photos.main."+domain).want(200).is("main")
	n.anonymous("GET", "/photos.main/k", "").want(200).is("other")
	n.anonymous("GET", "/k", "", "Host: absent.main."+domain).fails(403, "AccessDenied")
	n.share("other", "absent.main", "public-read")
	n.anonymous("GET", "/k", "", "Host: absent.main."+domain).fails(403, "AccessDenied")
}

// TestWhoFindsBuckets lists the code that finds buckets without their account. New code must resolve plain names by
// findBucket, so that TestNamesakes covers it.
func TestWhoFindsBuckets(t *testing.T) {
	t.Parallel()
	want := []string{
		"internal/app/buckets/nameclaims.go NameHolder", "internal/app/buckets/search.go FindBuckets", "internal/app/buckets/search.go FindBuckets",
		"internal/buckets/s3api/policy.go NameHolder", "internal/buckets/s3api/refused.go BucketsWithCORS",
	}
	var got []string
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "storetest") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		for _, method := range []string{"NameHolder", "BucketsWithCORS", "FindBuckets"} {
			for range strings.Count(string(text), "."+method+"(") - strings.Count(string(text), "s.store."+method+"(") {
				got = append(got, filepath.ToSlash(name)+" "+method)
			}
		}
		return err
	})
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("buckets are found without their account by\n%s\nwant\n%s, %v", strings.Join(got, "\n"), strings.Join(want, "\n"), err)
	}
}
