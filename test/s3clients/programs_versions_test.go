package s3clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

func decode[T any](c *client, answer string) (v T) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		c.t.Fatalf("%v: %s", err, answer)
	}
	return v
}

func awsVersions(c *client) {
	program, s3 := awsProgram(c), "s3://"+c.bucket
	aws := func(args ...string) string {
		c.t.Helper()
		return c.run(program, append([]string{"--endpoint-url", c.s3.URL}, args...)...)
	}
	api := func(operation string, args ...string) string {
		c.t.Helper()
		return aws(append([]string{"s3api", operation, "--output", "json", "--bucket", c.bucket}, args...)...)
	}
	api("create-bucket", "--object-lock-enabled-for-bucket")
	awsSettings(c, api)
	aws("s3", "sync", "day", s3+"/day")
	write(c.t, c.path("day", "note.txt"), []byte("changed"))
	if again := aws("s3", "sync", "day", s3+"/day"); !strings.Contains(again, "note.txt") || strings.Contains(again, big) {
		c.t.Errorf("a sync of one changed file: %s", again)
	}
	aws("s3", "rm", "--recursive", s3+"/day")
	if left := aws("s3", "ls", "--recursive", s3); left != "" {
		c.t.Errorf("after rm: %s", left)
	}
	type version struct {
		Key, VersionID string
		IsLatest       bool
	}
	type versions struct{ Versions, DeleteMarkers []version }
	note := decode[versions](c, api("list-object-versions", "--prefix", "day/note.txt", "--page-size", "1"))
	if len(note.Versions) != 2 || len(note.DeleteMarkers) != 1 || !note.DeleteMarkers[0].IsLatest {
		c.t.Fatalf("versions %+v", note)
	}
	api("get-object", "--key", "day/note.txt", "--version-id", note.Versions[0].VersionID, "version")
	if text := string(read(c.t, c.path("version"))); text != "changed" {
		c.t.Errorf("%d bytes, which are not the newest version", len(text))
	}
	api("delete-object", "--key", "day/note.txt", "--version-id", note.DeleteMarkers[0].VersionID)
	api("copy-object", "--key", "old", "--copy-source", c.bucket+"/day/note.txt?versionId="+note.Versions[1].VersionID)
	if text := aws("s3", "cp", s3+"/old", "-"); len(text) != 1000 {
		c.t.Errorf("%d bytes, which are not the oldest version", len(text))
	}
	c.fails("BucketNotEmpty", program, "--endpoint-url", c.s3.URL, "s3", "rb", s3, "--force")
	awsLocks(c, program, api)

	var all struct{ Objects []map[string]string }
	left := decode[versions](c, api("list-object-versions"))
	for _, v := range append(left.Versions, left.DeleteMarkers...) {
		all.Objects = append(all.Objects, map[string]string{"Key": v.Key, "VersionId": v.VersionID})
	}
	text, err := json.Marshal(all)
	if err != nil {
		c.t.Fatal(err)
	}
	if out := decode[struct{ Deleted, Errors []any }](c, api("delete-objects", "--bypass-governance-retention", "--delete", string(text))); len(out.Deleted) != len(all.Objects) || len(out.Errors) > 0 {
		c.t.Errorf("of %d versions %+v", len(all.Objects), out)
	}
	aws("s3", "rb", s3)
	c.absent()
}

