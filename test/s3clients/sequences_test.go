package s3clients

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/minio/minio-go/v7"
)

// Each sequence replays the requests of products that cannot be tested here.

// lockedBackups replays a backup server with immutable backups: it examines the bucket, writes blocks in compliance mode,
// extends the retention of blocks that a newer backup needs, and deletes the other versions after their retention.
func lockedBackups(c *client) {
	ctx, t, s, b := c.t.Context(), c.t, newSDK(c.s3), &c.bucket
	ok[*s3.CreateBucketOutput](t)(s.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: b, ObjectLockEnabledForBucket: aws.Bool(true)}))
	if !slices.Contains(s.buckets(ctx, t), c.bucket) {
		t.Error("the bucket is not listed")
	}
	ok[*s3.GetBucketLocationOutput](t)(s.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: b}))
	if v := ok[*s3.GetBucketVersioningOutput](t)(s.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: b})); v.Status != types.BucketVersioningStatusEnabled {
		t.Errorf("versioning %+v", v)
	}
	// These products refuse a bucket with a default retention.
	if l := ok[*s3.GetObjectLockConfigurationOutput](t)(s.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: b})).ObjectLockConfiguration; l.ObjectLockEnabled != types.ObjectLockEnabledEnabled || l.Rule != nil {
		t.Errorf("object lock %+v", l)
	}
	s.put(ctx, t, c.bucket, "backup/repository/", nil)
	list := ok[*s3.ListObjectsV2Output](t)(s.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: b, Prefix: aws.String("backup/"), Delimiter: aws.String("/")}))
	if len(list.CommonPrefixes) != 1 || *list.CommonPrefixes[0].Prefix != "backup/repository/" {
		t.Errorf("folders %+v", list.CommonPrefixes)
	}

	now := time.Now().UTC().Truncate(time.Millisecond)
	until, later := now.Add(lockTime), now.Add(longerLock)
	block := bytes.Repeat([]byte("block"), 200_000)
	blocks := map[string]string{} // versions by key
	for n := range 6 {
		key := fmt.Sprintf("backup/repository/blocks/%d.blk", n)
		put := ok[*s3.PutObjectOutput](t)(s.PutObject(ctx, &s3.PutObjectInput{
			Bucket: b, Key: &key, Body: bytes.NewReader(block), ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &until,
		}))
		blocks[key] = *put.VersionId
	}
	for _, state := range []string{"first", "second"} { // metadata is overwritten
		s.put(ctx, t, c.bucket, "backup/repository/checkpoint", []byte(state))
	}
	part := ok[*s3.GetObjectOutput](t)(s.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: aws.String("backup/repository/blocks/3.blk"), Range: aws.String("bytes=500000-500004")}))
	if text := ok[[]byte](t)(io.ReadAll(part.Body)); string(text) != "block" {
		t.Errorf("a range is %q", text)
	}

	kept := "backup/repository/blocks/0.blk"
	version := blocks[kept]
	retain := &s3.PutObjectRetentionInput{Bucket: b, Key: &kept, VersionId: &version, Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeCompliance, RetainUntilDate: &later}}
	ok[*s3.PutObjectRetentionOutput](t)(s.PutObjectRetention(ctx, retain))
	if r := ok[*s3.GetObjectRetentionOutput](t)(s.GetObjectRetention(ctx, &s3.GetObjectRetentionInput{Bucket: b, Key: &kept, VersionId: &version})).Retention; !r.RetainUntilDate.Equal(later) || r.Mode != types.ObjectLockRetentionModeCompliance {
		t.Errorf("retention %+v, want %v", r, later)
	}
	all := s.versionsOf(ctx, t, c.bucket, "backup/repository/blocks/")
	if len(all) != len(blocks) {
		t.Errorf("%d versions, want %d", len(all), len(blocks))
	}
	for _, v := range all {
		if blocks[*v.Key] != *v.VersionId {
			t.Errorf("version %s of %s, want %s", *v.VersionId, *v.Key, blocks[*v.Key])
		}
	}
	if n := s.removeVersions(ctx, t, c.bucket, all); n != len(all) {
		t.Errorf("%d of %d locked versions were refused", n, len(all))
	}
	// An intruder who deletes everything only creates delete markers.
	ok[*s3.DeleteObjectOutput](t)(s.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: &kept}))
	head := ok[*s3.HeadObjectOutput](t)(s.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: &kept, VersionId: &version}))
	if *head.ContentLength != int64(len(block)) || head.ObjectLockMode != types.ObjectLockModeCompliance {
		t.Errorf("%+v", head)
	}
	// The block of the newer backup is locked longer than the others.
	c.node.pass(t, 2*lockTime)
	if n := s.removeVersions(ctx, t, c.bucket, all); n != 1 {
		t.Errorf("%d versions were refused after the end of the others' lock, want 1", n)
	}
	c.node.pass(t, 2*lockTime)
	s.purgeVersions(ctx, t, c.bucket)
	c.absent()
}

