package s3clients

import (
	"os"
	"path/filepath"
	"strings"

	"holdfast/test/binary"
)

func awsProgram(c *client) string {
	c.t.Helper()
	write(c.t, c.path("aws.conf"), []byte("[default]\ns3 =\n  multipart_threshold = 6MB\n  multipart_chunksize = 5MB\n  addressing_style = path\n"))
	const ofDebian = "/usr/bin/aws" // preferred over other installations
	if _, err := os.Stat(ofDebian); err == nil {
		return ofDebian
	}
	return binary.Program(c.t, "aws")
}

// awsCLI tests aws. Each command takes a second to start, so it runs only a few.
func awsCLI(c *client) {
	program := awsProgram(c)
	aws := func(args ...string) string {
		c.t.Helper()
		return c.run(program, append([]string{"--endpoint-url", c.s3.URL}, args...)...)
	}
	s3 := "s3://" + c.bucket
	commands := readmeCommands(c)
	for _, command := range commands {
		aws(command...)
	}
	c.is("note.txt", aws("s3", "cp", s3+"/note.txt", "-"))
	aws("s3", "sync", "day", s3+"/day")
	if again := aws("s3", "sync", "day", s3+"/day"); again != "" {
		c.t.Errorf("a second sync copies again:\n%s", again)
	}
	c.is("photos/b +c ü%.jpg", c.fetch(aws("s3", "presign", s3+"/day/photos/b +c ü%.jpg", "--expires-in", "60")))
	aws("s3", "cp", s3+"/day/"+big, s3+"/copy")
	aws("s3", "mv", s3+"/copy", "moved")
	c.same(big, "moved")
	c.pipe(read(c.t, c.path("day", big)), program, "--endpoint-url", c.s3.URL, "s3", "cp", "-", s3+"/piped")
	c.is(big, aws("s3", "cp", s3+"/piped", "-"))
	aws("s3", "sync", s3+"/day", "back")
	c.same("", "back")
	aws("s3", "rb", s3, "--force")
	c.absent()
}

// readmeCommands returns the arguments after the address in the README's aws commands, for the client's bucket and its
// file note.txt.
func readmeCommands(c *client) (all [][]string) {
	c.t.Helper()
	const before = "aws --endpoint-url $AWS_ENDPOINT_URL "
	for line := range strings.Lines(string(read(c.t, filepath.Join("..", "..", "README.md")))) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), before); ok {
			all = append(all, strings.Fields(strings.NewReplacer("s3://photos", "s3://"+c.bucket, "README.md", c.path("day", "note.txt")).Replace(command)))
		}
	}
	if len(all) != 2 || all[0][1] != "mb" || all[1][1] != "cp" {
		c.t.Fatalf("the README has the commands %q", all)
	}
	return all
}

func s3cmdProgram(c *client) string {
	c.t.Helper()
	host := strings.TrimPrefix(c.s3.URL, "http://")
	write(c.t, c.path("s3cfg"), []byte("[default]\naccess_key = "+c.s3.AccessKeyID+"\nsecret_key = "+c.s3.Secret+
		"\nhost_base = "+host+"\nhost_bucket = "+host+"\nuse_https = False\nmultipart_chunk_size_mb = 5\n"))
	return binary.Program(c.t, "s3cmd")
}

// s3cmd tests s3cmd, which still lists objects with version 1.
func s3cmd(c *client) {
	program := s3cmdProgram(c)
	s3cmd := func(args ...string) string {
		c.t.Helper()
		return c.run(program, append([]string{"--config", c.path("s3cfg"), "--no-progress"}, args...)...)
	}
	s3 := "s3://" + c.bucket
	s3cmd("mb", s3)
	s3cmd("sync", "day/", s3+"/day/")
	if again := s3cmd("sync", "day/", s3+"/day/"); strings.Contains(again, "upload:") {
		c.t.Errorf("a second sync copies again:\n%s", again)
	}
	if info := s3cmd("info", s3+"/day/note.txt"); !strings.Contains(info, "File size: 1000") {
		c.t.Errorf("info: %s", info)
	}
	if list := s3cmd("ls", s3+"/day/ph"); !strings.Contains(list, "DIR") || !strings.Contains(list, s3+"/day/photos/") {
		c.t.Errorf("ls of a prefix: %s", list)
	}
	s3cmd("cp", s3+"/day/photos/b +c ü%.jpg", s3+"/copy")
	s3cmd("modify", "--add-header=x-amz-meta-author: me", s3+"/copy")
	s3cmd("mv", s3+"/copy", s3+"/moved")
	s3cmd("setacl", "--acl-public", s3)
	c.is("photos/b +c ü%.jpg", c.fetch(c.s3.URL+"/"+c.bucket+"/moved"))
	s3cmd("get", s3+"/moved", "moved")
	c.same("photos/b +c ü%.jpg", "moved")
	s3cmd("setacl", "--acl-private", s3)
	c.is("photos/b +c ü%.jpg", c.fetch(s3cmd("signurl", s3+"/moved", "+60"))) // Signature Version 2
	s3cmd("del", s3+"/moved")
	c.pipe(read(c.t, c.path("day", big)), program, "--config", c.path("s3cfg"), "put", "-", s3+"/piped")
	s3cmd("get", s3+"/piped", "piped")
	c.same(big, "piped")
	s3cmd("del", s3+"/piped")
	write(c.t, c.path("back", "kept"), nil) // the folder must exist
	s3cmd("sync", "--delete-removed", s3+"/day/", "back/")
	c.same("", "back")
	c.fails("BucketNotEmpty", program, "--config", c.path("s3cfg"), "rb", s3)
	s3cmd("del", "--recursive", "--force", s3)
	s3cmd("rb", s3)
	c.absent()
}