func awsSettings(c *client, api func(operation string, args ...string) string) {
	c.t.Helper()
	lock := `{"ObjectLockEnabled":"Enabled","Rule":{"DefaultRetention":{"Mode":"GOVERNANCE","Days":2}}}`
	rules := `{"Rules":[{"ID":"logs","Filter":{"Prefix":"logs/"},"Status":"Enabled","Expiration":{"Days":30},"NoncurrentVersionExpiration":{"NoncurrentDays":3}}]}`
	hooks := `{"QueueConfigurations":[{"Id":"hook","QueueArn":"` + hookARN + `","Events":["s3:ObjectCreated:*","s3:ObjectRemoved:*"]}]}`
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::` + c.bucket + `/day/photos/*"}]}`
	for _, s := range []struct{ put, get, flag, document, member string }{
		{"put-object-lock-configuration", "get-object-lock-configuration", "--object-lock-configuration", lock, "ObjectLockConfiguration"},
		{"put-bucket-lifecycle-configuration", "get-bucket-lifecycle-configuration", "--lifecycle-configuration", rules, ""},
		{"put-bucket-notification-configuration", "get-bucket-notification-configuration", "--notification-configuration", hooks, ""},
		{"put-bucket-policy", "get-bucket-policy", "--policy", policy, "Policy"},
	} {
		api(s.put, s.flag, s.document)
		got := api(s.get)
		switch members := decode[map[string]any](c, got); {
		case s.member == "Policy":
			got = fmt.Sprint(members["Policy"])
		case s.member != "":
			got = fmt.Sprint(members[s.member])
		default:
			got = fmt.Sprint(members)
		}
		want := s.document
		if s.member != "Policy" {
			want = fmt.Sprint(decode[map[string]any](c, s.document))
		}
		if got != want {
			c.t.Errorf("%s: %s, want %s", s.get, got, want)
		}
	}
	if status := decode[struct{ PolicyStatus struct{ IsPublic bool } }](c, api("get-bucket-policy-status")); !status.PolicyStatus.IsPublic {
		c.t.Error("the policy is public")
	}
	api("delete-bucket-policy")
	api("delete-bucket-lifecycle")
	api("put-object-lock-configuration", "--object-lock-configuration", `{"ObjectLockEnabled":"Enabled"}`)
}

func awsLocks(c *client, program string, api func(operation string, args ...string) string) {
	c.t.Helper()
	until := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	kept := decode[struct{ VersionID string }](c, api("put-object", "--key", "kept", "--body", "day/note.txt",
		"--object-lock-mode", "GOVERNANCE", "--object-lock-retain-until-date", until.Format(time.RFC3339))).VersionID
	c.await("ObjectCreated:Put", "kept")
	until = until.Add(time.Hour)
	api("put-object-retention", "--key", "kept", "--retention", "Mode=GOVERNANCE,RetainUntilDate="+until.Format(time.RFC3339))
	got := decode[struct {
		Retention struct {
			Mode            string
			RetainUntilDate time.Time
		}
	}](c, api("get-object-retention", "--key", "kept", "--version-id", kept)).Retention
	if got.Mode != "GOVERNANCE" || !got.RetainUntilDate.Equal(until) {
		c.t.Errorf("retention %+v, want until %v", got, until)
	}
	api("put-object-legal-hold", "--key", "kept", "--legal-hold", "Status=ON")
	c.fails("AccessDenied", program, "--endpoint-url", c.s3.URL, "s3api", "delete-object", "--bucket", c.bucket, "--key", "kept", "--version-id", kept, "--bypass-governance-retention")
	api("put-object-legal-hold", "--key", "kept", "--legal-hold", "Status=OFF")
	if hold := api("get-object-legal-hold", "--key", "kept"); !strings.Contains(hold, "OFF") {
		c.t.Errorf("legal hold %s", hold)
	}
	c.fails("AccessDenied", program, "--endpoint-url", c.s3.URL, "s3api", "delete-object", "--bucket", c.bucket, "--key", "kept", "--version-id", kept)
}

// s3cmdVersions uses a bucket with versions. s3cmd before 2.4 does not support them and must see only current objects.
func s3cmdVersions(c *client) {
	program, s3 := s3cmdProgram(c), "s3://"+c.bucket
	s3cmd := func(args ...string) string {
		c.t.Helper()
		return c.run(program, append([]string{"--config", c.path("s3cfg"), "--no-progress"}, args...)...)
	}
	s3cmd("mb", s3)
	a, err := c.s3.Send(c.t.Context(), http.MethodPut, "/"+c.bucket+"?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	if err != nil || a.Status != http.StatusOK {
		c.t.Fatalf("%d %s %v", a.Status, a.Body, err)
	}
	s3cmdSettings(c, s3cmd)
	s3cmd("sync", "day/", s3+"/day/")
	write(c.t, c.path("day", "note.txt"), []byte("changed"))
	if again := s3cmd("sync", "day/", s3+"/day/"); strings.Count(again, "upload:") != 1 {
		c.t.Errorf("a sync of one changed file: %s", again)
	}
	s3cmd("del", s3+"/day/empty")
	s3cmd("put", "day/empty", s3+"/day/empty")
	s3cmd("cp", s3+"/day/note.txt", s3+"/copy")
	s3cmd("get", s3+"/copy", "copy")
	c.same("note.txt", "copy")
	s3cmd("mv", s3+"/copy", s3+"/moved")
	write(c.t, c.path("back", "kept"), nil)
	s3cmd("sync", "--delete-removed", s3+"/day/", "back/")
	c.same("", "back")
	s3cmd("del", "--recursive", "--force", s3)
	if left := s3cmd("ls", "--recursive", s3); left != "" {
		c.t.Errorf("after del: %s", left)
	}
	c.fails("BucketNotEmpty", program, "--config", c.path("s3cfg"), "rb", s3)
	sdk := newSDK(c.s3)
	if n := len(sdk.versionsOf(c.t.Context(), c.t, c.bucket, "day/empty")); n != 4 {
		c.t.Errorf("%d versions and delete markers, want 4", n)
	}
	sdk.purgeVersions(c.t.Context(), c.t, c.bucket)
	c.absent()
}

func s3cmdSettings(c *client, s3cmd func(args ...string) string) {
	c.t.Helper()
	s3 := "s3://" + c.bucket
	s3cmd("expire", "--expiry-days=7", "--expiry-prefix=logs/", s3)
	if info := s3cmd("info", s3); !strings.Contains(info, "expire in '7' day(s)") {
		c.t.Errorf("info: %s", info)
	}
	rules := `<LifecycleConfiguration><Rule><ID>old</ID><Filter><Prefix/></Filter><Status>Enabled</Status><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>`
	hooks := `<NotificationConfiguration><QueueConfiguration><Id>hook</Id><Queue>` + hookARN + `</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>`
	policy := `{"Version":"2012-10-17","Statement":[{"Sid":"photos","Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::` + c.bucket + `/day/photos/*"}]}`
	for file, text := range map[string]string{"rules": rules, "hooks": hooks, "policy": policy} {
		write(c.t, c.path(file), []byte(text))
	}
	s3cmd("setlifecycle", "rules", s3)
	if got := s3cmd("getlifecycle", s3); !strings.Contains(got, "<NoncurrentDays>3</NoncurrentDays>") || strings.Contains(got, "logs/") {
		c.t.Errorf("lifecycle rules: %s", got)
	}
	s3cmd("setnotification", "hooks", s3)
	if got := s3cmd("getnotification", s3); !strings.Contains(got, hookARN) {
		c.t.Errorf("notifications: %s", got)
	}
	s3cmd("setpolicy", "policy", s3)
	if info := s3cmd("info", s3); !strings.Contains(info, `"photos"`) {
		c.t.Errorf("info: %s", info)
	}
	s3cmd("put", "day/photos/2026-index", s3+"/day/photos/2026-index")
	c.await("ObjectCreated:Put", "day/photos/2026-index")
	c.is("photos/2026-index", c.fetch(c.s3.URL+"/"+c.bucket+"/day/photos/2026-index"))
	s3cmd("delpolicy", s3)
	s3cmd("delnotification", s3)
	s3cmd("dellifecycle", s3)
	if info := s3cmd("info", s3); strings.Contains(info, `"photos"`) || strings.Contains(info, "expire in") {
		c.t.Errorf("info: %s", info)
	}
}

// rcloneVersions reads and removes versions, which rclone names by time.
func rcloneVersions(c *client, rclone func(...string) string) {
	c.t.Helper()
	s3 := "hf:" + c.bucket
	if state := rclone("backend", "versioning", s3, "Enabled"); !strings.Contains(state, "Enabled") {
		c.t.Errorf("versioning: %s", state)
	}
	rclone("copyto", "day/note.txt", s3+"/kept.txt")
	rclone("copyto", "day/photos/2026-index", s3+"/kept.txt")
	rclone("deletefile", s3+"/kept.txt")
	old := strings.Fields(rclone("lsf", "--s3-versions", "--files-only", "--include", "kept*", s3))
	if len(old) != 2 {
		c.t.Errorf("versions: %q", old)
	}
	if all := rclone("lsf", "--files-only", "--include", "kept*", s3); all != "" {
		c.t.Errorf("after the deletion: %q", all)
	}
	sizes := rclone("lsf", "--s3-versions", "--files-only", "--format", "s", "--include", "kept*", s3)
	c.lines(sizes, "1000", "10")
	rcloneVersionAt(c, rclone)
	rclone("backend", "cleanup-hidden", s3)
	if all := rclone("lsf", "--s3-versions", "--files-only", "--include", "kept*", s3); all != "" {
		c.t.Errorf("after cleanup-hidden: %q", all)
	}
}

// rcloneVersionAt reads the bucket at a time between two writes. Times are whole seconds.
func rcloneVersionAt(c *client, rclone func(...string) string) {
	c.t.Helper()
	s3 := "hf:" + c.bucket
	next := func() time.Time {
		at := time.Now().Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(at.Add(50 * time.Millisecond)))
		return at
	}
	rclone("copyto", "day/note.txt", s3+"/then.txt")
	before := next()
	rclone("copyto", "day/photos/2026-index", s3+"/then.txt")
	rclone("copyto", "day/empty", s3+"/then-new.txt")
	between := next()
	rclone("deletefile", s3+"/then.txt")
	at := func(then time.Time) string { return "--s3-version-at=" + then.UTC().Format("2006-01-02 15:04:05") }
	c.is("note.txt", rclone("cat", at(before), s3+"/then.txt"))
	c.lines(rclone("lsf", at(before), "--files-only", "--include", "then*", s3), "then.txt")
	c.is("photos/2026-index", rclone("cat", at(between), s3+"/then.txt"))
	c.lines(rclone("lsf", at(between), "--files-only", "--include", "then*", s3), "then-new.txt", "then.txt")
	c.lines(rclone("lsf", "--files-only", "--include", "then*", s3), "then-new.txt")
	rclone("copy", at(before), "--include", "then*", s3, "then")
	c.same("note.txt", "then/then.txt")
	if n := len(tree(c.t, c.path("then"))); n != 1 {
		c.t.Errorf("%d files were restored, want 1", n)
	}
	rclone("deletefile", s3+"/then-new.txt")
}