// volumeBackups replays cluster backups: archives from the upload manager, with default checksums and without, a list of
// folders, and presigned downloads.
func volumeBackups(c *client) {
	ctx, t, plain := c.t.Context(), c.t, newSDK(c.s3)
	plain.create(ctx, t, c.bucket)
	day := tree(t, c.path("day"))
	for name, checksums := range map[string]aws.RequestChecksumCalculation{"default": aws.RequestChecksumCalculationWhenSupported, "required": aws.RequestChecksumCalculationWhenRequired} {
		o := plain.Options()
		o.RequestChecksumCalculation = checksums
		s := sdk{s3.New(o)}
		manager := transfermanager.New(s.Client, func(o *transfermanager.Options) { o.PartSizeBytes, o.MultipartUploadThreshold = 5<<20, 6<<20 })
		folder := "backups/" + name + "/"
		_, err := s.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &c.bucket, Key: aws.String(folder + "backup.json")})
		if err == nil || !strings.Contains(err.Error(), "NotFound") {
			t.Errorf("HEAD of a backup that does not exist: %v", err)
		}
		for key, text := range map[string][]byte{"backup.tar.gz": day["/"+big], "backup.json": day["/note.txt"], "logs.gz": nil} {
			ok[*transfermanager.UploadObjectOutput](t)(manager.UploadObject(ctx, &transfermanager.UploadObjectInput{
				Bucket: &c.bucket, Key: aws.String(folder + key), Body: io.MultiReader(bytes.NewReader(text)), Tagging: aws.String("kind=backup"),
			}))
			if !bytes.Equal(s.get(ctx, t, c.bucket, folder+key), text) {
				t.Errorf("%s%s is another one", folder, key)
			}
		}
		link, err := s3.NewPresignClient(s.Client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &c.bucket, Key: aws.String(folder + "backup.json")}, s3.WithPresignExpires(10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		c.is("note.txt", c.fetch(link.URL))
	}
	var folders []string
	pages := s3.NewListObjectsV2Paginator(plain, &s3.ListObjectsV2Input{Bucket: &c.bucket, Prefix: aws.String("backups/"), Delimiter: aws.String("/"), MaxKeys: aws.Int32(1)})
	for pages.HasMorePages() {
		for _, p := range ok[*s3.ListObjectsV2Output](t)(pages.NextPage(ctx)).CommonPrefixes {
			folders = append(folders, *p.Prefix)
		}
	}
	if !slices.Equal(folders, []string{"backups/default/", "backups/required/"}) {
		t.Errorf("folders %q", folders)
	}
	for _, key := range plain.keys(ctx, t, c.bucket, "backups/default/") {
		ok[*s3.DeleteObjectOutput](t)(plain.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &c.bucket, Key: &key}))
	}
	plain.purge(ctx, t, c.bucket)
	c.absent()
}

