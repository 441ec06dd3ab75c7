package buckets

import (
	"context"
	"fmt"
	"os"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/imports"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// importOperations declares the import from another S3 endpoint, a job that may take days.
func (s *Buckets) importOperations() []operate.Operation {
	job := operate.NewJob(operate.About{
		Path: "imports/run", Doc: "Import buckets from another S3 endpoint, while clients use both",
		Group: "Import buckets from another S3 endpoint", Title: "Import buckets", Button: "Import", Counts: "objects",
		Background: true, Begun: "import started", Stop: "Stop the import",
		Text: "An import copies objects with their versions, entity tags, times, metadata and tags. Repeated imports into the same account copy only changes.",
		More: "The source is s3://BUCKET or s3://BUCKET/PREFIX; without it all buckets are imported. Objects keep their ETag,\n" +
			"Last-Modified, Content-Type, metadata, tags and versions, and buckets their settings, if a client could set them\n" +
			"here. Other settings are listed, and holdfast check repeats them.\n\n" +
			"Run the command again to continue after an interruption, or to import later changes: it compares both\n" +
			"listings and deletes objects here that were deleted at the source. Objects changed here by a client stay,\n" +
			"unless the source changed them later. At the end, stop all writes to the source and run the command with\n" +
			"--stopped: it compares once more and fails if anything differs.\n\n" +
			"Credentials are read as by the AWS tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in\n" +
			"~/.aws/credentials. The exit status is 1 if an object could not be imported.",
		Example: "main s3://photos --endpoint https://minio.example.org:9000 --dry-run\nmain --endpoint https://minio.example.org:9000 --stopped",
	}, onNodes(s, s.importBuckets))
	return []operate.Operation{operate.WithFound[importProblem](job, "Problems", "There are no problems so far.")}
}

// importInput are the source and the options; see imports.SourceOptions and imports.Options.
type importInput struct {
	accountInput
	Source      string `flag:"source" arg:"SOURCE" doc:"s3://BUCKET or s3://BUCKET/PREFIX; omit it to import all buckets"`
	Endpoint    string `flag:"endpoint" value:"URL" doc:"source URL, e.g. https://minio.example.org:9000; default: Amazon S3"`
	Region      string `flag:"region" doc:"source region, us-east-1 by default"`
	AccessKey   string `flag:"access-key" doc:"source access key"`
	SecretKey   string `flag:"secret-key" remote:"" secret:"" doc:"source secret key"`
	SecretFile  string `flag:"secret-file" value:"FILE" local:"" doc:"FILE containing the secret key"`
	Profile     string `flag:"profile" value:"NAME" local:"" doc:"NAME of an AWS configuration profile"`
	Anonymous   bool   `flag:"anonymous" doc:"send unsigned requests, for a public bucket"`
	VirtualHost bool   `flag:"virtual-host" doc:"the source puts the bucket into the host name"`
	To          string `flag:"to" value:"BUCKET" doc:"target BUCKET name, if different"`
	Parallel    int    `flag:"parallel" doc:"number of objects to import at once" default:"16" least:"1"`
	CurrentOnly bool   `flag:"current-only" doc:"skip noncurrent object versions"`
	IgnoreTags  bool   `flag:"ignore-tags" doc:"skip comparing the tags of otherwise equal objects, which takes a request per object"`
	Stopped     bool   `flag:"stopped" doc:"final pass, after writes to the source have stopped: compare everything once more"`
	DryRun      bool   `flag:"dry-run" doc:"only compare, and count objects to import and delete"`
}

const (
	// importScheme begins a source, as in aws-cli. mostParallel limits the connections to it.
	importScheme = "s3://"
	mostParallel = 256
)

// Check refuses options that do not work together, before anything connects.
func (in importInput) Check() error {
	bucket, _ := in.source()
	invalid := func(input, reason string) error { return &operate.InputError{Input: input, Reason: reason} }
	switch {
	case in.Source != "" && (!strings.HasPrefix(in.Source, importScheme) || bucket == ""):
		return invalid("source", "expected s3://BUCKET or s3://BUCKET/PREFIX")
	case in.Parallel > mostParallel:
		return invalid("parallel", fmt.Sprintf("must be at most %d", mostParallel))
	case in.To != "" && bucket == "":
		return invalid("to", "name a single source bucket, e.g. s3://photos")
	case in.To != "" && buckets.CheckBucketName(in.To) != nil:
		return invalid("to", buckets.ErrBucketName.Message)
	case in.Anonymous && bucket == "":
		return invalid("anonymous", "name a source bucket, e.g. s3://photos")
	}
	if err := imports.CheckEndpoint(in.Endpoint); err != nil {
		return invalid("endpoint", "expected a URL, e.g. https://s3.example.org:9000")
	}
	return nil
}

// source returns "" for all buckets.
func (in importInput) source() (bucket, prefix string) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(in.Source, importScheme), "/")
	return bucket, prefix
}

