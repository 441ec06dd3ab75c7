package imports

import "testing"

func TestIsPublicRead(t *testing.T) {
	t.Parallel()
	const list, read = `{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetBucketLocation","s3:ListBucket"],"Resource":["arn:aws:s3:::b"]}`,
		`{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}`
	policy := func(statements string) string { return `{"Version":"2012-10-17","Statement":[` + statements + `]}` }
	for name, c := range map[string]struct {
		policy string
		want   bool
	}{
		"as MinIO writes it": {policy(list + "," + read), true},
		"without the list":   {policy(read), false},
		"without objects":    {policy(list), false},
		"a folder":           {policy(list + `,{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/public/*"}`), false},
		"one account":        {policy(list + `,{"Effect":"Allow","Principal":{"AWS":["123456789012"]},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}`), false},
		"a network":          {policy(list + `,{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}`), false},
		"writers, too":       {policy(list + "," + read + `,{"Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::b/*"}`), false},
		"a denial":           {policy(list + "," + read + `,{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/secret/*"}`), false},
		"all but one action": {policy(list + "," + read + `,{"Effect":"Allow","Principal":"*","NotAction":"s3:PutObject","Resource":"arn:aws:s3:::b/*"}`), false},
		"not JSON":           {"{", false},
	} {
		if got := isPublicRead(c.policy, "b"); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