// lockedSnapshots replays a repository of deduplicated snapshots: it writes blobs with a retention, extends it while
// snapshots need them, and reads the repository at a time from the list of versions.
func lockedSnapshots(c *client) {
	ctx, t, m := c.t.Context(), c.t, newMinIO(c, c.bucket, false)
	m.done(m.MakeBucket(ctx, m.bucket, minio.MakeBucketOptions{ObjectLocking: true}))
	if !ok[bool](t)(m.BucketExists(ctx, m.bucket)) {
		t.Error("the bucket does not exist")
	}
	compliance, now := minio.Compliance, time.Now().UTC()
	until, later := now.Add(lockTime), now.Add(longerLock)
	o := minio.PutObjectOptions{ContentType: "application/x-kopia", Mode: compliance, RetainUntilDate: until}
	// The client sends an MD5 only on request.
	_, err := m.PutObject(ctx, m.bucket, "p/0", strings.NewReader("blob"), 4, o)
	if r := minio.ToErrorResponse(err); r.Code != "InvalidRequest" || !strings.Contains(strings.ToLower(r.Message), "content-md5") {
		t.Errorf("a lock without MD5: %v", err)
	}
	o.SendContentMd5 = true
	blobs := map[string]string{}
	for n := range 5 {
		blobs[fmt.Sprintf("p/%d", n)] = m.put(ctx, fmt.Sprintf("p/%d", n), fmt.Sprintf("blob %d", n), o).VersionID
	}
	first := m.put(ctx, "repository", "first", o)
	// HEAD returns Last-Modified in whole seconds.
	after := ok[minio.ObjectInfo](t)(m.StatObject(ctx, m.bucket, "repository", minio.StatObjectOptions{})).LastModified.Add(time.Second)
	time.Sleep(time.Until(after))
	m.put(ctx, "repository", "second", o)
	m.done(m.PutObjectRetention(ctx, m.bucket, "p/0", minio.PutObjectRetentionOptions{Mode: &compliance, RetainUntilDate: &later}))
	m.done(m.RemoveObject(ctx, m.bucket, "p/1", minio.RemoveObjectOptions{}))

	got := minio.GetObjectOptions{}
	m.done(got.SetRange(5, 5))
	part := ok[*minio.Object](t)(m.GetObject(ctx, m.bucket, "p/2", got))
	if text := ok[[]byte](t)(io.ReadAll(part)); string(text) != "2" {
		t.Errorf("a range is %q", text)
	}
	then := map[string]string{} // versions at that time
	for _, v := range m.list(ctx, "", true) {
		if v.LastModified.Before(after) && then[v.Key] == "" && !v.IsDeleteMarker {
			then[v.Key] = v.VersionID
		}
	}
	if then["repository"] != first.VersionID || m.get(ctx, "repository", then["repository"]) != "first" || then["p/1"] != blobs["p/1"] || m.get(ctx, "p/1", then["p/1"]) != "blob 1" {
		t.Errorf("versions at %v: %v", after, then)
	}
	m.refused("delete a locked blob", m.RemoveObject(ctx, m.bucket, "p/3", minio.RemoveObjectOptions{VersionID: blobs["p/3"]}), "AccessDenied")
	c.node.pass(t, 2*lockTime)
	m.refused("delete a blob whose lock was extended", m.RemoveObject(ctx, m.bucket, "p/0", minio.RemoveObjectOptions{VersionID: blobs["p/0"]}), "AccessDenied")
	c.node.pass(t, 2*lockTime)
	m.empty(ctx)
	c.absent()
}