// options returns the source and its credentials. Only commands read credentials from the environment: a user who
// starts an import on a server must not use the server's credentials.
func (in importInput) options(isServer bool) (imports.SourceOptions, error) {
	o := imports.SourceOptions{
		Endpoint: in.Endpoint, Region: in.Region, Profile: in.Profile, VirtualHost: in.VirtualHost, Anonymous: in.Anonymous,
		AccessKey: in.AccessKey, SecretKey: in.SecretKey, Parallel: in.Parallel,
	}
	if in.SecretFile != "" {
		secret, err := os.ReadFile(in.SecretFile)
		if err != nil {
			return o, &operate.InputError{Input: "secret-file", Reason: errcode.NetworkReason(err)}
		}
		o.SecretKey = strings.TrimSpace(string(secret))
	}
	switch {
	case in.Anonymous:
	case (o.AccessKey == "") != (o.SecretKey == ""):
		return o, &operate.InputError{Input: "access-key", Reason: "expected the access key and its secret, which a command reads with --secret-file"}
	case isServer && o.AccessKey == "":
		return o, &operate.InputError{Input: "access-key", Reason: "must not be empty"}
	}
	return o, nil
}

// importProblem is an object that failed, or a note about it or its bucket.
type importProblem struct {
	Bucket string `json:"bucket" title:"Bucket" example:"photos"`
	Key    string `json:"key,omitempty" title:"Key" zero:"-" example:"2026/cat.jpg"`
	Failed bool   `json:"failed" title:"Failed"`
	Reason string `json:"reason" title:"Reason"`
}

// importOutput counts objects, also after an error. Older versions count as objects, too.
type importOutput struct {
	DryRun     bool          `json:"dryRun"`
	Buckets    int64         `json:"buckets" title:"Buckets" least:"0"`
	Objects    int64         `json:"objects" title:"Objects at the source" least:"0"`
	Imported   int64         `json:"imported" title:"Imported" least:"0"`
	Bytes      service.Bytes `json:"bytes" title:"Bytes" least:"0"`
	Skipped    int64         `json:"skipped" title:"Already here" least:"0"`
	Deleted    int64         `json:"deleted" title:"Deleted here, as at the source" least:"0"`
	Kept       int64         `json:"kept" title:"Changed here, kept" least:"0"`
	Failed     int64         `json:"failed" title:"Failed" least:"0"`
	Retagged   int64         `json:"retagged" title:"Only tags imported" least:"0"`
	Absent     int64         `json:"absent" title:"Older versions that are not here" least:"0"`
	Unverified int64         `json:"unverified" title:"Verified by length only" least:"0"`
	Left       int64         `json:"left" title:"Still different" least:"0" doc:"with stopped: differences at the end"`

	// isFinal says that writes to the source have stopped; hasEnded, that the import was not interrupted.
	isFinal  bool
	hasEnded bool
	// problems are the first problems; more counts the others.
	problems []importProblem
	more     int64
}

// IsPartial makes the command's exit status 1.
func (o importOutput) IsPartial() bool { return o.Failed > 0 || o.Left > 0 }

