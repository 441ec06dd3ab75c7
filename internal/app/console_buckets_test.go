package app_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

func put(t *testing.T, s sigv4test.Signer, address, body string) {
	t.Helper()
	signed(t, s, http.MethodPut, address, body)
}

func signed(t *testing.T, s sigv4test.Signer, method, address, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	s.Sign(r, sigv4test.Unsigned, time.Now())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s %s", address, resp.Status, text)
	}
}

// createAndRevokeKeys revokes the new key in the list and the first key on its own page.
func createAndRevokeKeys(b *browser, first string) (second string) {
	b.open("buckets/keys?account=tester")
	b.submit("Create access key", "right", "")
	second = b.page.all("pre")[2].String()
	b.shows("The secret key is not shown again in the console.")
	b.open("buckets/keys?account=tester")
	b.shows("Clients with this key are refused at once.")
	b.submit("Revoke key " + second)
	b.shows("Access key "+second+" is revoked.", "Access keys of account tester", "revoked")
	b.open("buckets/keys/show?account=tester&key=" + first)
	b.submit("Revoke key " + first)
	b.shows("Access key "+first+" is revoked.", "Access keys of account tester")
	return second
}

func consoleBuckets(b *browser) {
	b.open("buckets/nodes")
	b.follow("Audit and repair copies")
	b.shows("Start")
	b.open("buckets/nodes")
	b.shows("local:1", "active", "Used", "Scrubber pass")
	b.open("buckets/accounts")
	b.try(http.StatusBadRequest, "name", "Create account", "account", hostile)
	b.submit("Create account", "account", "tester")
	shown := b.page.all("pre")
	if len(shown) < 4 {
		b.t.Fatalf("no access key in\n%s", b.page)
	}
	endpoint, key := shown[1].String(), sigv4test.Signer{AccessKeyID: shown[2].String(), Secret: shown[3].String(), Region: "us-east-1"}
	folder := "a folder/"
	put(b.t, key, endpoint+"/photos", "")
	for _, name := range []string{hostile, folder + hostile, "last"} {
		put(b.t, key, endpoint+"/photos/"+strings.ReplaceAll(url.PathEscape(name), "%2F", "/"), "body of "+name)
	}

	b.open("buckets/accounts")
	b.follow("tester")
	b.shows("Account tester", "Objects3", "Bytes")
	b.follow("Access keys")
	b.shows("Access keys of account tester", key.AccessKeyID, "active")
	b.hides(key.Secret)
	b.open("buckets/buckets?account=tester")
	b.try(http.StatusOK, "photos", "Search", "prefix", "ph")
	if cells := b.page.all("tbody")[0].all("td"); cells[2].String() != "3" {
		b.t.Errorf("the bucket has %s objects", cells[2])
	}
	b.follow("photos")
	b.shows(hostile, folder, "last", "Objects3")
	if marked := slices.IndexFunc(b.page.all("a"), func(e *element) bool { return e.attrs["aria-current"] == "page" && e.String() == "Buckets" }); marked < 0 {
		b.t.Error("the menu does not mark Buckets")
	}
	b.follow(folder)
	b.shows("Folder " + folder)
	b.hides("last")
	b.follow(hostile)
	b.submit("Create link", "lifetime", "24h")
	link := b.page.all("pre")[0].String()
	if status, body := do(b.t, http.MethodGet, link, ""); status != http.StatusOK || body != "body of "+folder+hostile {
		b.t.Errorf("%s: %d %s", link, status, body)
	}
	b.follow(folder)
	b.shows("Folder "+folder, hostile)
	b.follow("photos")
	b.follow("last")
	page := *b
	b.follow("Download")
	if b.raw != "body of last" {
		b.t.Errorf("the download is %q", b.raw)
	}
	page.try(http.StatusBadRequest, "Nothing was changed", "Delete object", "confirm", "first")
	page.submit("Delete object", "confirm", "last")
	page.shows("Deleted object last.", hostile)
	b.consoleUploads()
	b.consoleChosen()
	b.consoleBucketSettings()
	b.consoleVersions()
	b.consoleAudit()
	b.open("buckets/accounts/show?account=tester")
	b.try(http.StatusConflict, "has buckets", "Delete account", "confirm", "tester")
	second := createAndRevokeKeys(b, key.AccessKeyID)
	b.open("changes")
	b.shows("account=tester, key="+second, "account=tester, key="+key.AccessKeyID)
	b.open("buckets/object?account=tester&bucket=photos&object=new/page.html")
	b.submit("Delete object", "confirm", "page.html")
	b.shows("Folder new/", "notes.txt")
	b.open("buckets/object?account=tester&bucket=photos&object=" + url.QueryEscape(hostile))
	b.try(http.StatusConflict, "access key may read the object", "Create link")
	b.consoleQuotas()
}