// presignedUploads replays a web application whose proxy uploads with presigned URLs: a PUT, or parts and their completion.
// The application then copies the object to its final key.
func presignedUploads(c *client) {
	ctx, t, s, b := c.t.Context(), c.t, newSDK(c.s3), &c.bucket
	s.create(ctx, t, c.bucket)
	// The application probes the bucket with ListObjects version 1.
	ok[*s3.ListObjectsOutput](t)(s.ListObjects(ctx, &s3.ListObjectsInput{Bucket: b, MaxKeys: aws.Int32(1)}))
	links := presigner{c, s}
	note, big := read(t, c.path("day", "note.txt")), read(t, c.path("day", big))
	tag := fmt.Sprintf(`"%x"`, md5.Sum(note))
	if a := links.send(ctx, http.MethodPut, "tmp/uploads/1", "", note); a.Get("ETag") != tag {
		t.Errorf("the proxy expects the MD5 as ETag: %v, want %s", a, tag)
	}
	if a := links.send(ctx, http.MethodHead, "tmp/uploads/1", "", nil); a.Get("Content-Length") != "1000" {
		t.Errorf("HEAD: %v", a)
	}

	key := aws.String("tmp/uploads/2")
	upload := ok[*s3.CreateMultipartUploadOutput](t)(s.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: key})).UploadId
	type part struct {
		PartNumber int
		ETag       string
	}
	var complete struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Part    []part
	}
	sums := md5.New()
	for piece := range slices.Chunk(big, 5<<20) {
		n := len(complete.Part) + 1
		a := links.send(ctx, http.MethodPut, *key, fmt.Sprintf("partNumber=%d&uploadId=%s", n, *upload), piece)
		complete.Part = append(complete.Part, part{n, a.Get("ETag")})
		sum := md5.Sum(piece)
		sums.Write(sum[:])
	}
	text := ok[[]byte](t)(xml.Marshal(complete))
	links.send(ctx, http.MethodPost, *key, "uploadId="+*upload, text)
	tag = fmt.Sprintf(`"%x-%d"`, sums.Sum(nil), len(complete.Part))
	if head := ok[*s3.HeadObjectOutput](t)(s.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: key})); *head.ETag != tag {
		t.Errorf("ETag %s, want %s", *head.ETag, tag)
	}
	aborted := ok[*s3.CreateMultipartUploadOutput](t)(s.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: key})).UploadId
	links.send(ctx, http.MethodDelete, *key, "uploadId="+*aborted, nil)

	for from, to := range map[string]string{"tmp/uploads/1": "final/a b+c/note", "tmp/uploads/2": "final/big"} {
		ok[*s3.CopyObjectOutput](t)(s.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: &to, CopySource: aws.String(c.bucket + "/" + from), MetadataDirective: types.MetadataDirectiveCopy}))
		links.send(ctx, http.MethodDelete, from, "", nil)
	}
	if !bytes.Equal(s.get(ctx, t, c.bucket, "final/a b+c/note"), note) || !bytes.Equal(s.get(ctx, t, c.bucket, "final/big"), big) {
		t.Error("a copy is another one")
	}
	link, err := s3.NewPresignClient(s.Client).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: b, Key: aws.String("final/a b+c/note"), ResponseContentDisposition: aws.String(`attachment; filename="note.txt"; filename*=UTF-8''note.txt`), ResponseContentType: aws.String("text/plain"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.is("note.txt", c.fetch(link.URL))
	if left := s.keys(ctx, t, c.bucket, "tmp/"); len(left) > 0 {
		t.Errorf("left keys %q", left)
	}
	s.purge(ctx, t, c.bucket)
	c.absent()
}

type presigner struct {
	c *client
	sdk
}

func (p presigner) send(ctx context.Context, method, key, query string, body []byte) http.Header {
	t := p.c.t
	t.Helper()
	r := ok[*http.Request](t)(http.NewRequestWithContext(ctx, method, p.c.s3.URL+"/"+p.c.bucket+"/"+key+"?X-Amz-Expires=600&"+query, nil))
	credentials := ok[aws.Credentials](t)(p.Options().Credentials.Retrieve(ctx))
	link, _, err := v4.NewSigner().PresignHTTP(ctx, credentials, r, "UNSIGNED-PAYLOAD", "s3", p.c.s3.Region, time.Now(), func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err != nil {
		t.Fatal(err)
	}
	r = ok[*http.Request](t)(http.NewRequestWithContext(ctx, method, link, bytes.NewReader(body)))
	a := ok[*http.Response](t)(http.DefaultClient.Do(r))
	defer a.Body.Close()
	if text := ok[[]byte](t)(io.ReadAll(a.Body)); a.StatusCode/100 != 2 || bytes.Contains(text, []byte("<Error>")) {
		t.Fatalf("%s %s?%s: %d %s", method, key, query, a.StatusCode, text)
	}
	return a.Header
}