// Notice lists the counts that are not 0, and the next step.
func (o importOutput) Notice() string {
	if !o.hasEnded && o.Imported == 0 {
		return "" // the error explains the cause
	}
	imported, deleted, tags := "imported", "deleted", "imported the tags"
	if o.DryRun {
		imported, deleted, tags = "would import", "would delete", "would import the tags"
	}
	lines := []string{fmt.Sprintf("%s %s (%s) of %d in %s; already here: %d", imported, service.Count(o.Imported, "object"), service.FormatBytes(int64(o.Bytes)),
		o.Objects, service.Count(o.Buckets, "bucket"), o.Skipped)}
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(o.Deleted, "%s %s deleted at the source", deleted, service.Count(o.Deleted, "object"))
	add(o.Kept, "kept %s changed here by a client after the source", service.Count(o.Kept, "object"))
	add(o.Retagged, tags+" of %s", service.Count(o.Retagged, "object"))
	add(o.Absent, "not here: %s that were deleted here, or that an import could not take", service.Count(o.Absent, "older version"))
	add(o.Unverified, "verified by length only, because the source has no MD5 or checksum: %s", service.Count(o.Unverified, "object"))
	switch {
	case !o.hasEnded || o.IsPartial() || o.DryRun:
	case o.isFinal && o.Absent == 0:
		lines = append(lines, "both sides are equal: clients may use this server now")
	default:
		lines = append(lines, "run it again to import later changes; add --stopped once writes to the source have stopped")
	}
	return strings.Join(lines, "\n")
}

// Note lists problems, and how to solve them.
func (o importOutput) Note() string {
	var lines []string
	for _, p := range o.problems {
		verb := "note"
		if p.Failed {
			verb = "failed"
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", verb, service.Printable(importScheme+strings.TrimSuffix(p.Bucket+"/"+p.Key, "/")), p.Reason))
	}
	if o.more > 0 {
		lines = append(lines, fmt.Sprintf("%d more, which --json lists", o.more))
	}
	if o.Failed > 0 {
		lines = append(lines, fmt.Sprintf("not imported: %s. Run the import again when the reasons are gone", service.Count(o.Failed, "object")))
	}
	if o.Left > 0 {
		lines = append(lines, fmt.Sprintf("still different: %s. If no import failed, the source is still being written to: stop the writers and run it again", service.Count(o.Left, "object")))
	}
	return strings.Join(lines, "\n")
}

// importBuckets imports into an account's buckets, which it creates if they do not exist. It may be stopped and
// repeated at any time.
func (s *Buckets) importBuckets(ctx context.Context, in importInput, progress operate.Progress) (o importOutput, err error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return o, err
	}
	options, err := in.options(s.serves.Load())
	if err != nil {
		return o, err
	}
	source, err := imports.NewSource(ctx, options)
	if err != nil {
		return o, err
	}
	bucket, prefix := in.source()
	o.DryRun, o.isFinal = in.DryRun, in.Stopped
	r, err := imports.Run(ctx, imports.Options{
		Source: source, Target: s.opened, Account: a, Bucket: bucket, Prefix: prefix, To: in.To,
		Parallel: in.Parallel, CurrentOnly: in.CurrentOnly, IgnoreTags: in.IgnoreTags, DryRun: in.DryRun, Final: in.Stopped,
		Progress: func(p imports.Progress) {
			progress.Moved(p.Done, p.Total, p.Bytes)
		},
		Report: func(p imports.Problem) {
			problem := importProblem{p.Bucket, p.Key, p.Failed, p.Reason}
			if len(o.problems) < shown {
				o.problems = append(o.problems, problem)
			} else {
				o.more++
			}
			progress.Find(problem)
		},
	})
	o.Buckets, o.Objects, o.Imported, o.Bytes, o.Skipped, o.Deleted = r.Buckets, r.Objects, r.Imported, service.Bytes(r.Bytes), r.Skipped, r.Deleted
	o.Kept, o.Failed, o.Retagged, o.Absent, o.Unverified, o.Left = r.Kept, r.Failed, r.Retagged, r.Absent, r.Unverified, r.Left
	o.hasEnded = err == nil
	if err != nil && ctx.Err() != nil {
		err = errcode.New(errcode.Unavailable, "interrupted: run the import again with the same options to continue")
	}
	return o, err
}