// consoleUploads checks that previews show nothing that could be a script.
func (b *browser) consoleUploads() {
	objects := "buckets/objects?account=tester&bucket=photos"
	b.open(objects)
	sent := b.fill(b.form("Upload"), "folder", "new")
	b.upload(http.StatusBadRequest, "Choose at least one file", "Upload", sent)
	forged := b.fill(b.form("Upload"))
	forged.Set("csrf", strings.Repeat("0", 64))
	b.upload(http.StatusForbidden, "reload the page", "Upload", forged, "a", "a")
	b.viewer.open(objects)
	if b.viewer.form("Upload") != nil {
		b.t.Error("a viewer may upload")
	}
	b.open(objects)
	const script = "<script>alert(1)</script>"
	image := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + strings.Repeat("\x00", 200_000) // large enough for a storage node
	thumbnail := "/console/buckets/thumbnail?account=tester&bucket=photos&object=new/"
	b.upload(http.StatusOK, "Uploaded 4 objects.", "Upload", sent, "notes.txt", hostile, `C:\Users\me\page.html`, script, "picture.svg", "<svg xmlns='http://www.w3.org/2000/svg'>"+script+"</svg>", "image.dat", image)
	b.shows("notes.txt", "page.html", "image.dat")
	b.hides("new/notes.txt")
	b.upload(http.StatusConflict, "new/notes.txt: an object with this name exists; stored before it: 1 object.", "Upload", b.fill(b.form("Upload")), "first", "1", "notes.txt", "2")
	b.upload(http.StatusOK, "Uploaded 1 object.", "Upload", b.fill(b.form("Upload"), "replace", "yes"), "notes.txt", "new text")
	b.follow("notes.txt")
	b.shows("Preview", "new text")
	b.follow("photos")
	for name, text := range map[string]string{"page.html": script, "picture.svg": script} {
		b.open("buckets/object?account=tester&bucket=photos&object=new/" + name)
		b.shows("Preview", text)
		if len(b.page.all("img")) != 0 {
			b.t.Errorf("%s is shown as an image", name)
		}
		if status := b.send(http.MethodGet, b.base+"/console/buckets/image?account=tester&bucket=photos&object=new/"+name, nil); status != http.StatusBadRequest {
			b.t.Errorf("%s as an image: %d", name, status)
		}
		if b.open("buckets/objects/get?account=tester&bucket=photos&object=new/" + name); b.kind != "application/octet-stream" || !strings.Contains(b.policy, "sandbox") {
			b.t.Errorf("%s is sent as %s with %s", name, b.kind, b.policy)
		}
	}
	if status := b.send(http.MethodGet, b.base+thumbnail+"picture.svg", nil); status != http.StatusNotFound {
		b.t.Errorf("a thumbnail of an SVG: %d", status)
	}
	if status := b.send(http.MethodGet, b.base+thumbnail+"image.dat", nil); status != http.StatusOK || b.raw != image || b.kind != "image/png" || b.policy != "sandbox; default-src 'none'" {
		b.t.Errorf("the thumbnail: %d, %d bytes, %s, %s", status, len(b.raw), b.kind, b.policy)
	}
	b.open("buckets/object?account=tester&bucket=photos&object=new/image.dat")
	images := b.page.all("img")
	if len(images) != 1 || images[0].attrs["alt"] != "Preview of image.dat" {
		b.t.Fatalf("no image in\n%s", b.raw)
	}
	if status := b.send(http.MethodGet, b.base+images[0].attrs["src"], nil); status != http.StatusOK || b.raw != image || b.kind != "image/png" || b.policy != "sandbox; default-src 'none'" {
		b.t.Errorf("the image: %d, %d bytes, %s, %s", status, len(b.raw), b.kind, b.policy)
	}
}

