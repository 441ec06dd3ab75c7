package buckets

import (
	"context"
	"fmt"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// mayOptions are the rights that the console offers for a key, from the fewest to all.
var mayOptions = []service.Option{
	{Value: "read list", Text: "Read: list and download objects"},
	{Value: "read write delete list", Text: "Read and write: upload, overwrite and delete objects, too"},
	{Value: "", Text: "Everything, also buckets and their settings"},
}

// showKeyForm shows the form for a new access key below an account's keys. Its fields are those of the operation
// keys/create.
func (s *Buckets) showKeyForm(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	a, err := s.account(ctx, r.Value("account"))
	if err != nil {
		return nil, err
	}
	at := map[string]string{"account": a.Name}
	return &service.View{Blocks: []service.Block{&service.Form{
		Title: "Create access key", Action: "create", Submit: "Create access key", Keep: at, At: at,
		Fields: []service.Field{
			{Name: "name", Label: "Name", Optional: true, Help: "So that you know it again, e.g. backup."},
			{Name: "right", Label: "What it may do", Options: mayOptions, Value: mayOptions[1].Value, Optional: true},
			{Name: "bucket", Label: "In these buckets", Kind: "bucket", Many: true, Optional: true, Help: "None chosen: in all buckets of the account."},
			{Name: "bucket-prefix", Label: "And in buckets that begin with", Optional: true, Help: "E.g. logs-. Buckets that do not exist yet are included."},
			{Name: "expires-in", Label: "Expires", Optional: true, Options: []service.Option{
				{Value: "", Text: "Never, or on the date below"}, {Value: "30d", Text: "In 30 days"}, {Value: "90d", Text: "In 90 days"}, {Value: "365d", Text: "In a year"},
			}},
			{Name: "expires-on", Label: "On this date (UTC)", Input: "date", Optional: true},
			{Name: "prefix", Label: "Only objects that begin with", Optional: true, Detail: true, Help: "E.g. photos/2026/."},
			{Name: "network", Label: "Only from these networks", Optional: true, Detail: true, Help: "E.g. 10.0.0.0/8; several with spaces between them."},
			{Name: "signature-v2", Label: "Signature Version 2", Optional: true, Detail: true, Options: []service.Option{{Value: "", Text: "Refused if the key has limits"}, {Value: "allow", Text: "Signs links and forms for old clients"}}},
		},
	}}}, nil
}

// describe says in words what a key may do.
func describe(account string, t *buckets.KeyTerms) string {
	var text strings.Builder
	may := "do everything"
	if len(t.Limits.Rights) > 0 {
		may = wordsOf(t.Limits.Rights, func(r buckets.Right) string { return string(r) }).String()
	}
	fmt.Fprintf(&text, "The key may %s in ", may)
	if len(t.Limits.Buckets) == 0 {
		fmt.Fprintf(&text, "all buckets of account %s", account)
	} else {
		fmt.Fprintf(&text, "%s of account %s", strings.Join(t.Limits.Buckets, ", "), account)
	}
	if t.Limits.Prefix != "" {
		fmt.Fprintf(&text, ", with objects that begin with %s", t.Limits.Prefix)
	}
	for i, n := range t.Limits.Networks {
		sep := ", "
		if i == 0 {
			sep = ", from "
		}
		text.WriteString(sep + n.String())
	}
	if t.Expires != 0 {
		fmt.Fprintf(&text, ", until %s", t.Expires.Time().UTC().Format("2006-01-02 15:04 UTC"))
	}
	return text.String() + "."
}

// Snippets returns the key for the usual clients, each as lines to copy.
func (k madeKey) Snippets() []operate.Text {
	r := strings.NewReplacer("ENDPOINT", k.Endpoint, "HOST", hostOf(k.Endpoint), "ACCESS", k.AccessKey, "SECRET", k.SecretKey, "REGION", k.region, "TLS", map[bool]string{true: "True", false: "False"}[strings.HasPrefix(k.Endpoint, "https://")])
	all := []operate.Text{
		{Title: "aws", Body: "aws configure set aws_access_key_id ACCESS --profile holdfast\naws configure set aws_secret_access_key SECRET --profile holdfast\naws configure set region REGION --profile holdfast\naws configure set endpoint_url ENDPOINT --profile holdfast\naws --profile holdfast s3 ls"},
		{Title: "rclone", Body: "rclone config create holdfast s3 provider=Other access_key_id=ACCESS secret_access_key=SECRET region=REGION endpoint=ENDPOINT\nrclone lsd holdfast:"},
		{Title: "restic", Body: "export AWS_ACCESS_KEY_ID=ACCESS\nexport AWS_SECRET_ACCESS_KEY=SECRET\nrestic -r s3:ENDPOINT/BUCKET init"},
		{Title: "s3cmd", Body: "# ~/.s3cfg\naccess_key = ACCESS\nsecret_key = SECRET\nhost_base = HOST\nhost_bucket = HOST\nbucket_location = REGION\nuse_https = TLS"},
		{Title: "Terraform", Body: "provider \"aws\" {\n  access_key                  = \"ACCESS\"\n  secret_key                  = \"SECRET\"\n  region                      = \"REGION\"\n  s3_use_path_style           = true\n  skip_credentials_validation = true\n  skip_requesting_account_id  = true\n\n  endpoints {\n    s3 = \"ENDPOINT\"\n  }\n}"},
	}
	for i := range all {
		all[i].Body = r.Replace(all[i].Body)
	}
	shell := shellKey{AccessKey: k.AccessKey, SecretKey: k.SecretKey, Endpoint: k.Endpoint, Region: k.region}
	return append([]operate.Text{{Body: describe(k.Account, &k.terms)}, {Title: "Environment (most SDKs)", Body: shell.lines()}}, all...)
}

// hostOf returns an endpoint without its scheme.
func hostOf(endpoint string) string {
	_, host, _ := strings.Cut(endpoint, "://")
	return host
}