// rclone tests rclone, which stores file times in metadata and verifies its uploads.
func rclone(c *client) {
	program := binary.Program(c.t, "rclone")
	c.env = append(c.env, "RCLONE_CONFIG="+c.path("rclone.conf"), "RCLONE_CONFIG_HF_TYPE=s3", "RCLONE_CONFIG_HF_PROVIDER=Other", "RCLONE_CONFIG_HF_ENV_AUTH=true",
		"RCLONE_CONFIG_HF_ENDPOINT="+c.s3.URL, "RCLONE_CONFIG_HF_REGION="+c.s3.Region, "RCLONE_S3_UPLOAD_CUTOFF=6M", "RCLONE_S3_CHUNK_SIZE=5M", "RCLONE_S3_COPY_CUTOFF=6M")
	write(c.t, c.path("rclone.conf"), nil)
	rclone := func(args ...string) string {
		c.t.Helper()
		return c.run(program, args...)
	}
	s3 := "hf:" + c.bucket
	rclone("mkdir", s3)
	rclone("copy", "day", s3+"/day")
	rclone("check", "day", s3+"/day")
	rclone("check", "--download", "day", s3+"/day")
	if again, err := c.try(nil, program, "copy", "-v", "--dry-run", "day", s3+"/day"); err != nil || strings.Contains(again, "Skipped copy") {
		c.t.Errorf("a second copy copies again: %v\n%s", err, again)
	}
	c.lines(rclone("lsf", "--recursive", "--files-only", s3+"/day/photos"), "2026/it's.jpg", "2026-index", "b +c ü%.jpg")
	c.lines(rclone("lsf", s3+"/day/photos"), "2026/", "2026-index", "b +c ü%.jpg")
	c.pipe(read(c.t, c.path("day", big)), program, "rcat", s3+"/piped")
	c.is(big, rclone("cat", s3+"/piped"))
	c.pipe(read(c.t, c.path("day", "note.txt")), program, "rcat", s3+"/note")
	c.is("note.txt", rclone("cat", s3+"/note"))
	rclone("copyto", s3+"/piped", s3+"/copy") // multipart copy on the server
	rclone("moveto", s3+"/copy", "moved")
	c.same(big, "moved")
	rclone("touch", "--timestamp", "2020-01-02T03:04:05", s3+"/note") // copies the object onto itself
	c.lines(rclone("lsf", "--format", "tps", "--max-depth", "1", "--files-only", s3+"/note"), "2020-01-02 03:04:05;note;1000")
	c.is("note.txt", c.fetch(rclone("link", "--expire", "1m", s3+"/note")))
	rclone("deletefile", s3+"/piped")
	rclone("sync", s3+"/day", "back")
	c.same("", "back")
	rcloneVersions(c, rclone)
	rclone("purge", s3)
	c.absent()
}

// restic tests restic, whose repositories consist of many small files.
func restic(c *client) {
	program := binary.Program(c.t, "restic")
	c.env = append(c.env, "RESTIC_REPOSITORY=s3:"+c.s3.URL+"/"+c.bucket+"/repository", "RESTIC_PASSWORD=secret", "RESTIC_CACHE_DIR="+c.path("cache"))
	restic := func(args ...string) string {
		c.t.Helper()
		return c.run(program, args...)
	}
	c.fails("config", program, "snapshots")
	restic("init")
	restic("backup", "day")
	write(c.t, c.path("day", "photos", "new"), []byte("new"))
	restic("backup", "day")
	c.pipe(read(c.t, c.path("day", "note.txt")), program, "backup", "--stdin", "--stdin-filename", "piped")
	c.is("note.txt", restic("dump", "--path", "/piped", "latest", "/piped"))
	restic("forget", "--keep-last", "1", "--prune")
	if out := restic("check", "--read-data"); !strings.Contains(out, "no errors were found") {
		c.t.Errorf("check: %s", out)
	}
	restic("restore", "latest", "--path", c.path("day"), "--target", "back")
	c.same("", "back/day")
	newSDK(c.s3).purge(c.t.Context(), c.t, c.bucket)
	c.absent()
}