func (b *browser) consoleVersions() {
	const bucket, object = "?account=tester&bucket=versioned", "buckets/object?account=tester&bucket=versioned&object=a/notes.txt"
	b.open("buckets/buckets")
	b.submit("Create bucket", "account", "tester", "bucket", "versioned")
	b.open("buckets/objects" + bucket)
	b.hides("Show versions")
	b.open("buckets/buckets/show" + bucket)
	b.submit("Set versioning", "versioning", "enabled")
	b.open("buckets/objects" + bucket)
	for _, text := range []string{"first text", "second text"} {
		b.upload(http.StatusOK, "Uploaded 1 object.", "Upload", b.fill(b.form("Upload"), "folder", "a", "replace", "yes"), "notes.txt", text)
	}
	b.follow("Show versions")
	b.shows("notes.txt", "current", "noncurrent")
	b.open(object)
	b.shows("second text", "current", "noncurrent", "Its versions stay")
	b.submit("Restore")
	b.shows("Restored notes.txt.", "first text")
	b.submit("Delete object", "confirm", "notes.txt")
	b.follow("Show versions")
	b.shows("delete marker")
	for path, want := range map[string]int{"objects/get": http.StatusNotFound, "thumbnail": http.StatusConflict, "image": http.StatusConflict, "object": http.StatusOK} {
		if status := b.send(http.MethodGet, b.base+"/console/buckets/"+path+bucket+"&object=a/notes.txt", nil); status != want {
			b.t.Errorf("%s of a delete marker: %d", path, status)
		}
	}
	b.open(object)
	b.shows("Deleted object a/notes.txt", "delete marker")
	b.hides("first text")
	b.submit("Delete marker")
	b.shows("Deleted a delete marker of notes.txt.", "first text")
	for range 3 {
		b.submit("Delete")
		b.shows("Deleted a version of notes.txt.")
	}
	b.shows("Folder a/")
	for _, version := range []string{"x", "00000000-0000-4000-8000-000000000000"} {
		if status := b.send(http.MethodGet, b.base+"/console/"+object+"&version="+version, nil); status != http.StatusBadRequest && status != http.StatusNotFound {
			b.t.Errorf("version %s: %d", version, status)
		}
	}
	b.open("buckets/buckets/show" + bucket)
	b.submit("Delete bucket", "confirm", "versioned")
}

func (b *browser) consoleAudit() {
	b.open("buckets/audits")
	if status := b.send(http.MethodPost, b.base+"/console/buckets/runs?do=stop", b.fill(b.form("Start"))); status != http.StatusBadRequest {
		b.t.Errorf("stop without an audit: %d", status)
	}
	b.open("buckets/audits")
	b.try(http.StatusBadRequest, "must be at least 2h", "Start", "grace", "1m")
	b.open("buckets/audits")
	b.submit("Start", "verify", "yes")
	b.shows("Audit started.")
	b.awaitPage("buckets/audits", "no ended audit", func() bool { return b.form("Start") != nil })
	b.shows("ended", "There are no findings so far.", "Copies compared1", "Findings left0")
}

func (b *browser) consoleQuotas() {
	b.open("buckets/quotas")
	b.try(http.StatusBadRequest, "expected a number of bytes", "Set quota", "account", "tester", "bytes", "many")
	b.submit("Set quota", "account", "tester", "bytes", "1GiB")
	b.shows("tester", "1.0 GiB")
	b.open("buckets/accounts")
	b.shows("1.0 GiB")
	if len(b.page.all("meter")) == 0 {
		b.t.Error("no bar shows how much of the quota is used")
	}
	b.open("buckets/tokens")
	b.submit("Create token", "account", "tester", "ttl", "1h")
	b.shows("The token is shown only once.")
	token := b.page.all("pre")[0].String()
	b.open("changes")
	b.hides(token)
}

func (b *browser) chosen(action string, keys []string, values ...string) int {
	b.t.Helper()
	sent := b.fill(b.form("Move or copy"), values...)
	sent["key"] = keys
	return b.send(http.MethodPost, b.base+"/console/buckets/objects?do="+action, sent)
}

func (b *browser) names() (all []string) {
	for _, e := range b.page.all("input") {
		switch e.attrs["name"] {
		case "key":
			all = append(all, e.attrs["value"])
		case "*key":
			name, err := url.QueryUnescape(e.attrs["value"])
			if err != nil {
				b.t.Error(err)
			}
			all = append(all, name)
		}
	}
	return all
}

