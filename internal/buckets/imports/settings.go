package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/internal/buckets"
)

// settings imports the settings of a bucket. One that the bucket here has stays. What this server has no setting for
// becomes a note.
func (i *imports) settings(ctx context.Context, p *pair) error {
	var c buckets.SettingsChange
	now := &p.bucket.Settings
	for _, read := range []func(context.Context, *pair, *buckets.SettingsChange) (note string, err error){i.cors, i.bucketTags, i.policy, i.versions, i.lifecycle} {
		note, err := read(ctx, p, &c)
		switch {
		case isMissing(err):
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case codeOf(err) == "NoSuchBucket":
			return readable("read the settings of bucket "+p.from, err)
		case err != nil:
			i.problem(Problem{Bucket: p.from, Reason: reason(readable("read a setting of the bucket", err))})
		case note != "":
			i.problem(Problem{Bucket: p.from, Reason: note})
		}
	}
	if now.CORS != nil {
		c.CORS = nil
	}
	if len(now.Tags) > 0 {
		c.Tags = nil
	}
	if i.DryRun || c == (buckets.SettingsChange{}) {
		return nil
	}
	return i.Target.SetBucket(ctx, i.Account.ID, p.bucket.BucketRef, c)
}

// isMissing reports whether the source has no such setting, or does not know it.
func isMissing(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "NoSuch") && code != "NoSuchBucket" ||
		slices.Contains([]string{"NotImplemented", "MethodNotAllowed", "XNotImplemented", "InvalidRequest", "ServerSideEncryptionConfigurationNotFoundError"}, code)
}

func (i *imports) cors(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: &p.from})
	if err != nil {
		return "", err
	}
	rules := make([]buckets.CORSRule, len(out.CORSRules))
	for n, r := range out.CORSRules {
		rules[n] = buckets.CORSRule{
			ID: aws.ToString(r.ID), AllowedOrigins: r.AllowedOrigins, AllowedMethods: r.AllowedMethods, AllowedHeaders: r.AllowedHeaders,
			ExposeHeaders: r.ExposeHeaders, MaxAgeSeconds: int(aws.ToInt32(r.MaxAgeSeconds)),
		}
		if wrong := rules[n].Check(); wrong != nil {
			return "its CORS rules are not imported: " + wrong.Error(), nil
		}
	}
	c.CORS = &rules
	return "", nil
}

func (i *imports) bucketTags(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &p.from})
	if err != nil || len(out.TagSet) == 0 {
		return "", err
	}
	all := tagsOf(out.TagSet)
	c.Tags = &all
	return "", nil
}

func (i *imports) policy(ctx context.Context, p *pair, c *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &p.from})
	if err != nil || aws.ToString(out.Policy) == "" {
		return "", err
	}
	switch {
	case !isPublicRead(aws.ToString(out.Policy), p.from):
		return "its policy is not imported: give access with access keys that have limits", nil
	case p.bucket.Settings.PublicRead:
		return "", nil
	}
	// An object that is already here may be private.
	if o, err := i.objectsHere(p).head(ctx); err != nil || o != nil {
		return fmt.Sprintf("everybody may read it at the source, but not here, because bucket %s has objects already: set its access to public-read if that is right", p.to), err
	}
	c.PublicRead = aws.Bool(true)
	return fmt.Sprintf("everybody may read bucket %s, as the policy of the source says", p.to), nil
}

// texts is a JSON text, or a list of texts.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// statement is a statement of a policy.
type statement struct {
	Effect       string          `json:"Effect"`
	Principal    json.RawMessage `json:"Principal"`
	Action       texts           `json:"Action"`
	Resource     texts           `json:"Resource"`
	NotPrincipal json.RawMessage `json:"NotPrincipal"`
	NotAction    json.RawMessage `json:"NotAction"`
	NotResource  json.RawMessage `json:"NotResource"`
	Condition    json.RawMessage `json:"Condition"`
}

// isForAll reports whether a statement allows something to everybody, without conditions.
func (s *statement) isForAll() bool {
	var all string
	var principal struct {
		AWS texts `json:"AWS"`
	}
	isAll := json.Unmarshal(s.Principal, &all) == nil && all == "*" || json.Unmarshal(s.Principal, &principal) == nil && slices.Equal(principal.AWS, texts{"*"})
	return isAll && s.Effect == "Allow" && s.NotPrincipal == nil && s.NotAction == nil && s.NotResource == nil && s.Condition == nil
}

// isPublicRead reports whether a policy does exactly what public-read does here: everybody may list the bucket and read its
// objects, and nobody may do anything else.
func isPublicRead(policy, bucket string) bool {
	var document struct {
		Statement []statement `json:"Statement"`
	}
	if json.Unmarshal([]byte(policy), &document) != nil {
		return false
	}
	arn := "arn:aws:s3:::" + bucket
	mayList, mayRead := false, false
	for _, s := range document.Statement {
		if !s.isForAll() {
			return false
		}
		for _, action := range s.Action {
			switch action {
			case "s3:ListBucket":
				mayList = mayList || slices.Contains(s.Resource, arn)
			case "s3:GetObject":
				mayRead = mayRead || slices.Contains(s.Resource, arn+"/*")
			case "s3:GetBucketLocation":
			default:
				return false
			}
		}
	}
	return mayList && mayRead
}

// versions notes that older versions stay at the source.
func (i *imports) versions(ctx context.Context, p *pair, _ *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &p.from})
	if err != nil || out.Status == "" {
		return "", err
	}
	return "it keeps versions: only the current one of each object is imported", nil
}

// lifecycle notes that there are rules.
func (i *imports) lifecycle(ctx context.Context, p *pair, _ *buckets.SettingsChange) (string, error) {
	out, err := i.Source.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &p.from})
	if err != nil || len(out.Rules) == 0 {
		return "", err
	}
	return "its lifecycle rules are not imported", nil
}