// consoleChosen copies, moves and deletes chosen rows, including names that are not valid file names.
func (b *browser) consoleChosen() {
	const objects = "buckets/objects?account=tester&bucket=photos"
	odd := []string{"../up", "a//b", "tab\tand\nline", strings.Repeat("n", 1010), hostile}
	b.open(objects)
	var files []string
	for _, name := range odd {
		files = append(files, name[strings.LastIndexByte(name, '/')+1:], "body of "+name)
	}
	b.upload(http.StatusOK, "Uploaded 5 objects.", "Upload", b.fill(b.form("Upload"), "folder", "odd//.."), files...)
	b.open(objects + "&prefix=odd/")
	if got := b.names(); len(got) != 1 || got[0] != "folder:odd//" {
		b.t.Fatalf("rows of odd/: %q", got)
	}
	if status := b.chosen("delete-chosen", nil); status != http.StatusBadRequest {
		b.t.Errorf("nothing is selected: %d", status)
	}
	b.open(objects)
	for keys, want := range map[string]int{"folder:odd": http.StatusBadRequest, "odd/": http.StatusBadRequest, "object:none": http.StatusOK} {
		if status := b.chosen("delete-chosen", []string{keys}); status != want {
			b.t.Errorf("%s: %d", keys, status)
		}
		b.open(objects)
	}
	if status := b.chosen("move-chosen", []string{"folder:odd/"}, "to-folder", "odd/inner"); status != http.StatusBadRequest {
		b.t.Errorf("a folder into itself: %d", status)
	}
	b.open(objects)
	if status := b.chosen("move-chosen", []string{"folder:odd/"}, "to-bucket", "none"); status != http.StatusNotFound {
		b.t.Errorf("to a bucket that does not exist: %d", status)
	}
	b.open(objects)
	if b.chosen("move-chosen", []string{"folder:odd/"}, "to-folder", "copy", "keep", "yes"); !strings.Contains(b.page.String(), "Copied 5 objects.") {
		b.t.Fatalf("the copy:\n%s", b.page)
	}
	if b.chosen("move-chosen", []string{"folder:odd/"}, "to-folder", "copy"); !strings.Contains(b.page.String(), "Moved 5 objects.") {
		b.t.Errorf("the move after an interrupted one:\n%s", b.page)
	}
	b.open(objects + "&prefix=copy/odd//../")
	if got := b.names(); len(got) != len(odd) {
		b.t.Errorf("rows of the copy: %q", got)
	}
	b.open(objects + "&prefix=copy/")
	long := strings.Repeat("f", 100)
	if status := b.chosen("move-chosen", []string{"folder:copy/odd/"}, "to-folder", long); status != http.StatusRequestEntityTooLarge {
		b.t.Errorf("a name that becomes too long: %d", status)
	}
	b.open(objects)
	if b.chosen("delete-chosen", []string{"folder:copy/", "folder:" + long + "/"}); !strings.Contains(b.page.String(), "Deleted 5 objects.") {
		b.t.Errorf("the deletion:\n%s", b.page)
	}
	b.viewer.open(objects)
	if len(b.viewer.names()) != 0 {
		b.t.Error("a viewer may select rows")
	}
	b.open("buckets/object?account=tester&bucket=photos&object=new/notes.txt")
	b.try(http.StatusConflict, "an object with this name exists", "Move or copy", "to", "new/image.dat")
	b.submit("Move or copy", "to", "renamed/notes.txt")
	b.shows("Moved object new/notes.txt.", "Folder renamed/")
	b.open("buckets/object?account=tester&bucket=photos&object=renamed/notes.txt")
	b.submit("Move or copy", "to", "new/notes.txt")
}

func (b *browser) consoleBucketSettings() {
	b.open("buckets/buckets")
	b.shows("photos", "tester")
	b.try(http.StatusBadRequest, "3 to 63", "Create bucket", "account", "tester", "bucket", "A")
	b.open("buckets/buckets")
	b.submit("Create bucket", "account", "tester", "bucket", "second")
	b.shows("Created bucket second of account tester.")
	b.shows("second", "There are no objects here.")
	b.follow("Unfinished uploads")
	b.shows("There are no incomplete uploads.")
	b.open("buckets/buckets/show?account=tester&bucket=second")
	b.submit("Set access", "access", "public-read")
	b.shows("public-read")
	b.try(http.StatusBadRequest, "expected origins", "Set CORS rule", "origins", hostile)
	b.submit("Set CORS rule", "origins", "https://app.example.org", "methods", "GET,PUT")
	b.shows("Set the CORS rule for bucket second.", "https://app.example.org")
	b.submit("Set CORS rule", "origins", "none")
	b.shows("Bucket second has no CORS rule.")
	b.try(http.StatusBadRequest, "above 0, or none", "Set quota", "objects", "0")
	b.open("buckets/buckets/show?account=tester&bucket=second")
	b.submit("Set quota", "bytes", "2GiB", "objects", "9")
	b.shows("second", "2.0 GiB")
	b.open("buckets/buckets/show?account=tester&bucket=second")
	b.submit("Set quota", "bytes", "none")
	b.hides("2.0 GiB")
	b.open("buckets/buckets/show?account=tester&bucket=second")
	b.submit("Delete bucket", "confirm", "second")
	b.shows("Deleted bucket second of account tester.")
	b.open("buckets/buckets/show?account=tester&bucket=photos")
	b.try(http.StatusConflict, "not empty", "Delete bucket", "confirm", "photos")
	b.open("buckets/objects?account=tester&bucket=photos")
	b.follow("Versions")
	b.shows("Versions of bucket photos", "current")
	b.follow("null")
	b.shows("Version null", "Legal hold")
	b.hides("Set legal hold")
}
